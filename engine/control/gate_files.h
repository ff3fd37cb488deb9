#pragma once

#include "engine/control/run_config.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// Where the gate lies that belongs to a model and was not named: MODEL/gates/METHOD.safetensors of a folder, MODEL.gates/METHOD.safetensors
/// of a file. A derived student ("derive:SPEC") has none: empty.
[[nodiscard]] std::filesystem::path gate_beside(const std::string& model, std::string_view method);

/// A trained gate that a run reads.
struct GateFile {
    std::string key;            ///< of CachePolicyConfig::files: "gate"
    bool of_teacher = false;    ///< whose gate it is; false: the student's
    bool named = false;         ///< by a person; false: it lies beside the model
    std::filesystem::path path; ///< empty: none was named, and none can lie beside the model
    std::string digest;         ///< that it must have; empty: any
};
/// The gates of the policy that decides: that of the model that reads the prompt, and with step_gate in mode overfill the student's.
/// Empty where the policy has none. Looks at no file.
[[nodiscard]] std::vector<GateFile> gate_files(const RunConfig& config);

/// Digest of a gate's bytes. Throws Error{bad_input}: no such file.
[[nodiscard]] std::string gate_digest(const std::filesystem::path& path);
/// The configuration with the digests of its gates, as they are now. A gate that is not there is left as it is.
[[nodiscard]] RunConfig with_gate_digests(RunConfig config);

} // namespace refreshlab
