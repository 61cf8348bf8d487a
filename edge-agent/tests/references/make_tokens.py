#!/usr/bin/env python3
r"""Makes tokens.json: two small vocabularies, and how llama.cpp cuts texts with them under each family's rules.

    python3 -m venv venv && CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON" \
      venv/bin/pip install --no-cache-dir --no-binary llama-cpp-python llama-cpp-python==0.3.36 gguf
    venv/bin/python edge-agent/tests/references/make_tokens.py > edge-agent/tests/references/tokens.json

The pairs of the first are merged wherever they are frequent, so that a text comes out otherwise wherever it is cut
otherwise. The pieces of the second are frequent runs of characters with a score each.
"""

import collections
import json
import pathlib
import tempfile

import gguf
import llama_cpp

from make import TEXTS

MERGES = 700
PIECES = 500
FAMILIES = ["gpt-2", "smollm", "llama-bpe", "qwen2", "tekken", "default"]
CONTROL = ["<s>", "</s>", "<|im_start|>"]


def byte_characters() -> dict[int, str]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {**{b: chr(b) for b in printable}, **{b: chr(0x100 + i) for i, b in enumerate(others)}}


def merges(texts: list[str]) -> list[tuple[str, str]]:
    characters = byte_characters()
    words = [[characters[b] for b in text.encode()] for text in texts]
    found = []
    while len(found) < MERGES:
        pairs = collections.Counter(pair for word in words for pair in zip(word, word[1:]))
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        found.append(best)
        for word in words:
            at = 0
            while at + 1 < len(word):
                if (word[at], word[at + 1]) == best:
                    word[at : at + 2] = ["".join(best)]
                at += 1
    return found


def pieces(texts: list[str]) -> list[tuple[str, float]]:
    runs = collections.Counter()
    for text in texts:
        text = "▁" + text.replace(" ", "▁")
        runs.update(text[at : at + size] for size in range(2, 9) for at in range(len(text) - size + 1))
    ranked = sorted(runs, key=lambda run: (-runs[run] * len(run), run))[:PIECES]
    characters = sorted({c for run in ranked for c in run})
    return [(run, -float(rank)) for rank, run in enumerate(ranked + characters)]


def cut(texts: list[str], model: str, fill) -> list[list[int]]:
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "vocabulary.gguf")
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_tokenizer_model(model)
        fill(writer)
        writer.add_bos_token_id(0)
        writer.add_eos_token_id(1)
        writer.add_add_bos_token(False)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        vocabulary = llama_cpp.Llama(path, vocab_only=True, verbose=False)
        return [vocabulary.tokenize(text.encode(), add_bos=False, special=False) for text in texts]


def main() -> None:
    texts = [t for t in TEXTS if not any(c in t for c in CONTROL)]
    sample = texts + [(pathlib.Path(__file__).parent / "text.txt").read_text()]
    pairs, scored = merges(sample), pieces(sample)
    tokens = CONTROL + list(byte_characters().values()) + ["".join(pair) for pair in pairs]
    tokens = list(dict.fromkeys(tokens))

    def byte_pairs(family: str):
        def fill(writer: gguf.GGUFWriter) -> None:
            writer.add_tokenizer_pre(family)
            writer.add_token_list(tokens)
            writer.add_token_types([3] * len(CONTROL) + [1] * (len(tokens) - len(CONTROL)))
            writer.add_token_merges([" ".join(pair) for pair in pairs])
        return fill

    spelled = [f"<0x{b:02X}>" for b in range(256)]
    scored_tokens = CONTROL + spelled + [piece for piece, _ in scored]
    scores = [0.0] * (len(CONTROL) + 256) + [score for _, score in scored]

    def sentence_pieces(prefix: bool):
        def fill(writer: gguf.GGUFWriter) -> None:
            writer.add_token_list(scored_tokens)
            writer.add_token_types([3] * len(CONTROL) + [6] * 256 + [1] * len(scored))
            writer.add_token_scores(scores)
            writer.add_add_space_prefix(prefix)
        return fill

    reference = {
        "llama_cpp_python": llama_cpp.__version__,
        "texts": texts,
        "byte_pairs": {
            "tokens": tokens,
            "merges": [" ".join(pair) for pair in pairs],
            "ids": {family: cut(texts, "gpt2", byte_pairs(family)) for family in FAMILIES},
        },
        "sentence_pieces": {
            "tokens": scored_tokens,
            "scores": scores,
            "ids": {str(prefix).lower(): cut(texts, "llama", sentence_pieces(prefix)) for prefix in (True, False)},
        },
    }
    print("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in reference.items()) + "\n}")


if __name__ == "__main__":
    main()
