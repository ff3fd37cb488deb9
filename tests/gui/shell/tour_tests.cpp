// Every bundled chapter of the tour is played with the mouse, by the moves that stand in it.
#include "engine/fetch/published_models.h"
#include "tests/gui/robot.h"
#include "tests/support/share.h"
#include "ui/tour/bubble_place.h"
#include "ui/tour/tour.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::gui {

namespace {

ui::PixelBox screen() {
    const ImGuiViewport& view = *ImGui::GetMainViewport();
    return {view.WorkPos.x, view.WorkPos.y, view.WorkSize.x, view.WorkSize.y};
}

/// The bubble is whole within the window and not over what it speaks of, unless that takes nearly all of the window.
void check_bubble(Robot& r) {
    const ui::Tour& tour = r.window().shell().tour();
    if (!tour.active()) return;
    r.frames(3); // the words have another length now
    GUI_CHECK(tour.bubble().has_value());
    const ui::PixelBox box = *tour.bubble(), all = screen();
    if (box.x < all.x || box.y < all.y || box.x + box.width > all.x + all.width + 0.5F ||
        box.y + box.height > all.y + all.height + 0.5F)
        IM_ERRORF("step %d: the bubble is cut", static_cast<int>(tour.step()) + 1);
    GUI_CHECK(!r.te->IsError());
    const auto anchor = tour.anchor();
    if (!anchor) return;
    // Beside a panel that takes the whole window there is no place for it.
    const float gap = 2.5F * ImGui::GetFontSize();
    const bool room =
        std::max(anchor->x - all.x, all.x + all.width - anchor->x - anchor->width) > box.width + gap ||
        std::max(anchor->y - all.y, all.y + all.height - anchor->y - anchor->height) > box.height + gap;
    if (room && ui::overlap(box, *anchor) > 0)
        IM_ERRORF("%s", fmt::format("step {}: the bubble {} {} {} {} covers {} {} {} {}", tour.step() + 1,
                                    box.x, box.y, box.width, box.height, anchor->x, anchor->y, anchor->width,
                                    anchor->height)
                            .c_str());
    GUI_CHECK(!r.te->IsError());
}

void make(Robot& r, const ui::TourMove& move) {
    const std::string target = r.window().shell().tour().target(move);
    using Kind = ui::TourMove::Kind;
    const float em = ImGui::GetFontSize();
    switch (move.kind) {
    case Kind::click:
    case Kind::right_click:
    case Kind::drag: {
        const auto box = r.box(target);
        r.move(box.x + box.width / 2, box.y + box.height / 2);
        if (move.kind == Kind::drag) {
            r.drag_by(move.dx * em, move.dy * em, 8);
            r.te->MouseUp(0);
        } else {
            r.te->MouseClick(move.kind == Kind::click ? 0 : 1);
        }
        break;
    }
    case Kind::action:
        GUI_CHECK(r.until([&] { return r.enabled(target); }, 300));
        r.act(target);
        break;
    case Kind::item:
        r.te->ItemClick(target.c_str());
        break;
    case Kind::type: {
        std::string text = move.text;
        if (const size_t at = text.find("{scratch}"); at != std::string::npos)
            std::filesystem::remove(
                text.replace(at, std::string("{scratch}/").size(), r.scratch("").string()));
        r.te->ItemInputValue(target.c_str(), text.c_str());
        break;
    }
    case Kind::choose: { // the list is found from its window on
        const size_t list = target.rfind("/##");
        r.te->SetRef(target.substr(0, list).c_str());
        r.te->ComboClick(target.substr(list + 1).c_str());
        r.te->SetRef("");
        break;
    }
    case Kind::wait:
        GUI_CHECK(r.until([&] { return r.ctx().steps >= move.steps; }, 6000));
        break;
    }
    r.frames(3);
}

/// A button of the bubble, once the bubble rests: it follows what it speaks of while panels find their sizes.
void press(Robot& r, const char* button) {
    auto before = r.find("tour/bubble");
    for (int still = 0, frames = 0; still < 5 && frames < 200; ++frames) {
        r.frames(1);
        const auto now = r.find("tour/bubble");
        still = now && before && now->x == before->x && now->y == before->y ? still + 1 : 0;
        before = now;
    }
    r.te->ItemClick((std::string("//##tour/") + button).c_str());
}

/// For docs/tour.md (scripts/tour_page.py): what came of the first step that is done.
void take_picture(Robot& r, const std::string& id, size_t step) {
    const char* const folder = std::getenv("REFRESHLAB_TOUR_PICTURES");
    if (folder == nullptr || step != 1) return;
    r.move_away();
    r.ctx().toasts.dismiss_all(); // they name a folder of this machine
    r.frames(2);
    r.window().save_picture({std::filesystem::path(folder) / (id + ".png"), "", 1});
    r.frames(3);
}

bool waits_for(const ui::TourStep& step, std::string_view fact) {
    std::vector<std::string> facts;
    if (step.until) step.until->collect_facts(facts);
    return std::ranges::find(facts, fact) != facts.end();
}

/// The published model that the chapter runs on and this machine does not have; empty: none.
std::string missing_model(Robot& r, const ui::Chapter& chapter) {
    const auto folder = models_folder(r.window().assets());
    for (const ui::TourStep& step : chapter.steps) {
        if (!step.set_up) continue;
        const PublishedModel* model = find_published_model(step.set_up->teacher);
        if (model != nullptr && !is_fetched(*model, folder)) return model->name;
    }
    return {};
}

/// Plays the chapter from its beginning to its end. Every step waits: before its moves it is not done.
void play(Robot& r, const std::string& id) {
    ui::Tour& tour = r.window().shell().tour();
    const auto file = r.window().assets() / "tour" / (id + ".json");
    const ui::Chapter chapter = ui::read_chapter(file);
    if (const std::string missing = missing_model(r, chapter); !missing.empty()) {
        std::puts(fmt::format("skipped: {} is not fetched", missing).c_str());
        return;
    }
    const ui::Views before = r.ctx().views;
    const auto run_before = r.recording();
    r.act("help.tour");
    r.frames(2);
    GUI_CHECK(r.dialog_open("Tour") && r.shows(chapter.title.c_str()));
    r.te->ItemClick(fmt::format("//Tour/{}/###start", id).c_str());
    GUI_CHECK(r.until([&] { return tour.active(); }, 30));
    for (size_t step = 0; step < chapter.steps.size(); ++step) {
        const ui::TourStep& now = chapter.steps[step];
        const bool asks =
            r.until([&] { return tour.active() && tour.step() >= step && !tour.preparing(); }, 3000);
        // What needs no doing any more is passed over without a word.
        if (now.until && now.then.empty() && tour.step() > step) continue;
        if (!asks)
            IM_ERRORF("step %d does not begin: the tour stands at %d, \"%s\"", static_cast<int>(step) + 1,
                      static_cast<int>(tour.step()) + 1, tour.words().c_str());
        GUI_CHECK(asks);
        r.frames(10);
        // A landscape takes longer than anything else, and that of this very text may be there already, from a time before.
        const bool of_landscape = waits_for(now, "landscape.complete");
        GUI_CHECK(tour.step() == step && (!tour.told() || (of_landscape && r.ctx().landscape)));
        check_bubble(r);
        if (!tour.anchor())
            IM_ERRORF("step %d: nothing is drawn of what it speaks of", static_cast<int>(step) + 1);
        GUI_CHECK(!r.te->IsError());
        if (now.until && !tour.told()) {
            for (const ui::TourMove& move : now.moves)
                make(r, move);
            const bool done = r.until([&] { return tour.told() || tour.step() > step || !tour.active(); },
                                      of_landscape ? 12000 : 600);
            if (!done) IM_ERRORF("step %d of %s is not done", static_cast<int>(step) + 1, id.c_str());
            GUI_CHECK(done);
        }
        check_bubble(r);
        take_picture(r, id, step);
        if (tour.active() && tour.step() == step) {
            if (tour.words().find(" - ") != std::string::npos || tour.words().find("- ") == 0)
                IM_ERRORF("step %d: %s", static_cast<int>(step) + 1, tour.words().c_str());
            GUI_CHECK(!r.te->IsError()); // every number is known
            press(r, step + 1 == chapter.steps.size() ? "Done" : "Next");
            r.frames(2);
        }
    }
    GUI_CHECK(!tour.active());
    // All is as it was: the views, the layout, the run.
    GUI_CHECK(r.until([&] { return r.checked("view.layout.explore"); }, 30));
    GUI_CHECK(r.ctx().views.text == before.text && r.ctx().views.signals == before.signals);
    GUI_CHECK(r.until(
        [&] {
            const auto now = r.recording();
            return now && now->steps() == run_before->steps() &&
                   now->info().config.prompt == run_before->info().config.prompt;
        },
        3000));
}

/// Also after a case that failed in the middle of a chapter.
void begin(Robot& r) {
    r.window().shell().tour().end();
    r.window().resize(1280, 800);
    r.ctx().run_action("view.theme.dark");
    r.start(r.config(120), 25);
}

constexpr const char* chapters[] = {"1-find-the-drift",          "2-tune-the-gate",
                                    "3-prove-it-with-a-branch",  "4-a-real-model",
                                    "5-what-stays-in-the-cache", "6-print-it"};

template <int chapter>
void play_bundled(Robot& r) {
    begin(r);
    play(r, chapters[chapter]);
}

/// In light, at twice the size, in a small window.
template <int chapter>
void play_large(Robot& r) {
    begin(r);
    r.act("view.theme.light");
    r.window().resize(1280, 720);
    for (int i = 0; i < 5; ++i) // 110, 125, 150, 175, 200 %
        r.act("view.scale_up");
    r.frames(60);
    play(r, chapters[chapter]);
    r.act("view.scale_reset");
    r.act("view.theme.dark");
    r.window().resize(1280, 800);
    r.frames(60);
}

void left_and_gone_on_with(Robot& r) {
    begin(r);
    ui::Tour& tour = r.window().shell().tour();
    const auto open = [&] {
        r.act("help.tour");
        r.frames(2);
        r.te->ItemClick("//Tour/1-find-the-drift/###start");
        GUI_CHECK(r.until([&] { return tour.active() && !tour.preparing(); }, 3000));
        r.frames(3);
    };
    open();
    press(r, "Skip");
    r.frames(2);
    GUI_CHECK(tour.step() == 1);
    press(r, "Back");
    r.frames(2);
    GUI_CHECK(tour.step() == 0 && r.until([&] { return !tour.preparing(); }, 3000));
    press(r, "Skip");
    r.frames(2);
    press(r, "End");
    r.frames(2);
    GUI_CHECK(!tour.active() && !r.find("tour/bubble"));
    GUI_CHECK(r.until([&] { return r.recording()->steps() == 25; }, 3000));
    // It goes on where it was left, in the run of the chapter.
    open();
    GUI_CHECK(tour.step() == 1 && r.recording()->steps() == 170);
    press(r, "End");
    r.frames(2);
    GUI_CHECK(r.until([&] { return r.recording()->steps() == 25; }, 3000));
}

/// A chapter puts up layouts of the program; the person's own arrangement is there again after it, and is what is stored meanwhile.
void own_arrangement_is_kept(Robot& r) {
    begin(r);
    ui::Tour& tour = r.window().shell().tour();
    const auto shown = [&](const char* title) { return r.find(std::string("panel/") + title).has_value(); };
    r.te->MenuClick("//##MainMenuBar/View/Panels/Attention");
    r.frames(3);
    GUI_CHECK(!shown("Attention"));
    for (const char* layout : {"Explore", "Tune"}) {
        const auto chapter = ui::parse_chapter(
            {{"title", "Mine"},
             {"steps", {{{"text", "Read this."}, {"start", {{"layout", layout}}}}, {{"text", "And this."}}}}},
            "a test");
        tour.begin(chapter, 0);
        r.frames(10);
        GUI_CHECK(shown("Attention") == (std::string(layout) == "Explore"));
        tour.end();
        r.frames(10);
        GUI_CHECK(r.checked("view.layout.explore") && !shown("Attention"));
    }
    // A layout that is chosen in the middle of a chapter is the person's again.
    const auto chapter = ui::parse_chapter(
        {{"title", "Mine"}, {"steps", {{{"text", "Read this."}, {"start", {{"layout", "Explore"}}}}}}},
        "a test");
    tour.begin(chapter, 0);
    r.frames(10);
    r.act("view.layout.tune");
    r.frames(10);
    r.act("view.layout.explore");
    r.frames(10);
    GUI_CHECK(!shown("Attention"));
    tour.end();
    r.act("view.layout.reset");
    r.frames(10);
    GUI_CHECK(shown("Attention"));
}

/// What a lab writes may not fit together: that is a line, and the window goes on.
void a_chapter_that_does_not_fit(Robot& r) {
    begin(r);
    ui::Tour& tour = r.window().shell().tour();
    const auto chapter = ui::parse_chapter(
        {{"title", "Mine"},
         {"steps",
          {{{"text", "Read this."}},
           {{"text", "This policy has no gate."},
            {"start", {{"run", {{"policy", "none"}, {"set", {{"entropy.threshold", 6}}}}}}}}}}},
        "a test");
    const std::string undo = r.ctx().drafts.undo_label();
    tour.begin(chapter, 0);
    r.frames(3);
    press(r, "Next");
    r.frames(3);
    GUI_CHECK(tour.active() && tour.step() == 1 && !tour.preparing());
    GUI_CHECK(r.count_log_lines("entropy") > 0);
    press(r, "Done");
    r.frames(3);
    GUI_CHECK(!tour.active() && r.recording()->steps() == 25);
    GUI_CHECK(r.ctx().drafts.undo_label() == undo); // what a chapter sets is nothing to take back
}

} // namespace

std::vector<Case> tour_cases() {
    std::vector<Case> cases{
        {"tour", "TO1 Find the drift is played to its end", play_bundled<0>},
        {"tour", "TO1 Tune the gate is played to its end", play_bundled<1>},
        {"tour", "TO1 Prove it with a branch is played to its end", play_bundled<2>},
        {"tour", "TO1 What stays in the cache is played to its end", play_bundled<4>},
        {"tour", "TO1 Print it is played to its end", play_bundled<5>},
        {"tour", "TO1 Find the drift is played in light, at twice the size, in a small window",
         play_large<0>},
        {"tour", "TO1 Tune the gate is played in light, at twice the size, in a small window", play_large<1>},
        {"tour", "TO1 Prove it with a branch is played in light, at twice the size, in a small window",
         play_large<2>},
        {"tour", "TO1 What stays in the cache is played in light, at twice the size, in a small window",
         play_large<4>},
        {"tour", "TO1 Print it is played in light, at twice the size, in a small window", play_large<5>},
        {"tour", "TO1 a chapter that does not fit the program is a line", a_chapter_that_does_not_fit},
        {"tour", "TO1 a chapter is left, and gone on with where it was", left_and_gone_on_with},
        {"tour", "TO1 the person's own arrangement outlives a chapter", own_arrangement_is_kept},
    };
    if (test::has_turn(2, "the tour's chapter with a real model")) {
        cases.push_back({"tour", "TO1 A real model is played to its end", play_bundled<3>});
        cases.push_back({"tour", "TO1 A real model is played in light, at twice the size, in a small window",
                         play_large<3>});
    }
    return cases;
}

} // namespace refreshlab::gui
