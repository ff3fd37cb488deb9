#pragma once

#include "engine/model/llama_model.h"
#include "engine/model/model_source.h"

#include <filesystem>

namespace refreshlab {

/// Writes a model that was made of `source`'s weights as a Hugging Face folder: config.json, tokenizer files, model.safetensors
/// in the model's dtype, without padding. A sublayer that is left out stands there with o_proj or down_proj of zeros, which
/// adds nothing either: whoever loads the folder gets this model's logits.
/// \param folder  is made; must not be there, or be empty. Throws Error{bad_input} else, Error{failure} where the disk fails.
void write_folder(const ModelSource& source, const LlamaModel& model, const std::filesystem::path& folder,
                  const LoadProgress& progress = {});

/// Throws Error{bad_input} unless write_folder() may write there.
void require_new_folder(const std::filesystem::path& folder);

} // namespace refreshlab
