#include "app/window/gl_textures.h"

#include "app/window/gl.h"
#include "engine/base/error.h"

#include <fmt/format.h>

#include <stdexcept>

namespace refreshlab {

GlTextures::~GlTextures() {
    for (auto& [key, entry] : m_entries)
        glDeleteTextures(1, &entry.name);
}

ImTextureID GlTextures::texture(const std::string& key, int width, int height, std::span<const uint32_t> rgba,
                                uint64_t revision) {
    if (width < 1 || height < 1 || rgba.size() != static_cast<size_t>(width) * static_cast<size_t>(height))
        throw std::invalid_argument("GlTextures::texture: " + key + " has not width * height pixels");
    Entry& entry = m_entries[key];
    entry.last_frame = m_frame;
    const bool same_size = entry.name != 0 && entry.width == width && entry.height == height;
    if (same_size && entry.revision == revision) return static_cast<ImTextureID>(entry.name);

    GLint bound = 0;
    glGetIntegerv(GL_TEXTURE_BINDING_2D, &bound);
    if (entry.name == 0) glGenTextures(1, &entry.name);
    glBindTexture(GL_TEXTURE_2D, entry.name);
    glPixelStorei(GL_UNPACK_ALIGNMENT, 4);
    glPixelStorei(GL_UNPACK_ROW_LENGTH, 0);
    if (same_size) {
        glTexSubImage2D(GL_TEXTURE_2D, 0, 0, 0, width, height, GL_RGBA, GL_UNSIGNED_BYTE, rgba.data());
    } else {
        GLint largest = 0;
        glGetIntegerv(GL_MAX_TEXTURE_SIZE, &largest);
        if (width > largest || height > largest)
            throw Error("drawing a map", fmt::format("{} x {} cells", width, height),
                        fmt::format("this OpenGL takes at most {} x {}", largest, largest), {},
                        ErrorKind::failure);
        glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, width, height, 0, GL_RGBA, GL_UNSIGNED_BYTE, rgba.data());
        glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
        glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
        glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_S, GL_CLAMP_TO_EDGE);
        glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_T, GL_CLAMP_TO_EDGE);
        entry.width = width;
        entry.height = height;
    }
    entry.revision = revision;
    glBindTexture(GL_TEXTURE_2D, static_cast<GLuint>(bound));
    return static_cast<ImTextureID>(entry.name);
}

void GlTextures::end_frame() {
    ++m_frame;
    for (auto it = m_entries.begin(); it != m_entries.end();) {
        if (it->second.last_frame + kept_frames >= m_frame) {
            ++it;
            continue;
        }
        glDeleteTextures(1, &it->second.name);
        it = m_entries.erase(it);
    }
}

} // namespace refreshlab
