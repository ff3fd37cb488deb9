"""What the scripts that write GGUF files share."""


def type_of(name):
    import gguf
    return {"f32": gguf.GGMLQuantizationType.F32, "bf16": gguf.GGMLQuantizationType.BF16,
            "q8_0": gguf.GGMLQuantizationType.Q8_0}[name]


def add_tensor(writer, name, values, kind):
    """float32 values, matrices in type `kind`; vectors (norms) stay f32, as llama.cpp wants."""
    import gguf
    stored = type_of(kind if values.ndim > 1 else "f32")
    writer.add_tensor(name, gguf.quants.quantize(values, stored), raw_dtype=stored)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
