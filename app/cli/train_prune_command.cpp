#include "app/cli/train_commands.h"
#include "app/cli/training_options.h"
#include "app/options/engine_module.h"
#include "app/options/train_prune_options.h"

#include <memory>

namespace refreshlab::app {

Command add_train_prune(CLI::App& train) {
    auto options = std::make_shared<TrainPruneOptions>();
    CLI::App* command = train.add_subcommand(
        "prune", "Writes a narrower model of a model's most important channels, with the same KV geometry");
    command->add_option("MODEL", options->model, "A checkpoint folder or a .gguf file")
        ->required()
        ->type_name("MODEL");
    command->add_option("--hidden", options->hidden, "Hidden width (default: the model's)")
        ->type_name("H")
        ->check(CLI::Range(1, 1 << 20));
    command->add_option("--ffn", options->ffn, "Width of the MLPs (default: the model's)")
        ->type_name("I")
        ->check(CLI::Range(1, 1 << 20));
    add_texts(*command, "--text", options->texts, "Texts on which channels are scored",
              " (default: the bundled stories)");
    add_length(*command, options->length, 1024);
    command->add_option("--most-texts", options->most_texts, "Texts that are read at most (default 512)")
        ->type_name("N")
        ->check(CLI::Range(1, 1 << 20));
    command
        ->add_option(
            "--ffn-score", options->ffn_score,
            "What MLP channels are chosen by: derive, as derived students (the default), or overfill: mean "
            "activations, as in the paper")
        ->type_name("SCORE")
        ->check(CLI::IsMember({"derive", "overfill"}));
    command->add_option("-o,--out", options->out, "The folder that is made")->required()->type_name("DIR");
    command->add_option("--json", options->json, "Writes which channels stayed into this file")
        ->type_name("FILE");
    command->add_option("--dtype", options->dtype, "Of the weights: f32 (the default), bf16, f16")
        ->type_name("DTYPE")
        ->check(CLI::IsMember({"f32", "bf16", "f16"}));
    add_threads(*command, options->threads);
    return [options] { return engine_module().carry_out(*options); };
}

} // namespace refreshlab::app
