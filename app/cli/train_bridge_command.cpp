#include "app/cli/train_commands.h"
#include "app/cli/training_options.h"
#include "app/options/engine_module.h"
#include "app/options/train_bridge_options.h"

#include <memory>

namespace refreshlab::app {

Command add_train_bridge(CLI::App& train) {
    auto options = std::make_shared<TrainBridgeOptions>();
    CLI::App* command = train.add_subcommand(
        "bridge",
        "Makes a linear map of a teacher's cache entries to those of a student with another KV geometry "
        "and the same tokenizer: fitted to the student's entries, then trained for what the student makes of "
        "them (docs/howto/bridge.md)");
    command->add_option("--teacher", options->teacher, "A checkpoint folder or a .gguf file")
        ->required()
        ->type_name("MODEL");
    command->add_option("--student", options->student, "A checkpoint folder or a .gguf file")
        ->required()
        ->type_name("MODEL");
    add_texts(*command, "--texts", options->texts, "Texts", held_out_texts)->required();
    command->add_option("-o,--out", options->out, "The bridge")->required()->type_name("FILE");
    command
        ->add_option(
            "--layers", options->layers,
            "Which teacher's layer a student's layer is made of: last (the default; the last with the "
            "last, and so on downwards) or spread (evenly from the first to the last)")
        ->check(CLI::IsMember({"last", "spread"}));
    command
        ->add_option("--reach", options->reach,
                     "So many teacher's layers more on each side of it (default 0)")
        ->type_name("N")
        ->check(CLI::Range(0, 64));
    command
        ->add_option(
            "--inputs", options->inputs,
            "both (the default): keys and values make keys, and keys and values make values; own: keys "
            "make keys, values make values")
        ->check(CLI::IsMember({"both", "own"}));
    command
        ->add_option(
            "--lambda", options->lambda,
            "Weight of the ridge, as a share of each input's variance (default: of each map the one of "
            "1e-8 to 1 that is best on texts held out)")
        ->type_name("X")
        ->check(CLI::Range(0.0, 1e6));
    add_length(*command, options->length);
    command
        ->add_option("--steps", options->steps,
                     "Steps of the training behind the fit (default 300; 0: the fit alone)")
        ->type_name("N")
        ->check(CLI::Range(0, 10'000'000));
    add_batch(*command, options->batch);
    command
        ->add_option("--longest", options->longest,
                     "Refreshes of a training text are at most so many tokens apart (default 64)")
        ->type_name("N")
        ->check(CLI::Range(1, 1 << 20));
    add_learning_rate(*command, options->learning_rate, "0.001");
    command
        ->add_option("--seed", options->seed, "Of the order of texts and the refreshes in them (default 0)")
        ->type_name("N");
    command->add_option("--csv", options->csv, "Writes the losses as a table into this folder")
        ->type_name("DIR");
    command->add_flag("--restart", options->restart, "Begin the training again, whatever FILE.part holds");
    add_threads(*command, options->threads);
    return [options] { return engine_module().carry_out(*options); };
}

} // namespace refreshlab::app
