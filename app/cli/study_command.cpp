#include "app/cli/commands.h"
#include "app/options/engine_module.h"
#include "app/options/study_options.h"
#include "engine/base/error.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

namespace refreshlab::app {

namespace {

/// A study as a subcommand of `study`.
struct Study {
    CLI::App* command = nullptr;
    StudyCommandOptions options;
};

/// What the studies of a model pair are told besides.
void add_model_options(CLI::App& command, StudyCommandOptions& options, const char* parts) {
    command
        .add_option("--limit", options.limit,
                    "Records of each prompt file; without it the study's own number")
        ->type_name("N")
        ->check(CLI::Range(1, 1000000));
    if (*parts != '\0')
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

/// \param parts  names of its parts; empty: it is one whole; null: a study without models
std::unique_ptr<Study> add_study(CLI::App& command, const char* name, const char* help, const char* parts) {
    auto study = std::make_unique<Study>();
    study->options.name = name;
    CLI::App* sub = study->command = command.add_subcommand(name, help);
    sub->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    sub->add_option("--seed", study->options.seed, "Seed of every random number")
        ->type_name("S")
        ->check([](const std::string& text) {
            return text.starts_with('-') ? std::string("must not be negative") : std::string();
        });
    sub->add_option("--out", study->options.out, "Write table.md, CSV tables and figure.csv into this folder")
        ->type_name("DIR");
    if (parts != nullptr) add_model_options(*sub, study->options, parts);
    return study;
}

} // namespace

Command add_study_command(CLI::App& app) {
    auto studies = std::make_shared<std::vector<std::unique_ptr<Study>>>();
    CLI::App* command = app.add_subcommand(
        "study", "The built-in studies: each prints its tables, --out keeps them with the data of a figure");
    command->require_subcommand(0, 1); // none: the callback names them
    const auto add = [&](const char* name, const char* help, const char* parts) {
        studies->push_back(add_study(*command, name, help, parts));
    };
    add("simulation", "Entropy against MC variance: 400 simulated steps, no model", nullptr);
    add("tasks", "The bundled tasks under every mode and policy: a table like the student's card",
        "table, answers, live, stories");
    add("thresholds", "Which threshold gives 2 to 3 refreshes per 1,000 tokens, for every trigger",
        "chronicle, company, stories");
    add("drift", "Drift of the cache against the distance from the last refresh",
        "chronicle, company, stories");
    add("landscape",
        "Which signal deserves to be a trigger: gates against the best and blind placement of as many "
        "refreshes",
        "written, chronicle, company, stories; answers, passages (these two for any --student)");
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
        "answers, passages");
    add("scope",
        "Students made of the teacher's own weights: which of the teacher's entries carry the gain of a "
        "refresh",
        "");
    add("cache", "Cache policies at equal budgets: perplexity, recall, and both axes together",
        "text, recall, written, both, zoo, zoo_recall");
    studies->back()
        ->command
        ->add_option(
            "--length", studies->back()->options.length,
            "Tokens of a long text (default: half of the context, at most 2,048, with --limit 4,096)")
        ->type_name("N")
        ->check(CLI::Range(256, 1 << 20));
    studies->back()
        ->command
        ->add_option("--methods", studies->back()->options.methods,
                     "Parts zoo, zoo_recall, both: of all cache policies these alone, beside full")
        ->type_name("NAME,...")
        ->delimiter(',')
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    return [studies] {
        for (const auto& study : *studies) {
            if (study->command->parsed()) return engine_module().carry_out(study->options);
        }
        std::string names;
        for (const auto& study : *studies)
            names += (names.empty() ? "" : ", ") + study->command->get_name();
        throw Error("starting a study", {}, "no study named", "the studies are " + names);
    };
}

} // namespace refreshlab::app
