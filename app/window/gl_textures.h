#pragma once

#include <imgui.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace refreshlab {

/// Textures of the panels by name: created, resized and uploaded when their revision changes; dropped when nobody has
/// asked for them during the last frames. Needs a current context until it is destroyed; UI thread only.
class GlTextures {
public:
    GlTextures() = default;
    ~GlTextures();
    GlTextures(const GlTextures&) = delete;
    GlTextures& operator=(const GlTextures&) = delete;

    /// See ui::Host::texture. Throws Error{failure} when the size is beyond what the driver takes.
    ImTextureID texture(const std::string& key, int width, int height, std::span<const uint32_t> rgba,
                        uint64_t revision);
    /// End of a frame: frees what has not been asked for during `kept_frames` frames.
    void end_frame();

private:
    static constexpr uint64_t kept_frames = 600;
    struct Entry {
        unsigned name = 0;
        int width = 0, height = 0;
        uint64_t revision = 0, last_frame = 0;
    };
    std::map<std::string, Entry, std::less<>> m_entries;
    uint64_t m_frame = 0;
};

} // namespace refreshlab
