#include "app/base/assets.h"
#include "app/base/output.h"
#include "app/engine/carry_out.h"
#include "app/engine/gpu_report.h"
#include "app/options/doctor_options.h"
#include "engine/base/bytes_text.h"
#include "engine/base/error.h"
#include "engine/base/model_path.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/model/checkpoint/weight_checks.h"
#include "engine/model/derive/derive_student.h"
#include "engine/model/model_source.h"
#include "engine/session/decode/run_identity.h"
#include "engine/session/pair/model_pair.h"
#include "engine/session/pair/pair_check.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "kernels/decode/kernel_resources.h"
#include "kernels/execution/cores.h"
#include "kernels/execution/cuda_devices.h"
#include "kernels/execution/isa.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/sysinfo.h>

#include <cstdio>
#include <functional>
#include <memory>

namespace refreshlab::app {

namespace {

constexpr double mebibyte = 1024.0 * 1024.0;

/// Prints one finding; what is wrong says what to do and makes the exit status 1.
class Report {
public:
    void good(const std::string& what, const std::string& text) { print("  ok    {:<14} {}\n", what, text); }
    void note(const std::string& what, const std::string& text) { print("  note  {:<14} {}\n", what, text); }
    void bad(const std::string& what, const std::string& text) {
        print("  BAD   {:<14} {}\n", what, text);
        m_faults = true;
    }
    /// Runs a check; its Error becomes the finding.
    bool check(const std::string& what, const std::function<std::string()>& body) {
        try {
            good(what, body());
            return true;
        } catch (const Error& e) {
            bad(what, e.what());
            return false;
        }
    }
    [[nodiscard]] bool faults() const { return m_faults; }

private:
    bool m_faults = false;
};

struct Model {
    std::string folder;
    ModelConfig config;
    std::shared_ptr<const Tokenizer> tokenizer;
};

std::optional<Model> check_model(Report& report, const std::string& folder) {
    print("\n{}\n", folder);
    Model model{folder, {}, {}};
    std::shared_ptr<const ModelSource> source;
    try {
        source = ModelSource::open(folder);
    } catch (const Error& e) {
        report.bad("model", e.what());
        return std::nullopt;
    }
    bool fine = report.check(source->config_name(), [&] {
        model.config = source->config();
        const ModelConfig& c = model.config;
        return fmt::format("{}, {:.2f} M parameters, {} layers, {} heads on {} KV heads of {}, context {}",
                           c.model_type, static_cast<double>(c.num_parameters()) / 1e6, c.num_layers,
                           c.num_heads, c.num_kv_heads, c.head_dim, c.max_position);
    });
    if (!fine) return std::nullopt;
    fine = report.check("weights", [&] {
        const auto weights = source->weights(model.config);
        check_tensors(model.config, *weights);
        return fmt::format("{} tensors, {:.1f} MiB, {}", weights->names().size(),
                           static_cast<double>(weights->total_bytes()) / mebibyte, weights->stored_types());
    }) && fine;
    fine = report.check("tokenizer", [&] {
        model.tokenizer = source->tokenizer();
        if (model.tokenizer->vocab_size() > model.config.vocab_size) {
            throw Error("reading", folder,
                        fmt::format("the tokenizer has ids up to {}, the model {} rows",
                                    model.tokenizer->vocab_size() - 1, model.config.vocab_size));
        }
        return fmt::format("{} ids, {}", model.tokenizer->vocab_size(),
                           source->chat_template() ? "with a chat template"
                                                   : "no chat template: prompts are used as they are");
    }) && fine;
    const ModelConfig& c = model.config;
    if (const auto missing = missing_in(Kernels::gpu, c))
        report.note("kernels",
                    fmt::format("on a GPU through libtorch: our kernels there do not have {}", *missing));
    if (const auto missing = missing_in(Kernels::training, c))
        report.note("training", fmt::format("train-gate and train do not take the model: their pass does not "
                                            "have {}",
                                            *missing));
    if (c.attention_dropout.value_or(0) <= 0) {
        report.note("MC dropout", "not trained with attention dropout: MC signals are labelled uncalibrated");
    }
    return fine ? std::optional(model) : std::nullopt;
}

/// Program, processor, GPUs, assets.
void check_machine(Report& report, bool models_named) {
    for (const auto& [name, version] : version_list())
        report.good(name, version);
    struct sysinfo machine {};
    sysinfo(&machine);
    std::vector<std::string_view> sets;
    for (const kernels::Isa isa : kernels::available_isas())
        sets.push_back(kernels::to_string(isa));
    report.good("CPU",
                fmt::format("{} usable cores, {:.1f} GiB of memory; kernels: {} (of {})",
                            kernels::usable_cores(),
                            static_cast<double>(machine.totalram) * machine.mem_unit / (mebibyte * 1024.0),
                            kernels::to_string(kernels::widest_isa()), fmt::join(sets, ", ")));
    const std::vector<int> built = kernels::built_architectures(kernels::built_kernels().kernels);
    if (kernels::cuda_devices() > 0) {
        int number = 0;
        for (const kernels::CudaDevice& device : kernels::describe_cuda_devices())
            report.good(fmt::format("GPU {}", number++), gpu_text(device, built));
    } else {
#if REFRESHLAB_CUDA
        report.note(
            "CUDA",
            fmt::format("built in, {}, but this machine shows no device: everything runs on the CPU",
                        built.empty() ? "as PTX" : "for compute capability " + capabilities_text(built)));
#else
        report.note("CUDA", "not built in (no nvcc when this was configured): everything runs on the CPU");
#endif
    }
    if (const auto assets = assets_if_any(); models_named && assets.empty()) {
        report.note("assets", "none found: bundled models, prompts and the window's fonts are not available");
    } else {
        report.check("assets", [] { return find_assets().string(); });
    }
}

void check_memory(Report& report, const std::string& teacher, const std::string& student) {
    RunConfig run;
    run.teacher_dir = teacher;
    run.student_dir = student;
    int64_t in_bf16 = 0;
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::native}) {
        run.dtype = dtype;
        for (const MemoryEstimate& memory : memory_of_run(run, {})) {
            if (dtype == Dtype::native && memory.weights == in_bf16) continue; // no file with such blocks
            in_bf16 = memory.weights;
            const std::string text = fmt::format("{}, whole context, {}", to_string(dtype), memory.line());
            if (memory.fits())
                report.good("memory", text);
            else
                report.note("memory", text + "; " + memory.advice());
        }
    }
}

void compare_pair(Report& report, const std::string& teacher, const std::string& student) {
    const PairCheck pair = check_pair(teacher, student);
    for (const PairFact& fact : pair.facts) {
        const bool one = fact.teacher == fact.student;
        const std::string text = one ? fact.teacher : fact.teacher + " | " + fact.student;
        switch (fact.verdict) {
        case PairFact::Verdict::equal:
            report.good(fact.name, text);
            break;
        case PairFact::Verdict::free:
            report.good(fact.name, text + (one ? "" : " (may differ)"));
            break;
        case PairFact::Verdict::differs:
            report.note(fact.name, text + " (differs)");
            break;
        }
    }
    if (!pair.same_tokenizer) {
        report.bad("verdict", "teacher and student have different vocabularies: they cannot run as a pair");
    } else if (pair.geometry_difference) {
        report.note(
            "verdict",
            "rebuild mode (" + *pair.geometry_difference +
                "): teacher entries are never copied, a refresh recomputes the student's own and changes "
                "nothing; a bridge maps them (refreshlab train bridge)");
    } else if (same_model(teacher, student)) {
        report.note("verdict", "teacher and student are one model: a refresh changes nothing");
    } else {
        report.good("verdict", "one tokenizer and one KV geometry: teacher entries can be spliced");
    }
}

/// A student that is made of its teacher: whether it can be, and what it costs.
void check_derived(Report& report, const Model& teacher, const std::string& student) {
    const DeriveSpec spec = derivation_of(student);
    const ModelShape shape = shape_of(teacher.config);
    if (const auto fault = derive_fault(spec, &shape)) {
        report.bad(fault->field, fault->problem);
        return;
    }
    report.good("student", fmt::format("{}: {}", derive_name(spec), describe(spec)));
    const DeriveCost cost = derive_cost(spec, shape, 4);
    report.good("weights",
                fmt::format("{} of its own in f32, the rest is the teacher's; a token reads {}, of the "
                            "teacher {} (rounded weights as said, others in 16 bits)",
                            bytes_text(cost.own_bytes), bytes_text(cost.token_bytes),
                            bytes_text(cost.teacher_token_bytes)));
    check_memory(report, teacher.folder, student);
    report.good("verdict", "one tokenizer and one KV geometry: teacher entries can be spliced");
}

} // namespace

int carry_out(const DoctorOptions& options) {
    const std::vector<std::string>& folders = options.models;
    if (folders.size() > 2) {
        throw Error("checking models", folders[2], "one model too many",
                    "give one model, or a teacher and a student");
    }
    if (!folders.empty() && is_derivation(folders[0])) {
        throw Error("checking models", folders[0], "a student is derived from a teacher",
                    "give the teacher before it");
    }
    std::vector<std::string> wanted = folders;
    if (wanted.size() == 2 && is_derivation(wanted[1])) wanted[1] = settled_model(wanted[1]);
    Report report;
    print("RefreshLab\n");
    check_machine(report, !wanted.empty());
    if (wanted.empty()) {
        const RunConfig bundled = first_start_config(find_assets());
        wanted = {bundled.teacher_dir, bundled.student_dir};
    }
    std::vector<std::optional<Model>> models;
    const bool derives = wanted.size() == 2 && is_derivation(wanted[1]);
    for (const std::string& folder : wanted) {
        if (!is_derivation(folder)) models.push_back(check_model(report, folder));
    }
    if (derives && models[0]) {
        print("\nteacher and derived student\n");
        check_derived(report, *models[0], wanted[1]);
    }
    if (models.size() == 2 && models[0] && models[1]) {
        print("\nteacher and student\n");
        check_memory(report, wanted[0], wanted[1]);
        compare_pair(report, wanted[0], wanted[1]);
    }
    return report.faults() ? 1 : 0;
}

} // namespace refreshlab::app
