#pragma once

#include "engine/control/engine_link.h"
#include "engine/landscape/best_schedule.h"
#include "engine/landscape/landscape.h"
#include "engine/landscape/objective.h"
#include "engine/record/recording/recording.h"
#include "ui/context/fonts.h"
#include "ui/context/host.h"
#include "ui/context/landmarks.h"
#include "ui/context/path_memory.h"
#include "ui/context/toasts.h"
#include "ui/figure/canvas/canvas.h"
#include "ui/figure/style.h"
#include "ui/scene/axes/playback.h"
#include "ui/scene/axes/time_view.h"
#include "ui/scene/policy/drafts.h"
#include "ui/scene/tables/table_file.h"
#include "ui/scene/text/step_marks.h"
#include "ui/scene/theme/theme.h"
#include "ui/scene/views/views.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refreshlab::ui {

class RunSet;

/// What is selected, everywhere at once. Panels read it and never keep a copy.
/// A step t is selected together with the token it chose, y_{t+1} (docs/design.md, "Which step a number belongs to").
struct Selection {
    std::optional<int64_t> step;         ///< nothing = live: panels show the newest step
    int32_t layer = 0, head = 0;         ///< of the enlarged attention head
    std::optional<int64_t> key_position; ///< held attention cell
};

/// Everything a panel may use during a frame. The shell builds it at the start of each frame. The engine's snapshot
/// does not change within a frame. UI thread only.
struct UiContext {
    EngineLink& engine;
    Host& host;
    RunSet& runs; ///< every run of this window (ui/scene/runs/run_set.h); which is live, looked at, compared
    std::shared_ptr<const EngineStatus> status; ///< never null
    std::shared_ptr<const Recording> recording; ///< null before the first run
    int64_t steps = 0;                          ///< recording->steps() at the start of the frame
    /// Steps of the shown recording that were never the newest one in a frame, because several were made between two
    /// frames. Only the display skipped them; the recording and every plot have them.
    int64_t steps_jumped = 0;

    Selection selection;
    std::optional<int64_t> hovered_step;      ///< set by any panel in the last frame: shared crosshair
    std::optional<int64_t> next_hovered_step; ///< written by panels in this frame
    TimeView time;
    Playback playback;
    Views views; ///< what is shown of each kind
    Drafts drafts;
    StepMarks marks; ///< of the shown recording
    PathMemory paths;
    Theme theme;
    FigureStyle screen_style; ///< the theme in this frame's sizes: what ScreenPen draws with
    FigureCanvas* painted =
        nullptr; ///< hears all that panels draw on a ScreenCanvas, for suites; null: nobody listens
    Toasts toasts;
    Landmarks landmarks;
    /// Of the shown run's text: every possible refresh; null where there is none. A snapshot, which grows by being replaced.
    std::shared_ptr<const Landscape> landscape;
    std::shared_ptr<const ScopeMap> scope_map; ///< of the shown run; null: none
    std::string why_no_landscape;              ///< of this run, though there is one: a sentence; else empty
    ChosenObjective usual_objective;           ///< of the landscape, unless a person has chosen one
    /// By step: what a refresh at this boundary would have saved the shown run, under the objective of its view; absent where that is
    /// not known. Empty: no landscape, or no staircase.
    std::vector<float> refresh_gains;
    Objective gains_objective = Objective::loss; ///< of them
    /// What the panel Landscape shows as the best placement, for "Run the best schedule"; nothing while it shows none.
    std::optional<Schedule> best_schedule;
    /// Jobs are still making what panels of this frame will show (wait_for_jobs()). A picture waits for them.
    bool unfinished = false;
    /// Asked for: the note that the action note.edit opens, by its id; nothing: the one at the shown step. The dialog takes it back.
    std::optional<std::pair<std::shared_ptr<RunNotes>, int64_t>> note_to_edit = {};
    bool find_in_text = false; ///< asked for: Text opens its entry and takes this back
    bool present_mode = false; ///< layout Present: no menus, larger type
    bool first_start_hints = false;
    Fonts fonts;
    /// Traces and workspaces that were opened or saved last, the newest first.
    std::vector<std::filesystem::path> recent_files = {};
    /// Opens one of them; a fault becomes a toast.
    std::function<void(const std::filesystem::path&)> open_file = {};
    OpenTables tables; ///< CSV files that are open
    /// Runs the shown run's prompt again with another cache policy, and shows both; a fault becomes a toast.
    std::function<void(const CachePolicyConfig&)> compare_cache = {};
    /// Of the run that this would be.
    std::function<RunReach()> reach_to_compare = {};
    /// Runs an action of the table by its id ("run.new"), for buttons in an empty panel. Does nothing while the action
    /// is disabled.
    std::function<void(std::string_view id)> run_action;
    /// The key that an action has now, as menus write it; empty: none.
    std::function<std::string(std::string_view id)> key_of = [](std::string_view) { return std::string(); };
    /// "Follow the newest step again (End)".
    [[nodiscard]] std::string with_key(const std::string& words, std::string_view id) const {
        const std::string key = key_of(id);
        return key.empty() ? words : words + " (" + key + ")";
    }

    /// The step that panels show: selected, or the newest; 0 when there is none. Step 0, the prefill, has no record:
    /// where it is selected the first step stands for it.
    [[nodiscard]] int64_t shown_step() const {
        return selection.step ? std::min(std::max<int64_t>(*selection.step, 1), steps) : steps;
    }
    /// The signals of the shown run: the registry's and those that its components published. Before the first run the
    /// registry's alone.
    [[nodiscard]] std::span<const Signal> signals() const {
        return recording ? recording->signals() : refreshlab::signals();
    }
    [[nodiscard]] std::optional<size_t> signal_id(std::string_view name) const {
        return find_signal(signals(), name);
    }
    /// Null where the run has no such signal.
    [[nodiscard]] const Signal* find_signal_info(std::string_view name) const {
        const auto id = signal_id(name);
        return id ? &signals()[*id] : nullptr;
    }
    /// What the server of a connected window offers, for panels that say in each frame that they want it; null: the engine is here, or the
    /// server has not answered yet.
    const LinkOffers* offers = nullptr;
    bool wants_offers = false;
    /// Which number of its layers a layered signal's plot shows, of those that the shown run has.
    [[nodiscard]] LayerPick layer_pick(const Signal& signal) const {
        return signal.layered
                   ? within(views.signals.of(signal.name).layers, recording ? recording->info().layers : 0)
                   : LayerPick();
    }
    /// True when the shown run is the engine's and not a file's; also before the first run.
    [[nodiscard]] bool of_engine() const { return engine.recording() == recording; }
    /// True when it goes on by itself now.
    [[nodiscard]] bool decoding() const { return status->state == EngineState::running && of_engine(); }
    /// What the newest step is called.
    [[nodiscard]] const char* newest() const { return decoding() ? "Live" : "Newest"; }
    [[nodiscard]] bool live() const { return !selection.step.has_value(); }
    /// A panel whose jobs are under way looks again soon.
    void wait_for_jobs() {
        unfinished = true;
        host.keep_awake(0.2);
    }
    void select_step(std::optional<int64_t> step) { selection.step = step; }
};

} // namespace refreshlab::ui
