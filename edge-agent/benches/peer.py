#!/usr/bin/env python3
"""Decode and prefill rates, ours and llama.cpp's on the same file and cores, in turns within one run.

    cargo build --release -p terrace-agent --example rates
    venv/bin/python edge-agent/benches/peer.py MODEL.gguf [THREADS [ROUNDS]]

venv has llama-cpp-python built for this machine (see tests/references/make.py).
"""

import json
import statistics
import subprocess
import sys
import time

import llama_cpp

PREFILL, DECODE, REPEATS = 512, 128, 5


def ours(path: str, threads: int) -> tuple[float, float]:
    out = subprocess.run(["target/release/examples/rates", path, str(threads)], check=True, capture_output=True)
    figures = json.loads(out.stdout)
    return figures["prefill"], figures["decode"]


def peer(path: str, threads: int) -> tuple[float, float]:
    model = llama_cpp.Llama(path, n_ctx=2048, n_batch=512, n_threads=threads, n_threads_batch=threads, verbose=False)
    tokens = [100 + i * 7919 % 40000 for i in range(PREFILL)]
    model.eval(tokens[:16])

    def seconds(part: list[int]) -> float:
        began = time.perf_counter()
        model.eval(part)
        return time.perf_counter() - began

    # Medians, as ours: other programs may share the cores.
    prefills = []
    for _ in range(REPEATS):
        model.reset()
        prefills.append(seconds(tokens))
    model.reset()
    model.eval(tokens[:16])
    decodes = [seconds([token]) for token in tokens[:DECODE]]
    return PREFILL / statistics.median(prefills), 1 / statistics.median(decodes)


def main() -> None:
    path = sys.argv[1]
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    samples = [(ours(path, threads), peer(path, threads)) for _ in range(rounds)]
    for index, name in enumerate(["prefill", "decode"]):
        mine, theirs = [s[0][index] for s in samples], [s[1][index] for s in samples]
        ratio = statistics.median(m / t for m, t in zip(mine, theirs))
        figure = {"name": name, "ours": statistics.median(mine), "peer": statistics.median(theirs), "ratio": ratio}
        print(json.dumps(figure | {"samples": {"ours": mine, "peer": theirs}}))


if __name__ == "__main__":
    main()
