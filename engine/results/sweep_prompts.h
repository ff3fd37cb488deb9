#pragma once

#include "engine/results/sweep_spec.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace refreshlab {

/// The "prompts" of a spec: a text, {"text": ...}, {"file": "x.jsonl" | "x.txt", ...}, or a list of them (docs/reference/sweeps.md).
/// Exact repetitions (text, given text and task) are left out and counted. Throws Error{bad_input}.
/// \param what  the spec, for messages
[[nodiscard]] std::vector<SweepPrompt> read_sweep_prompts(const nlohmann::json& value,
                                                          const std::string& what, const SweepFiles& files,
                                                          int64_t& repeated);

} // namespace refreshlab
