#pragma once

#include "engine/model/gguf/gguf_file.h"
#include "engine/model/model_config.h"

#include <string>
#include <vector>

namespace refreshlab {

/// What the metadata of a GGUF file say about a model, checked as ModelConfig::parse() checks a config.json. Architectures:
/// those of the table in gguf_config.cpp (llama's are files of Mistral and Mixtral as well). Some things have no key and are read from the
/// tensors: a head of its own, biases, and RoPE's factors (rope_freqs.weight of Llama 3; rope_factors_short.weight and _long.weight).
///
/// Refused, with the key or tensor: any other architecture, and every setting that the forward pass would get wrong.
/// Source: llama.cpp, gguf-py/gguf/constants.py and conversion/ (names, and what they are made from).
[[nodiscard]] ModelConfig gguf_config(const GgufFile& file);

/// Whether rows of q and k stand in pairs that turn together: 0, d/2, 1, d/2 + 1, ... of each head of width d.
[[nodiscard]] bool gguf_rows_in_pairs(const GgufFile& file);

/// The config.json of a model as gguf_config() gives it, for `transformers`. Throws Error{bad_input} for what a config.json of
/// the family cannot say.
/// \param dtype  of the weights: "float32"
/// \param file   for messages
[[nodiscard]] std::string gguf_config_json(const ModelConfig& config, const std::string& dtype,
                                           const std::string& file);

/// The tokens that end an answer: those that the metadata name, and the control tokens that do it under their usual names.
[[nodiscard]] std::vector<int32_t> gguf_end_ids(const GgufFile& file, int64_t vocab_size);

} // namespace refreshlab
