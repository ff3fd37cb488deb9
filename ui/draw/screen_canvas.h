#pragma once

#include "ui/context/context.h"
#include "ui/figure/canvas/canvas.h"
#include "ui/figure/pen.h"

#include <imgui.h>

#include <string>
#include <string_view>

namespace refreshlab::ui {

/// A canvas of the window: what is drawn goes to a draw list of this frame. Text and lines along an axis stand on whole pixels, so
/// that they are sharp. Images with a key are kept as textures; those without are drawn cell by cell.
/// Threads  the UI thread, within a frame.
class ScreenCanvas final : public FigureCanvas {
public:
    ScreenCanvas(UiContext& ctx, ImDrawList* list)
        : m_ctx(ctx)
        , m_list(list) {}

    void begin_group(std::string_view id) override;
    void end_group() override;
    void push_clip(const FigureRect& rect) override;
    void pop_clip() override;
    void polyline(std::span<const FigurePoint> points, const Stroke& stroke) override;
    void polygon(std::span<const FigurePoint> points, Colour fill) override;
    void rectangle(const FigureRect& rect, Colour fill, const Rounding& rounding) override;
    void frame(const FigureRect& rect, const Stroke& stroke) override;
    void image(const FigureRect& rect, const FigureImage& cells) override;
    void begin_images() override;
    void end_images() override;
    void text(FigurePoint at, std::string_view utf8, const TextStyle& style) override;
    [[nodiscard]] TextSize measure(std::string_view utf8, const TextStyle& style) const override;
    [[nodiscard]] bool has_glyph(uint32_t code_point, const TextStyle& style) const override {
        return font(style)->IsGlyphInFont(static_cast<ImWchar>(code_point));
    }

private:
    [[nodiscard]] ImFont* font(const TextStyle& style) const;
    void dashes(std::span<const FigurePoint> points, const Stroke& stroke);

    UiContext& m_ctx;
    ImDrawList* m_list;
    bool m_images = false; ///< between begin_images() and end_images()
    /// Heights that were asked for last: most text is of one font and size.
    mutable const ImFont* m_measured = nullptr;
    mutable float m_measured_size = 0;
    mutable TextSize m_heights;
};

/// For layouts that outlive a frame: width of words in the font of the frame that asks, pixels.
[[nodiscard]] inline float screen_text_width(std::string_view text) {
    return ImGui::CalcTextSize(text.data(), text.data() + text.size()).x;
}

/// What a panel paints with in a frame.
class ScreenPen {
public:
    ScreenPen(UiContext& ctx, ImDrawList* list)
        : m_canvas(ctx, list)
        , m_pen{m_canvas, ctx.screen_style} {}
    ScreenPen(const ScreenPen&) = delete;
    ScreenPen& operator=(const ScreenPen&) = delete;

    operator const FigurePen&() const { return m_pen; }
    [[nodiscard]] const FigurePen* operator->() const { return &m_pen; }

private:
    ScreenCanvas m_canvas;
    FigurePen m_pen;
};

} // namespace refreshlab::ui
