#pragma once

#include "engine/model/gguf/gguf_file.h"
#include "engine/model/model_config.h"

#include <string>
#include <vector>

namespace refreshlab {

/// What the metadata of a GGUF file say about a model, checked as ModelConfig::parse() checks a config.json. Architectures:
/// llama (which Mistral files are as well), qwen2, qwen3. Three things have no key and are read from the tensors: a
/// head of its own, biases, and the RoPE scaling of Llama 3 (its factors are the tensor rope_freqs.weight).
///
/// Refused, with the key or tensor: any other architecture, and every setting that the forward pass would get wrong.
/// Source: llama.cpp, gguf-py/gguf/constants.py and conversion/ (names, and what they are made from).
[[nodiscard]] ModelConfig gguf_config(const GgufFile& file);

/// The config.json of a model as gguf_config() gives it, for `transformers`. Throws Error{bad_input} for what a config.json of
/// the family cannot say.
/// \param dtype  of the weights: "float32"
/// \param file   for messages
[[nodiscard]] std::string gguf_config_json(const ModelConfig& config, const std::string& dtype,
                                           const std::string& file);

/// The tokens that end an answer: those that the metadata name, and the control tokens that do it under their usual names.
[[nodiscard]] std::vector<int32_t> gguf_end_ids(const GgufFile& file, int64_t vocab_size);

} // namespace refreshlab
