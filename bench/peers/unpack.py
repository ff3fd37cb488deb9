"""Writes a GGUF file with its quantised blocks unpacked to f32 or bf16: the same weights for programs that multiply quantised
blocks in their own way. Or rounded again to q8_0 blocks, which both read. `python bench/peers/unpack.py IN.gguf OUT.gguf --type f32`"""
import argparse

import gguf_file


def unpack(source, target, kind):
    import gguf
    import numpy as np
    reader = gguf.GGUFReader(source)
    arch = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(target, arch)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        sub = field.types[1] if len(field.types) > 1 else None
        writer.add_key_value(name, field.contents(), field.types[0], sub)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        gguf_file.add_tensor(writer, tensor.name, values, kind)
    gguf_file.finish(writer)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--type", choices=["f32", "bf16", "q8_0"], default="f32")
    args = parser.parse_args()
    unpack(args.source, args.target, args.type)
