#pragma once

#include "engine/model/bridge/bridge.h"
#include "engine/model/model_config.h"

#include <filesystem>
#include <string>

namespace refreshlab {

/// What a bridge's file says beside its weights.
struct BridgeOrigin {
    std::string teacher, student;           ///< model_fingerprint() of each
    std::string teacher_name, student_name; ///< for people
    std::string recipe;                     ///< how it was made, as JSON; for people
};

/// Writes a bridge: safetensors, fp32 ("layers.0.keys.weight"). Throws Error{failure}.
void save_bridge(const std::filesystem::path& path, const Bridge& bridge, const BridgeOrigin& origin);

/// Whose it is. Reads the header alone. Throws Error{bad_input}, one line: no such file, no bridge, of another version.
[[nodiscard]] BridgeOrigin bridge_origin(const std::filesystem::path& path);
/// Throws Error{bad_input}, one line, where a bridge is not of these two models. \param teacher, student  fingerprints
void check_bridge_of(const std::filesystem::path& path, const BridgeOrigin& origin,
                     const std::string& teacher, const std::string& student);

/// Reads a bridge, on the CPU. Throws Error{bad_input}, one line: as bridge_origin(), or it does not have the models' shapes, or holds
/// numbers that are not finite.
[[nodiscard]] Bridge load_bridge(const std::filesystem::path& path, const ModelConfig& teacher,
                                 const ModelConfig& student);

} // namespace refreshlab
