#pragma once

#include "engine/model/checkpoint/checkpoint.h"
#include "engine/model/model_config.h"

namespace refreshlab {

/// Holds the tensors of a checkpoint against its config.json by name, shape and dtype, and reads no weight: what passes here is
/// refused by LlamaModel::load() only for a weight that is no finite number. Throws Error{bad_input} naming file and tensor.
/// Cost: the headers of the files.
void check_tensors(const ModelConfig& config, const Checkpoint& checkpoint);

} // namespace refreshlab
