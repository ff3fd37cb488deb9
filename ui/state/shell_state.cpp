#include "ui/state/shell_state.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/control/cache_choice.h"
#include "engine/record/recording/logged_config.h"
#include "ui/panels/panel.h"
#include "ui/scene/axes/signal_choice.h"
#include "ui/state/dialog.h"
#include "ui/state/layout.h"
#include "ui/state/user_file.h"

#include <fmt/format.h>

#include <algorithm>

namespace refreshlab::ui {

ShellState::ShellState(EngineLink& engine, Host& host, ShellOptions shell_options)
    : ctx{.engine = engine,
          .host = host,
          .runs = runs,
          .status = engine.status(),
          .recording = nullptr,
          .steps = 0,
          .steps_jumped = 0,
          .selection = {},
          .hovered_step = {},
          .next_hovered_step = {},
          .time = {},
          .playback = {},
          .views = {},
          .drafts = {},
          .marks = {},
          .paths = {},
          .theme = {},
          .screen_style = {},
          .toasts = {},
          .landmarks = {},
          .landscape = {},
          .scope_map = {},
          .why_no_landscape = {},
          .usual_objective = {},
          .refresh_gains = {},
          .gains_objective = Objective::loss,
          .best_schedule = {},
          .find_in_text = false,
          .present_mode = false,
          .first_start_hints = false,
          .fonts = {},
          .tables = {},
          .run_action = {}}
    , options(std::move(shell_options)) {}

ShellState::~ShellState() = default;

Panel* ShellState::find_panel(std::string_view title) const {
    const auto found =
        std::ranges::find_if(panels, [&](const auto& panel) { return panel->title() == title; });
    return found == panels.end() ? nullptr : found->get();
}

Panel* ShellState::panel_in_use(std::string_view kind) const {
    const auto used = used_of_kind.find(kind);
    if (used == used_of_kind.end()) return find_panel(kind);
    const auto open = panel_open.find(used->second);
    return find_panel(open != panel_open.end() && open->second ? std::string_view(used->second) : kind);
}

void ShellState::open_panel(const std::string& title) {
    panel_open[title] = true;
    focus_panel = title;
}

void ShellState::add_another(const std::string& title, const Views& view) {
    if (find_panel(title) != nullptr) return;
    auto panel = make_another(title, view);
    if (!panel) return;
    auto place = std::ranges::find_if(panels, [&](const auto& p) { return p->kind() == panel->kind(); });
    while (place != panels.end() && (*place)->kind() == panel->kind() && (*place)->title() < panel->title())
        ++place;
    panels.insert(place, std::move(panel));
}

void ShellState::use_views() {
    for (const PanelKind& kind : panel_kinds()) {
        Panel* const panel = panel_in_use(kind.title);
        if (panel == nullptr || panel->own_views() == nullptr) continue;
        panel->exchange_view(ctx.views);
        m_exchanged.push_back(panel);
    }
}

bool ShellState::put_views_back() {
    const std::vector<Panel*> exchanged = std::exchange(m_exchanged, {});
    for (Panel* panel : exchanged)
        panel->exchange_view(ctx.views);
    return !exchanged.empty();
}

void ShellState::set_pace(double tokens_per_second) {
    settings.pace = tokens_per_second;
    ctx.engine.send(command::SetPace{tokens_per_second});
}

void ShellState::keep_to_compare() {
    wanted_running = std::nullopt;
    ctx.select_step(std::nullopt);
    const auto live = runs.live();
    if (live && ctx.engine.recording() && ctx.engine.recording()->steps() > 0) runs.tick(*live, true);
    runs.look_live();
}

void ShellState::run_beside(const RunConfig& run) {
    keep_to_compare();
    ctx.engine.send(command::StartRun{run});
}

RunConfig ShellState::run_to_compare() const {
    return ctx.recording && !ctx.of_engine() ? last_config(*ctx.recording) : ctx.drafts.config();
}

RunReach ShellState::reach_to_compare() const {
    const RunConfig run = run_to_compare();
    return reach_of(run, ctx.recording ? ctx.recording->prompt_length() : 0,
                    cache_facts(run, *ctx.status).context);
}

void ShellState::compare_cache(const CachePolicyConfig& cache) {
    const RunConfig run = with_cache_policy(run_to_compare(), cache);
    check_cache_choice(run, cache_facts(run, *ctx.status));
    if (const auto shown = runs.looked_at(); shown && runs.recording(*shown)->steps() > 0)
        runs.tick(*shown, true);
    wanted_running = std::nullopt;
    ctx.select_step(std::nullopt);
    runs.look_live();
    ctx.engine.send(command::StartRun{run});
}

std::string_view ShellState::dialog_title() const {
    return dialog ? dialog->title() : std::string_view();
}

bool ShellState::running() const {
    return wanted_running.value_or(ctx.status->state == EngineState::running);
}

const Action* ShellState::find_action(std::string_view id) const {
    const auto found = std::ranges::find_if(actions, [&](const Action& action) { return action.id == id; });
    return found == actions.end() ? nullptr : &*found;
}

void ShellState::run(const Action& action) {
    if (!action.enabled(ctx)) return;
    ++actions_done[action.id];
    guarded([&] { action.run(ctx); });
}

void ShellState::run(std::string_view id) {
    if (const Action* action = find_action(id)) run(*action);
}

std::vector<std::shared_ptr<const Recording>> ShellState::unsaved_made() const {
    std::vector<std::shared_ptr<const Recording>> made;
    for (const RunNode& node : runs.tree().runs()) {
        const auto run = runs.recording(node.key);
        if (run->steps() == 0 || restored.contains(run->info().id) || in_own_file(*run)) continue;
        if (run->info().id != own_run || run->commands().size() > 0 || !run->notes()->own().empty())
            made.push_back(run);
    }
    return made;
}

bool ShellState::in_own_file(const Recording& run) const {
    const auto saved = saved_steps.find(run.info().id);
    if (saved != saved_steps.end()) return saved->second >= run.steps();
    if (restored.contains(run.info().id)) return false;
    return files.contains(run.notes()) || ctx.engine.status()->recorded;
}

size_t ShellState::unsaved_restored() const {
    size_t count = 0;
    for (const auto& [id, file] : restored) {
        const RunNode* const node = runs.tree().find_id(id);
        if (node != nullptr && !in_own_file(*runs.recording(node->key))) ++count;
    }
    return count;
}

size_t ShellState::unsaved_signals() const {
    size_t count = 0;
    for (const auto& [id, added] : added_signals) {
        if (runs.tree().find_id(id) == nullptr) continue; // removed with its run
        const auto kept = signals_in_workspace.find(id);
        for (const OwnSignal& signal : added)
            if (kept == signals_in_workspace.end() ||
                std::ranges::find(kept->second, signal) == kept->second.end())
                ++count;
    }
    return count;
}

void ShellState::add_signal(RunKey key, const std::shared_ptr<const Recording>& with,
                            const OwnSignal& signal) {
    const auto run = runs.recording(key);
    if (run && run != with) { // it is the same where the run has this signal already
        runs.put_recording(key, with);
        added_signals[with->info().id].push_back(signal);
    }
    ctx.views.signals.choose(signal.name).shown = true;
}

void ShellState::note_saved(const Recording& run, int64_t steps, const std::filesystem::path& file) {
    saved_steps[run.info().id] = steps;
    files[run.notes()] = file;
    const auto added = added_signals.find(run.info().id);
    if (added == added_signals.end()) return;
    std::erase_if(added->second,
                  [&](const OwnSignal& signal) { return run.signal_id(signal.name).has_value(); });
    if (added->second.empty()) added_signals.erase(added);
}

void ShellState::say(Toasts::Level level, std::string text, bool toast) {
    ctx.toasts.add(level, std::move(text), ImGui::GetTime(), toast);
}

void ShellState::keep(const ReadingsOfFile& readings, const std::shared_ptr<const Recording>& newest) {
    landscapes.keep(newest->info().id, readings.landscape, newest);
    for (const StoredScopeMap& stored : readings.scope_maps)
        scope_maps[stored.run_id] = stored.map;
    for (const std::string& fault : readings.faults)
        say(Toasts::Level::error, fault);
}

std::shared_ptr<const ScopeMap> ShellState::scope_map_of(const Recording& run) const {
    const auto map = scope_maps.find(run.info().id);
    return map == scope_maps.end() ? nullptr : map->second;
}

TextReadings ShellState::readings_of(const Recording& run) const {
    return {landscapes.to_save(run), scope_map_of(run)};
}

void ShellState::show_trace(const LabelledRuns& trace, const std::string& name,
                            const ReadingsOfFile& readings, const std::filesystem::path& file) {
    if (trace.runs.empty()) return;
    if (!file.empty())
        for (const auto& run : trace.runs)
            files[run->notes()] = file;
    const Recording& newest = *trace.runs.back();
    keep(readings, trace.runs.back());
    runs.add_file(trace.runs, name, trace.labels);
    ctx.select_step(std::nullopt);
    put_aside.reset();
    const RefreshPolicy policy = last_config(newest).policy;
    switch (ctx.engine.status()->state) {
    case EngineState::idle: // nothing that undo could come back to
        ctx.engine.send(command::SetPolicy{policy});
        break;
    case EngineState::finished:
    case EngineState::failed:
        guarded([&] { ctx.drafts.set_policy(ctx.engine, policy); });
        break;
    case EngineState::loading:
    case EngineState::prefilling:
    case EngineState::running:
    case EngineState::paused:
        if (policy == ctx.drafts.policy()) break;
        say(Toasts::Level::info,
            fmt::format(
                "The policy stays that of the live run; \"Take the policy of the shown run\" takes {}'s",
                name));
    }
}

std::filesystem::path ShellState::file_looked_at() const {
    const auto key = runs.looked_at();
    const RunSet::Run* const run = key ? runs.find(*key) : nullptr;
    if (run == nullptr || !run->from_file) return {};
    const auto file = files.find(run->recording->notes());
    return file == files.end() ? std::filesystem::path() : file->second;
}

bool ShellState::follow_trace(const LabelledRuns& trace, const std::filesystem::path& file) {
    const auto has_own = [this](const Recording& run) {
        return !run.notes()->own().empty() || added_signals.contains(run.info().id);
    };
    const auto grown =
        runs.grow_file(trace.runs, file.filename().string(), trace.labels, has_own, !ctx.selection.step);
    for (const auto& run : grown)
        files[run->notes()] = file;
    return !grown.empty();
}

void ShellState::guarded(const std::function<void()>& work) {
    try {
        work();
    } catch (const std::exception& e) {
        say(Toasts::Level::error, e.what());
    }
}

void ShellState::start_job(std::string label, Work work, std::shared_ptr<WorkOutcome> outcome) {
    auto cancelled = std::make_shared<std::atomic<bool>>(false);
    if (outcome) outcome->cancelled = cancelled;
    Job job;
    job.label = std::move(label);
    job.cancelled = cancelled;
    job.started_s = ImGui::GetTime();
    job.outcome = std::move(outcome);
    job.result =
        std::async(std::launch::async, [cancelled, task = std::move(work)]() -> std::function<void()> {
            return task(*cancelled);
        });
    jobs.push_back(std::move(job));
}

std::vector<std::string> ShellState::panel_titles() const {
    std::vector<std::string> titles;
    for (const auto& panel : panels)
        titles.emplace_back(panel->title());
    return titles;
}

std::string ShellState::arrangement() const {
    Arrangement present;
    for (const auto& panel : panels) {
        const auto open = panel_open.find(panel->title());
        if (open != panel_open.end() && open->second) present.open_panels.emplace_back(panel->title());
    }
    present.front_panels = drawn_panels;
    present.ini = ImGui::SaveIniSettingsToMemory();
    return arrangement_text(present);
}

void ShellState::store_layout() {
    if (layout_borrowed) return;
    const std::string text = arrangement();
    arrangements[settings.layout] = text;
    const auto folder = ctx.host.user_folder();
    if (folder.empty() || !options.restore_user_layout) return;
    write_user_file(arrangement_file(folder, settings.layout), text);
}

void ShellState::save_all() {
    const auto folder = ctx.host.user_folder();
    if (folder.empty() || !options.restore_user_layout) return; // pictures and tests leave no trace
    const FirstViews first(*this);
    try {
        settings.theme = ctx.theme.name;
        settings.folders = ctx.paths.folders;
        settings.views = ctx.views;
        settings.more_panels.clear();
        for (const auto& panel : panels)
            if (const Views* own = panel->own_views())
                settings.more_panels[std::string(panel->title())] = *own;
        store_settings(folder, settings);
        store_layout();
    } catch (const std::exception& e) {
        say(Toasts::Level::warning, e.what(), false);
    }
}

} // namespace refreshlab::ui
