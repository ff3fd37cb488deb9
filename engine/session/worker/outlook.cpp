#include "engine/session/worker/outlook.h"

#include "engine/base/bytes_text.h"
#include "engine/base/error.h"
#include "engine/control/cache_choice.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/control/model_files.h"
#include "engine/model/derive/derive_student.h"
#include "engine/model/model_source.h"
#include "engine/session/pair/model_pair.h"
#include "engine/session/pair/run_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace refreshlab {

namespace {

using OutlookPart = RunOutlook::Part;

/// The fault in words that fit beside its field: the path stands there already.
std::string said_by(const Error& e, const std::string& path) {
    std::string text = e.problem();
    const bool names_file = !e.object().empty() && e.object() != path;
    if (names_file && e.object().starts_with(path) && e.object().size() > path.size())
        text = e.object().substr(path.size() + (path.ends_with('/') ? 0 : 1)) + ": " + text;
    else if (names_file)
        text = e.object() + ": " + text;
    return text;
}

/// \return nothing where the model cannot be read; then the outlook says why
std::optional<ModelConfig> look_at(RunOutlook& outlook, OutlookPart part, const std::string& path) {
    const char* who = part == OutlookPart::teacher ? "teacher" : "student";
    try {
        if (path.empty())
            throw Error("loading models", "", std::string("no ") + who + " is given",
                        "a folder or a .gguf file");
        ModelConfig config = ModelSource::open(path)->config();
        std::string& line = part == OutlookPart::teacher ? outlook.teacher : outlook.student;
        line = fmt::format("{:.4g} M parameters, {} layers, context {}",
                           static_cast<double>(config.num_parameters()) / 1e6, config.num_layers,
                           config.max_position);
        return config;
    } catch (const Error& e) {
        outlook.part = part;
        outlook.problem = said_by(e, path);
    }
    return std::nullopt;
}

/// The same of a student that is made of its teacher's weights.
bool look_at_derived(RunOutlook& outlook, const std::string& path, const std::optional<ModelConfig>& teacher,
                     int64_t width) {
    outlook.part = OutlookPart::student;
    try {
        if (!teacher)
            throw Error("deriving a student", path, "its teacher must be there: choose mode OverFill");
        const DeriveSpec spec = derivation_of(path);
        const ModelShape shape = shape_of(*teacher);
        check_derive(spec, &shape);
        const DeriveCost cost = derive_cost(spec, shape, width);
        outlook.student = fmt::format("{}; {} of its own, a token would read {} of the teacher's {}",
                                      derive_name(spec), bytes_text(cost.own_bytes),
                                      bytes_text(cost.token_bytes), bytes_text(cost.teacher_token_bytes));
        outlook.student_bytes = outlook.teacher_bytes; // nothing is faster for being derived
        outlook.part = OutlookPart::none;
        return true;
    } catch (const Error& e) {
        outlook.problem = said_by(e, path);
    }
    return false;
}

/// What a fault of the run as a whole is about.
OutlookPart part_of(const Error& e, const RunConfig& config) {
    const auto about = [&](const std::string& path) { return !path.empty() && e.object().starts_with(path); };
    if (e.doing() == "choosing a device") return OutlookPart::device;
    if (about(config.student_dir)) return OutlookPart::student;
    if (about(config.teacher_dir)) return OutlookPart::teacher;
    if (e.doing() == "loading models")
        return OutlookPart::student; // of one model only: the pair does not fit
    return OutlookPart::prompt;
}

/// Room that the start would make by itself: the weights that the run does not use are given up for it.
MemoryQuery with_room_of(const ModelPair& loaded, const MemoryQuery& available) {
    return [&loaded, &available](const std::string& device) {
        std::optional<int64_t> bytes = available(device);
        for (const auto& model : {loaded.teacher, loaded.student})
            if (bytes && model && model->device().str() == device) *bytes += model->weight_bytes();
        return bytes;
    };
}

void weigh(RunOutlook& outlook, const PreparedRun& run) {
    for (const MemoryEstimate& estimate : run.memory) {
        outlook.memory.push_back(estimate.line());
        if (estimate.fits() || outlook.part != OutlookPart::none) continue;
        outlook.part = OutlookPart::memory;
        outlook.problem = estimate.line() + "; " + estimate.advice();
    }
}

} // namespace

RunOutlook run_outlook(const RunConfig& config, std::shared_ptr<const ModelPair> loaded,
                       const MemoryQuery& available) {
    RunOutlook outlook;
    const bool teacher = config.mode != Mode::student, student = config.mode != Mode::teacher;
    int64_t context = std::numeric_limits<int64_t>::max();
    const int64_t width = config.dtype == Dtype::f32 ? 4 : 2;
    std::optional<ModelConfig> teacher_config;
    for (const auto& [wanted, part] :
         {std::pair(teacher, OutlookPart::teacher), std::pair(student, OutlookPart::student)}) {
        if (!wanted) continue;
        const std::string& path = part == OutlookPart::teacher ? config.teacher_dir : config.student_dir;
        if (part == OutlookPart::student && is_derivation(path)) {
            if (!look_at_derived(outlook, path, teacher_config, width)) return outlook;
            continue;
        }
        const auto model = look_at(outlook, part, path);
        if (!model) return outlook;
        if (part == OutlookPart::teacher) teacher_config = model;
        context = std::min(context, model->max_position);
        (part == OutlookPart::teacher ? outlook.teacher_bytes : outlook.student_bytes) =
            model->num_parameters() * width;
    }
    outlook.context = context;
    try {
        const bool serves = loaded && pair_serves(*loaded, config);
        const PreparedRun run = prepare_run(config, serves ? loaded : nullptr,
                                            loaded && !serves ? with_room_of(*loaded, available) : available);
        outlook.note = (run.pair ? *run.pair : *run.text_side).note();
        if (run.text) {
            outlook.prompt_tokens = static_cast<int64_t>(run.text->prompt.ids.size());
            if (outlook.prompt_tokens >= context) {
                outlook.part = OutlookPart::prompt;
                outlook.problem =
                    fmt::format("{} tokens; the models' context has {}", outlook.prompt_tokens, context);
            }
        }
        weigh(outlook, run);
        if (outlook.part != OutlookPart::none) return outlook;
        outlook.part = OutlookPart::other;
        check_cache_choice(config,
                           {context, (run.pair ? *run.pair : *run.text_side).rebuild_reason().value_or(""),
                            config.reads_given()});
        check_files_are_there(config);
        outlook.part = OutlookPart::none;
    } catch (const Error& e) {
        if (outlook.part != OutlookPart::other) outlook.part = part_of(e, config);
        outlook.problem =
            said_by(e, outlook.part == OutlookPart::teacher ? config.teacher_dir : config.student_dir);
    } catch (const std::exception& e) { // out of memory while reading a tokenizer
        outlook.part = OutlookPart::other;
        outlook.problem = e.what();
    }
    return outlook;
}

} // namespace refreshlab
