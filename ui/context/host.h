#pragma once

#include <imgui.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace refreshlab::ui {

/// What the window offers to ui, which knows neither GL nor GLFW. Implemented in app/; UI thread only.
class Host {
public:
    virtual ~Host() = default;

    /// A texture kept under `key`: created, resized and uploaded as needed; nothing happens while `revision` stays the
    /// same. rgba: width * height pixels, 0xAABBGGRR, row by row from the top. Nearest filtering.
    virtual ImTextureID texture(const std::string& key, int width, int height, std::span<const uint32_t> rgba,
                                uint64_t revision) = 0;

    /// Saves a PNG of the whole window (panel empty) or of one panel's rectangle at 1-4 times the size, after this frame.
    struct Picture {
        std::filesystem::path path;
        std::string panel;
        int scale = 1;
        /// On the UI thread, after the frame: null where it is saved. May be empty: then success and failure are toasts.
        std::function<void(const std::exception* fault)> then = {};
    };
    virtual void save_picture(const Picture& picture) = 0;

    virtual void quit() = 0;
    virtual void set_window_title(const std::string& title) = 0;
    /// Folder of bundled assets (fonts, themes, models, prompts).
    [[nodiscard]] virtual std::filesystem::path assets() const = 0;
    /// Folder of this user's settings and layout; empty = keep nothing (tests, pictures).
    [[nodiscard]] virtual std::filesystem::path user_folder() const = 0;
    /// Folder of what the window keeps by itself: the list of recent files, sessions; empty = keep nothing.
    [[nodiscard]] virtual std::filesystem::path state_folder() const = 0;
    /// Something moves: draw at full rate for a while (drags, animations).
    virtual void keep_awake(double seconds) = 0;
    /// Resident memory of the process, bytes.
    [[nodiscard]] virtual int64_t memory_bytes() const = 0;

    /// Cost of drawing, for the Performance panel.
    struct FrameStats {
        double cpu_ms_median = 0, cpu_ms_p99 = 0, gl_ms = 0, frames_per_second = 0;
    };
    [[nodiscard]] virtual FrameStats frame_stats() const = 0;
};

} // namespace refreshlab::ui
