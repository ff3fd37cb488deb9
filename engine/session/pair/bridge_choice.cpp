#include "engine/session/pair/bridge_choice.h"

#include "engine/base/error.h"
#include "engine/base/model_path.h"
#include "engine/control/model_files.h"
#include "engine/model/bridge/bridge_file.h"
#include "engine/model/model_fingerprint.h"
#include "engine/text/digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace refreshlab {

namespace fs = std::filesystem;

namespace {

constexpr const char* choosing = "choosing a bridge";

/// Files of a folder, in one order everywhere. None where there is no folder.
std::vector<fs::path> files_in(const fs::path& folder) {
    std::vector<fs::path> files;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored))
        if (entry.path().extension() == ".safetensors" && entry.is_regular_file(ignored))
            files.push_back(entry.path());
    std::ranges::sort(files);
    return files;
}

} // namespace

std::optional<BridgeFile> find_bridge(const RunConfig& config) {
    const PolicyFile& asked = config.bridge;
    if (asked.path == no_bridge || (asked.path.empty() && asked.digest == no_bridge)) return std::nullopt;
    BridgeFile found;
    found.named = !asked.path.empty();
    if (found.named) {
        found.path = asked.path;
        std::error_code ignored;
        if (!fs::is_regular_file(found.path, ignored))
            throw Error("reading a bridge", found.path.string(), "no such file",
                        "refreshlab train bridge makes one");
        check_bridge_of(found.path, bridge_origin(found.path), model_fingerprint(config.teacher_dir),
                        model_fingerprint(config.student_dir));
    } else {
        const fs::path folder = bridges_beside(config.student_dir);
        std::string teacher, student;
        for (const fs::path& path : files_in(folder)) {
            const BridgeOrigin origin = bridge_origin(path);
            if (teacher.empty()) teacher = model_fingerprint(config.teacher_dir);
            if (origin.teacher != teacher) continue;
            if (student.empty()) student = model_fingerprint(config.student_dir);
            check_bridge_of(path, origin, teacher, student);
            if (!found.path.empty())
                throw Error(choosing, folder.string(),
                            fmt::format("has two of this teacher: {} and {}", found.path.filename().string(),
                                        path.filename().string()),
                            "name one (--bridge FILE), or none (--bridge none)");
            found.path = path;
        }
        if (found.path.empty()) {
            if (asked.digest.empty()) return std::nullopt;
            throw Error(choosing, folder.string(), "has none, and the recorded run read one",
                        "name it (--bridge FILE)");
        }
    }
    found.digest = file_digest(found.path);
    if (!asked.digest.empty() && found.digest != asked.digest)
        throw Error("reading a bridge", found.path.string(),
                    "is another one than the recorded run read (its digest differs)",
                    "--bridge takes this one in a run of its own");
    return found;
}

std::string student_digest(const std::string& student, const std::optional<BridgeFile>& bridge) {
    const std::string own = model_fingerprint(student);
    if (!bridge) return own;
    Digest digest;
    digest.add(own);
    digest.add(bridge->digest);
    return digest.hex();
}

} // namespace refreshlab
