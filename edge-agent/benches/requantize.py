#!/usr/bin/env python3
"""Q4_0 of a model by llama.cpp's own Python package, for where its library has no quantizer: `requantize.py IN.gguf OUT.gguf`.

Weights of four bits become Q4_0, the rest stays as it is: what llama-quantize makes of these files too.
"""

import sys

import gguf

FOUR_BITS = {gguf.GGMLQuantizationType.Q4_1, gguf.GGMLQuantizationType.Q4_K}
Q4_0 = gguf.GGMLQuantizationType.Q4_0


def main() -> None:
    source, target = sys.argv[1:]
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.get_field("general.architecture").contents())
    for field in reader.fields.values():
        kind, *items = field.types
        if field.name == "general.file_type":
            writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)
        elif field.name != "general.architecture" and not field.name.startswith("GGUF."):
            writer.add_key_value(field.name, field.contents(), kind, items[-1] if items else None)
    for tensor in reader.tensors:
        data, kind = tensor.data, tensor.tensor_type
        if kind in FOUR_BITS:
            data, kind = gguf.quantize(gguf.dequantize(data, kind), Q4_0), Q4_0
        writer.add_tensor(tensor.name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
