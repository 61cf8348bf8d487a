#!/usr/bin/env python3
"""llama.cpp's rates for one file, as one line of JSON. Started anew for each sample, as ours is.

    python peer.py MODEL.gguf THREADS [--gpu]      {"prefill": .., "decode": .., "batch": .., "load_seconds": .., "system": ".."}
    python peer.py --quantize IN.gguf OUT.gguf     Q4_0 of the same model: the format that llama.cpp repacks at load
"""

import ctypes
import json
import statistics
import sys
import time

try:
    import llama_cpp as cpp  # built from its source for this processor
except ImportError:
    import xllama as cpp  # beside this: the library of a prebuilt wheel

# As edge-agent/examples/rates.rs has them: medians there too.
PREFILL, DECODE, SEQUENCES, STEPS, REPEATS = 512, 128, 8, 64, 5
CONTEXT = 1024


class Peer:
    def __init__(self, path: str, threads: int, gpu: bool) -> None:
        began = time.perf_counter()
        cpp.llama_backend_init()
        params = cpp.llama_model_default_params()
        params.n_gpu_layers = 999 if gpu else 0
        self.model = cpp.llama_model_load_from_file(path.encode(), params)
        if not self.model:
            sys.exit(f"llama.cpp cannot load {path}")
        params = cpp.llama_context_default_params()
        params.n_ctx = CONTEXT * SEQUENCES
        params.n_batch = params.n_ubatch = PREFILL
        params.n_seq_max = SEQUENCES
        params.n_threads = params.n_threads_batch = threads
        self.context = cpp.llama_init_from_model(self.model, params)
        if not self.context:
            sys.exit(f"llama.cpp makes no context for {path}")
        self.load_seconds = time.perf_counter() - began
        self.batch = cpp.llama_batch_init(PREFILL, 0, 1)
        self.vocabulary = cpp.llama_vocab_n_tokens(cpp.llama_model_get_vocab(self.model))

    def step(self, feeds: list[tuple[int, int, int]], every: bool = False) -> float:
        """Seconds for feeds of (sequence, position, token); logits of the last one, or of every one."""
        for i, (sequence, position, token) in enumerate(feeds):
            self.batch.token[i] = token
            self.batch.pos[i] = position
            self.batch.n_seq_id[i] = 1
            self.batch.seq_id[i][0] = sequence
            self.batch.logits[i] = every or i + 1 == len(feeds)
        self.batch.n_tokens = len(feeds)
        began = time.perf_counter()
        if cpp.llama_decode(self.context, self.batch) != 0:
            sys.exit("llama.cpp failed to decode")
        cpp.llama_synchronize(self.context)
        return time.perf_counter() - began

    def clear(self) -> None:
        cpp.llama_memory_clear(cpp.llama_get_memory(self.context), True)

    def tokens(self, count: int) -> list[int]:
        return [(100 + i * 7919 % 40000) % self.vocabulary for i in range(count)]

    def warm(self, sequences: int) -> None:
        self.clear()
        for sequence in range(sequences):
            self.step([(sequence, at, token) for at, token in enumerate(self.tokens(16))])

    def prefill(self) -> float:
        times = []
        for _ in range(REPEATS):
            self.clear()
            times.append(self.step([(0, at, token) for at, token in enumerate(self.tokens(PREFILL))]))
        return PREFILL / statistics.median(times)

    def decode(self, sequences: int, steps: int) -> float:
        self.warm(sequences)
        feeds = [[(sequence, 16 + at, token) for sequence in range(sequences)] for at, token in enumerate(self.tokens(steps))]
        return sequences / statistics.median(self.step(feed, every=True) for feed in feeds)


def quantize(source: str, target: str) -> None:
    params = cpp.llama_model_quantize_default_params()
    params.ftype = cpp.LLAMA_FTYPE_MOSTLY_Q4_0
    params.allow_requantize = True
    if cpp.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(params)) != 0:
        sys.exit(f"llama.cpp cannot make Q4_0 of {source}")


def main() -> None:
    # Its log is long; what goes wrong is said above.
    silent = cpp.llama_log_callback(lambda level, text, data: None)
    cpp.llama_log_set(silent, None)
    if sys.argv[1] == "--quantize":
        quantize(sys.argv[2], sys.argv[3])
        return
    peer = Peer(sys.argv[1], int(sys.argv[2]), "--gpu" in sys.argv[3:])
    peer.warm(1)
    rates = {"prefill": peer.prefill(), "decode": peer.decode(1, DECODE), "batch": peer.decode(SEQUENCES, STEPS)}
    system = cpp.llama_print_system_info().decode()
    print(json.dumps(rates | {"load_seconds": peer.load_seconds, "system": system}))


if __name__ == "__main__":
    main()
