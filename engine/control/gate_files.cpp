#include "engine/control/gate_files.h"

#include "engine/base/json_file.h"
#include "engine/control/cache_choice.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/text/digest.h"

namespace refreshlab {

namespace fs = std::filesystem;

fs::path gate_beside(const std::string& model, std::string_view method) {
    if (model.empty() || is_derivation(model)) return {};
    std::error_code ignored;
    fs::path folder = fs::path(model).lexically_normal();
    if (!folder.has_filename()) folder = folder.parent_path(); // "MODEL/"
    folder = fs::is_directory(folder, ignored) ? folder / "gates" : fs::path(folder.string() + ".gates");
    return folder / (std::string(method) + ".safetensors");
}

std::vector<GateFile> gate_files(const RunConfig& config) {
    const CachePolicyConfig& policy = deciding_cache(config);
    std::vector<GateFile> all;
    for (const auto& [key, file] : policy.files) {
        const bool of_steps = key == "step_gate";
        if (of_steps && config.mode != Mode::overfill) continue; // one model does both
        GateFile gate;
        gate.key = key;
        gate.of_teacher = !of_steps && config.mode != Mode::student;
        gate.named = !file.path.empty();
        gate.path = gate.named ? fs::path(file.path)
                               : gate_beside(gate.of_teacher ? config.teacher_dir : config.student_dir,
                                             policy.policy);
        gate.digest = file.digest;
        all.push_back(std::move(gate));
    }
    return all;
}

std::string gate_digest(const fs::path& path) {
    Digest digest;
    digest.add(read_file(path));
    return digest.hex();
}

RunConfig with_gate_digests(RunConfig config) {
    CachePolicyConfig& policy = config.mode == Mode::teacher ? config.teacher_cache : config.student_cache;
    for (const GateFile& gate : gate_files(config)) {
        std::error_code ignored;
        if (gate.path.empty() || !fs::is_regular_file(gate.path, ignored)) continue;
        policy.files.find(gate.key)->second.digest = gate_digest(gate.path);
    }
    return config;
}

} // namespace refreshlab
