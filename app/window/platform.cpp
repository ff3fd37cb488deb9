#include "app/window/platform.h"

#include "app/window/gl.h"
#include "engine/base/error.h"

#include <GLFW/glfw3.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace refreshlab {
namespace {

std::string last_glfw_error() {
    const char* text = nullptr;
    if (glfwGetError(&text) == GLFW_NO_ERROR || text == nullptr) return "unknown reason";
    return text;
}

bool has_variable(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0';
}

[[noreturn]] void no_display(const std::string& problem) {
    throw Error("opening the window", "", problem,
                "without a display use `refreshlab run`, or `refreshlab gui --screenshot FILE.png`",
                ErrorKind::failure);
}

[[noreturn]] void no_offscreen(const std::string& problem) {
    throw Error(
        "drawing without a display", "", problem,
        "this needs EGL and Mesa's software OpenGL (Debian: libegl1, libgl1-mesa-dri), or try xvfb-run -a",
        ErrorKind::failure);
}

} // namespace

std::unique_ptr<Platform> Platform::open(const Options& options) {
    // llvmpipe would otherwise take every core from the decode. Read by Mesa when it is loaded.
    setenv("LP_NUM_THREADS", "1", /*overwrite=*/0);

    std::unique_ptr<Platform> platform(new Platform);
    platform->m_headless = options.headless;
    if (!options.headless && !has_variable("DISPLAY"))
        no_display(has_variable("WAYLAND_DISPLAY")
                       ? "this build needs an X server (XWayland), DISPLAY is not set"
                       : "no display: DISPLAY is not set");

    glfwInitHint(GLFW_PLATFORM, options.headless ? GLFW_PLATFORM_NULL : GLFW_ANY_PLATFORM);
    if (glfwInit() != GLFW_TRUE) {
        if (options.headless) no_offscreen(last_glfw_error());
        no_display(last_glfw_error());
    }
    // From here on ~Platform ends GLFW.
    glfwDefaultWindowHints();
    glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
    glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 3);
    glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
    glfwWindowHint(GLFW_OPENGL_FORWARD_COMPAT, GLFW_TRUE);
    int width = options.width, height = options.height;
    if (options.headless) {
        glfwWindowHint(GLFW_CONTEXT_CREATION_API, GLFW_EGL_CONTEXT_API);
        platform->m_headless_size = {width, height};
        // The context's own surface is never drawn to and keeps the size it had at creation; small saves memory.
        width = height = 64;
    } else {
        glfwWindowHint(GLFW_SCALE_TO_MONITOR, GLFW_TRUE);
        if (GLFWmonitor* monitor = glfwGetPrimaryMonitor()) {
            int x = 0, y = 0, work_width = 0, work_height = 0;
            glfwGetMonitorWorkarea(monitor, &x, &y, &work_width, &work_height);
            float scale = 1;
            glfwGetMonitorContentScale(monitor, &scale, nullptr);
            if (work_width > 0)
                width = std::min(width, static_cast<int>(static_cast<float>(work_width) / scale));
            if (work_height > 0)
                height = std::min(height, static_cast<int>(static_cast<float>(work_height) / scale));
        }
    }
    platform->m_window = glfwCreateWindow(width, height, options.title.c_str(), nullptr, nullptr);
    if (platform->m_window == nullptr) {
        const std::string why = last_glfw_error();
        if (options.headless) no_offscreen(why);
        no_display(fmt::format("no OpenGL 3.3 on this display ({})", why));
    }
    glfwMakeContextCurrent(platform->m_window);
    if (gladLoadGL(glfwGetProcAddress) == 0) {
        if (options.headless) no_offscreen("OpenGL functions could not be loaded");
        no_display("OpenGL functions could not be loaded");
    }
    const auto* renderer = reinterpret_cast<const char*>(glGetString(GL_RENDERER));
    platform->m_renderer = renderer != nullptr ? renderer : "unknown renderer";
    spdlog::debug("drawing with {}{}", platform->m_renderer, options.headless ? ", no display" : "");
    // The frame governor paces software rendering, and waiting for the display there would hold the core.
    const bool software = platform->m_renderer.find("llvmpipe") != std::string::npos;
    glfwSwapInterval(options.headless || software ? 0 : 1);
    return platform;
}

Platform::~Platform() {
    if (m_window != nullptr) glfwDestroyWindow(m_window);
    glfwTerminate(); // harmless when glfwInit failed
}

Platform::Size Platform::window_size() const {
    if (m_headless) return m_headless_size;
    Size size;
    glfwGetWindowSize(m_window, &size.width, &size.height);
    return size;
}

Platform::Size Platform::framebuffer_size() const {
    if (m_headless) return m_headless_size;
    Size size;
    glfwGetFramebufferSize(m_window, &size.width, &size.height);
    return size;
}

void Platform::resize(Size size) {
    if (m_headless)
        m_headless_size = size;
    else
        glfwSetWindowSize(m_window, size.width, size.height);
}

float Platform::content_scale() const {
    if (m_headless) return 1.0F;
    float x = 1, y = 1;
    glfwGetWindowContentScale(m_window, &x, &y);
    return std::clamp(std::max(x, y), 1.0F, 4.0F);
}

bool Platform::minimised() const {
    if (m_headless) return false;
    const Size size = framebuffer_size();
    return glfwGetWindowAttrib(m_window, GLFW_ICONIFIED) == GLFW_TRUE || size.width <= 0 || size.height <= 0;
}

bool Platform::close_requested() const {
    return glfwWindowShouldClose(m_window) == GLFW_TRUE;
}
void Platform::request_close() {
    glfwSetWindowShouldClose(m_window, GLFW_TRUE);
}
void Platform::withdraw_close() {
    glfwSetWindowShouldClose(m_window, GLFW_FALSE);
}
void Platform::set_title(const std::string& title) {
    glfwSetWindowTitle(m_window, title.c_str());
}

void Platform::swap() {
    if (!m_headless) glfwSwapBuffers(m_window);
}

} // namespace refreshlab
