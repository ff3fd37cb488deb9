#pragma once

#include "ui/figure/canvas/cairo_surface.h"
#include "ui/figure/canvas/text_measure.h"

#include <string>
#include <vector>

namespace refreshlab::ui {

/// Draws with Cairo and Pango: one page of PDF, or pixels.
class CairoCanvas final : public FigureCanvas {
public:
    struct About {
        std::string title, subject, keywords, date; ///< date: ISO 8601; the same gives the same bytes
    };
    /// A page of PDF with real text and a subset of its fonts. \param width, height  points
    /// \param fonts  outlives the canvas
    /// Throws Error{failure} where Cairo makes none.
    [[nodiscard]] static std::unique_ptr<CairoCanvas> pdf(double width, double height,
                                                          const FigureFonts& fonts, const About& about);
    /// White pixels. \param pixels_per_point  1 at 72 dpi
    [[nodiscard]] static std::unique_ptr<CairoCanvas>
    pixels(double width, double height, const FigureFonts& fonts, double pixels_per_point);

    void begin_group(std::string_view) override {}
    void end_group() override {}
    void push_clip(const FigureRect& rect) override;
    void pop_clip() override;
    void polyline(std::span<const FigurePoint> points, const Stroke& stroke) override;
    void polygon(std::span<const FigurePoint> points, Colour fill) override;
    void rectangle(const FigureRect& rect, Colour fill, const Rounding&) override;
    void frame(const FigureRect& rect, const Stroke& stroke) override;
    void image(const FigureRect& rect, const FigureImage& cells) override;
    void text(FigurePoint at, std::string_view utf8, const TextStyle& style) override;
    [[nodiscard]] TextSize measure(std::string_view utf8, const TextStyle& style) const override {
        return m_fonts.measure(utf8, style);
    }

    /// The PDF or PNG file; nothing may be drawn after it. Throws Error{failure}.
    [[nodiscard]] std::string finish();
    /// Pixels so far, for a texture. Not of a PDF (asserted).
    struct Image {
        int width = 0, height = 0;
        std::vector<uint32_t> rgba; ///< 0xAABBGGRR, opaque
    };
    [[nodiscard]] Image image_so_far();

private:
    explicit CairoCanvas(const FigureFonts& fonts)
        : m_fonts(fonts) {}
    void begin(CairoSurface surface);
    void set_colour(Colour colour);
    void apply(const Stroke& stroke);

    const FigureFonts& m_fonts;
    std::string m_bytes; ///< of the PDF
    CairoSurface m_surface;
    CairoContext m_context;
    bool m_is_pdf = false;
};

} // namespace refreshlab::ui
