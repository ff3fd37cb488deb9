#include "app/base/output.h"
#include "app/cli/commands.h"
#include "engine/base/bytes_text.h"
#include "engine/base/json_text.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/landscape/landscape_store.h"
#include "engine/record/export/draft_numbers.h"
#include "engine/record/export/export.h"
#include "engine/record/notes/run_notes.h"
#include "engine/record/trace/trace_store.h"
#include "engine/results/scope_map_store.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>

namespace refreshlab::app {

namespace {

namespace fs = std::filesystem;

int64_t size_of(const fs::path& file) {
    std::error_code error;
    const auto size = fs::file_size(file, error);
    return error ? 0 : static_cast<int64_t>(size);
}

/// Attention rows of a run: those that its parent has as well count once, with the parent.
int64_t attention_bytes(const Recording& run) {
    int64_t bytes = 0;
    for (const auto& rows : run.attention_rows())
        if (run.info().fork_step == 0 || rows->step > run.info().fork_step)
            bytes += static_cast<int64_t>(rows->bytes());
    return bytes;
}

nlohmann::json draft_counts(const Recording& run) {
    const auto numbers = draft_numbers(run);
    if (!numbers) return nullptr;
    return {{"drafts", numbers->drafts}, {"drafted", numbers->drafted}, {"accepted", numbers->accepted}};
}

/// Those that the run shows: its own, and its parent's on the steps that they share.
nlohmann::json notes_of(const Recording& run) {
    nlohmann::json all = nlohmann::json::array();
    for (const auto& [note, owner] : run.notes()->seen()) {
        all.push_back({{"first_step", note.first_step},
                       {"last_step", note.last_step},
                       {"colour", note.colour},
                       {"made_at", note.made_at},
                       {"run", owner ? owner->run_id() : run.info().id},
                       {"text", note.text}});
    }
    return all;
}

nlohmann::json about(const Recording& run, const RunLabel& label,
                     const std::vector<StoredLandscape>& landscapes,
                     const std::vector<StoredScopeMap>& scope_maps) {
    const RunInfo& info = run.info();
    const RunConfig& config = info.config;
    const auto end = run.end();
    const auto sent = bytes_sent(run);
    nlohmann::json json{
        {"id", info.id},
        {"name", label.name.empty() ? nlohmann::json() : nlohmann::json(label.name)},
        {"colour", label.colour ? nlohmann::json(*label.colour) : nlohmann::json()},
        {"parent", info.parent_id.empty() ? nlohmann::json() : nlohmann::json(info.parent_id)},
        {"fork_step", info.fork_step},
        {"started_at", info.started_at},
        {"mode", to_string(config.mode)},
        {"models", pair_name(config.mode == Mode::student ? "" : config.teacher_dir,
                             config.mode == Mode::teacher ? "" : config.student_dir)},
        {"policy", config.policy.name},
        {"seed", config.seed},
        {"prompt_tokens", run.prompt_length()},
        {"steps", run.steps()},
        {"refreshes", run.refreshes().size()},
        {"bytes_sent", sent ? nlohmann::json(*sent) : nlohmann::json()},
        {"commands", run.commands().size()},
        {"drafts", draft_counts(run)},
        {"stop_reason", end ? nlohmann::json(end->stop_reason) : nlohmann::json()},
        {"attention_bytes", attention_bytes(run)},
        {"landscape", nullptr},
        {"scope_map", nullptr},
        {"notes", notes_of(run)},
        {"prompt", visible_text(config.prompt, 200)}};
    for (const StoredLandscape& stored : landscapes)
        if (stored.run_id == info.id)
            json["landscape"] = {{"rows", stored.landscape->rows().size()},
                                 {"of", stored.landscape->num_rows()},
                                 {"bytes", stored.landscape->bytes()}};
    for (const StoredScopeMap& stored : scope_maps)
        if (stored.run_id == info.id)
            json["scope_map"] = {{"refreshes", stored.map->refreshes.size()},
                                 {"horizon", stored.map->horizon},
                                 {"parts", stored.map->readings.size()},
                                 {"taken", stored.map->taken.size()}};
    return json;
}

std::string shown_bytes(int64_t bytes) {
    return bytes < 1000 ? fmt::format("{} B", bytes) : bytes_text(bytes);
}

/// " (1.2 MB sent)"
std::string sent_text(const nlohmann::json& bytes) {
    return bytes.is_null() || bytes == 0 ? std::string()
                                         : fmt::format(" ({} sent)", shown_bytes(bytes.get<int64_t>()));
}

void print_run(const nlohmann::json& run) {
    const std::string parent = run["parent"].is_null() ? ""
                                                       : fmt::format("  branch of {} after step {}",
                                                                     run["parent"].get<std::string>(),
                                                                     run["fork_step"].get<int64_t>());
    const std::string name =
        run["name"].is_null() ? "" : fmt::format("  {}", visible_text(run["name"].get<std::string>(), 100));
    print(fmt::format("{}{}  {}{}\n", run["id"].get<std::string>(), name,
                      visible_text(run["started_at"].get<std::string>(), 40), parent));
    const auto line = [](const char* what, const std::string& value) {
        print(fmt::format("    {:<10} {}\n", what, visible_text(value, 150)));
    };
    line("models", run["models"].get<std::string>());
    line("policy", fmt::format("{}, {}, seed {}", run["policy"].get<std::string>(),
                               run["mode"].get<std::string>(), run["seed"].get<uint64_t>()));
    line("prompt", run["prompt"].get<std::string>());
    line("steps",
         fmt::format(
             "{} after {} of the prompt, refreshes: {}{}, commands: {}; {}", run["steps"].get<int64_t>(),
             run["prompt_tokens"].get<int64_t>(), run["refreshes"].get<size_t>(),
             sent_text(run["bytes_sent"]), run["commands"].get<size_t>(),
             run["stop_reason"].is_null() ? "no end" : "ended by " + run["stop_reason"].get<std::string>()));
    if (!run["drafts"].is_null())
        line("drafts",
             fmt::format("{}, {} of {} tokens stay", run["drafts"]["drafts"].get<int64_t>(),
                         run["drafts"]["accepted"].get<int64_t>(), run["drafts"]["drafted"].get<int64_t>()));
    if (const auto bytes = run["attention_bytes"].get<int64_t>(); bytes > 0)
        line("attention", shown_bytes(bytes));
    if (!run["landscape"].is_null())
        line("landscape",
             fmt::format("{} of {} rows, {}", run["landscape"]["rows"].get<size_t>(),
                         run["landscape"]["of"].get<int64_t>(),
                         shown_bytes(static_cast<int64_t>(run["landscape"]["bytes"].get<size_t>()))));
    if (!run["scope_map"].is_null())
        line("scope map", fmt::format("{} parts of {} refreshes", run["scope_map"]["parts"].get<size_t>(),
                                      run["scope_map"]["refreshes"].get<size_t>()));
    for (const nlohmann::json& note : run["notes"]) {
        StepNote place;
        place.first_step = note["first_step"].get<int64_t>();
        place.last_step = note["last_step"].get<int64_t>();
        line("note", fmt::format("{}: {}", note_place(place), note["text"].get<std::string>()));
    }
}

int show_info(const std::string& trace, bool as_json) {
    const auto [runs, labels] = load_labelled_trace(trace);
    const auto landscapes = load_landscapes(trace);
    const auto scope_maps = load_scope_maps(trace);
    nlohmann::json all{
        {"file", trace},
        {"bytes", size_of(trace)},
        {"log_bytes", size_of(trace + "-wal")}, // what a writer has not moved into the file yet
        {"runs", nlohmann::json::array()}};
    for (size_t i = 0; i < runs.size(); ++i)
        all["runs"].push_back(about(*runs[i], labels[i], landscapes, scope_maps));
    if (as_json) {
        print(json_text(all, 1) + "\n");
        return 0;
    }
    print(fmt::format("{}: {}{}, {} {}\n", visible_text(trace, 200), shown_bytes(all["bytes"].get<int64_t>()),
                      all["log_bytes"] > 0 ? " and a log of " + shown_bytes(all["log_bytes"].get<int64_t>())
                                           : "",
                      runs.size(), runs.size() == 1 ? "run" : "runs"));
    for (const nlohmann::json& run : all["runs"])
        print_run(run);
    return 0;
}

} // namespace

Command add_info_command(CLI::App& app) {
    struct Options {
        std::string trace;
        bool json = false;
    };
    auto options = std::make_shared<Options>();
    CLI::App* command = app.add_subcommand("info", "What a trace holds: its runs, their settings and sizes");
    command->add_option("TRACE", options->trace, "A file written by --record or saved from the window")
        ->required();
    command->add_flag("--json", options->json, "The same as JSON");
    return [options] { return show_info(options->trace, options->json); };
}

} // namespace refreshlab::app
