#pragma once

#include "engine/control/run_config.h"

#include <filesystem>
#include <optional>
#include <string>

namespace refreshlab {

/// The bridge of a run, as a file. Two are equal where nothing has to be read again.
struct BridgeFile {
    std::filesystem::path path;
    bool named = false; ///< by a person; false: it lies beside the student
    std::string digest; ///< of its bytes
    friend bool operator==(const BridgeFile& a, const BridgeFile& b) {
        return a.path == b.path && a.digest == b.digest;
    }
};

/// The bridge of a pair whose geometries differ: RunConfig::bridge, or the file of this teacher and student in the folder `bridges` of the
/// student (bridges_beside()). Nothing: there is none, or none is wanted. Reads no weights of models or bridges, but all their bytes for
/// fingerprint and digest.
/// Throws Error{bad_input}, one line: no such file, no bridge, of other models, not the one that a recorded run read; several lie beside
/// the student.
[[nodiscard]] std::optional<BridgeFile> find_bridge(const RunConfig& config);

/// model_fingerprint() of a student, and of the bridge that it reads the teacher through, if there is one: two that differ have other numbers.
[[nodiscard]] std::string student_digest(const std::string& student, const std::optional<BridgeFile>& bridge);

} // namespace refreshlab
