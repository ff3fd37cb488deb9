// Work beside the frames: loading, prefilling, saving, the program that only draws a picture.
#include "engine/base/json_file.h"
#include "engine/record/recording/recording.h"
#include "tests/gui/robot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace refreshlab::gui {

namespace {

namespace fs = std::filesystem;

/// A copy of a checkpoint folder by links, one file of which is a pipe: whoever reads it waits, as on a slow disk, until
/// go_on(). Goes on by itself at the end, so that no reader waits for ever.
class SlowFolder {
public:
    SlowFolder(const fs::path& model, const fs::path& at, const std::string& file)
        : m_original(model / file)
        , m_pipe(at / file) {
        fs::remove_all(at);
        fs::create_directories(at);
        for (const auto& entry : fs::directory_iterator(model))
            if (entry.path().filename() != file)
                fs::create_symlink(entry.path(), at / entry.path().filename());
        if (mkfifo(m_pipe.c_str(), 0600) != 0) throw std::runtime_error("no pipe at " + m_pipe.string());
        m_fd = open(m_pipe.c_str(),
                    O_RDWR | O_CLOEXEC); // for reading too: opening does not wait for a reader then
        if (m_fd < 0) throw std::runtime_error("no end of " + m_pipe.string());
    }
    ~SlowFolder() { go_on(); }
    SlowFolder(const SlowFolder&) = delete;
    SlowFolder& operator=(const SlowFolder&) = delete;
    void go_on() {
        if (m_fd < 0) return;
        // Whoever opens the name from now on gets the file itself; whoever waits in the pipe gets its bytes.
        const std::string text = read_file(m_original, size_t{1} << 26);
        fs::remove(m_pipe);
        fs::create_symlink(m_original, m_pipe);
        for (size_t at = 0; at < text.size();) {
            const ssize_t put = write(m_fd, text.data() + at, text.size() - at);
            if (put <= 0) break;
            at += static_cast<size_t>(put);
        }
        close(m_fd);
        m_fd = -1;
    }

private:
    fs::path m_original, m_pipe;
    int m_fd = -1;
};

void cancel_while_loading(Robot& r) {
    r.start(r.config(), 12);
    const auto before = r.recording();
    const fs::path bundled = fs::path(r.config().student_dir);
    {
        SlowFolder slow(bundled, r.scratch("slow-student"), "tokenizer_config.json");
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
