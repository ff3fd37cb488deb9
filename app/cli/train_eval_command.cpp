#include "app/base/output.h"
#include "app/cli/train_commands.h"
#include "app/cli/training_options.h"
#include "app/options/engine_module.h"
#include "app/options/train_eval_options.h"
#include "engine/tasks/task_scorer.h"

#include <memory>
#include <string>
#include <vector>

namespace refreshlab::app {

Command add_train_eval(CLI::App& train) {
    auto options = std::make_shared<TrainEvalOptions>();
    CLI::App* command = train.add_subcommand("eval", "Measures a pair on given texts and writes its card");
    const auto model = [&](const char* name, std::string& value, const char* help) {
        return command->add_option(name, value, help)->type_name("MODEL");
    };
    model("--teacher", options->teacher, "A checkpoint folder or a .gguf file")->required();
    model("--student", options->student, "The same of the student")->required();
    model("--baseline", options->baseline, "A model that reads the texts alone, to compare the student with");
    add_texts(*command, "--texts", options->texts, "Held-out texts");
    CLI::Option* tasks =
        command
            ->add_option("--tasks", options->kinds,
                         "Measures tasks too: kinds of --prompts (default: roll_call, company and chronicle)")
            ->type_name("KIND")
            ->expected(0, -1)
            ->check(CLI::IsMember(task_kinds()));
    command
        ->add_option("--prompts", options->prompts,
                     "The folder of their records and the almanac (default: the bundled one)")
        ->type_name("DIR")
        ->needs(tasks);
    command
        ->add_option("--limit", options->limit,
                     "Records of a kind (default 40) and texts (default 30) that are read at most")
        ->type_name("N")
        ->check(CLI::Range(1, 1 << 20));
    command->add_option("-o,--out", options->out, "The card, in Markdown")->required()->type_name("FILE");
    command->add_option("--csv", options->csv, "Writes the tables into this folder")->type_name("DIR");
    command->add_option("--json", options->json, "Writes all numbers into this file")->type_name("FILE");
    command->add_option("--seed", options->seed, "Of redrawn tokens and of the intervals (default 0)")
        ->type_name("N");
    add_threads(*command, options->threads);
    return [options, tasks] {
        options->command = command_line();
        options->tasks = tasks->count() > 0;
        std::erase(options->kinds, std::string()); // which --tasks without a kind gives
        return engine_module().carry_out(*options);
    };
}

} // namespace refreshlab::app
