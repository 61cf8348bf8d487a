#!/usr/bin/env python3
"""Makes blocks.json: one block of random bytes of each type, and its numbers as the `gguf` package reads them.

    python3 -m venv venv && venv/bin/pip install gguf
    venv/bin/python edge-agent/tests/references/make_blocks.py > edge-agent/tests/references/blocks.json
"""

import json

import numpy
from gguf import GGMLQuantizationType, quants

TYPES = {  # bytes of a block, and where its 16-bit scales are
    "F16": (64, []), "BF16": (64, []), "Q4_0": (18, [0]), "Q4_1": (20, [0, 2]), "Q5_0": (22, [0]), "Q5_1": (24, [0, 2]),
    "Q8_0": (34, [0]), "Q4_K": (144, [0, 2]), "Q5_K": (176, [0, 2]), "Q6_K": (210, [208]),
}


def main() -> None:
    random = numpy.random.default_rng(7)
    cases = []
    for name, (size, scales) in TYPES.items():
        block = random.integers(0, 256, size, dtype=numpy.uint8)
        if name in ("F16", "BF16"):
            numbers = random.normal(size=size // 2).astype(numpy.float32)
            half = numbers.astype(numpy.float16).view(numpy.uint16)
            bits = half if name == "F16" else (numbers.view(numpy.uint32) >> 16).astype(numpy.uint16)
            block = bits.view(numpy.uint8)
        for at in scales:
            block[at : at + 2] = numpy.array([random.uniform(0.01, 0.1)], dtype=numpy.float16).view(numpy.uint8)
        numbers = quants.dequantize(block[None, :], GGMLQuantizationType[name])[0]
        cases.append({"type": name, "bytes": block.tolist(), "numbers": [round(float(n), 7) for n in numbers]})
    print("[" + ",\n".join(json.dumps(case) for case in cases) + "]")


if __name__ == "__main__":
    main()
