#include "app/window/app_window.h"

#include "app/window/gl.h"
#include "app/window/picture.h"
#include "engine/base/error.h"
#include "engine/base/quantile.h"
#include "engine/record/recording/recording.h"
#include "engine/text/utf8.h"
#include "kernels/execution/cores.h"

#include <GLFW/glfw3.h>
#include <fmt/format.h>
#include <imgui.h>
#include <imgui_impl_glfw.h>
#include <imgui_impl_opengl3.h>
#include <imgui_internal.h>
#include <implot.h>
#include <implot_internal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <utility>

namespace refreshlab {
namespace {

constexpr size_t remembered_costs = 240;

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace

/// ImGui's and ImPlot's contexts with their backends. Without a display there is no platform backend: size and time
/// are given by hand, and nobody moves a mouse but the test engine.
struct AppWindow::Contexts {
    explicit Contexts(Platform& platform) {
        IMGUI_CHECKVERSION();
        ImGui::CreateContext();
        ImPlot::CreateContext();
        ImGuiIO& io = ImGui::GetIO();
        io.IniFilename = nullptr; // settings, layout and trace are three files of our own
        io.LogFilename = nullptr;
        io.ConfigFlags |= ImGuiConfigFlags_DockingEnable | ImGuiConfigFlags_NavEnableKeyboard;
        io.ConfigErrorRecoveryEnableAssert = false; // a missing End() is a message, not an abort
        io.ConfigErrorRecoveryEnableTooltip = false;
        io.ConfigDpiScaleFonts = false; // Shell::set_display_scale does it
        if (platform.headless()) {
            io.BackendPlatformName = "none";
        } else {
            has_glfw = ImGui_ImplGlfw_InitForOpenGL(platform.window(), true);
        }
        has_gl = ImGui_ImplOpenGL3_Init("#version 330 core");
        if (!has_gl)
            throw Error("opening the window", "", "OpenGL 3.3 could not be set up",
                        "it needs libGL and a driver; on Debian: apt install libgl1 libegl1 libgl1-mesa-dri",
                        ErrorKind::failure);
    }
    ~Contexts() {
        if (has_gl) ImGui_ImplOpenGL3_Shutdown();
        if (has_glfw) ImGui_ImplGlfw_Shutdown();
        ImPlot::DestroyContext();
        ImGui::DestroyContext();
    }
    Contexts(const Contexts&) = delete;
    Contexts& operator=(const Contexts&) = delete;
    bool has_glfw = false, has_gl = false;
};

AppWindow::AppWindow(EngineLink& engine, const Options& options)
    : m_engine(engine)
    , m_options(options)
    , m_platform(Platform::open({options.headless, options.width, options.height, options.title}))
    , m_waiter(m_platform->headless() ? make_headless_waiter() : make_display_waiter())
    , m_governor(kernels::usable_cores()) {
    m_last_time = m_last_input = m_last_news = now_s();
    if (!m_platform->headless())
        install_input_callbacks(); // before ImGui's backend, which calls them in turn
    m_contexts = std::make_unique<Contexts>(*m_platform);
    m_textures = std::make_unique<GlTextures>();
    if (m_platform->headless()) m_screen = std::make_unique<FrameBuffer>();
    m_shell = std::make_unique<ui::Shell>(engine, *this, options.shell);
    m_display_scale = m_platform->content_scale();
    m_shell->set_display_scale(m_display_scale);
    m_engine.on_news([waiter = m_waiter] { waiter->wake(); });
}

AppWindow::~AppWindow() {
    m_waiter->wake(); // pending from now on: a late call from the decode thread does not reach GLFW any more
    m_engine.on_news({});
    m_shell.reset(); // panels may hold what belongs to the contexts
}

namespace {

/// A modifier goes up. Where frames are slow, its key may have gone down since the last frame, and ImGui would see the key
/// and the modifier's end in one frame: Ctrl+R would be R. The key's own end, put before that of the modifier, makes ImGui
/// keep the two apart.
void keep_chord_whole() {
    if (ImGui::GetCurrentContext() == nullptr) return;
    ImVector<ImGuiKey> down;
    for (const ImGuiInputEvent& event : ImGui::GetCurrentContext()->InputEventsQueue) {
        if (event.Type != ImGuiInputEventType_Key || !event.Key.Down) continue;
        if (ImGui::IsLRModKey(event.Key.Key) || (event.Key.Key & ImGuiMod_Mask_) != 0) continue;
        down.push_back(event.Key.Key);
    }
    for (const ImGuiKey key : down)
        ImGui::GetIO().AddKeyEvent(key, false);
}

} // namespace

void AppWindow::install_input_callbacks() {
    GLFWwindow* window = m_platform->window();
    glfwSetWindowUserPointer(window, this);
    // C callbacks: nothing may throw in here.
    static constexpr auto note = [](GLFWwindow* w) {
        static_cast<AppWindow*>(glfwGetWindowUserPointer(w))->m_last_input = now_s();
    };
    glfwSetCursorPosCallback(window, [](GLFWwindow* w, double, double) { note(w); });
    glfwSetCursorEnterCallback(window, [](GLFWwindow* w, int) { note(w); });
    glfwSetMouseButtonCallback(window, [](GLFWwindow* w, int, int, int) { note(w); });
    glfwSetScrollCallback(window, [](GLFWwindow* w, double, double) { note(w); });
    glfwSetKeyCallback(window, [](GLFWwindow* w, int key, int, int action, int) {
        note(w);
        if (action == GLFW_RELEASE && key >= GLFW_KEY_LEFT_SHIFT && key <= GLFW_KEY_RIGHT_SUPER)
            keep_chord_whole();
    });
    glfwSetCharCallback(window, [](GLFWwindow* w, unsigned) { note(w); });
    glfwSetWindowFocusCallback(window, [](GLFWwindow* w, int) { note(w); });
    glfwSetWindowRefreshCallback(window, [](GLFWwindow* w) { note(w); });
    glfwSetFramebufferSizeCallback(window, [](GLFWwindow* w, int, int) { note(w); });
    glfwSetWindowIconifyCallback(window, [](GLFWwindow* w, int) { note(w); });
    glfwSetWindowContentScaleCallback(window, [](GLFWwindow* w, float, float) { note(w); });
    glfwSetWindowCloseCallback(window, [](GLFWwindow* w) { note(w); });
    glfwSetDropCallback(window, [](GLFWwindow* w, int count, const char** paths) {
        note(w);
        for (int i = 0; i < count; ++i)
            static_cast<AppWindow*>(glfwGetWindowUserPointer(w))->drop(paths[i]);
    });
}

void AppWindow::drop(const char* path) noexcept {
    try {
        m_dropped.emplace_back(path);
    } catch (const std::exception&) { // no memory for a path: it was not dropped
    }
}

void AppWindow::build_frame(float density) {
    ImGui_ImplOpenGL3_NewFrame();
    ImGuiIO& io = ImGui::GetIO();
    const double now = now_s();
    if (m_contexts->has_glfw) {
        ImGui_ImplGlfw_NewFrame();
    } else {
        const Platform::Size size = m_platform->window_size();
        io.DisplaySize = ImVec2(static_cast<float>(size.width), static_cast<float>(size.height));
        io.DisplayFramebufferScale = ImVec2(1, 1);
        io.DeltaTime = static_cast<float>(std::clamp(now - m_last_time, 1e-4, 1.0));
    }
    m_last_time = now;
    // After the backends' NewFrame, which set it; since ImGui 1.92 fonts are drawn at this density.
    io.DisplayFramebufferScale =
        ImVec2(io.DisplayFramebufferScale.x * density, io.DisplayFramebufferScale.y * density);
    ImGui::NewFrame();
    try {
        m_shell->draw();
    } catch (const std::exception& error) {
        // ImGui closes what was left open at the end of the frame; a plot must be left by hand.
        ImPlot::ResetCtxForNextPlot(ImPlot::GetCurrentContext());
        m_shell->context().toasts.add(ui::Toasts::Level::error,
                                      fmt::format("Drawing the window: {}", error.what()), ImGui::GetTime());
    }
    ImGui::Render();
}

void AppWindow::resize(int width, int height) {
    m_platform->resize({width, height});
}

void AppWindow::draw_to(FrameBuffer* target, int width, int height, bool paint) {
    if (target != nullptr)
        target->bind(width, height);
    else
        FrameBuffer::bind_window();
    const ImVec4 background = ImGui::GetStyleColorVec4(ImGuiCol_WindowBg);
    glViewport(0, 0, width, height);
    glDisable(GL_SCISSOR_TEST);
    if (!paint) glEnable(GL_RASTERIZER_DISCARD);
    glClearColor(background.x, background.y, background.z, 1.0F);
    glClear(GL_COLOR_BUFFER_BIT);
    ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
    if (!paint) glDisable(GL_RASTERIZER_DISCARD);
    glFinish(); // so that the governor sees what the drawing costs
}

void AppWindow::frame() {
    m_waiter->poll();
    const double began = now_s();
    if (m_waiter->take_news()) m_last_news = began;
    if (const float scale = m_platform->content_scale(); std::abs(scale - m_display_scale) > 0.01F) {
        m_display_scale = scale;
        m_shell->set_display_scale(scale);
    }
    for (const std::string& path : std::exchange(m_dropped, {}))
        m_shell->open_dropped(path);
    build_frame(1.0F);
    m_input_left = !ImGui::GetCurrentContext()->InputEventsQueue.empty();
    const double built = now_s();
    const Platform::Size size = m_platform->framebuffer_size();
    draw_to(m_screen.get(), size.width, size.height, !worth_painting || worth_painting());
    const double drawn = now_s();
    check_gl("drawing a frame");
    m_platform->swap();
    m_textures->end_frame();
    remember_cost((built - began) * 1e3, (drawn - built) * 1e3, began);

    const ui::UiContext& ctx = m_shell->context();
    m_decoding = ctx.status &&
                 (ctx.status->state == EngineState::running || ctx.status->state == EngineState::prefilling ||
                  ctx.status->state == EngineState::loading);
    if (post_swap) post_swap();

    std::vector<Picture> pictures;
    pictures.swap(m_pictures);
    for (const Picture& picture : pictures) {
        ui::Toasts& toasts = m_shell->context().toasts;
        try {
            write_picture(picture);
            if (picture.then)
                picture.then(nullptr);
            else
                toasts.add(ui::Toasts::Level::info, fmt::format("Saved {}", picture.path.string()),
                           ImGui::GetTime());
        } catch (const std::exception& error) {
            if (picture.then)
                picture.then(&error);
            else
                toasts.add(ui::Toasts::Level::error, error.what(), ImGui::GetTime());
        }
        keep_awake(0.1); // the toast is news
    }
    mirror_log();
}

bool AppWindow::open() {
    if (!m_platform->close_requested()) return true;
    if (m_quitting || m_shell->may_close()) return false;
    m_platform->withdraw_close();
    keep_awake(0.5); // the question is to be seen at once
    return true;
}

void AppWindow::run(const std::function<bool()>& until) {
    while (open() && !(until && until())) {
        m_shell->keep_session();
        const auto s = situation();
        if (!s.minimised && s.now >= m_governor.due(s)) {
            frame();
            continue;
        }
        // Woken early by news while the governor still holds the frame back: the loop comes round and waits again.
        wait(std::max(m_governor.wait_s(s), 0.0005));
    }
}

void AppWindow::wait_without_frame(double seconds) {
    m_waiter->wait(seconds);
    if (m_waiter->take_news()) m_last_news = now_s();
}

ui::FrameGovernor::Situation AppWindow::situation() const {
    ui::FrameGovernor::Situation s;
    s.now = now_s();
    s.last_input = m_last_input;
    s.last_news = m_waiter->news() ? s.now : m_last_news;
    s.awake_until = m_awake_until;
    s.decoding = m_decoding;
    s.mouse_held = ImGui::IsAnyMouseDown();
    s.input_left = m_input_left;
    s.text_cursor = ImGui::GetIO().WantTextInput;
    s.minimised = m_platform->minimised();
    return s;
}

bool AppWindow::capture(int x, int y, int width, int height, uint32_t* pixels) const {
    if (!m_screen || x < 0 || y < 0 || width < 1 || height < 1 || x + width > m_screen->width() ||
        y + height > m_screen->height())
        return false;
    const std::vector<uint32_t> read = m_screen->read(x, y, width, height);
    std::ranges::copy(read, pixels);
    return true;
}

void AppWindow::write_picture(const Picture& picture) {
    const int scale = std::clamp(picture.scale, 1, 4);
    const auto factor = static_cast<float>(scale);
    const Platform::Size size = m_platform->framebuffer_size();
    FrameBuffer buffer;
    // The first frame asks for glyphs of the new density, the second has them all (development/ui.md, 5).
    for (int i = 0; i < 2; ++i) {
        build_frame(factor);
        draw_to(&buffer, size.width * scale, size.height * scale);
    }
    int x = 0, y = 0, width = buffer.width(), height = buffer.height();
    std::vector<uint32_t> pixels;
    if (!picture.panel.empty()) {
        const auto box = m_shell->context().landmarks.panel(picture.panel);
        if (!box || box->width < 1 || box->height < 1) {
            FrameBuffer::bind_window();
            throw Error("saving a picture", picture.panel, "this panel is not to be seen",
                        "open it in the View menu", ErrorKind::failure);
        }
        const float density = ImGui::GetIO().DisplayFramebufferScale.x;
        const auto pixel = [&](float v, int last) {
            return std::clamp(static_cast<int>(std::lround(static_cast<double>(v * density))), 0, last);
        };
        x = pixel(box->x, buffer.width() - 1);
        y = pixel(box->y, buffer.height() - 1);
        width = std::max(1, pixel(box->x + box->width, buffer.width()) - x);
        height = std::max(1, pixel(box->y + box->height, buffer.height()) - y);
    }
    pixels = buffer.read(x, y, width, height);
    FrameBuffer::bind_window();
    check_gl("drawing a picture");
    const ui::UiContext& ctx = m_shell->context();
    write_png(picture.path, width, height, pixels,
              picture_origin(ctx.recording.get(), m_options.command_line));
}

void AppWindow::check_gl(const char* where) {
    for (int i = 0; i < 16; ++i) {
        const GLenum error = glGetError();
        if (error == GL_NO_ERROR) return;
        if (std::ranges::find(m_logged_gl_errors, error) != m_logged_gl_errors.end()) continue;
        m_logged_gl_errors.push_back(error);
        spdlog::warn("OpenGL error 0x{:x} while {} ({}); said once", error, where, m_platform->renderer());
    }
}

void AppWindow::mirror_log() {
    const auto& lines = m_shell->context().toasts.lines();
    if (m_logged_lines > lines.size()) m_logged_lines = 0; // the oldest lines were dropped
    if (!m_options.mirror_log) m_logged_lines = lines.size();
    for (; m_logged_lines < lines.size(); ++m_logged_lines) {
        const ui::Toasts::Line& line = lines[m_logged_lines];
        const auto level = line.level == ui::Toasts::Level::error     ? spdlog::level::err
                           : line.level == ui::Toasts::Level::warning ? spdlog::level::warn
                                                                      : spdlog::level::info;
        spdlog::log(level, "{}", visible_text(line.text, 4000));
    }
}

void AppWindow::remember_cost(double cpu_ms, double gl_ms, double began) {
    m_governor.frame_drawn(began, (cpu_ms + gl_ms) / 1e3);
    const Cost cost{cpu_ms, gl_ms, began};
    if (m_costs.size() < remembered_costs) {
        m_costs.push_back(cost);
        return;
    }
    m_costs[m_next_cost] = cost;
    m_next_cost = (m_next_cost + 1) % remembered_costs;
}

ImTextureID AppWindow::texture(const std::string& key, int width, int height, std::span<const uint32_t> rgba,
                               uint64_t revision) {
    return m_textures->texture(key, width, height, rgba, revision);
}

void AppWindow::save_picture(const Picture& picture) {
    m_pictures.push_back(picture);
}
void AppWindow::quit() {
    m_quitting = true;
    m_platform->request_close();
}
void AppWindow::set_window_title(const std::string& title) {
    m_platform->set_title(title);
}
std::filesystem::path AppWindow::assets() const {
    return m_options.assets.empty() ? RL_ASSETS : m_options.assets;
}
std::filesystem::path AppWindow::user_folder() const {
    return m_options.user_folder;
}
std::filesystem::path AppWindow::state_folder() const {
    return m_options.state_folder;
}
void AppWindow::keep_awake(double seconds) {
    m_awake_until = std::max(m_awake_until, now_s() + seconds);
}

int64_t AppWindow::memory_bytes() const {
    std::ifstream file("/proc/self/statm");
    int64_t total = 0, resident = 0;
    if (!(file >> total >> resident)) return 0;
    return resident * sysconf(_SC_PAGESIZE);
}

ui::Host::FrameStats AppWindow::frame_stats() const {
    FrameStats stats;
    std::vector<double> cpu, gl;
    const double now = now_s();
    for (const Cost& cost : m_costs) {
        cpu.push_back(cost.cpu_ms);
        gl.push_back(cost.gl_ms);
        if (now - cost.began <= 1.0) stats.frames_per_second += 1;
    }
    stats.cpu_ms_p99 = quantile(cpu, 0.99).value_or(0);
    stats.cpu_ms_median = quantile(cpu, 0.5).value_or(0);
    stats.gl_ms = quantile(gl, 0.5).value_or(0);
    return stats;
}

} // namespace refreshlab
