#pragma once

// A canvas that keeps what is drawn on it: of a figure, or of the window's panels (UiContext::painted).
#include "ui/figure/canvas/canvas.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refreshlab::test {

/// What was drawn, with the innermost group that it stands in.
struct DrawnImage {
    std::string group;
    ui::FigureRect rect;
    int64_t width = 0, height = 0;
    std::vector<uint32_t> rgba;
};
struct DrawnRectangle {
    std::string group;
    ui::FigureRect rect;
    ui::Colour fill = 0;
};
struct DrawnLine {
    std::string group;
    std::vector<ui::FigurePoint> points;
    ui::Stroke stroke;
};
struct DrawnText {
    std::string group;
    std::string words;
    ui::TextStyle style;
    ui::FigurePoint at; ///< as text() takes it
};

class RecordedCanvas final : public ui::FigureCanvas {
public:
    std::vector<DrawnImage> images;
    std::vector<DrawnRectangle> rectangles;
    std::vector<DrawnRectangle> frames; ///< of which only the edge is drawn
    std::vector<DrawnLine> lines;
    std::vector<DrawnText> texts;

    void clear() { *this = {}; }
    [[nodiscard]] bool says(std::string_view part) const {
        return std::ranges::any_of(
            texts, [&](const DrawnText& text) { return text.words.find(part) != std::string::npos; });
    }
    /// Those of one group, in order.
    [[nodiscard]] std::vector<DrawnImage> images_of(std::string_view group) const {
        return of(images, group);
    }
    [[nodiscard]] std::vector<DrawnRectangle> rectangles_of(std::string_view group) const {
        return of(rectangles, group);
    }
    [[nodiscard]] std::vector<DrawnLine> lines_of(std::string_view group) const { return of(lines, group); }
    [[nodiscard]] std::vector<DrawnText> texts_of(std::string_view group) const { return of(texts, group); }

    void begin_group(std::string_view id) override { m_groups.emplace_back(id); }
    void end_group() override { m_groups.pop_back(); }
    void push_clip(const ui::FigureRect&) override {}
    void pop_clip() override {}
    void polyline(std::span<const ui::FigurePoint> points, const ui::Stroke& stroke) override {
        lines.push_back({group(), {points.begin(), points.end()}, stroke});
    }
    void polygon(std::span<const ui::FigurePoint>, ui::Colour) override {}
    void rectangle(const ui::FigureRect& rect, ui::Colour fill, const ui::Rounding&) override {
        rectangles.push_back({group(), rect, fill});
    }
    void frame(const ui::FigureRect& rect, const ui::Stroke& stroke) override {
        frames.push_back({group(), rect, stroke.colour});
    }
    void image(const ui::FigureRect& rect, const ui::FigureImage& image) override {
        std::vector<uint32_t> kept;
        const ui::FigureImage cells = image.touched(kept);
        images.push_back({group(), cells.whole_place(rect), cells.width, cells.height,
                          std::vector<uint32_t>(cells.rgba.begin(), cells.rgba.end())});
    }
    void text(ui::FigurePoint at, std::string_view utf8, const ui::TextStyle& style) override {
        texts.push_back({group(), std::string(utf8), style, at});
    }
    /// Letters of one width.
    [[nodiscard]] ui::TextSize measure(std::string_view utf8, const ui::TextStyle& style) const override {
        return {0.5 * style.size * static_cast<double>(utf8.size()), style.size * 0.75, style.size * 0.25};
    }

private:
    [[nodiscard]] std::string group() const { return m_groups.empty() ? std::string() : m_groups.back(); }
    template <class Drawn>
    static std::vector<Drawn> of(const std::vector<Drawn>& all, std::string_view group) {
        std::vector<Drawn> found;
        for (const Drawn& drawn : all)
            if (drawn.group == group) found.push_back(drawn);
        return found;
    }

    std::vector<std::string> m_groups;
};

} // namespace refreshlab::test
