#include "app/window/frame_buffer.h"

#include "app/window/gl.h"
#include "engine/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace refreshlab {

FrameBuffer::~FrameBuffer() {
    release();
}

void FrameBuffer::release() {
    if (m_frame_buffer != 0) glDeleteFramebuffers(1, &m_frame_buffer);
    if (m_colour != 0) glDeleteRenderbuffers(1, &m_colour);
    m_frame_buffer = m_colour = 0;
    m_width = m_height = 0;
}

void FrameBuffer::bind(int width, int height) {
    if (width == m_width && height == m_height && m_frame_buffer != 0) {
        glBindFramebuffer(GL_FRAMEBUFFER, m_frame_buffer);
        return;
    }
    release();
    GLint largest = 0;
    glGetIntegerv(GL_MAX_RENDERBUFFER_SIZE, &largest);
    const std::string size = fmt::format("{} x {} pixels", width, height);
    if (width < 1 || height < 1 || width > largest || height > largest)
        throw Error("making a picture", size,
                    fmt::format("this OpenGL draws at most {} x {}", largest, largest),
                    "choose a smaller scale", ErrorKind::failure);
    glGenRenderbuffers(1, &m_colour);
    glBindRenderbuffer(GL_RENDERBUFFER, m_colour);
    glRenderbufferStorage(GL_RENDERBUFFER, GL_RGBA8, width, height);
    glGenFramebuffers(1, &m_frame_buffer);
    glBindFramebuffer(GL_FRAMEBUFFER, m_frame_buffer);
    glFramebufferRenderbuffer(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_RENDERBUFFER, m_colour);
    if (const GLenum state = glCheckFramebufferStatus(GL_FRAMEBUFFER); state != GL_FRAMEBUFFER_COMPLETE) {
        release();
        bind_window();
        throw Error("making a picture", size, fmt::format("OpenGL refused the buffer (status 0x{:x})", state),
                    "choose a smaller scale", ErrorKind::failure);
    }
    m_width = width;
    m_height = height;
}

void FrameBuffer::bind_window() {
    glBindFramebuffer(GL_FRAMEBUFFER, 0);
}

std::vector<uint32_t> FrameBuffer::read(int x, int y, int width, int height) const {
    if (x < 0 || y < 0 || width < 1 || height < 1 || x + width > m_width || y + height > m_height)
        throw std::out_of_range("FrameBuffer::read: rectangle outside the buffer");
    std::vector<uint32_t> pixels(static_cast<size_t>(width) * static_cast<size_t>(height));
    GLint bound = 0;
    glGetIntegerv(GL_READ_FRAMEBUFFER_BINDING, &bound);
    glBindFramebuffer(GL_READ_FRAMEBUFFER, m_frame_buffer);
    glPixelStorei(GL_PACK_ALIGNMENT, 1);
    // OpenGL's rows go from the bottom.
    glReadPixels(x, m_height - y - height, width, height, GL_RGBA, GL_UNSIGNED_BYTE, pixels.data());
    glBindFramebuffer(GL_READ_FRAMEBUFFER, static_cast<GLuint>(bound));
    const auto row = static_cast<std::ptrdiff_t>(width);
    for (int top = 0, bottom = height - 1; top < bottom; ++top, --bottom)
        std::swap_ranges(pixels.begin() + top * row, pixels.begin() + (top + 1) * row,
                         pixels.begin() + bottom * row);
    for (uint32_t& pixel : pixels)
        pixel |= 0xFF000000U; // blending leaves holes in the alpha of the buffer
    return pixels;
}

} // namespace refreshlab
