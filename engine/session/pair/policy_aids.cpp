#include "engine/session/pair/policy_aids.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/control/cache_choice.h"
#include "engine/control/model_files.h"
#include "engine/model/gates/gate_file.h"
#include "engine/model/model_fingerprint.h"
#include "engine/policies/cache_profile.h"
#include "engine/text/digest.h"

#include <fmt/format.h>

namespace refreshlab {

namespace {

/// Throws where the file is not there, or not the one that a recorded run read.
void check_file(const ModelFile& file, const std::string& method, const std::string& dir) {
    check_file_is_there(file, method, dir);
    if (!file.digest.empty() && file_digest(file.path) != file.digest)
        throw Error("reading a file of a cache policy", file.path.string(),
                    "is another one than the recorded run read (its digest differs)",
                    fmt::format("set the policy's {} to take this one", file.key));
}

std::shared_ptr<const TokenGate> read_gate(const ModelFile& file, const std::string& method,
                                           const ModelPair& pair) {
    const LlamaModel& model = file.of_teacher ? *pair.teacher : *pair.student;
    const ModelGates& at_hand = file.of_teacher ? pair.teacher_gates : pair.student_gates;
    if (const auto found = at_hand.find(method); !file.named && found != at_hand.end()) return found->second;
    check_file(file, method, file.of_teacher ? pair.teacher_dir : pair.student_dir);
    return load_gate(file.path, method, model.config(), pair_fingerprint(pair, file.of_teacher))
        ->on(model.device());
}

std::shared_ptr<const CacheProfile> read_profile(const ModelFile& file, const std::string& method,
                                                 const ModelPair& pair) {
    const CacheProfiles& at_hand = file.of_teacher ? pair.teacher_profiles : pair.student_profiles;
    if (const auto found = at_hand.find(method); !file.named && found != at_hand.end()) return found->second;
    check_file(file, method, file.of_teacher ? pair.teacher_dir : pair.student_dir);
    const ModelConfig& model = (file.of_teacher ? pair.teacher : pair.student)->config();
    PolicyContext context;
    context.layers = model.num_layers;
    context.heads = model.num_heads;
    context.kv_heads = model.num_kv_heads;
    auto profile = std::make_shared<CacheProfile>(
        cache_profile_from_json(read_json_file(file.path), file.path.string(), method, context));
    if (profile->model != pair_fingerprint(pair, file.of_teacher))
        throw Error("reading a profile", file.path.string(),
                    fmt::format("was measured of another model ({})", profile->model_name),
                    fmt::format("refreshlab profile {} makes one of this model", method));
    return profile;
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

PolicyAids read_policy_aids(const RunConfig& config, const ModelPair& pair) {
    const std::string& method = deciding_cache(config).policy;
    PolicyAids aids;
    for (const ModelFile& file : model_files(config)) {
        if (file.kind == CacheFile::Kind::profile) {
            aids.profile = read_profile(file, method, pair);
        } else {
            const auto gate = read_gate(file, method, pair);
            const bool does_both = config.mode != Mode::overfill;
            if (does_both || !file.of_decoder) aids.prompt = gate;
            if (does_both || file.of_decoder) aids.steps = gate;
        }
    }
    return aids;
}

} // namespace refreshlab
