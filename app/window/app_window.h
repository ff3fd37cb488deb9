#pragma once

#include "app/window/frame_buffer.h"
#include "app/window/gl_textures.h"
#include "app/window/platform.h"
#include "app/window/waiter.h"
#include "engine/control/engine_link.h"
#include "ui/context/host.h"
#include "ui/shell/frame_governor.h"
#include "ui/shell/shell.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab {

/// The window: contexts of GLFW, OpenGL, ImGui and ImPlot around a ui::Shell, one explicit frame at a time. run() is the
/// program's loop; the GUI tests call frame() themselves with the ImGui Test Engine beside it.
///
/// Threads   UI thread only; the engine's on_news wakes it from any thread.
/// Shutdown  Shell, then textures and frame buffers, then ImGui's backends and contexts, then the GL context. The engine
///           must outlive the window, or at least not call on_news any more.
class AppWindow final : public ui::Host {
public:
    struct Options {
        std::string title = "RefreshLab";
        bool headless = false; ///< no display: draws into an own buffer
        int width = 1600, height = 1000;
        std::filesystem::path assets; ///< fonts, themes, models; empty = where they were when this was built
        std::filesystem::path user_folder; ///< settings and layout; empty = keep nothing
        /// Recent files and the session of this window; empty = keep nothing.
        std::filesystem::path state_folder;
        std::string command_line; ///< into pictures
        bool mirror_log = true;   ///< lines of the window's log go to stderr as well
        ui::ShellOptions shell;
    };
    /// Throws Error{failure} when there is no display (or no EGL).
    AppWindow(EngineLink& engine, const Options& options);
    ~AppWindow() override;

    /// One whole frame: takes input, draws, swaps, calls post_swap, then saves the pictures that were asked for. Never
    /// waits. An exception of the frame becomes a toast.
    void frame();
    /// Frames as the governor wants them, until somebody closes the window or `until` says so (asked after each wait).
    void run(const std::function<bool()>& until = {});
    /// Waits for input, news of the engine or `seconds`.
    void wait(double seconds) { m_waiter->wait(seconds); }
    /// The same where no frame follows: takes the news, so that the next one ends the next wait.
    void wait_without_frame(double seconds);
    /// False once the window is to close. A press on its close button is answered by ui::Shell first, which may ask about
    /// an unsaved run: then it is open again until the answer.
    [[nodiscard]] bool open();

    [[nodiscard]] ui::Shell& shell() { return *m_shell; }
    [[nodiscard]] ui::UiContext& context() { return m_shell->context(); }
    [[nodiscard]] EngineLink& engine() { return m_engine; }

    void resize(int width, int height); ///< from the next frame on; window units

    /// After each swap, before pictures are saved; for the test engine.
    std::function<void()> post_swap;
    /// Asked when a frame is built: whether to paint it. A frame that is not painted still hands its textures and geometry
    /// to the driver. Unset: all are painted. For suites under software GL, where painting takes most of the time.
    std::function<bool()> worth_painting;
    /// Pixels of the last frame (0xAABBGGRR, rows from the top, left-top corner x, y). Only without a display: elsewhere
    /// the buffer behind the window is undefined after the swap. False if the rectangle is not inside.
    [[nodiscard]] bool capture(int x, int y, int width, int height, uint32_t* pixels) const;
    /// Draws the interface again at the scale of the picture and saves it now; not within a frame. Throws Error.
    void write_picture(const Picture& picture);

    // ui::Host
    ImTextureID texture(const std::string& key, int width, int height, std::span<const uint32_t> rgba,
                        uint64_t revision) override;
    void save_picture(const Picture& picture) override;
    void quit() override;
    void set_window_title(const std::string& title) override;
    [[nodiscard]] std::filesystem::path assets() const override;
    [[nodiscard]] std::filesystem::path user_folder() const override;
    [[nodiscard]] std::filesystem::path state_folder() const override;
    void keep_awake(double seconds) override;
    [[nodiscard]] int64_t memory_bytes() const override;
    [[nodiscard]] FrameStats frame_stats() const override;

private:
    void install_input_callbacks();
    void drop(const char* path) noexcept; ///< within a C callback
    void build_frame(float density);      ///< NewFrame to Render
    void draw_to(FrameBuffer* target, int width, int height, bool paint = true);
    void check_gl(const char* where);
    void mirror_log();
    [[nodiscard]] ui::FrameGovernor::Situation situation() const;
    void remember_cost(double cpu_ms, double gl_ms, double began);

    EngineLink& m_engine;
    Options m_options;
    std::unique_ptr<Platform> m_platform;
    std::shared_ptr<Waiter> m_waiter; ///< also held by on_news, which may be running while the window goes
    struct Contexts;                  ///< ImGui's and ImPlot's, with their backends
    std::unique_ptr<Contexts> m_contexts;
    std::unique_ptr<GlTextures> m_textures;
    std::unique_ptr<FrameBuffer> m_screen; ///< without a display
    std::unique_ptr<ui::Shell> m_shell;
    ui::FrameGovernor m_governor;

    std::vector<Picture> m_pictures;    ///< asked for in this frame
    std::vector<std::string> m_dropped; ///< files that were dropped on the window; opened with the next frame
    float m_display_scale = 1;
    bool m_quitting = false;   ///< said by the shell: nothing is asked any more
    bool m_input_left = false; ///< ImGui takes a key's press and its release in two frames
    double m_last_input = 0, m_last_news = 0, m_awake_until = 0, m_last_time = 0;
    bool m_decoding = false;
    size_t m_logged_lines = 0;
    std::vector<unsigned> m_logged_gl_errors;
    struct Cost {
        double cpu_ms, gl_ms, began;
    };
    std::vector<Cost> m_costs; ///< ring
    size_t m_next_cost = 0;
};

} // namespace refreshlab
