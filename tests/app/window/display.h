#pragma once

// A visible window without a screen: the program, an X server, and somebody else's eyes and hands on its display.
#include "engine/base/error.h"
#include "engine/record/trace/trace_store.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

// Last: its macros are words that others use.
#include <X11/Xlib.h>
#include <X11/Xutil.h>

namespace refreshlab::display {

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
    void kill_hard() const { kill(m_pid, SIGKILL); }

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

/// Of the newest run of a trace that may just be written.
inline int64_t recorded_steps(const std::filesystem::path& trace) {
    if (!std::filesystem::exists(trace)) return 0;
    try {
        const auto runs = load_trace(trace);
        return runs.empty() ? 0 : runs.back()->steps();
    } catch (const Error&) {
        return 0; // not yet a trace
    }
}

} // namespace refreshlab::display
