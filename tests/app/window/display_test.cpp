// The program itself on a real X server: the GUI suite draws without one. Xvfb stands in for the screen.
#include "engine/base/json_file.h"
#include "engine/record/trace/trace_store.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>

// Last: X11.
#include "tests/app/window/display.h"

namespace display_test {

using namespace refreshlab;
using namespace refreshlab::display;
namespace fs = std::filesystem;

TEST_CASE("on a display the program decodes, closes when it is asked to, and leaves everything in its files",
          "[display][RB1][WN6]") {
    const XServer server;
    if (!server.running()) SKIP("there is no Xvfb here (Debian: xvfb): the visible window is not tested");
    const fs::path folder = fs::path(RL_BUILD_DIR) / "display-test";
    fs::remove_all(folder);
    fs::create_directories(folder);
    const fs::path trace = folder / "run.rlt", log = folder / "log.txt",
                   settings = folder / "refreshlab" / "settings.json";
    // What a person chose the last time, a name that no signal can have, and a range that is none.
    fs::create_directories(settings.parent_path());
    write_file(settings,
               R"({"y_axes": {"mc_variance": "log", "No such signal": "log"}, "steps_at_once": 5,
                   "landscape_ranges": {"gain": [-2.5, 2.5], "loss": [3, 1]}})");
    Child program({std::string(RL_BUILD_DIR) + "/refreshlab", "gui", "--device", "cpu", "--max-tokens",
                   "1500", "--ignore-stop", "--pace", "max", "--record", trace.string()},
                  [&] {
                      setenv("DISPLAY", server.display().c_str(), 1);
                      setenv("XDG_CONFIG_HOME", folder.c_str(), 1);
                      setenv("XDG_STATE_HOME", (folder / "state").c_str(), 1);
                      const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
                      dup2(out, STDOUT_FILENO);
                      dup2(out, STDERR_FILENO);
                  });
    Visitor visitor(server.display());
    REQUIRE(visitor.connected());
    // Another process: it is looked at now and then, until it has done what it must or has ended. The suite's own time
    // limit ends a hopeless wait.
    std::optional<Window> window;
    while (!program.ended() && !(window && recorded_steps(trace) >= 25)) {
        if (!window) window = visitor.window();
        poll(nullptr, 0, 50);
    }
    INFO(read_file(log, 1 << 20));
    REQUIRE(!program.ended());
    visitor.ask_to_close(*window);
    CHECK(program.wait() == 0); // nothing is asked: the run is in its file
    CHECK(fs::is_empty(folder / "state" / "refreshlab" / "sessions")); // and nothing is left to be offered
    const auto runs = load_trace(trace);
    REQUIRE(runs.size() == 1);
    CHECK(runs.back()->steps() >= 25);
    // The window took the settings over, and wrote them as they were when it closed (SG11 LA8: axes and colours are among them).
    const nlohmann::json kept = read_json_file(settings);
    CHECK(kept.at("steps_at_once") == 5);
    CHECK(kept.at("y_axes") == nlohmann::json{{"mc_variance", "log"}});
    CHECK(kept.at("landscape_ranges") == nlohmann::json{{"gain", {-2.5, 2.5}}});
    CHECK(kept.at("signals") == nlohmann::json{"entropy_bits", "kl_nats", "mc_variance"});
    fs::remove_all(folder);
}

} // namespace display_test
