#pragma once

// A canvas that keeps what is drawn on it, so that a suite can compare it with what the screen shows.
#include "tests/ui/figure/figure_fixture.h"
#include "ui/figure/canvas/canvas.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::test {

struct DrawnImage {
    std::string group; ///< the innermost one that it stands in
    ui::FigureRect rect;
    int64_t width = 0, height = 0;
    std::vector<uint32_t> rgba;
};

class RecordedCanvas final : public ui::FigureCanvas {
public:
    std::vector<DrawnImage> images;
    std::vector<std::string> texts;
    std::vector<std::pair<ui::FigureRect, ui::Colour>> rectangles;

    [[nodiscard]] bool says(std::string_view part) const {
        return std::ranges::any_of(
            texts, [&](const std::string& text) { return text.find(part) != std::string::npos; });
    }
    /// Those of one group, in order.
    [[nodiscard]] std::vector<DrawnImage> images_of(std::string_view group) const {
        std::vector<DrawnImage> found;
        for (const DrawnImage& image : images)
            if (image.group == group) found.push_back(image);
        return found;
    }

    void begin_group(std::string_view id) override { m_groups.emplace_back(id); }
    void end_group() override { m_groups.pop_back(); }
    void push_clip(const ui::FigureRect&) override {}
    void pop_clip() override {}
    void polyline(std::span<const ui::FigurePoint>, const ui::Stroke&) override {}
    void polygon(std::span<const ui::FigurePoint>, ui::Colour) override {}
    void rectangle(const ui::FigureRect& rect, ui::Colour fill) override {
        rectangles.emplace_back(rect, fill);
    }
    void frame(const ui::FigureRect&, const ui::Stroke&) override {}
    void image(const ui::FigureRect& rect, int64_t width, int64_t height,
               std::span<const uint32_t> rgba) override {
        images.push_back({m_groups.empty() ? std::string() : m_groups.back(), rect, width, height,
                          std::vector<uint32_t>(rgba.begin(), rgba.end())});
    }
    void text(ui::FigurePoint, std::string_view utf8, const ui::TextStyle&) override {
        texts.emplace_back(utf8);
    }
    /// Letters of one width.
    [[nodiscard]] ui::TextSize measure(std::string_view utf8, const ui::TextStyle& style) const override {
        return {0.5 * style.size * static_cast<double>(utf8.size()), style.size * 0.75, style.size * 0.25};
    }

private:
    std::vector<std::string> m_groups;
};

/// A figure on paper, 240 points wide.
inline RecordedCanvas drawn(const ui::FigureRequest& request) {
    RecordedCanvas canvas;
    const ui::FigureStyle style = paper();
    const ui::FigurePen pen{canvas, style};
    const auto figure = ui::make_figure(request);
    figure->draw(pen, {0, 0, 240, figure->height(pen, 240)});
    return canvas;
}

} // namespace refreshlab::test
