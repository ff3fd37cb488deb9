#pragma once

#include "ui/base/colour.h"
#include "ui/base/pixel_box.h"

#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

// What figures and panels are drawn with. Lengths are points (1/72 inch) on paper and pixels on the screen, x to the right, y down,
// from the upper left corner. No ImGui in here: a figure needs no display.

inline constexpr double points_per_mm = 72.0 / 25.4;

struct FigurePoint {
    double x = 0, y = 0;
};
struct FigureRect {
    double x = 0, y = 0, width = 0, height = 0;
    [[nodiscard]] double right() const { return x + width; }
    [[nodiscard]] double bottom() const { return y + height; }
};

[[nodiscard]] inline FigureRect figure_rect(PixelBox box) {
    return {static_cast<double>(box.x), static_cast<double>(box.y), static_cast<double>(box.width),
            static_cast<double>(box.height)};
}
[[nodiscard]] inline PixelBox pixel_box(const FigureRect& rect) {
    return {static_cast<float>(rect.x), static_cast<float>(rect.y), static_cast<float>(rect.width),
            static_cast<float>(rect.height)};
}

struct Stroke {
    Colour colour = 0xFF000000U;
    double width = 0.8;
    double dash = 0; ///< length of dashes and gaps; 0: a whole line
};

/// Corners of a rectangle. The screen alone rounds them: on paper a colour reaches as far as its letters.
struct Rounding {
    double radius = 0;
    bool left = true, right = true; ///< which side has round ones
    [[nodiscard]] bool any() const { return radius > 0 && (left || right); }
};

struct TextStyle {
    enum class Align : uint8_t { left, centre, right };
    double size = 8; ///< points
    Colour colour = 0xFF000000U;
    bool bold = false, mono = false;
    Align align = Align::left;
    bool upwards = false; ///< turned by 90 degrees: reads from below
};

/// Sizes of text, the same for every kind of file.
struct TextSize {
    double width = 0;
    double ascent = 0, descent = 0; ///< above and below the base line, of the font
};

/// Cells of a map, and which part of them is drawn.
struct FigureImage {
    int64_t width = 0, height = 0;
    std::span<const uint32_t> rgba; ///< [height][width], 0xAABBGGRR
    std::string_view key = {};      ///< what the screen keeps it under; empty: it is small and not kept
    uint64_t revision = 0;          ///< another one: the cells under this key have changed
    FigureRect part{0, 0, 1, 1};    ///< shares of the image

    [[nodiscard]] bool whole() const {
        return part.x == 0 && part.y == 0 && part.width == 1 && part.height == 1;
    }
    /// With no more cells than the part touches. \param cells  keeps those
    [[nodiscard]] FigureImage touched(std::vector<uint32_t>& cells) const;
    /// Where the whole image would be, so that its part fills the rectangle.
    [[nodiscard]] FigureRect whole_place(const FigureRect& rect) const {
        const double wide = rect.width / part.width, high = rect.height / part.height;
        return {rect.x - part.x * wide, rect.y - part.y * high, wide, high};
    }
};

/// Where a drawing goes: SVG, PDF, pixels or the window (ui/draw/screen_canvas.h).
/// Threads  one.
class FigureCanvas {
public:
    virtual ~FigureCanvas() = default;

    /// A named part of the figure. \param id  letters, digits, '_', '-' and '.'; a second one of that name gets a number
    virtual void begin_group(std::string_view id) = 0;
    virtual void end_group() = 0;
    virtual void push_clip(const FigureRect& rect) = 0;
    virtual void pop_clip() = 0;
    /// A point that is not finite lifts the pen.
    virtual void polyline(std::span<const FigurePoint> points, const Stroke& stroke) = 0;
    virtual void polygon(std::span<const FigurePoint> points, Colour fill) = 0;
    virtual void rectangle(const FigureRect& rect, Colour fill, const Rounding& rounding) = 0;
    virtual void frame(const FigureRect& rect, const Stroke& stroke) = 0;
    /// Cells with hard edges, however large they are drawn.
    virtual void image(const FigureRect& rect, const FigureImage& cells) = 0;
    /// Between these two only images are drawn: the screen is faster when it need not change over for each.
    virtual void begin_images() {}
    virtual void end_images() {}
    /// \param at  on the base line: the left end, the middle or the right end of the text
    virtual void text(FigurePoint at, std::string_view utf8, const TextStyle& style) = 0;
    [[nodiscard]] virtual TextSize measure(std::string_view utf8, const TextStyle& style) const = 0;
    /// Whether the character can be drawn. On paper every one can: other fonts of the machine have it.
    [[nodiscard]] virtual bool has_glyph(uint32_t, const TextStyle&) const { return true; }

    void rectangle(const FigureRect& rect, Colour fill) { rectangle(rect, fill, {}); }
    void line(FigurePoint from, FigurePoint to, const Stroke& stroke) {
        const FigurePoint points[] = {from, to};
        polyline(points, stroke);
    }
    [[nodiscard]] double width_of(std::string_view utf8, const TextStyle& style) const {
        return measure(utf8, style).width;
    }
};

/// A group that ends with its block.
class FigureGroup {
public:
    FigureGroup(FigureCanvas& canvas, std::string_view id)
        : m_canvas(canvas) {
        canvas.begin_group(id);
    }
    ~FigureGroup() { m_canvas.end_group(); }
    FigureGroup(const FigureGroup&) = delete;
    FigureGroup& operator=(const FigureGroup&) = delete;

private:
    FigureCanvas& m_canvas;
};

} // namespace refreshlab::ui
