#pragma once

#include <cstdint>
#include <vector>

namespace refreshlab {

/// A colour buffer of its own to draw into and to read back: pictures, and every frame without a display. Needs a
/// current context from construction to destruction; UI thread only.
class FrameBuffer {
public:
    FrameBuffer() = default;
    ~FrameBuffer();
    FrameBuffer(const FrameBuffer&) = delete;
    FrameBuffer& operator=(const FrameBuffer&) = delete;

    /// Creates or resizes it and makes it the target of drawing. Throws Error{failure} when the driver cannot (size).
    void bind(int width, int height);
    static void bind_window(); ///< back to the window's own buffer
    [[nodiscard]] int width() const { return m_width; }
    [[nodiscard]] int height() const { return m_height; }
    /// Pixels of a rectangle, from the top-left corner, row by row from the top; 0xAABBGGRR, alpha 255. The rectangle is
    /// clipped to the buffer by the caller (asserted).
    [[nodiscard]] std::vector<uint32_t> read(int x, int y, int width, int height) const;

private:
    void release();
    unsigned m_frame_buffer = 0, m_colour = 0;
    int m_width = 0, m_height = 0;
};

} // namespace refreshlab
