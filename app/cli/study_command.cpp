#include "app/cli/assets.h"
#include "app/cli/commands.h"
#include "app/cli/output.h"
#include "app/cli/run_options.h"
#include "engine/base/error.h"
#include "engine/control/parameters.h"
#include "engine/study/studies/simulation.h"
#include "engine/study/studies/study_catalog.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>

namespace refreshlab::app {

namespace {

struct StudyCommandOptions {
    std::string teacher, student, device, dtype, kernels, prompts, out, traces;
    std::vector<std::string> parts;
    uint64_t seed = 0;
    int64_t limit = 0;
    int32_t mc_samples = 0;
    int threads = 0;
};

/// What goes on, on stderr: one line that overwrites itself on a terminal, else a line for every twentieth of the work.
class StudyProgress {
public:
    void operator()(double done, const std::string& what) {
        const int twentieth = static_cast<int>(20 * done);
        if (m_terminal) {
            draw_line(fmt::format("{:3.0f} % {}", 100 * done, what));
            m_shown = true;
        } else if (twentieth != m_twentieth) {
            m_twentieth = twentieth;
            say("{:3.0f} % {}\n", 100 * done, what);
        }
    }
    void clear() {
        if (m_shown) draw_line("");
        m_shown = false;
    }

private:
    bool m_terminal = isatty(fileno(stderr)) != 0;
    bool m_shown = false;
    int m_twentieth = -1;
};

Dtype dtype_of(const std::string& name) {
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::native}) {
        if (to_string(dtype) == name) return dtype;
    }
    throw Error("reading", "--dtype", "'" + name + "' is not one of f32, bf16, f16, native");
}

/// Before minutes of work: a folder that cannot be made is known at once.
void require_folder(const std::string& folder, const std::string& option) {
    if (folder.empty()) return;
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    if (failed || !std::filesystem::is_directory(folder) || access(folder.c_str(), W_OK) != 0)
        throw Error("writing " + option, folder, "is not a folder that can be written");
}

int run_study(const StudyCommandOptions& options,
              const std::function<StudyResult(const StudyOptions&)>& study, bool needs_models) {
    require_folder(options.out, "--out");
    require_folder(options.traces, "--traces");
    StudyOptions settings;
    settings.limit = options.limit;
    settings.seed = options.seed;
    settings.mc_samples = options.mc_samples;
    settings.parts = options.parts;
    settings.traces = options.traces;
    if (needs_models) {
        const bool bundled = options.prompts.empty() || options.teacher.empty() || options.student.empty();
        const std::filesystem::path assets = bundled ? find_assets() : std::filesystem::path();
        settings.base = first_start_config(assets);
        settings.prompts =
            options.prompts.empty() ? assets / "prompts" : std::filesystem::path(options.prompts);
        if (!options.teacher.empty()) settings.base.teacher_dir = options.teacher;
        if (!options.student.empty()) settings.base.student_dir = settled_model(options.student);
        settings.student_given = !options.student.empty();
        if (!options.device.empty()) settings.base.device = options.device;
        if (!options.dtype.empty()) settings.base.dtype = dtype_of(options.dtype);
        if (!options.kernels.empty()) set_parameter(settings.base, "kernels", options.kernels);
        settings.base.threads = options.threads;
        note_threads(options.threads);
        if (!std::filesystem::is_directory(settings.prompts))
            throw Error("reading --prompts", settings.prompts.string(), "is not a folder");
    }
    StudyProgress progress;
    settings.progress = std::ref(progress);
    const auto start = std::chrono::steady_clock::now();
    const StudyResult result = study(settings);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    progress.clear();
    print(to_markdown(result));
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
        throw Error("writing the table", {}, "standard output is closed", {}, ErrorKind::failure);
    if (!options.out.empty()) write_study(result, options.out);
    say("{:.0f} s{}\n", took.count(),
        options.out.empty() ? std::string() : "; tables and figure data in " + options.out);
    return 0;
}

using StudyFunction = std::function<StudyResult(const StudyOptions&)>;

/// A study as a subcommand of `study`.
struct Study {
    CLI::App* command = nullptr;
    StudyCommandOptions options;
    StudyFunction run;
    bool needs_models = true;
};

/// What the studies of a model pair are told besides.
void add_model_options(CLI::App& command, StudyCommandOptions& options, const char* parts) {
    command
        .add_option("--limit", options.limit,
                    "Records of each prompt file; without it the study's own number")
        ->type_name("N")
        ->check(CLI::Range(1, 1000000));
    command.add_option("--parts", options.parts, fmt::format("Only these: {}", parts))
        ->type_name("A,B")
        ->delimiter(',')
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    command.add_option("--prompts", options.prompts, "Folder of prompt files (default: the bundled ones)")
        ->type_name("DIR");
    command.add_option("--traces", options.traces, "Save every run as a trace into this folder")
        ->type_name("DIR");
    command
        .add_option("--teacher", options.teacher,
                    "Teacher: a checkpoint folder or a .gguf file (default: the bundled one)")
        ->type_name("MODEL");
    command
        .add_option("--student", options.student,
                    "Student: a checkpoint folder or a .gguf file (default: the bundled one)")
        ->type_name("MODEL");
    command.add_option("--device", options.device, "Device of both models: auto, cpu, cuda, cuda:N")
        ->type_name("DEVICE");
    command.add_option("--dtype", options.dtype, "Weights and caches: f32, bf16, f16, native")
        ->type_name("DTYPE");
    command
        .add_option("--kernels", options.kernels,
                    "CPU code of the kernels: auto (the default), portable, avx2, avx512, reference")
        ->type_name("SET");
    command
        .add_option("--threads", options.threads,
                    "CPU threads, at most one a core; 0 = OMP_NUM_THREADS, else all cores")
        ->type_name("N")
        ->check(CLI::Range(0, 4096));
}

/// \param parts  names of its parts; null: a study without models
std::unique_ptr<Study> add_study(CLI::App& command, const char* name, const char* help, const char* parts,
                                 StudyFunction run) {
    auto study = std::make_unique<Study>();
    study->run = std::move(run);
    study->needs_models = parts != nullptr;
    CLI::App* sub = study->command = command.add_subcommand(name, help);
    sub->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    sub->add_option("--seed", study->options.seed, "Seed of every random number")
        ->type_name("S")
        ->check([](const std::string& text) {
            return text.starts_with('-') ? std::string("must not be negative") : std::string();
        });
    sub->add_option("--out", study->options.out, "Write table.md, CSV tables and figure.csv into this folder")
        ->type_name("DIR");
    if (study->needs_models) add_model_options(*sub, study->options, parts);
    return study;
}

} // namespace

Command add_study_command(CLI::App& app) {
    auto studies = std::make_shared<std::vector<std::unique_ptr<Study>>>();
    CLI::App* command = app.add_subcommand(
        "study", "The built-in studies: each prints its tables, --out keeps them with the data of a figure");
    command->require_subcommand(0, 1); // none: the callback names them
    const auto add = [&](const char* name, const char* help, const char* parts, StudyFunction run) {
        studies->push_back(add_study(*command, name, help, parts, std::move(run)));
    };
    add("simulation", "Entropy against MC variance: 400 simulated steps, no model", nullptr,
        [](const StudyOptions& o) { return study_simulation(o.seed); });
    add("tasks", "The bundled tasks under every mode and policy: a table like the student's card",
        "table, answers, live, stories", study_tasks);
    add("thresholds", "Which threshold gives 2 to 3 refreshes per 1,000 tokens, for every trigger",
        "chronicle, company, stories", study_thresholds);
    add("drift", "Drift of the cache against the distance from the last refresh",
        "chronicle, company, stories", study_drift);
    add("landscape",
        "Which signal deserves to be a trigger: gates against the best and blind placement of as many "
        "refreshes",
        "written, chronicle, company, stories; answers, passages (these two for any --student)",
        study_landscape);
    studies->back()
        ->command
        ->add_option(
            "--mc-samples", studies->back()->options.mc_samples,
            "Measure MC dropout in every cell with so many rows, which multiply the cost (default: not)")
        ->type_name("N")
        ->check(CLI::Range(2, 64));
    add("derived",
        "Students made of the teacher's own weights: where their loss comes from, and what refreshes bring "
        "back",
        "answers, passages", study_derived);
    add("cache", "Cache policies at equal budgets: perplexity, recall, and both axes together",
        "text, recall, written, both", study_cache);
    return [studies] {
        for (const auto& study : *studies) {
            if (study->command->parsed()) return run_study(study->options, study->run, study->needs_models);
        }
        std::string names;
        for (const auto& study : *studies)
            names += (names.empty() ? "" : ", ") + study->command->get_name();
        throw Error("starting a study", {}, "no study named", "the studies are " + names);
    };
}

} // namespace refreshlab::app
