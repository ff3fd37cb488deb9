// What people do with the window, with the engine in a process of its own behind a socket: the recordings are those of one process.
#include "engine/landscape/landscape_store.h"
#include "engine/record/trace/trace_store.h"
#include "engine/session/driver/replay.h"
#include "engine/session/pair/model_pair.h"
#include "tests/gui/panels/plot_marks.h"
#include "ui/scene/runs/run_set.h"

#include <algorithm>
#include <fstream>

namespace refreshlab::gui {

namespace {

namespace fs = std::filesystem;

bool far_state(Robot& r, EngineState state) {
    return r.ctx().status->state == state && r.ctx().of_engine();
}

/// A run of the server that stands paused after `steps` records, as Robot::start() makes one of this process.
void start_far(Robot& r, const RunConfig& config, int32_t steps) {
    r.ctx().toasts.dismiss_all();
    r.ctx().run_action("view.layout.explore");
    r.frames(2);
    r.ctx().run_action("view.layout.reset");
    r.frames(2);
    r.move_away();
    const auto before = r.ctx().recording;
    r.window().engine().send(command::StartRun{config, true});
    r.window().engine().send(command::Step{steps});
    GUI_CHECK(r.until(
        [&] {
            return r.ctx().recording != before && r.ctx().steps == steps && far_state(r, EngineState::paused);
        },
        4000));
}

void step_far(Robot& r, int32_t steps) {
    const int64_t before = r.ctx().steps;
    r.window().engine().send(command::Step{steps});
    GUI_CHECK(
        r.until([&] { return r.ctx().steps == before + steps && far_state(r, EngineState::paused); }, 4000));
}

double far_threshold(Robot& r) {
    return r.ctx().status->applied.policy.triggers.at(0).threshold;
}

void drag_threshold(Robot& r, float down) {
    const double before = far_threshold(r);
    grab_line(r);
    r.drag_by(0, r.box(plot_mark).height * down, 8);
    GUI_CHECK(r.until([&] { return r.find("signals/what_if/entropy_bits").has_value(); }, 200));
    r.te->MouseUp(0);
    r.frames(3);
    const double draft = r.ctx().drafts.number(key).value();
    GUI_CHECK(draft != before);
    GUI_CHECK(r.until([&] { return far_threshold(r) == draft && !r.ctx().drafts.pending(key); }));
}

/// All of the present run is here: what the trace there has of it, and what this process makes of its configuration and commands.
void check_as_in_one_process(Robot& r) {
    GUI_CHECK(r.until([&] { return r.ctx().status->link->rows_to_come == 0; }, 2000));
    const Recording& here = *r.ctx().recording;
    std::shared_ptr<Recording> there;
    GUI_CHECK(r.until([&] { // its writer rests between two rounds
        const auto runs = load_trace(r.stage().far_trace());
        const auto same =
            std::ranges::find_if(runs, [&](const auto& run) { return run->info().id == here.info().id; });
        if (same == runs.end() || (*same)->steps() < here.steps()) return false;
        there = *same;
        return !first_difference(*there, here);
    }));
    const auto again = replay(here, load_pair(here.info().config));
    GUI_CHECK(first_difference(*again, here) == std::nullopt);
}

/// Play, a dragged threshold, a refresh by hand, a rewind, another candidate.
void a_demonstration(Robot& r) {
    start_far(r, with_threshold(r, 9), 30);
    r.act("run.play_pause");
    GUI_CHECK(r.until([&] { return r.ctx().steps >= 34; }, 2000));
    r.act("run.play_pause");
    GUI_CHECK(r.until([&] { return far_state(r, EngineState::paused); }));
    drag_threshold(r, 0.55F);
    step_far(r, 20);
    const auto& refreshes = r.ctx().recording->refreshes();
    const size_t automatic = refreshes.size();
    GUI_CHECK(automatic > 0);
    r.act("run.refresh_now");
    step_far(r, 2);
    const auto& log = r.ctx().recording->commands();
    GUI_CHECK(log[log.size() - 1].json.find("refresh_now") != std::string::npos);
    GUI_CHECK(r.ctx().recording->refresh_at(log[log.size() - 1].step));
    check_as_in_one_process(r);

    const auto whole = r.ctx().recording;
    r.ctx().select_step(40);
    r.frames(2);
    r.act("run.rewind");
    GUI_CHECK(r.until([&] { return r.ctx().recording != whole && far_state(r, EngineState::paused); }));
    step_far(r, 6);
    GUI_CHECK(r.ctx().recording->info().parent_id == whole->info().id);
    GUI_CHECK(&r.ctx().recording->step(5) == &whole->step(5)); // shared, as in one process
    const auto rewound = r.ctx().recording;
    r.te->WindowFocus("//Inspector");
    r.ctx().select_step(35);
    r.frames(3);
    const StepRecord& record = rewound->step(35);
    const size_t pick = record.top_ids[0] == record.next_token_id ? 1 : 0;
    r.click(r.box("candidates/" + std::to_string(pick)));
    GUI_CHECK(r.until(
        [&] { return r.ctx().recording != rewound && r.ctx().of_engine() && r.ctx().steps > 36; }, 2000));
    if (r.ctx().status->state == EngineState::running) r.act("run.play_pause");
    GUI_CHECK(r.until([&] { return far_state(r, EngineState::paused); }));
    GUI_CHECK(r.ctx().recording->step(35).next_token_id == record.top_ids[pick]);
    check_as_in_one_process(r);
}

/// What a threshold would have done, what every refresh is worth, and two runs over each other.
void a_threshold_is_tuned(Robot& r) {
    RunConfig config = with_threshold(r, 9);
    config.max_tokens = 40;
    start_far(r, config, 36);
    const auto first = r.ctx().recording;
    drag_threshold(r, 0.4F);
    r.act("run.play_pause");
    GUI_CHECK(r.until([&] { return far_state(r, EngineState::finished); }, 2000));
    GUI_CHECK(r.until([&] { return r.enabled("landscape.compute"); }, 200));
    r.act("landscape.compute");
    GUI_CHECK(r.until(
        [&] {
            const auto& state = r.ctx().status->landscape;
            return state && !state->computing && state->landscape && state->landscape->complete() &&
                   state->run_id == first->info().id;
        },
        20000));
    const Landscape& here = *r.ctx().status->landscape->landscape;
    std::shared_ptr<const Landscape> there;
    GUI_CHECK(r.until([&] {
        const auto all = load_landscapes(r.stage().far_trace());
        const auto found =
            std::ranges::find_if(all, [&](const auto& l) { return l.run_id == first->info().id; });
        if (found == all.end()) return false;
        there = found->landscape;
        return there->rows() == here.rows();
    }));
    for (const int64_t row : here.rows())
        GUI_CHECK(here.row(row)->planes == there->row(row)->planes);
    r.act("run.without_refresh");
    GUI_CHECK(r.until(
        [&] { return r.ctx().recording != first && r.ctx().of_engine() && r.ctx().steps >= 30; }, 4000));
    GUI_CHECK(r.until([&] { return far_state(r, EngineState::finished); }, 4000));
    GUI_CHECK(r.ctx().runs.compared().size() == 1);
    GUI_CHECK(r.ctx().runs.recording(r.ctx().runs.compared()[0]) == first);
    check_as_in_one_process(r);
}

/// The picture of a run there is the picture of its trace.
void a_figure_is_made(Robot& r) {
    start_far(r, r.config(), 30);
    GUI_CHECK(r.until([&] { return r.ctx().status->link->rows_to_come == 0; }, 2000));
    const auto read = [](const fs::path& path) {
        std::ifstream file(path, std::ios::binary);
        return std::string{std::istreambuf_iterator<char>(file), {}};
    };
    const auto draw = [&](const char* name) {
        const fs::path path = r.scratch(name);
        fs::remove(path);
        r.te->WindowFocus("//Text");
        r.act("export.figure");
        r.frames(3);
        GUI_CHECK(r.dialog_open("Export figure"));
        r.te->ItemInputValue("//Export figure/##path", path.string().c_str());
        GUI_CHECK(r.until([&] { return !r.dialog_open("Export figure"); }, 2000));
        return path;
    };
    const std::string here = read(draw("far.svg"));
    GUI_CHECK(here.find("Entropy (bits)") != std::string::npos);
    const Image png = read_png(draw("far.png"));
    GUI_CHECK(png.width > 100 && png.colours() > 16);
    // The same of the trace there, opened as a file of this machine.
    const auto shown = r.ctx().recording;
    const fs::path copy = r.scratch("far.rlt");
    const auto runs = load_trace(r.stage().far_trace());
    const auto there =
        std::ranges::find_if(runs, [&](const auto& run) { return run->info().id == shown->info().id; });
    GUI_CHECK(there != runs.end());
    save_trace(copy, *there);
    r.act("file.open_trace");
    r.frames(3);
    r.te->ItemClick("//Open trace/###here");
    r.te->ItemInputValue("//Open trace/##path", copy.string().c_str());
    GUI_CHECK(r.until([&] { return !r.dialog_open("Open trace") && r.ctx().recording != shown; }, 2000));
    r.frames(3);
    GUI_CHECK(read(draw("far_again.svg")) == here);
    r.act("file.close_trace");
}

} // namespace

std::vector<Case> two_process_cases() {
    return {
        {"two processes", "RE7 a demonstration: play, drag, refresh, rewind, another candidate",
         a_demonstration},
        {"two processes", "RE7 a threshold is tuned: what-if, landscape, comparison", a_threshold_is_tuned},
        {"two processes", "RE7 a figure is made", a_figure_is_made}};
}

} // namespace refreshlab::gui
