#pragma once

#include "engine/record/keep/session_folder.h"
#include "engine/record/trace/trace_store.h"
#include "engine/refresh/own_signal.h"
#include "ui/context/context.h"
#include "ui/scene/landscape/landscape_of_run.h"
#include "ui/scene/landscape/staircases.h"
#include "ui/scene/landscape/text_readings.h"
#include "ui/scene/policy/cache_words.h"
#include "ui/scene/policy/own_signal_draft.h"
#include "ui/scene/runs/run_set.h"
#include "ui/state/action.h"
#include "ui/state/recent_files.h"
#include "ui/state/settings.h"
#include "ui/state/shell_options.h"

#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refreshlab::ui {

class Dialog;
class Panel;

/// Long work beside the frame (opening a trace, writing CSV). It runs on a snapshot, on a thread of its own, and
/// returns what the UI thread does with the result. The result of a cancelled job is dropped, and the job must leave
/// nothing half-written; `cancelled` tells it. Destruction waits for the thread.
struct Job {
    std::string label;                            ///< "Opening run.rlt"
    std::shared_ptr<std::atomic<bool>> cancelled; ///< written by the UI thread, read by the job
    std::future<std::function<void()>> result;    ///< throws Error
    double started_s = 0;
    std::shared_ptr<struct WorkOutcome> outcome; ///< of a dialog that waits for it, else null
};

/// What became of a job, for the dialog that began it: it shows a fault beside its field, and stays.
struct WorkOutcome {
    bool done = false;
    std::atomic<double> fraction{-1};             ///< written by the job, where it knows; -1 = unknown
    std::string fault;                            ///< one line, in the field's words; empty: none
    std::shared_ptr<std::atomic<bool>> cancelled; ///< set by the dialog
    bool abandoned = false;                       ///< the dialog is gone: a fault is a toast
};

/// \return what is to be done on the UI thread, once it is done; may be empty
using Work = std::function<std::function<void()>(const std::atomic<bool>& cancelled)>;

/// What was typed into "New run..." and left.
struct UnfinishedRun {
    RunConfig config;
    std::string seed;
};

/// What the parts of the shell share: menus, run bar, dialogs, actions. Internal to ui/; panels see only UiContext.
/// UI thread only.
struct ShellState {
    ShellState(EngineLink& engine, Host& host, ShellOptions shell_options);
    ~ShellState();
    ShellState(const ShellState&) = delete;
    ShellState& operator=(const ShellState&) = delete;

    RunSet runs; ///< before the context, which refers to it
    UiContext ctx;
    ShellOptions options;
    Settings settings;
    std::vector<Action> actions;
    std::vector<std::unique_ptr<Panel>> panels;
    std::map<std::string, bool, std::less<>> panel_open; ///< by title

    std::map<std::string, int64_t, std::less<>> actions_done; ///< how often each was carried out, by id

    // Wishes, carried out at the start of the next frame.
    std::string wanted_theme;
    std::string wanted_layout;
    bool wanted_layout_bundled = false; ///< "Reset layout": not the person's own arrangement
    bool layout_borrowed = false; ///< a chapter of the tour put it up: it is not kept as the person's own
    std::map<std::string, std::string, std::less<>> arrangements; ///< layout texts of this session, by layout
    std::string used_panel; ///< title of the panel that has the keyboard or had it last
    std::map<std::string, std::string, std::less<>> used_of_kind; ///< the same of each kind of panel, by kind
    std::string wanted_another; ///< title of a panel beside which one of its kind is wanted, with its view
    bool enlarge_used = false;  ///< wanted: the used panel over the others, or back
    bool views_set = false;  ///< the program itself has set views in this frame: nothing that undo takes back
    std::string wanted_tour; ///< id of a chapter to begin or to go on with
    std::string focus_panel; ///< title of a panel to bring to the front
    std::vector<std::string> front_panels; ///< of a layout that was just put up: their tabs are selected soon
    int frames_to_front = 0; ///< until then: tabs must have been drawn before one can be selected
    std::vector<std::string> drawn_panels; ///< in the last frame: open, and in front of their tabs

    float display_scale = 1;
    std::vector<std::future<void>>
        orphans; ///< what a dialog that is gone still waits for: its destructor adds to them
    std::unique_ptr<Dialog> dialog; ///< the one dialog that is open, or null
    /// In the last frame a list or a menu was open over the dialog, or text was being typed: Esc belonged to that.
    bool layer_over_dialog = false;
    /// Of "Same run without refresh", to come back to. It belongs to that prompt and pair: a new run and an opened trace drop it.
    std::optional<RefreshPolicy> put_aside;
    std::optional<UnfinishedRun> unfinished_run; ///< of "New run...", left with Esc
    OwnSignalDraft own_signal;                   ///< as it was typed last
    bool asking_for_key = false;     ///< the dialog waits for a new key: keys are no shortcuts meanwhile
    bool refusals_in_dialog = false; ///< the dialog shows what the engine refuses: no toast
    std::vector<Job> jobs;

    // In a demonstration one key replaces a run, often many times, so the window does not ask. The replaced run stays in
    // `runs`, and can be shown and saved (undo rather than "are you sure", development/ui.md, 2). Closing the window is the
    // one step without a way back: there it asks, once. The other choice was to write a copy without asking. It would delay
    // the closing by the time the bytes take (attention of a long run: gigabytes), for runs that mostly nobody wants.
    std::map<std::string, int64_t, std::less<>>
        saved_steps; ///< by run id: so many are in a file of the person's
    /// The trace that was opened or saved with a run, by the run's notes: of two recordings of one run each has its own.
    std::map<std::shared_ptr<const RunNotes>, std::filesystem::path> files;
    /// By run id: signals that a person added to a recorded run, and that no file has yet.
    std::map<std::string, std::vector<OwnSignal>, std::less<>> added_signals;
    std::map<std::string, std::vector<OwnSignal>, std::less<>>
        signals_in_workspace; ///< of the added ones: those that the workspace file has
    std::optional<std::filesystem::path> workspace_file; ///< that was opened or saved last
    RecentFiles recent;
    /// By id: runs of a session that was left, and the trace of the state folder that has them. They are in no file of the person's.
    std::map<std::string, std::filesystem::path, std::less<>> restored;
    std::vector<std::unique_ptr<SessionFolder>> left;  ///< sessions to offer, the newest first
    std::vector<std::shared_ptr<SessionFolder>> taken; ///< that were restored: this window's until its end
    std::function<void()> after_offer; ///< what begins where no session is restored; may be empty
    /// The step to select once this run is shown.
    std::optional<std::pair<std::string, int64_t>> wanted_step;
    std::string own_run; ///< id of the run that the program started by itself, as it will the next time

    KnownLandscapes landscapes;
    std::map<std::string, std::shared_ptr<const ScopeMap>, std::less<>>
        scope_maps; ///< by the run of their text
    // What the gains in the context were worked out for.
    std::shared_ptr<const Landscape> gains_landscape;
    std::optional<RunRefreshes> gains_refreshes;
    /// The policy that "Run the best schedule" put in the place of, for "Run the policy".
    std::optional<RefreshPolicy> before_schedule;

    /// What play/pause was last set to, until the engine shows it: the button must answer within one frame.
    std::optional<bool> wanted_running;
    /// Refreshes that existed when "Refresh now" was last pressed; the button shows that one is on its way.
    std::optional<size_t> refreshes_when_asked;
    int64_t counted_steps = 0; ///< steps whose times are in the two sums below
    double decode_ms = 0,
           refresh_ms = 0;        ///< of the shown recording: everything else; passes, splices and redraws
    double hints_recalled_s = -1; ///< "Show the first hints" was asked for then (ImGui time); -1 = not
    double busy_since_s = -1;     ///< loading or prefilling began (ImGui time)

    /// Null where there is none of that title.
    [[nodiscard]] Panel* find_panel(std::string_view title) const;
    /// The panel of that kind that was used last, as long as it is open; else the first.
    [[nodiscard]] Panel* panel_in_use(std::string_view kind) const;
    void open_panel(const std::string& title); ///< and brings it to the front
    /// Panels of a kind beside the first come to stand behind it in the list, in the order of their numbers. Nothing where the title is
    /// there already or none of a kind with views.
    void add_another(const std::string& title, const Views& view);
    /// What menus, keys and dialogs choose or print of a kind is that of the panel in use: until put_views_back() the context has its
    /// view. See ViewsInUse.
    void use_views();
    bool put_views_back(); ///< \return whether any were exchanged

    /// From now on, and remembered.
    void set_pace(double tokens_per_second);
    /// Starts a run and shows it; the engine's present one stays, ticked to compare.
    void run_beside(const RunConfig& run);
    /// The part of it before the start: the present run is ticked, and the next one is looked at.
    void keep_to_compare();
    [[nodiscard]] std::string_view dialog_title() const; ///< empty: none is open
    [[nodiscard]] bool running() const;                  ///< as shown: the wish, or the engine's state
    [[nodiscard]] std::vector<std::string> panel_titles() const; ///< of all, open or not
    [[nodiscard]] const Action* find_action(std::string_view id) const;
    /// Runs it unless it is disabled; an Error becomes a toast.
    void run(const Action& action);
    void run(std::string_view id);

    /// The runs made in this window that would be lost with it: they have steps and are in no file, live or left. The program's own
    /// first run, untouched and without a note, does not count, because the next start makes it again bit for bit.
    [[nodiscard]] std::vector<std::shared_ptr<const Recording>> unsaved_made() const;
    /// Those, restored runs that are in no file, or signals that were added to a run and are in no file.
    [[nodiscard]] bool unsaved() const {
        return !unsaved_made().empty() || unsaved_restored() > 0 || unsaved_signals() > 0;
    }
    /// The shown run's configuration as it is now: what a comparison runs again.
    [[nodiscard]] RunConfig run_to_compare() const;
    /// How many entries it can have.
    [[nodiscard]] RunReach reach_to_compare() const;
    /// Runs the shown run's prompt again, with the same seed and settings and another cache policy. The shown run is ticked, so that
    /// both are seen. Throws Error{bad_input} where that run cannot have the policy.
    void compare_cache(const CachePolicyConfig& cache);
    /// A file of the person's has the run with all of its steps.
    [[nodiscard]] bool in_own_file(const Recording& run) const;
    /// Runs of the window that were restored and are still in no file of the person's.
    [[nodiscard]] size_t unsaved_restored() const;
    /// Signals that were added to runs which are still in the window, and are in no file.
    [[nodiscard]] size_t unsaved_signals() const;
    /// A recorded run has a signal from now on, and plots it. \param with  the run with it
    void add_signal(RunKey key, const std::shared_ptr<const Recording>& with, const OwnSignal& signal);
    /// A file of the person's has these steps of the run, with the signals that it has now.
    void note_saved(const Recording& run, int64_t steps, const std::filesystem::path& file);

    void say(Toasts::Level level, std::string text, bool toast = true);
    /// All runs of a trace come into the list, under their names; the newest is shown, and its policy is taken over: thresholds and
    /// cards stand where they stood in it, and dragging one previews it on its values. Not from under a run that is under way: then
    /// it is said how. Nothing happens where the trace is empty.
    /// \param file  that holds the runs; empty: none
    void show_trace(const LabelledRuns& trace, const std::string& name, const ReadingsOfFile& readings,
                    const std::filesystem::path& file = {});
    /// The trace of the run that is looked at; empty: that is no run of a file.
    [[nodiscard]] std::filesystem::path file_looked_at() const;
    /// What a trace that is shown has now: new runs, and more of those that are here. Where the newest was looked at and no step chosen, the
    /// new newest is. Runs into which a person has put notes or signals stay as they are. \return whether there was anything new
    bool follow_trace(const LabelledRuns& trace, const std::filesystem::path& file);
    /// Keeps what a file has beside its runs. \param newest  of them
    void keep(const ReadingsOfFile& readings, const std::shared_ptr<const Recording>& newest);
    /// Of the run's text; null: none.
    [[nodiscard]] std::shared_ptr<const ScopeMap> scope_map_of(const Recording& run) const;
    /// What is to be saved with a run.
    [[nodiscard]] TextReadings readings_of(const Recording& run) const;
    /// Calls work(); an exception becomes one toast and log line.
    void guarded(const std::function<void()>& work);
    /// \param outcome  of the dialog that waits for it; null: a fault is a toast
    void start_job(std::string label, Work work, std::shared_ptr<WorkOutcome> outcome = {});
    /// Stores settings and the present layout; problems become a log line.
    void save_all();
    void store_layout();
    [[nodiscard]] std::string arrangement() const; ///< arrangement_text() of the present one

private:
    std::vector<Panel*> m_exchanged; ///< their views stand in the context
};

/// The context has the views of the first panels for as long as it lives, whatever stood in it before.
class FirstViews {
public:
    explicit FirstViews(ShellState& state)
        : m_state(state)
        , m_in_use(state.put_views_back()) {}
    ~FirstViews() {
        if (m_in_use) m_state.use_views();
    }
    FirstViews(const FirstViews&) = delete;
    FirstViews& operator=(const FirstViews&) = delete;

private:
    ShellState& m_state;
    bool m_in_use;
};

/// use_views() for as long as it lives.
class ViewsInUse {
public:
    explicit ViewsInUse(ShellState& state)
        : m_state(state) {
        m_state.use_views();
    }
    ~ViewsInUse() { m_state.put_views_back(); }
    ViewsInUse(const ViewsInUse&) = delete;
    ViewsInUse& operator=(const ViewsInUse&) = delete;

private:
    ShellState& m_state;
};

} // namespace refreshlab::ui
