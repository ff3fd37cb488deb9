#include "ui/dialogs/workspace_files.h"

#include "engine/base/error.h"
#include "engine/record/keep/session_folder.h"
#include "engine/record/runs/own_values.h"
#include "ui/dialogs/dialogs.h"
#include "ui/panels/panel.h"
#include "ui/scene/runs/saved_runs.h"
#include "ui/state/dialog.h"
#include "ui/state/layout.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace refreshlab::ui {

namespace {

namespace fs = std::filesystem;

/// The trace that holds a run whole, or as far as it was saved.
fs::path file_of(const ShellState& state, const Recording& run, const RunFiles& besides) {
    const auto kept = besides.find(run.info().id);
    if (state.in_own_file(run) || kept == besides.end()) {
        if (const auto file = state.files.find(run.notes()); file != state.files.end()) return file->second;
        return state.ctx.engine.status()->recorded ? state.options.record : fs::path();
    }
    return kept->second;
}

void read_trace(LoadedWorkspace& loaded, const fs::path& path, bool kept) {
    LoadedWorkspace::Trace trace{.path = path, .runs = {}, .readings = {}, .kept = kept};
    std::error_code error;
    if (!fs::exists(path, error)) {
        loaded.faults.push_back(fmt::format("{} is missing", path.string()));
        return;
    }
    try {
        trace.runs = load_labelled_trace(path);
        if (trace.runs.runs.empty()) {
            if (!kept) loaded.faults.push_back(fmt::format("{} holds no run", path.string()));
            return; // of a session that was killed before the first step
        }
        trace.readings = readings_of_file(path, *trace.runs.runs.back());
        loaded.traces.push_back(std::move(trace));
    } catch (const Error& e) {
        loaded.faults.emplace_back(e.what());
    }
}

void read_tables(LoadedWorkspace& loaded) {
    for (const fs::path& path : loaded.workspace.tables) {
        try {
            loaded.tables.push_back(read_table_file(path));
        } catch (const Error& e) {
            loaded.faults.emplace_back(e.what());
        }
    }
}

/// Of a run in several files the longest recording, of equal ones the first.
void drop_shorter(std::vector<LoadedWorkspace::Trace>& traces) {
    std::map<std::string, const Recording*> longest;
    for (const auto& trace : traces)
        for (const auto& run : trace.runs.runs) {
            const Recording*& best = longest[run->info().id];
            if (best == nullptr || best->steps() < run->steps()) best = run.get();
        }
    for (auto& trace : traces)
        for (size_t i = trace.runs.runs.size(); i-- > 0;) {
            const auto at = static_cast<std::ptrdiff_t>(i);
            if (longest[trace.runs.runs[i]->info().id] == trace.runs.runs[i].get()) continue;
            trace.runs.runs.erase(trace.runs.runs.begin() + at);
            if (i < trace.runs.labels.size()) trace.runs.labels.erase(trace.runs.labels.begin() + at);
        }
    std::erase_if(traces, [](const auto& trace) { return trace.runs.runs.empty(); });
}

/// What the workspace knows of its runs and the traces do not have any more.
void tell_changes(LoadedWorkspace& loaded) {
    std::map<std::string, int64_t, std::less<>> steps;
    for (const auto& trace : loaded.traces)
        for (const auto& run : trace.runs.runs)
            steps[run->info().id] = run->steps();
    for (const Workspace::Trace& trace : loaded.workspace.traces) {
        const bool read =
            std::ranges::any_of(loaded.traces, [&](const auto& t) { return t.path == trace.path; });
        if (!read) continue; // told already
        const auto gone =
            std::ranges::count_if(trace.runs, [&](const auto& id) { return !steps.contains(id); });
        const auto shorter = std::ranges::count_if(loaded.workspace.runs, [&](const Workspace::Run& run) {
            const auto now = steps.find(run.id);
            return std::ranges::find(trace.runs, run.id) != trace.runs.end() && now != steps.end() &&
                   now->second < run.steps;
        });
        if (gone > 0)
            loaded.faults.push_back(fmt::format("{} was changed: {} of its runs {} not in it any more",
                                                trace.path.string(), gone, gone == 1 ? "is" : "are"));
        if (shorter > 0)
            loaded.faults.push_back(fmt::format("{} was changed: {} of its runs {} fewer steps now",
                                                trace.path.string(), shorter, shorter == 1 ? "has" : "have"));
    }
}

std::vector<OwnSignal> added_to(const ShellState& state, const std::string& id) {
    const auto added = state.added_signals.find(id);
    return added == state.added_signals.end() ? std::vector<OwnSignal>() : added->second;
}

/// Works the signals of the workspace out again for the runs that were read.
void add_signals(LoadedWorkspace& loaded) {
    for (const Workspace::Run& known : loaded.workspace.runs) {
        if (known.signals.empty()) continue;
        for (const auto& trace : loaded.traces)
            for (const auto& run : trace.runs.runs) {
                if (run->info().id != known.id) continue;
                try {
                    loaded.with_signals[known.id] = with_own_signals(run, known.signals);
                } catch (const Error& e) { // the trace was changed
                    loaded.faults.emplace_back(e.what());
                }
            }
    }
}

RunKey key_of(const ShellState& state, const std::string& id) {
    const RunNode* const node = state.runs.tree().find_id(id);
    return node != nullptr ? node->key : 0;
}

void show_runs(ShellState& state, const LoadedWorkspace& loaded) {
    for (const LoadedWorkspace::Trace& trace : loaded.traces) {
        for (const auto& run : trace.runs.runs) {
            state.files[run->notes()] = trace.path;
            if (trace.kept) state.restored[run->info().id] = trace.path;
        }
        const auto& newest = trace.runs.runs.back();
        state.keep(trace.readings, newest);
        state.runs.add_file(trace.runs.runs, trace.kept ? "restored" : trace.path.filename().string(),
                            trace.runs.labels);
    }
    for (const Workspace::Run& run : loaded.workspace.runs)
        if (const RunKey key = key_of(state, run.id); key != 0) {
            state.runs.put_label(key, {run.name, run.colour});
            state.runs.tick(key, run.ticked);
            const auto with = loaded.with_signals.find(run.id);
            if (with == loaded.with_signals.end()) continue;
            state.runs.put_recording(key, with->second);
            state.added_signals[run.id] = run.signals;
        }
    // A session that was left is no file of the person's.
    if (!loaded.file.empty()) state.signals_in_workspace = state.added_signals;
    for (const auto& [id, notes] : loaded.workspace.notes) {
        const auto recording = state.runs.recording(key_of(state, id));
        if (!recording) continue;
        const auto there = recording->notes()->own();
        for (const StepNote& note : notes)
            if (std::ranges::none_of(there, [&](const StepNote& other) {
                    return other.first_step == note.first_step && other.text == note.text;
                }))
                recording->notes()->add(note);
    }
    state.runs.by_position = loaded.workspace.by_position;
    if (const RunKey shown = key_of(state, loaded.workspace.shown); shown != 0) state.runs.look_at(shown);
    static_cast<void>(state.runs.take_flip()); // seen from the beginning, as an opened trace
    if (loaded.workspace.step)
        state.wanted_step = {loaded.workspace.shown, *loaded.workspace.step};
    else
        state.ctx.select_step(std::nullopt);
}

void show_views(ShellState& state, const Workspace& workspace) {
    const FirstViews first(state);
    state.ctx.views = workspace.views;
    std::erase_if(state.panels, [](const auto& panel) { return panel->title() != panel->kind(); });
    for (const auto& [title, views] : workspace.more_panels)
        state.add_another(title, views);
    state.views_set = true;
    if (workspace.layout.empty()) return;
    if (!workspace.arrangement.empty()) state.arrangements[workspace.layout] = workspace.arrangement;
    state.layout_borrowed = true; // the present arrangement does not take its place
    state.wanted_layout = workspace.layout;
    state.wanted_layout_bundled = workspace.arrangement.empty();
}

void take_next_run(ShellState& state, const RunConfig& run) {
    state.unfinished_run = UnfinishedRun{run, std::to_string(run.seed)};
    switch (state.ctx.engine.status()->state) {
    case EngineState::idle:
        state.ctx.engine.send(command::SetPolicy{run.policy});
        break;
    case EngineState::finished:
    case EngineState::failed:
        state.guarded([&] { state.ctx.drafts.set_policy(state.ctx.engine, run.policy); });
        break;
    default:
        if (run.policy == state.ctx.drafts.policy()) break;
        state.say(Toasts::Level::info, "The policy stays that of the live run; \"New run...\" begins with "
                                       "that of the workspace");
    }
}

} // namespace

Workspace present_workspace(ShellState& state, const RunFiles& besides) {
    Workspace workspace;
    for (const RunNode& node : state.runs.tree().runs()) {
        const auto run = state.runs.recording(node.key);
        const std::string& id = run->info().id;
        const fs::path file = file_of(state, *run, besides);
        if (file.empty()) {
            if (auto notes = run->notes()->own(); !notes.empty()) workspace.notes[id] = std::move(notes);
            continue;
        }
        auto trace = std::ranges::find(workspace.traces, file, &Workspace::Trace::path);
        if (trace == workspace.traces.end()) {
            workspace.traces.push_back({file, {}});
            trace = std::prev(workspace.traces.end());
        }
        trace->runs.push_back(id);
        const RunLabel label = state.runs.label(node.key);
        const auto saved = state.saved_steps.find(id);
        workspace.runs.push_back({.id = id,
                                  .steps = saved == state.saved_steps.end() || besides.contains(id)
                                               ? run->steps()
                                               : std::min(run->steps(), saved->second),
                                  .name = label.name,
                                  .colour = label.colour,
                                  .ticked = state.runs.ticked(node.key),
                                  .signals = added_to(state, id)});
    }
    if (const auto shown = state.runs.looked_at(); shown && state.runs.recording(*shown))
        workspace.shown = state.runs.recording(*shown)->info().id;
    workspace.step = state.ctx.selection.step;
    const auto& tables = state.ctx.tables;
    for (const auto& table : tables.all())
        if (table != tables.shown()) workspace.tables.push_back(table->path);
    if (tables.shown()) workspace.tables.push_back(tables.shown()->path);
    workspace.by_position = state.runs.by_position;
    workspace.layout = state.settings.layout;
    if (!state.layout_borrowed && !state.panel_open.empty()) workspace.arrangement = state.arrangement();
    const FirstViews first(state);
    workspace.views = state.ctx.views;
    for (const auto& panel : state.panels)
        if (const Views* own = panel->own_views()) workspace.more_panels[std::string(panel->title())] = *own;
    if (!state.ctx.engine.status()->applied.prompt.empty())
        workspace.next_run = state.ctx.drafts.next_run();
    else if (state.unfinished_run) {
        workspace.next_run = state.unfinished_run->config;
        workspace.next_run->policy = state.ctx.drafts.policy();
    }
    return workspace;
}

std::vector<SavedRun> unsaved_runs(const ShellState& state) {
    std::vector<SavedRun> runs = saved_runs(state.runs);
    std::erase_if(runs, [&](const SavedRun& run) {
        return run.recording->steps() == 0 || state.in_own_file(*run.recording);
    });
    return runs;
}

int64_t trace_bytes(const std::vector<SavedRun>& runs) {
    size_t sum = 0;
    for (const SavedRun& run : runs)
        sum += run.recording->own_bytes() + run.recording->attention_bytes().kept;
    return static_cast<int64_t>(sum);
}

LoadedWorkspace load_workspace(const fs::path& file) {
    LoadedWorkspace loaded;
    loaded.file = file;
    loaded.workspace = read_workspace(file, loaded.faults);
    for (const Workspace::Trace& trace : loaded.workspace.traces)
        read_trace(loaded, trace.path, false);
    read_tables(loaded);
    tell_changes(loaded);
    add_signals(loaded);
    return loaded;
}

LoadedWorkspace load_session(const SessionFolder& folder) {
    LoadedWorkspace loaded;
    std::error_code error;
    if (fs::exists(folder.workspace(), error)) {
        try {
            loaded.workspace = read_workspace(folder.workspace(), loaded.faults);
        } catch (const Error& e) { // the runs are there all the same
            loaded.faults.emplace_back(e.what());
        }
    }
    const auto kept = folder.traces();
    for (const Workspace::Trace& trace : loaded.workspace.traces)
        if (std::ranges::find(kept, trace.path) == kept.end()) read_trace(loaded, trace.path, false);
    for (const fs::path& trace : kept)
        read_trace(loaded, trace, true);
    read_tables(loaded);
    drop_shorter(loaded.traces);
    add_signals(loaded);
    return loaded;
}

void show_workspace(ShellState& state, LoadedWorkspace loaded) {
    show_runs(state, loaded);
    for (auto& table : loaded.tables)
        state.ctx.tables.show(std::move(table));
    if (!loaded.workspace.layout.empty()) show_views(state, loaded.workspace);
    if (loaded.workspace.next_run) take_next_run(state, *loaded.workspace.next_run);
    for (const std::string& fault : loaded.faults)
        state.say(Toasts::Level::warning, fault);
    if (loaded.file.empty()) return;
    state.workspace_file = loaded.file;
    remember_file(state, loaded.file);
}

std::function<void()> load_to_show(ShellState& state, const fs::path& file) {
    return [loaded = load_workspace(file), &state] { show_workspace(state, loaded); };
}

void open_workspace(ShellState& state, const fs::path& path) {
    state.start_job("Opening " + path.filename().string(),
                    [path, &state](const std::atomic<bool>&) { return load_to_show(state, path); });
}

void show_tables(ShellState& state, const std::vector<std::shared_ptr<const TableFile>>& tables,
                 const fs::path& path) {
    for (size_t i = tables.size(); i-- > 0;) { // what is opened last is shown
        state.ctx.tables.show(tables[i]);
        if (!tables[i]->plots_fault.empty()) state.say(Toasts::Level::warning, tables[i]->plots_fault);
    }
    if (state.panel_open.empty()) // before the first layout, which opens it with its own
        state.focus_panel = "Table";
    else
        state.open_panel("Table");
    remember_file(state, path);
}

std::function<void()> tables_to_show(ShellState& state, const fs::path& path) {
    return [tables = read_tables(path), path, &state] { show_tables(state, tables, path); };
}

void open_table(ShellState& state, const fs::path& path) {
    state.start_job("Opening " + path.filename().string(),
                    [path, &state](const std::atomic<bool>&) { return tables_to_show(state, path); });
}

void open_file(ShellState& state, const fs::path& path) {
    if (path.extension() == workspace_extension)
        open_workspace(state, path);
    else if (may_be_table(path))
        open_table(state, path);
    else
        open_trace(state, path);
}

void remember_file(ShellState& state, const fs::path& path) {
    try {
        state.recent.add(path);
    } catch (const Error& e) {
        state.say(Toasts::Level::warning, e.what(), false);
    }
    state.ctx.recent_files = state.recent.files();
}

} // namespace refreshlab::ui
