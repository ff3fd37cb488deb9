#pragma once

#include <memory>
#include <string>

struct GLFWwindow;

namespace refreshlab {

/// The operating system's window with an OpenGL 3.3 core context, or only the context when there is no display: GLFW's
/// null platform with EGL (Mesa's surfaceless platform), for pictures and tests. One at a time; UI thread only.
class Platform {
public:
    struct Options {
        bool headless = false;
        int width = 1600, height = 1000; ///< window units; with a display multiplied by its content scale
        std::string title;
    };
    /// Throws Error{failure} with one line: what is missing and what helps.
    [[nodiscard]] static std::unique_ptr<Platform> open(const Options& options);
    ~Platform();
    Platform(const Platform&) = delete;
    Platform& operator=(const Platform&) = delete;

    [[nodiscard]] GLFWwindow* window() const { return m_window; }
    [[nodiscard]] bool headless() const { return m_headless; }
    struct Size {
        int width = 0, height = 0;
    };
    [[nodiscard]] Size window_size() const;      ///< window units: what ImGui calls DisplaySize
    [[nodiscard]] Size framebuffer_size() const; ///< pixels
    void resize(Size size);                      ///< window units; the desktop may want it otherwise
    [[nodiscard]] float content_scale() const;   ///< 1.0 = 96 dpi; 1.0 without a display
    [[nodiscard]] bool minimised() const;
    [[nodiscard]] bool close_requested() const;
    void request_close();
    void withdraw_close(); ///< the window stays
    void set_title(const std::string& title);
    void swap();                                                             ///< without a display: nothing
    [[nodiscard]] const std::string& renderer() const { return m_renderer; } ///< "llvmpipe (LLVM 15...)"

private:
    Platform() = default;
    GLFWwindow* m_window = nullptr;
    bool m_headless = false;
    Size m_headless_size;
    std::string m_renderer;
};

} // namespace refreshlab
