#!/usr/bin/env python3
"""Makes gemma3.json: how llama.cpp goes on from ten beginnings, and how it cuts some texts into tokens.

    python3 -m venv venv && venv/bin/pip install xllamacpp==2026.10.11549
    venv/bin/python edge-agent/tests/references/make_gemma3.py MODEL.gguf > edge-agent/tests/references/gemma3.json

MODEL.gguf is Gemma 3 270M Q4_K_M (`scripts/model.sh gemma3` fetches it). It is not tuned to answer and has no chat
template, so it is given the beginnings of texts. xllamacpp is a build of llama.cpp, driven by its server's interface.
"""

import hashlib
import json
import sys
import urllib.request

import xllamacpp

TOKENS = 64
BEGINNINGS = [
    "The capital of France is",
    "Water boils at a temperature of",
    "To make pancakes, first mix",
    "def reverse(text):\n    ",
    "The three primary colours are",
    "Once upon a time, in a village by the sea,",
    "1, 1, 2, 3, 5, 8, 13,",
    "Die Hauptstadt von Deutschland ist",
    "Pride and Prejudice is a novel by",
    "The sky is blue because",
]
TEXTS = [
    "Hello, world!",
    "  leading and trailing  ",
    "tabs\tand\nnew\r\nlines\n\n\n",
    "3.14159 and 1,000,000 and 2026-11-29",
    "I'll say it's John's, they've, we'd, DON'T",
    "naïve café Zürich — “quoted” … €5",
    "日本語のテキスト 中文文本 한국어",
    "🦀🚀 emoji 👩‍👩‍👧 family",
    "fn main() { println!(\"{:?}\", x[0] as u8 >> 2); }",
    "<|im_start|>user\nhi<|im_end|>\n",
    "<start_of_turn>user\nhi<end_of_turn>\n",
    "https://example.com/a?b=c&d=%20#e",
    "ALLCAPS MixedCase snake_case kebab-case",
    "x" * 40,
    " ",
    "½ ² ٣ ४ Ⅷ",
    "<table><tr><td>cell</td></tr></table>",
    "\x00\x7f\x85\u2028\ufeff",
]


def main() -> None:
    path = sys.argv[1]
    options = xllamacpp.CommonParams()
    options.model.path, options.n_ctx, options.n_parallel, options.port = path, 1024, 1, 0
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 2
    server = xllamacpp.Server(options)

    def ask(route: str, body: dict) -> dict:
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(server.listening_address + route, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as response:
            return json.load(response)

    def tokens(text: str, begin: bool) -> list[int]:
        return ask("/tokenize", {"content": text, "add_special": begin, "parse_special": True})["tokens"]

    answers = []
    for prompt in BEGINNINGS:
        ids = tokens(prompt, True)
        wanted = {"n_predict": TOKENS, "samplers": ["top_k"], "top_k": 1, "temperature": 0, "n_probs": 2}
        answer = ask("/completion", {"prompt": ids, "cache_prompt": False, **wanted})
        rows = answer["completion_probabilities"]
        # A difference of log-probabilities is one of logits.
        margins = [round(row["top_logprobs"][0]["logprob"] - row["top_logprobs"][1]["logprob"], 4) for row in rows]
        answers.append({"prompt": prompt, "prompt_ids": ids, "ids": [row["id"] for row in rows], "margins": margins})
    texts = [{"text": text, "ids": tokens(text, False)} for text in TEXTS]
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()

    def lines(items: list[dict]) -> str:
        return "[\n" + ",\n".join("  " + json.dumps(item, ensure_ascii=False) for item in items) + "\n ]"

    print(f'{{\n "model_sha256": "{digest}",\n "answers": {lines(answers)},\n "texts": {lines(texts)}\n}}')


if __name__ == "__main__":
    main()
