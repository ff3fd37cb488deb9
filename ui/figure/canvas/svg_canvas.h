#pragma once

#include "ui/figure/canvas/text_measure.h"

#include <array>
#include <map>
#include <set>
#include <string>

namespace refreshlab::ui {

/// Writes SVG 1.1 with text as text, images with hard cells, and the used glyphs of its fonts. The same calls give the same
/// bytes.
class SvgCanvas final : public FigureCanvas {
public:
    /// \param width, height  points
    /// \param fonts          outlives the canvas
    SvgCanvas(double width, double height, const FigureFonts& fonts);

    void begin_group(std::string_view id) override;
    void end_group() override;
    void push_clip(const FigureRect& rect) override;
    void pop_clip() override;
    void polyline(std::span<const FigurePoint> points, const Stroke& stroke) override;
    void polygon(std::span<const FigurePoint> points, Colour fill) override;
    void rectangle(const FigureRect& rect, Colour fill, const Rounding&) override;
    void frame(const FigureRect& rect, const Stroke& stroke) override;
    void image(const FigureRect& rect, const FigureImage& image) override;
    void text(FigurePoint at, std::string_view utf8, const TextStyle& style) override;
    [[nodiscard]] TextSize measure(std::string_view utf8, const TextStyle& style) const override {
        return m_fonts.measure(utf8, style);
    }

    /// The file. \param title  for people; metadata: JSON
    [[nodiscard]] std::string finish(const std::string& title, const std::string& metadata) const;

private:
    double m_width, m_height;
    const FigureFonts& m_fonts;
    std::string m_body, m_definitions;
    std::map<std::string, int, std::less<>> m_ids;
    int m_clips = 0, m_depth = 0;
    std::array<std::set<uint32_t>, 3> m_characters; ///< of the regular, the bold and the mono font
};

} // namespace refreshlab::ui
