// The program itself on a real X server: the GUI suite draws without one. Xvfb stands in for the screen.
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/record/trace/trace_store.h"

#include <catch2/catch_test_macros.hpp>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

// Last: its macros are words that others use.
#include <X11/Xlib.h>
#include <X11/Xutil.h>

using namespace refreshlab;

namespace {

namespace fs = std::filesystem;

/// A child process; killed at the end if it is still there.
class Child {
public:
    /// \param prepare  runs in the child, before `arguments` take its place
    Child(const std::vector<std::string>& arguments, const std::function<void()>& prepare) {
        m_pid = fork();
        if (m_pid != 0) return;
        prepare();
        std::vector<char*> list;
        for (const std::string& argument : arguments)
            list.push_back(const_cast<char*>(argument.c_str()));
        list.push_back(nullptr);
        execvp(list[0], list.data());
        _exit(127); // not there
    }
    ~Child() {
        if (m_status || m_pid <= 0) return;
        kill(m_pid, SIGKILL);
        static_cast<void>(wait());
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    /// Exit status (128 + signal), once it has ended.
    [[nodiscard]] std::optional<int> ended(int flags = WNOHANG) {
        int status = 0;
        if (!m_status && waitpid(m_pid, &status, flags) == m_pid)
            m_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        return m_status;
    }
    int wait() { return ended(0).value_or(-1); }
    void terminate() const { kill(m_pid, SIGTERM); }

private:
    pid_t m_pid = -1;
    std::optional<int> m_status;
};

/// An X server without a screen, on a display number that it chose itself. Not running where it is not installed.
class XServer {
public:
    XServer() {
        int ends[2] = {-1, -1};
        if (pipe(ends) != 0) return;
        m_server.emplace(std::vector<std::string>{"Xvfb", "-displayfd", std::to_string(ends[1]), "-screen",
                                                  "0", "1280x800x24", "-nolisten", "tcp"},
                         [&] {
                             close(ends[0]);
                             const int null = open("/dev/null", O_WRONLY);
                             dup2(null, STDERR_FILENO);
                         });
        close(ends[1]);
        // One line once it takes connections; the end of the pipe if there will be none.
        char c = 0;
        while (read(ends[0], &c, 1) == 1 && c != '\n')
            m_number += c;
        close(ends[0]);
    }
    ~XServer() {
        if (m_server) m_server->terminate();
        if (m_server) m_server->wait();
    }
    XServer(const XServer&) = delete;
    XServer& operator=(const XServer&) = delete;
    [[nodiscard]] bool running() const { return !m_number.empty(); }
    [[nodiscard]] std::string display() const { return ":" + m_number; }

private:
    std::optional<Child> m_server;
    std::string m_number;
};

/// Somebody else's eyes and hands on that display.
class Visitor {
public:
    explicit Visitor(const std::string& display)
        : m_display(XOpenDisplay(display.c_str())) {}
    ~Visitor() {
        if (m_display != nullptr) XCloseDisplay(m_display);
    }
    Visitor(const Visitor&) = delete;
    Visitor& operator=(const Visitor&) = delete;
    [[nodiscard]] bool connected() const { return m_display != nullptr; }

    /// The window that can be asked to close; nothing else is on this display.
    [[nodiscard]] std::optional<Window> window() {
        Window root = 0, parent = 0, *children = nullptr;
        unsigned count = 0;
        if (XQueryTree(m_display, DefaultRootWindow(m_display), &root, &parent, &children, &count) == 0)
            return {};
        std::optional<Window> found;
        for (unsigned i = 0; i < count && !found; ++i) {
            XWindowAttributes attributes;
            if (XGetWindowAttributes(m_display, children[i], &attributes) != 0 &&
                attributes.map_state == IsViewable && closes(children[i]))
                found = children[i];
        }
        if (children != nullptr) XFree(children);
        return found;
    }
    /// What a window manager sends when its close button is pressed.
    void ask_to_close(Window window) {
        XEvent event{};
        event.xclient.type = ClientMessage;
        event.xclient.window = window;
        event.xclient.message_type = XInternAtom(m_display, "WM_PROTOCOLS", False);
        event.xclient.format = 32;
        event.xclient.data.l[0] = static_cast<long>(XInternAtom(m_display, "WM_DELETE_WINDOW", False));
        event.xclient.data.l[1] = CurrentTime;
        XSendEvent(m_display, window, False, NoEventMask, &event);
        XFlush(m_display);
    }

private:
    bool closes(Window window) {
        Atom* protocols = nullptr;
        int count = 0;
        if (XGetWMProtocols(m_display, window, &protocols, &count) == 0) return false;
        const Atom wanted = XInternAtom(m_display, "WM_DELETE_WINDOW", False);
        bool found = false;
        for (int i = 0; i < count; ++i)
            found = found || protocols[i] == wanted;
        XFree(protocols);
        return found;
    }
    Display* m_display;
};

int64_t recorded_steps(const fs::path& trace) {
    if (!fs::exists(trace)) return 0;
    try {
        const auto runs = load_trace(trace);
        return runs.empty() ? 0 : runs.back()->steps();
    } catch (const Error&) {
        return 0; // not yet a trace
    }
}

} // namespace

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
