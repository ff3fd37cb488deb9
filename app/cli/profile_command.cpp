#include "app/cli/commands.h"
#include "app/cli/training_options.h"
#include "app/options/engine_module.h"
#include "app/options/profile_options.h"

#include <memory>

namespace refreshlab::app {

Command add_profile_command(CLI::App& app) {
    auto options = std::make_shared<ProfileOptions>();
    CLI::App* command = app.add_subcommand(
        "profile",
        "Measures what a cache policy has to know of a model: its profile (docs/howto/profile.md)");
    command->add_option("METHOD", options->method, "compress_kv or epicache")
        ->required()
        ->type_name("METHOD");
    command->add_option("--model", options->model, "A checkpoint folder or a .gguf file")
        ->required()
        ->type_name("MODEL");
    add_texts(*command, "--texts", options->texts, "Texts, in which compress_kv hides sentences")->required();
    command->add_option("-o,--out", options->out, "The profile, JSON")->required()->type_name("FILE");
    add_length(*command, options->length);
    command
        ->add_option(
            "--share", options->share,
            "compress_kv: what stays of a text where the errors of layers are measured (default 0.125)")
        ->type_name("SHARE")
        ->check(CLI::Range(0.001, 1.0));
    command
        ->add_option("--block", options->block,
                     "epicache: tokens that see each other alone, where keys are compared (default 128)")
        ->type_name("N")
        ->check(CLI::Range(1, 1 << 20));
    command->add_option("--seed", options->seed, "compress_kv: of the words that are hidden (default 0)")
        ->type_name("N");
    add_threads(*command, options->threads);
    return [options] { return engine_module().carry_out(*options); };
}

} // namespace refreshlab::app
