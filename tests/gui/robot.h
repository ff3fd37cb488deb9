#pragma once

#include "app/window/app_window.h"
#include "engine/remote/engine_server.h"
#include "engine/remote/remote_engine.h"
#include "engine/session/worker/session_worker.h"
#include "tests/gui/server_process.h"
#include "ui/state/action.h"

#include <imgui.h>
#include <imgui_te_context.h>
#include <imgui_te_engine.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::gui {

/// Thrown by a check that failed; the wrapper around each test ends the test there. Never crosses the coroutine.
struct TestFailed {};

/// A check that ends the test: reported to the test engine with its place, then thrown.
#define GUI_CHECK(expression)                                                                                \
    do {                                                                                                     \
        const bool gui_result = static_cast<bool>(expression);                                               \
        ImGuiTestEngine_Check(__FILE__, __func__, __LINE__, ImGuiTestCheckFlags_None, gui_result,            \
                              #expression);                                                                  \
        if (!gui_result) throw ::refreshlab::gui::TestFailed{};                                              \
    } while (false)

/// Pixels of a window or a picture: 0xAABBGGRR, rows from the top.
struct Image {
    int width = 0, height = 0;
    std::vector<uint32_t> pixels;
    [[nodiscard]] uint32_t at(int x, int y) const;       ///< nearest pixel inside
    [[nodiscard]] uint32_t at(double x, double y) const; ///< the pixel that holds this point
    [[nodiscard]] size_t colours() const;                ///< how many different ones
};
/// Sum of the differences of red, green and blue, 0 .. 765.
[[nodiscard]] int colour_distance(uint32_t a, uint32_t b);
/// Reads a PNG of 8-bit RGB as the program writes it. Throws std::runtime_error saying what is wrong.
[[nodiscard]] Image read_png(const std::filesystem::path& path);

/// What all tests share: one engine, one window without a display, and the set of action ids that tests have run.
/// Everything runs on the UI thread or in the test engine's coroutine, which takes turns with it.
struct Stage {
    enum class Kind : uint8_t {
        first_start, ///< with its hints
        usual,
        remote,        ///< the window has the engine through a socket
        two_processes, ///< the same, and the engine is in a process of its own: `engine` here has no run
    };
    SessionWorker engine;
    std::unique_ptr<remote::EngineServer> server; ///< of a remote one, as is the link
    std::unique_ptr<ServerProcess> far;           ///< of two processes
    std::unique_ptr<remote::RemoteEngine> link;
    AppWindow window;
    std::set<std::string, std::less<>> ran;

    // Between a test and the loop that draws the frames.
    bool waiting = false;        ///< the test waits for the engine: give it the processor
    bool picture_wanted = false; ///< the loop reads the pixels, since the GL context is its thread's
    Image picture;

    explicit Stage(Kind kind);
    /// \param on  as remote::parse_endpoint() reads it
    void serve(const std::string& on = "127.0.0.1:0");
    [[nodiscard]] static std::filesystem::path far_trace(); ///< of the other process
    /// One frame, then a wait for the engine if the test waits.
    void turn();
};

/// Hands and eyes of one test.
class Robot {
public:
    Robot(ImGuiTestContext* test, Stage& stage)
        : te(test)
        , m_stage(stage) {}
    Robot(const Robot&) = delete;
    Robot& operator=(const Robot&) = delete;

    ImGuiTestContext* te;

    [[nodiscard]] AppWindow& window() { return m_stage.window; }
    [[nodiscard]] ui::UiContext& ctx() { return m_stage.window.context(); }
    [[nodiscard]] Stage& stage() { return m_stage; }
    [[nodiscard]] SessionWorker& engine() { return m_stage.engine; }
    [[nodiscard]] std::shared_ptr<const EngineStatus> status() const { return m_stage.engine.status(); }
    [[nodiscard]] std::shared_ptr<const Recording> recording() const { return m_stage.engine.recording(); }
    [[nodiscard]] const std::set<std::string, std::less<>>& ran() const { return m_stage.ran; }

    // --- the run ---
    /// Bundled pair, chronicle prompt, entropy gate as at the first start, one thread, ends after `max_tokens`.
    [[nodiscard]] RunConfig config(int32_t max_tokens = 1500);
    /// The same with a teacher pass and MC rows at every step, and as long as the context allows: it is still running
    /// when a test that plays it looks again.
    [[nodiscard]] RunConfig slow_config();
    /// A new run that stands paused after `steps` records, everything at its first place, the mouse out of the way.
    void start(const RunConfig& config, int32_t steps);
    void forget_other_runs(); ///< that earlier cases left in the window
    /// Exactly so many more records, then paused.
    void step(int32_t steps);
    /// Frames until the condition holds. False when it does not within the limit.
    bool until(const std::function<bool()>& condition, int max_frames = 600);
    void frames(int count) {
        te->Yield(count);
        if (te->IsError()) throw TestFailed{};
    }

    // --- actions ---
    [[nodiscard]] const ui::Action& action(std::string_view id);
    [[nodiscard]] bool enabled(std::string_view id);
    [[nodiscard]] bool checked(std::string_view id);
    /// By its key; by the palette if it has none. Remembers the id.
    void act(std::string_view id);
    void act_by_palette(std::string_view id);
    /// Presses something that stands for the action.
    void act_by_item(std::string_view id, const char* item);

    // --- the mouse ---
    [[nodiscard]] std::optional<ui::Landmarks::Box> find(const std::string& landmark);
    [[nodiscard]] ui::Landmarks::Box
    box(const std::string& landmark); ///< fails the test when it is not there
    void move(float x, float y);
    void move_away(); ///< where nothing reacts
    void click(const ui::Landmarks::Box& box);
    /// From where the mouse is by (dx, dy), in `moves` moves, with the button held; does not release it.
    void drag_by(float dx, float dy, int moves);

    // --- looking ---
    /// All text that the next frame draws with items: labels, values, tooltips. Not what is painted on a draw list.
    [[nodiscard]] std::string text();
    [[nodiscard]] bool shows(std::string_view part) { return text().find(part) != std::string::npos; }
    [[nodiscard]] Image look(); ///< pixels of the next frame
    /// Waits for the engine without drawing a frame. Ends with the condition; the suite's watchdog ends a hopeless wait.
    void without_frames_until(const std::function<bool()>& condition);
    [[nodiscard]] bool dialog_open(const char* title);
    void close_dialog(const char* title);
    [[nodiscard]] int count_log_lines(std::string_view part);
    [[nodiscard]] static std::filesystem::path scratch(const std::string& name); ///< path in the build folder

private:
    Stage& m_stage;
};

struct Case {
    const char* category;
    const char* name; ///< begins with the ids of docs/development/ui.md
    void (*run)(Robot&);
};
[[nodiscard]] std::vector<Case> run_cases();
[[nodiscard]] std::vector<Case> threshold_cases();
[[nodiscard]] std::vector<Case> plot_cases();
[[nodiscard]] std::vector<Case> axis_cases();
[[nodiscard]] std::vector<Case> event_cases();
[[nodiscard]] std::vector<Case> layer_cases();
[[nodiscard]] std::vector<Case> policy_cases();
[[nodiscard]] std::vector<Case> cache_policy_cases();
[[nodiscard]] std::vector<Case> table_cases();
[[nodiscard]] std::vector<Case> text_cases();
[[nodiscard]] std::vector<Case> timeline_cases();
[[nodiscard]] std::vector<Case> map_cases();
[[nodiscard]] std::vector<Case> distribution_cases();
[[nodiscard]] std::vector<Case> window_cases();
[[nodiscard]] std::vector<Case> shell_cases();
[[nodiscard]] std::vector<Case> file_cases();
[[nodiscard]] std::vector<Case> exactness_cases();
[[nodiscard]] std::vector<Case> workspace_cases();
[[nodiscard]] std::vector<Case> settings_cases();
[[nodiscard]] std::vector<Case> job_cases();
[[nodiscard]] std::vector<Case> option_cases();
[[nodiscard]] std::vector<Case> input_cases();
[[nodiscard]] std::vector<Case> comparison_cases();
[[nodiscard]] std::vector<Case> landscape_cases();
[[nodiscard]] std::vector<Case> painted_cases();
[[nodiscard]] std::vector<Case> tour_cases();
[[nodiscard]] std::vector<Case> runs_cases();
[[nodiscard]] std::vector<Case> remote_cases();
[[nodiscard]] std::vector<Case> two_process_cases();
[[nodiscard]] std::vector<Case> last_cases(); ///< must run after all others: they compare and quit

} // namespace refreshlab::gui
