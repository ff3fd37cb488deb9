#pragma once

#include "engine/model/llama_model.h"

#include <memory>

namespace refreshlab {

/// The same model with keys and values of its own for every query head: those of the KV head that it shares, once more. Its cache is
/// heads / kv_heads times as large, and a cache policy selects for each query head alone, as the first implementations of SnapKV, H2O and
/// PyramidKV do, which repeat keys before they select (reference/cache-definitions.md, section 1, rule 2).
/// Bits    on the CPU every number of a pass that reads everything is that of `model`.
/// Memory  k and v once for each query head; all other weights are shared with `model`.
/// Throws Error{bad_input}: k or v are in blocks of 16 rows, and head_dim is no multiple of it.
[[nodiscard]] std::unique_ptr<LlamaModel> with_kv_per_query_head(const LlamaModel& model);

} // namespace refreshlab
