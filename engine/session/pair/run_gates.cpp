#include "engine/session/pair/run_gates.h"

#include "engine/base/error.h"
#include "engine/base/model_path.h"
#include "engine/control/cache_choice.h"
#include "engine/control/gate_files.h"
#include "engine/model/gates/gate_file.h"
#include "engine/model/model_fingerprint.h"
#include "engine/text/digest.h"

#include <fmt/format.h>

namespace refreshlab {

namespace {

std::shared_ptr<const TokenGate> read_gate(const GateFile& file, const std::string& method,
                                           const ModelPair& pair) {
    const LlamaModel& model = file.of_teacher ? *pair.teacher : *pair.student;
    const ModelGates& at_hand = file.of_teacher ? pair.teacher_gates : pair.student_gates;
    if (const auto found = at_hand.find(method); !file.named && found != at_hand.end()) return found->second;
    const std::string dir = file.of_teacher ? pair.teacher_dir : pair.student_dir;
    std::error_code ignored;
    const bool there = std::filesystem::is_regular_file(file.path, ignored);
    if (file.named && !there)
        throw Error("reading a trained gate", file.path.string(), "no such file",
                    fmt::format("refreshlab train-gate {} makes one", method));
    if (file.path.empty())
        throw Error("starting a run", fmt::format("cache policy {}", method),
                    fmt::format("has no trained gate for {}, and a derived student's cannot be trained",
                                model_name(dir)),
                    "take a student with files of its own, or mode teacher");
    if (!there)
        throw Error(
            "starting a run", fmt::format("cache policy {}", method),
            fmt::format("has no trained gate for {}: {} is not there", model_name(dir), file.path.string()),
            fmt::format("name one (--set student_cache.{}=FILE, teacher_cache in mode teacher), or "
                        "train it: refreshlab train-gate {}",
                        file.key, method));
    if (!file.digest.empty() && gate_digest(file.path) != file.digest)
        throw Error("reading a trained gate", file.path.string(),
                    "is another one than the recorded run read (its digest differs)",
                    "set the policy's gate to take this one");
    return load_gate(file.path, method, model.config(), pair_fingerprint(pair, file.of_teacher))
        ->on(model.device());
}

} // namespace

std::string pair_fingerprint(const ModelPair& pair, bool of_teacher) {
    if (of_teacher) return model_fingerprint(pair.teacher_dir);
    if (!pair.derived) return model_fingerprint(pair.student_dir);
    Digest digest;
    digest.add(model_fingerprint(pair.teacher_dir));
    digest.add(model_fingerprint(pair.student_dir));
    digest.add(pair.measured_on);
    return digest.hex();
}

RunGates read_gates(const RunConfig& config, const ModelPair& pair) {
    RunGates gates;
    for (const GateFile& file : gate_files(config)) {
        auto gate = read_gate(file, deciding_cache(config).policy, pair);
        if (file.key == "step_gate") {
            gates.steps = std::move(gate);
        } else {
            gates.prompt = gate;
            if (config.mode != Mode::overfill) gates.steps = std::move(gate); // one model does both
        }
    }
    return gates;
}

} // namespace refreshlab
