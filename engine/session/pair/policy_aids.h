#pragma once

#include "engine/session/pair/model_pair.h"
#include "engine/session/policies/policy_runner.h"

#include <string>

namespace refreshlab {

/// model_fingerprint() of a model of the pair; of a derived student also what it was made of.
[[nodiscard]] std::string pair_fingerprint(const ModelPair& pair, bool of_teacher);

/// The trained gates and the profile that the policy of a run asks for (engine/control/model_files.h), gates on their models' devices. Throws
/// Error{bad_input} in one line: none lies beside the model, no such file, foreign, of another model, or another one than the recorded run read.
[[nodiscard]] PolicyAids read_policy_aids(const RunConfig& config, const ModelPair& pair);

} // namespace refreshlab
