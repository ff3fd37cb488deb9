// Work beside the frames: loading, prefilling, saving, the program that only draws a picture.
#include "engine/base/json_file.h"
#include "engine/record/recording/recording.h"
#include "tests/gui/robot.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace refreshlab::gui {

namespace {

namespace fs = std::filesystem;

/// A copy of a checkpoint folder by links, whose tokenizer_config.json and special_tokens_map.json are as large as they may be:
/// reading them takes some seconds, as on a slow disk. (A pipe in their place is refused.)
void make_slow_folder(const fs::path& model, const fs::path& at) {
    fs::remove_all(at);
    fs::create_directories(at);
    for (const auto& entry : fs::directory_iterator(model)) {
        const fs::path copy = at / entry.path().filename();
        const std::string name = copy.filename().string();
        if (name != "tokenizer_config.json" && name != "special_tokens_map.json") {
            fs::create_symlink(entry.path(), copy);
            continue;
        }
        std::string text = read_file(entry.path(), size_t{1} << 26);
        text.resize(text.rfind('}'));
        text += ", \"numbers\": [0";
        constexpr size_t most = (size_t{64} << 20) - 64;
        text.reserve(most);
        while (text.size() < most)
            text += ",0.1234567890123456789";
        text += "]}";
        write_file(copy, text);
    }
}

void cancel_while_loading(Robot& r) {
    r.start(r.config(), 12);
    const auto before = r.recording();
    make_slow_folder(r.config().student_dir, r.scratch("slow-student"));
    {
        RunConfig run = r.config();
        run.student_dir = r.scratch("slow-student").string();
        r.engine().send(command::StartRun{run});
        GUI_CHECK(r.until([&] { return r.status()->state == EngineState::loading; }));
        // The bar and its button come once it takes longer than a moment; everything else goes on being drawn.
        GUI_CHECK(r.until([&] { return r.te->ItemExists("//Run bar/Cancel"); }));
        GUI_CHECK(r.shows("loading"));
        GUI_CHECK(r.enabled("run.stop") && !r.enabled("run.step"));
        GUI_CHECK(r.recording() == before && r.find("signals/plot/entropy_bits"));
        r.te->ItemClick("//Run bar/Cancel");
    }
    GUI_CHECK(r.until([&] { return r.status()->state == EngineState::paused; }));
    // What was there stands again, and goes on.
    GUI_CHECK(r.recording() == before && r.recording()->steps() == 12);
    GUI_CHECK(r.status()->applied.student_dir == r.config().student_dir);
    r.step(3);
    GUI_CHECK(r.recording() == before && r.recording()->steps() == 15);
}

void the_prefill_is_shown(Robot& r) {
    r.start(r.config(), 4);
    const auto before = r.recording();
    RunConfig run = r.config();
    run.prompt.clear();
    for (int i = 0; i < 130; ++i) // about 12 tokens each, so it fits into the pair's 2,048 positions
        run.prompt += "The company: king Silarn, cook Eldex. ";
    run.max_tokens = 8;
    r.engine().send(command::StartRun{run, true});
    int frames = 0;
    bool bar = false;
    GUI_CHECK(r.until(
        [&] {
            const auto now = r.status();
            const bool reading = now->state == EngineState::prefilling;
            frames += reading ? 1 : 0;
            bar = bar || (reading && now->progress > 0);
            return r.recording() != before && now->state == EngineState::paused;
        },
        3000));
    GUI_CHECK(frames > 0); // the window was drawn while the prompt was read
    GUI_CHECK(bar);
    GUI_CHECK(r.recording()->prompt_length() > 1000);
}

void a_picture_by_command(Robot& r) {
    const fs::path png = r.scratch("by-command.png"), log = r.scratch("by-command.log");
    fs::remove(png);
    const std::string program = std::string(RL_BUILD_DIR) + "/refreshlab";
    const auto run = [&](const std::string& arguments) {
        const std::string line = fmt::format("env -u DISPLAY -u WAYLAND_DISPLAY '{}' gui {} > '{}' 2>&1",
                                             program, arguments, log.string());
        const int status = std::system(line.c_str());
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    };
    // Exactly so many steps, and the picture says so itself.
    GUI_CHECK(run(fmt::format("--device cpu --screenshot '{}' --after-steps 23 --size 900x600",
                              png.string())) == 0);
    const Image picture = read_png(png);
    GUI_CHECK(picture.width == 900 && picture.height == 600);
    GUI_CHECK(picture.colours() > 50);
    GUI_CHECK(read_file(png, size_t{1} << 26).find("\"steps\": 23,") != std::string::npos);
    // Bad input: one line, exit status 2, no picture.
    fs::remove(png);
    GUI_CHECK(run(fmt::format("--student '{}' --screenshot '{}' --after-steps 3",
                              r.scratch("no-model").string(), png.string())) == 2);
    GUI_CHECK(!fs::exists(png));
    GUI_CHECK(read_file(log, 1 << 20).find("no-model") != std::string::npos);
}

void steps_jumped_are_counted(Robot& r) {
    r.start(r.config(), 6);
    r.te->WindowFocus("//Performance");
    r.frames(2);
    GUI_CHECK(r.shows("Display rows skipped"));
    // One step at a time: each is the newest of some frame.
    const int64_t before = r.ctx().steps_jumped;
    for (int i = 0; i < 3; ++i)
        r.step(1);
    GUI_CHECK(r.ctx().steps_jumped == before);
    // Many steps between two frames: all but the newest were jumped over, and none is missing.
    r.engine().send(command::Step{30});
    r.without_frames_until(
        [&] { return r.recording()->steps() == 39 && r.status()->state == EngineState::paused; });
    const int64_t shown = r.ctx().steps;
    r.frames(2);
    GUI_CHECK(r.ctx().steps == 39);
    GUI_CHECK(r.ctx().steps_jumped == before + (39 - shown - 1));
    GUI_CHECK(r.shows(fmt::format("{} steps", r.ctx().steps_jumped)));
    for (int64_t t = 1; t <= 39; ++t)
        GUI_CHECK(r.recording()->step(t).step == t);
}

} // namespace

std::vector<Case> job_cases() {
    return {
        {"jobs", "RB6 cancelling the load of a model gives the old run back", cancel_while_loading},
        {"jobs", "RB8 the window is drawn while a long prompt is read", the_prefill_is_shown},
        {"jobs", "HL2 a picture by command has exactly the steps that were asked for", a_picture_by_command},
        {"jobs", "PF1 steps between two frames are counted as not shown, and kept", steps_jumped_are_counted},
    };
}

} // namespace refreshlab::gui
