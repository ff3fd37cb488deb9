#include "engine/session/pair/model_pair.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/model_path.h"
#include "engine/model/bridge/bridge_file.h"
#include "engine/model/derive/derive_student.h"
#include "engine/model/model_source.h"
#include "engine/session/pair/pair_check.h"
#include "engine/session/pair/run_text.h"
#include "engine/session/parts/row_ring.h"
#include "engine/session/parts/teacher_reader.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "engine/text/utf8.h"
#include "kernels/execution/cuda_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace refreshlab {

namespace {

std::string device_of(const RunConfig& config, const std::string& own) {
    return own.empty() ? config.device : own;
}

/// Both models are loaded whenever both folders are given; a derived student needs its teacher.
bool needs_teacher(const RunConfig& config) {
    return config.mode != Mode::student || !config.teacher_dir.empty() || is_derivation(config.student_dir);
}
bool needs_student(const RunConfig& config) {
    return config.mode != Mode::teacher || !config.student_dir.empty();
}

/// \param option  for messages: "--teacher"
std::shared_ptr<const ModelSource> open_model(const std::string& path, const std::string& option) {
    if (path.empty())
        throw Error("loading models", option, "no model given",
                    "pass " + option + " with a folder or a .gguf file");
    return ModelSource::open(path);
}

/// ModelPair::measured_on of a run.
std::string measured_on(const DeriveSpec& spec, const RunConfig& config) {
    if (!spec.depends_on_prompt()) return {};
    return (config.raw_prompt ? "raw prompt: " : "prompt: ") + config.prompt;
}

/// The ids on which a derivation measures. \param text  of the run; null: it has no prompt
std::vector<int32_t> measured_ids(const DeriveSpec& spec, const Tokenizer& tokenizer, const RunText* text) {
    if (!spec.measures()) return {};
    if (spec.text.empty()) {
        if (text == nullptr || text->prompt.ids.empty())
            throw Error("deriving a student", derivation_path(spec),
                        "it measures on the prompt, and there is no prompt", "name a text: text=FILE");
        return text->prompt.ids;
    }
    // Far more than the tokens that are read (engine/model/derive/calibration.h).
    constexpr size_t most = size_t{1} << 16;
    std::string words = read_file(spec.text, size_t{1} << 26);
    if (words.size() > most) {
        size_t end = most;
        while (end > 0 && (static_cast<unsigned char>(words[end]) & 0xC0U) == 0x80U)
            --end; // whole characters
        words.resize(end);
    }
    if (const auto bad = first_invalid_utf8(words))
        throw Error("reading a calibration text", spec.text, fmt::format("is not UTF-8 (byte {})", *bad));
    std::vector<int32_t> ids = tokenizer.encode(words, true);
    if (ids.empty()) throw Error("reading a calibration text", spec.text, "gives no tokens");
    return ids;
}

} // namespace

std::string ModelPair::note() const {
    if (derived && derived->is_teacher())
        return fmt::format(
            "{} changes nothing: the student is the teacher itself, and so a refresh changes nothing",
            derivation_path(derived->spec));
    if (same_folder())
        return "teacher and student are one model: a refresh puts equal entries in the place of equal ones "
               "and changes nothing";
    if (!geometry_difference) return {};
    if (bridge_file)
        return fmt::format("bridge: the KV geometries differ ({}), so a linear map of the teacher's entries "
                           "stands in for them ({})",
                           *geometry_difference, bridge_file->path.filename().string());
    return "rebuild mode: the KV geometries differ (" + *geometry_difference +
           "), so teacher entries are never copied; a refresh recomputes the student's own and changes "
           "nothing";
}

std::optional<std::string> ModelPair::rebuild_reason() const {
    return bridge_file ? std::nullopt : geometry_difference;
}

bool ModelPair::same_folder() const {
    return teacher && student && !teacher_dir.empty() && same_model(teacher_dir, student_dir);
}

std::vector<int32_t> ModelPair::end_ids() const {
    std::vector<int32_t> ids;
    for (const auto& model : {teacher, student}) {
        if (model) ids.insert(ids.end(), model->config().eos_ids.begin(), model->config().eos_ids.end());
    }
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
}

int64_t ModelPair::context() const {
    int64_t context = INT64_MAX;
    for (const auto& model : {teacher, student}) {
        if (model) context = std::min(context, model->config().max_position);
    }
    return context;
}

at::Device resolve_device(const std::string& name) {
    if (name == "cpu") return at::Device(at::kCPU);
    if (name == "auto") return kernels::cuda_devices() > 0 ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
    int index = 0;
    bool well_formed = name == "cuda";
    if (name.rfind("cuda:", 0) == 0 && name.size() > 5) {
        const char* end = name.data() + name.size();
        const auto [stop, code] = std::from_chars(name.data() + 5, end, index);
        well_formed = code == std::errc() && stop == end && index >= 0;
    }
    if (!well_formed)
        throw Error("choosing a device", name, "not a device", "use auto, cpu, cuda or cuda:<number>");
    const int gpus = kernels::cuda_devices();
    if (gpus == 0)
        throw Error("choosing a device", name, "no CUDA device on this machine", "use --device cpu or auto");
    if (index >= gpus) {
        throw Error("choosing a device", name,
                    fmt::format("this machine has {} CUDA device(s), numbered from 0", gpus));
    }
    return at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
}

at::ScalarType scalar_type(Dtype dtype) {
    switch (dtype) {
    case Dtype::f32:
        return at::kFloat;
    case Dtype::bf16:
        return at::kBFloat16;
    case Dtype::f16:
        return at::kHalf;
    case Dtype::native:
        return at::kBFloat16;
    }
    return at::kFloat;
}

namespace {

/// The bridge of a run with both models. Throws as find_bridge(), and where one is named that is not needed.
std::optional<BridgeFile> bridge_of(const ModelPair& pair, const RunConfig& config) {
    if (!needs_teacher(config) || !needs_student(config)) return std::nullopt;
    if (pair.geometry_difference) return find_bridge(config);
    if (!config.bridge.path.empty() && config.bridge.path != no_bridge && config.mode == Mode::overfill)
        throw Error("starting a run", config.bridge.path,
                    "teacher and student have one KV geometry, so a bridge is not needed",
                    "leave out --bridge");
    return std::nullopt;
}

/// The cheap checks of a pair and its text side, models null: nobody should wait for weights to learn that the vocabularies
/// differ.
std::shared_ptr<ModelPair> check_folders(const RunConfig& config) {
    const bool want_teacher = needs_teacher(config), want_student = needs_student(config);
    const auto teacher = want_teacher ? open_model(config.teacher_dir, "--teacher") : nullptr;
    const bool derives = want_student && is_derivation(config.student_dir);
    const auto student = want_student && !derives ? open_model(config.student_dir, "--student") : nullptr;
    auto pair = std::make_shared<ModelPair>();
    pair->teacher_dir = config.teacher_dir;
    pair->student_dir = config.student_dir;
    if (want_teacher) static_cast<void>(resolve_device(device_of(config, config.teacher_device)));
    if (want_student) static_cast<void>(resolve_device(device_of(config, config.student_device)));
    const ModelSource& text_side = student ? *student : *teacher;
    if (want_teacher && want_student) {
        PairCheck check = derives ? check_pair(*teacher, derivation_of(config.student_dir))
                                  : check_pair(*teacher, *student);
        if (!check.same_tokenizer) {
            const bool sizes = check.teacher.vocab_size != check.student.vocab_size;
            throw Error("loading models", config.student_dir,
                        "teacher and student have different vocabularies (" +
                            (sizes ? fmt::format("{} and {} tokens)", check.teacher.vocab_size,
                                                 check.student.vocab_size)
                                   : std::string("their tokenizers give other ids)")),
                        "both must use one tokenizer");
        }
        pair->shared_vocab = check.vocab_size();
        pair->tokenizer = std::move(check.tokenizer);
        pair->geometry_difference = std::move(check.geometry_difference);
        pair->facts = std::move(check.facts);
        pair->bridge_file = bridge_of(*pair, config);
    } else {
        pair->tokenizer = text_side.tokenizer();
    }
    pair->chat_template = text_side.chat_template();
    return pair;
}

} // namespace

namespace {

/// Whether a loaded model is the one that a configuration names, in its dtype and place.
bool model_serves(const LlamaModel* model, const std::string& loaded_dir, const RunConfig& config,
                  const std::string& dir, const std::string& device) {
    return model != nullptr && loaded_dir == dir && model->dtype() == scalar_type(config.dtype) &&
           model->keeps_blocks() == (config.dtype == Dtype::native) &&
           model->device() == resolve_device(device_of(config, device));
}

/// Takes over what of a loaded pair the new one can use as it is.
void adopt(ModelPair& pair, const ModelPair& loaded, const RunConfig& config) {
    const auto fits = [&](const LlamaModel* model) {
        return !pair.shared_vocab || model->config().vocab_size == *pair.shared_vocab;
    };
    if (needs_teacher(config) &&
        model_serves(loaded.teacher.get(), loaded.teacher_dir, config, config.teacher_dir,
                     config.teacher_device) &&
        fits(loaded.teacher.get()))
        pair.teacher = loaded.teacher;
    if (needs_student(config) && !is_derivation(config.student_dir) &&
        model_serves(loaded.student.get(), loaded.student_dir, config, config.student_dir,
                     config.student_device) &&
        fits(loaded.student.get()))
        pair.student = loaded.student;
    if (pair.bridge_file == loaded.bridge_file && pair.student && pair.student == loaded.student)
        pair.bridge = loaded.bridge;
}

} // namespace

PreparedRun prepare_run(const RunConfig& config, std::shared_ptr<const ModelPair> loaded,
                        const MemoryQuery& available, std::shared_ptr<const RunText> text) {
    PreparedRun run;
    run.execution = make_execution(config);
    if (loaded && pair_serves(*loaded, config)) {
        run.pair = std::move(loaded);
    } else {
        run.text_side = check_folders(config);
        if (loaded) adopt(*run.text_side, *loaded, config);
    }
    const ModelPair& known = run.pair ? *run.pair : *run.text_side;
    run.text = std::move(text);
    if (!run.text && !config.prompt.empty()) run.text = std::make_shared<RunText>(run_text(known, config));
    if (run.text_side && needs_student(config) &&
        is_derivation(config.student_dir)) // before weights are read
        static_cast<void>(measured_ids(derivation_of(config.student_dir), *known.tokenizer, run.text.get()));
    run.memory = memory_of_run(config, known, run.text.get(), available);
    return run;
}

void load_models(PreparedRun& run, const RunConfig& config, const LoadProgress& progress) {
    if (run.pair) return;
    RL_ASSERT(run.text_side != nullptr);
    const kernels::ExecutionScope scope(*run.execution);
    const kernels::LibtorchThreads converting;
    const auto pair = std::make_shared<ModelPair>(*run.text_side);
    const bool want_teacher = needs_teacher(config), want_student = needs_student(config);
    const double teacher_share = want_teacher && !pair->teacher ? (want_student ? 0.7 : 1.0) : 0.0;
    const auto part = [&progress](double first, double share) -> LoadProgress {
        if (!progress) return {};
        return [&progress, first, share](double fraction, const std::string& what) {
            return progress(first + share * fraction, what);
        };
    };
    const at::ScalarType dtype = scalar_type(config.dtype);
    const auto load = [&](const std::string& dir, const std::string& device, double first, double share) {
        auto model = LlamaModel::load(dir, resolve_device(device_of(config, device)), dtype,
                                      part(first, share), config.dtype == Dtype::native);
        if (pair->shared_vocab) model->keep_vocabulary(*pair->shared_vocab);
        return model;
    };
    if (want_teacher && !pair->teacher)
        pair->teacher = load(config.teacher_dir, config.teacher_device, 0, teacher_share);
    if (want_student && is_derivation(config.student_dir)) {
        const DeriveSpec spec = derivation_of(config.student_dir);
        const std::vector<int32_t> ids = measured_ids(spec, *pair->tokenizer, run.text.get());
        DerivedStudent student =
            derive_student(*pair->teacher, spec, resolve_device(device_of(config, config.student_device)),
                           ids, part(teacher_share, 1 - teacher_share));
        pair->student = std::move(student.model);
        pair->derived = std::move(student.facts);
        pair->measured_on = measured_on(spec, config);
    } else if (want_student && !pair->student) {
        pair->student = load(config.student_dir, config.student_device, teacher_share, 1 - teacher_share);
    }
    if (pair->bridge_file && !pair->bridge)
        pair->bridge = std::make_shared<const Bridge>(
            load_bridge(pair->bridge_file->path, pair->teacher->config(), pair->student->config())
                .on(pair->student->device()));
    run.pair = pair;
    run.text_side.reset();
}

std::shared_ptr<const ModelPair> load_pair(const RunConfig& config, const LoadProgress& progress,
                                           std::shared_ptr<const RunText> text) {
    PreparedRun run = prepare_run(config, {}, device_memory_available, std::move(text));
    require_memory(run.memory);
    load_models(run, config, progress);
    return run.pair;
}

std::vector<MemoryEstimate> memory_of_run(const RunConfig& config, const ModelPair& pair, const RunText* text,
                                          const MemoryQuery& available) {
    std::vector<ModelNeed> needs;
    // Of a pair that is loaded in part, what the run wants of the rest counts too.
    const auto add = [&](const char* name, const LlamaModel* model, bool wanted, const std::string& dir,
                         const std::string& device, bool cache, int64_t rows) {
        if (model == nullptr && (!wanted || dir.empty())) return;
        ModelNeed need;
        need.name = name;
        if (model != nullptr) {
            need.config = model->config();
        } else if (is_derivation(dir)) {
            const DeriveSpec spec = derivation_of(dir);
            const ModelConfig teacher =
                pair.teacher ? pair.teacher->config() : ModelSource::open(config.teacher_dir)->config();
            need.config = derived_config(teacher, spec);
            const bool shares = resolve_device(device_of(config, config.teacher_device)) ==
                                resolve_device(device_of(config, config.student_device));
            if (shares) need.own_elements = derived_elements(teacher, spec);
            if (shares && config.dtype == Dtype::native)
                need.weight_bytes = derived_bytes_in_blocks(teacher, spec);
        } else {
            const auto source = ModelSource::open(dir);
            need.config = source->config();
            if (config.dtype == Dtype::native)
                need.weight_bytes = LlamaModel::weight_bytes_in_blocks(*source, need.config);
        }
        need.dtype = config.dtype;
        need.device =
            model != nullptr ? model->device().str() : resolve_device(device_of(config, device)).str();
        need.capacity = cache ? 1 : 0;
        need.step_rows = config.mc.samples + 1;
        need.logit_rows = rows;
        need.loaded = model != nullptr;
        needs.push_back(std::move(need));
    };
    // A teacher that does not decode still reads the text at the end: the closing pass of the score has a cache of its own.
    add("teacher", pair.teacher.get(), needs_teacher(config), config.teacher_dir, config.teacher_device, true,
        pass_chunk);
    add("student", pair.student.get(), needs_student(config), config.student_dir, config.student_device,
        config.mode != Mode::teacher, config.mode == Mode::overfill ? ring_rows : 1);
    if (pair.bridge_file && config.mode == Mode::overfill) {
        ModelNeed& student = needs.back();
        student.caches = 2; // the teacher's entries as the student reads them
        std::error_code unknown;
        const auto size = std::filesystem::file_size(pair.bridge_file->path, unknown);
        if (!pair.bridge && !unknown) student.bridge_bytes = static_cast<int64_t>(size);
    }
    int64_t context = INT64_MAX;
    for (const ModelNeed& need : needs)
        context = std::min(context, need.config.max_position);
    for (ModelNeed& need : needs) {
        if (need.capacity > 0) need.capacity = text != nullptr ? text->capacity(config, context) : context;
    }
    return estimate_memory(needs, available);
}

bool pair_serves(const ModelPair& pair, const RunConfig& config) {
    if (needs_teacher(config) && !model_serves(pair.teacher.get(), pair.teacher_dir, config,
                                               config.teacher_dir, config.teacher_device))
        return false;
    if (!needs_student(config)) return true;
    if (is_derivation(config.student_dir) &&
        pair.measured_on != measured_on(derivation_of(config.student_dir), config))
        return false;
    return model_serves(pair.student.get(), pair.student_dir, config, config.student_dir,
                        config.student_device) &&
           bridge_of(pair, config) == pair.bridge_file;
}

ModelSummary summarize(const LlamaModel& model, const std::string& dir) {
    const ModelConfig& c = model.config();
    ModelSummary s;
    s.name = is_derivation(dir) ? shown_model(dir) : model_name(dir);
    s.dir = dir;
    s.device = model.device().str();
    s.dtype = model.keeps_blocks()             ? "native"
              : model.dtype() == at::kFloat    ? "f32"
              : model.dtype() == at::kBFloat16 ? "bf16"
                                               : "f16";
    s.parameters = c.num_parameters();
    s.hidden = c.hidden_size;
    s.intermediate = c.intermediate_size;
    s.layers = c.num_layers;
    s.heads = c.num_heads;
    s.kv_heads = c.num_kv_heads;
    s.head_dim = c.head_dim;
    s.vocab_size = c.vocab_size;
    s.max_position = c.max_position;
    s.weight_bytes = model.weight_bytes();
    s.mc_calibrated = c.attention_dropout.value_or(0) > 0 || c.resid_dropout.value_or(0) > 0;
    return s;
}

} // namespace refreshlab
