#include "app/cli/commands.h"
#include "app/cli/training_options.h"
#include "app/options/engine_module.h"
#include "app/options/train_gate_options.h"

#include <memory>

namespace refreshlab::app {

Command add_train_gate_command(CLI::App& app) {
    auto options = std::make_shared<TrainGateOptions>();
    CLI::App* command = app.add_subcommand(
        "train-gate", "Trains the gate of a cache policy for a model, and compares it with "
                      "other policies on texts held out (docs/howto/train-gate.md)");
    command
        ->add_option("METHOD", options->method,
                     "trim_kv, make_each_token_count, locret, attention_gate or lookahead_kv")
        ->required()
        ->type_name("METHOD");
    command->add_option("--model", options->model, "A checkpoint folder or a .gguf file")
        ->required()
        ->type_name("MODEL");
    add_texts(*command, "--texts", options->texts, "Texts", held_out_texts)->required();
    command
        ->add_option("-o,--out", options->out,
                     "The gate. FILE.part beside it is the training so far: the same command goes on from it")
        ->required()
        ->type_name("FILE");
    command
        ->add_option("--csv", options->csv,
                     "Writes losses and the comparison as tables, and how they are "
                     "drawn, into this folder")
        ->type_name("DIR");
    command->add_option("--steps", options->steps, "Steps (default 3000)")
        ->type_name("N")
        ->check(CLI::Range(1, 10'000'000));
    add_batch(*command, options->batch);
    add_length(*command, options->length);
    command
        ->add_option(
            "--width", options->width,
            "Inner width of the gate (default 64; locret and attention_gate 32; lookahead_kv 8: the rank "
            "of its changes)")
        ->type_name("N")
        ->check(CLI::Range(1, 65536));
    add_learning_rate(*command, options->learning_rate, "0.003, locret and lookahead_kv 0.002");
    command
        ->add_option(
            "--capacity", options->capacity,
            "The budget that it is trained for, as a share of a text; of attention_gate of a prompt (default "
            "0.25); not of locret and lookahead_kv")
        ->type_name("SHARE")
        ->check(CLI::Range(0.001, 1.0));
    command
        ->add_option("--capacity-weight", options->capacity_weight,
                     "Weight of the loss of what is above it, or differs from it (default 1); not of locret "
                     "and lookahead_kv")
        ->type_name("X")
        ->check(CLI::Range(0.0, 1e6));
    command
        ->add_option("--smoothness", options->smoothness,
                     "locret: weight of the squared difference of neighbouring scores (default 0.0025)")
        ->type_name("X")
        ->check(CLI::Range(0.0, 1e6));
    command
        ->add_option("--reading", options->readings,
                     "How an ambiguous point of the source is read: input=normed|residual of trim_kv, "
                     "make_each_token_count and attention_gate, "
                     "decay=bias|multiply of trim_kv and make_each_token_count, rope=before|after and "
                     "target=attention|logits of locret, sees=prompt|earlier of attention_gate; the first is "
                     "the default. May be repeated")
        ->type_name("KEY=CHOICE")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);
    command->add_option("--seed", options->seed, "Of the first weights and the order of texts (default 0)")
        ->type_name("N");
    command->add_flag("--restart", options->restart, "Begin again, whatever FILE.part holds");
    add_threads(*command, options->threads);
    return [options] { return engine_module().carry_out(*options); };
}

} // namespace refreshlab::app
