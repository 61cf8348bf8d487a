#!/usr/bin/env python3
"""Makes blocks.json: blocks of random bytes of each type, and their numbers as llama.cpp reads them: its Python package, and
for quantized types its library, which must agree. Scales are of either sign; one block of each quantized type has all bits
set, and one none.

    python3 -m venv venv && venv/bin/pip install gguf xllamacpp==2026.10.11549
    venv/bin/python edge-agent/tests/references/make_blocks.py > edge-agent/tests/references/blocks.json
"""

import ctypes
import json

import numpy
import xllamacpp
from gguf import GGMLQuantizationType, quants

TYPES = {  # bytes of a block, and where its 16-bit scales are
    "F32": (128, []), "F16": (64, []), "BF16": (64, []), "Q4_0": (18, [0]), "Q4_1": (20, [0, 2]), "Q5_0": (22, [0]),
    "Q5_1": (24, [0, 2]), "Q8_0": (34, [0]), "Q4_K": (144, [0, 2]), "Q5_K": (176, [0, 2]), "Q6_K": (210, [208]),
}


def plain(random: numpy.random.Generator, name: str) -> numpy.ndarray:
    numbers = random.normal(size=32).astype(numpy.float32)
    numbers[:4] = [0.0, -0.0, 3e-6, -60000.0]  # the third is below the least normal half
    if name == "F16":
        return numbers.astype(numpy.float16).view(numpy.uint8)
    if name == "BF16":
        return (numbers.view(numpy.uint32) >> 16).astype(numpy.uint16).view(numpy.uint8)
    return numbers.view(numpy.uint8)


def library(name: str, block: numpy.ndarray, count: int) -> numpy.ndarray:
    found = numpy.zeros(count, numpy.float32)
    read = getattr(ctypes.CDLL(xllamacpp.xllamacpp.__file__), f"dequantize_row_{name[0].lower()}{name[1:]}")
    read(ctypes.c_void_p(block.ctypes.data), ctypes.c_void_p(found.ctypes.data), ctypes.c_int64(count))
    return found


def main() -> None:
    random = numpy.random.default_rng(7)
    cases = []
    for name, (size, scales) in TYPES.items():
        blocks = [random.integers(0, 256, size, dtype=numpy.uint8) for _ in range(2)]
        blocks += [numpy.full(size, 255, numpy.uint8), numpy.zeros(size, numpy.uint8)]
        if name in ("F32", "F16", "BF16"):
            blocks = [plain(random, name)]
        for block in blocks:
            for at in scales:
                scale = random.uniform(0.01, 0.1) * random.choice([-1, 1])
                block[at : at + 2] = numpy.array([scale], dtype=numpy.float16).view(numpy.uint8)
            numbers = quants.dequantize(block[None, :], GGMLQuantizationType[name])[0]
            if scales and not numpy.allclose(library(name, block, len(numbers)), numbers, rtol=1e-6, atol=0):
                raise SystemExit(f"llama.cpp's library and its package disagree on {name}")
            cases.append({"type": name, "bytes": block.tolist(), "numbers": [float(f"{n:.7g}") for n in numbers]})
    print("[" + ",\n".join(json.dumps(case) for case in cases) + "]")


if __name__ == "__main__":
    main()
