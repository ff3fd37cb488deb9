#include "app/cli/commands.h"
#include "app/cli/training_options.h"
#include "app/options/derive_options.h"
#include "app/options/engine_module.h"
#include "engine/base/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

namespace refreshlab::app {

Command add_derive_command(CLI::App& app) {
    auto options = std::make_shared<DeriveOptions>();
    CLI::App* command = app.add_subcommand(
        "derive",
        "Writes a student made of a teacher's weights as a Hugging Face folder, to be checked elsewhere");
    command->add_option("TEACHER", options->teacher, "A checkpoint folder or a .gguf file")
        ->required()
        ->type_name("MODEL");
    command
        ->add_option(
            "SPEC", options->spec,
            "What is changed: bits=3,group=32 and so on, or a JSON file (docs/howto/derived-students.md)")
        ->required()
        ->type_name("SPEC");
    command->add_option("-o,--out", options->out, "The folder that is made")->required()->type_name("DIR");
    command
        ->add_option("--prompt", options->prompt,
                     "The prompt on which ffn and skip=auto measure, if the SPEC names no text")
        ->type_name("TEXT");
    command->add_flag("--raw-prompt", options->raw_prompt,
                      "Use it as it is, without the model's chat template");
    command->add_option("--dtype", options->dtype, "Of the weights: f32 (the default), bf16, f16")
        ->type_name("DTYPE")
        ->check(CLI::IsMember({"f32", "bf16", "f16"}));
    add_threads(*command, options->threads);
    return [options] { return engine_module().carry_out(*options); };
}

} // namespace refreshlab::app
