#include "app/cli/commands.h"
#include "app/options/doctor_options.h"
#include "app/options/engine_module.h"

#include <memory>

namespace refreshlab::app {

Command add_doctor_command(CLI::App& app) {
    auto options = std::make_shared<DoctorOptions>();
    CLI::App* command = app.add_subcommand(
        "doctor", "Checks device, libraries and models; says what is missing and what to do");
    command
        ->add_option(
            "MODEL", options->models,
            "Checkpoint folders or .gguf files; two are compared as teacher and student, which may be "
            "derive:SPEC (default: the bundled pair)")
        ->type_name("MODEL");
    return [options] { return engine_module().carry_out(*options); };
}

} // namespace refreshlab::app
