#!/usr/bin/env python3
r"""Makes smollm2.json and gemma3.json: what llama.cpp says to ten prompts, how it cuts some texts into tokens, and how
likely it finds text.txt.

    python3 -m venv venv && CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON" \
      venv/bin/pip install --no-cache-dir --no-binary llama-cpp-python llama-cpp-python==0.3.36
    for name in smollm2 gemma3; do
      venv/bin/python edge-agent/tests/references/make.py $(scripts/model.sh $name) > edge-agent/tests/references/$name.json
    done

Built for AVX2 and nothing wider: with AMX its own logits move by up to 0.3, and its greedy texts with them.

Prompts are put through the file's chat template; a file without one is given the beginnings of texts.
"""

import hashlib
import json
import math
import pathlib
import sys

import llama_cpp
import numpy
from llama_cpp.llama_chat_format import Jinja2ChatFormatter

TOKENS = 64
CONTEXT = 1024
QUESTIONS = [
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
    "12345 6 78 900000",
    "it's IT'S we'll WE'LL I'd",
    "a\n\n b\r\n\r\n  c \n d\t\te",
    "¿Qué? ¡Sí! …and—so",
    "x+=y<=z^w|v~u$5`q`",
    "camelCaseWord HTTPServer iPhone",
    "हिन्दी ไทย עברית العربية",
    "//// ---- ==== ####\n/path/to/file\n",
    "e\u0301 cafe\u0301 A\u030a n\u0303 \u1e9b\u0323",
    "no-break\u00a0space\u2009thin\u3000wide\u200bzero",
    "𠮷野家 🏴󠁧󠁢󠁥󠁮󠁧󠁿 🇳🇴 \U0001f9d1\u200d\U0001f4bb",
    "▁under ▁▁ Ġg ĊĊ <0x0A> <s> </s> <unk>",
    "<|im_ start|> <|im_start <|endoftext|>x<|endoftext|>",
    "            twelve spaces\n\n\n\n    four\n\t\t\ttabs   \n",
    "∀x∈ℝ: ⌈x⌉ = −⌊−x⌋, x² ≥ 0, ∑ᵢ₌₁ⁿ i",
    "ﬁ ﬂ Ⅻ ㎏ ＡＢＣ １２３ ǆ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab bababababababababa 0000000000000000",
    "\u202eright to left\u202c שלום, world, مرحبا 123 ٤٥٦",
]


def answers(model: llama_cpp.Llama) -> list[dict]:
    template = model.metadata.get("tokenizer.chat_template")
    form = template and Jinja2ChatFormatter(
        template=template,
        eos_token=model._model.token_get_text(model.token_eos()),
        bos_token=model._model.token_get_text(model.token_bos()),
    )
    found = []
    for prompt in QUESTIONS if form else BEGINNINGS:
        text = form(messages=[{"role": "user", "content": prompt}]).prompt if form else prompt
        tokens = model.tokenize(text.encode(), add_bos=not form, special=True)
        model.reset()
        model.eval(tokens)
        ids, margins = [], []
        while len(ids) < TOKENS:
            logits = model.scores[model.n_tokens - 1]
            second, best = numpy.partition(logits, -2)[-2:]
            ids.append(int(logits.argmax()))
            margins.append(round(float(best - second), 4))
            if ids[-1] == model.token_eos():
                break
            model.eval(ids[-1:])
        words = model.detokenize(ids, special=False).decode("utf-8", "replace")
        found.append({"prompt": prompt, "prompt_ids": tokens, "ids": ids, "margins": margins, "text": words})
    return found


def likelihood(model: llama_cpp.Llama) -> dict:
    """Tokens of text.txt, and the negative logarithm of the probability of each but the first, given those before."""
    text = (pathlib.Path(__file__).parent / "text.txt").read_bytes()
    tokens = model.tokenize(text, add_bos=True, special=False)[:CONTEXT]
    model.reset()
    model.eval(tokens)
    costs = []
    for at, token in enumerate(tokens[1:]):
        logits = model.scores[at].astype(numpy.float64)
        top = logits.max()
        costs.append(round(float(top + math.log(numpy.exp(logits - top).sum()) - logits[token]), 4))
    perplexity = math.exp(sum(costs) / len(costs))
    return {"ids": tokens, "costs": costs, "perplexity": round(perplexity, 4)}


def main() -> None:
    path = sys.argv[1]
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    model = llama_cpp.Llama(path, n_ctx=CONTEXT, n_threads=2, logits_all=True, verbose=False)
    texts = [{"text": t, "ids": model.tokenize(t.encode(), add_bos=False, special=True)} for t in TEXTS]
    reference = {
        "model_sha256": digest,
        "llama_cpp_python": llama_cpp.__version__,
        "answers": answers(model),
        "texts": texts,
        "likelihood": likelihood(model),
    }
    # One line for each list of numbers.
    encoder = json.JSONEncoder(ensure_ascii=False)
    lines = []
    for key, value in reference.items():
        if isinstance(value, list):
            items = ",\n".join("  " + encoder.encode(item) for item in value)
            lines.append(f" {encoder.encode(key)}: [\n{items}\n ]")
        else:
            lines.append(f" {encoder.encode(key)}: {encoder.encode(value)}")
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main()
