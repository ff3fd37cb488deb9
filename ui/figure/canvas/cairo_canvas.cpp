#include "ui/figure/canvas/cairo_canvas.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "ui/figure/canvas/pixels.h"

#include <cairo-pdf.h>
#include <pango/pangocairo.h>

#include <cmath>
#include <cstring>
#include <numbers>

namespace refreshlab::ui {

namespace {

void check(cairo_status_t status) {
    if (status != CAIRO_STATUS_SUCCESS)
        throw Error("drawing a figure", {}, std::string("Cairo says: ") + cairo_status_to_string(status), {},
                    ErrorKind::failure);
}

} // namespace

void CairoCanvas::begin(CairoSurface surface) {
    m_surface = std::move(surface);
    check(cairo_surface_status(m_surface.get()));
    m_context.reset(cairo_create(m_surface.get()));
    check(cairo_status(m_context.get()));
    cairo_set_line_join(m_context.get(), CAIRO_LINE_JOIN_ROUND);
}

std::unique_ptr<CairoCanvas> CairoCanvas::pdf(double width, double height, const FigureFonts& fonts,
                                              const About& about) {
    std::unique_ptr<CairoCanvas> canvas(new CairoCanvas(fonts));
    canvas->m_is_pdf = true;
    const auto append = [](void* to, const unsigned char* data, unsigned size) {
        static_cast<std::string*>(to)->append(reinterpret_cast<const char*>(data), size);
        return CAIRO_STATUS_SUCCESS;
    };
    canvas->begin(CairoSurface(cairo_pdf_surface_create_for_stream(append, &canvas->m_bytes, width, height)));
    cairo_surface_t* surface = canvas->m_surface.get();
    const auto say = [&](cairo_pdf_metadata_t key, const std::string& text) {
        if (!text.empty()) cairo_pdf_surface_set_metadata(surface, key, drawable_text(text).c_str());
    };
    say(CAIRO_PDF_METADATA_TITLE, about.title);
    say(CAIRO_PDF_METADATA_SUBJECT, about.subject);
    say(CAIRO_PDF_METADATA_KEYWORDS, about.keywords);
    say(CAIRO_PDF_METADATA_CREATOR, "RefreshLab");
    say(CAIRO_PDF_METADATA_CREATE_DATE, about.date);
    return canvas;
}

std::unique_ptr<CairoCanvas> CairoCanvas::pixels(double width, double height, const FigureFonts& fonts,
                                                 double pixels_per_point) {
    std::unique_ptr<CairoCanvas> canvas(new CairoCanvas(fonts));
    canvas->begin(CairoSurface(cairo_image_surface_create(
        CAIRO_FORMAT_RGB24, static_cast<int>(std::lround(width * pixels_per_point)),
        static_cast<int>(std::lround(height * pixels_per_point)))));
    cairo_set_source_rgb(canvas->m_context.get(), 1, 1, 1);
    cairo_paint(canvas->m_context.get());
    cairo_scale(canvas->m_context.get(), pixels_per_point, pixels_per_point);
    return canvas;
}

void CairoCanvas::set_colour(Colour colour) {
    const auto part = [&](uint32_t shift) { return static_cast<double>(colour >> shift & 0xFFU) / 255; };
    cairo_set_source_rgba(m_context.get(), part(0), part(8), part(16), part(24));
}

void CairoCanvas::apply(const Stroke& stroke) {
    set_colour(stroke.colour);
    cairo_set_line_width(m_context.get(), stroke.width);
    if (stroke.dash > 0)
        cairo_set_dash(m_context.get(), &stroke.dash, 1, 0);
    else
        cairo_set_dash(m_context.get(), nullptr, 0, 0);
    cairo_stroke(m_context.get());
}

void CairoCanvas::push_clip(const FigureRect& rect) {
    cairo_save(m_context.get());
    cairo_rectangle(m_context.get(), rect.x, rect.y, rect.width, rect.height);
    cairo_clip(m_context.get());
}

void CairoCanvas::pop_clip() {
    cairo_restore(m_context.get());
}

void CairoCanvas::polyline(std::span<const FigurePoint> points, const Stroke& stroke) {
    bool down = false;
    for (const FigurePoint& p : points) {
        const bool finite = std::isfinite(p.x) && std::isfinite(p.y);
        if (finite && down) cairo_line_to(m_context.get(), p.x, p.y);
        if (finite && !down) cairo_move_to(m_context.get(), p.x, p.y);
        down = finite;
    }
    apply(stroke);
}

void CairoCanvas::polygon(std::span<const FigurePoint> points, Colour fill) {
    if (points.size() < 3) return;
    for (const FigurePoint& p : points)
        cairo_line_to(m_context.get(), p.x, p.y);
    cairo_close_path(m_context.get());
    set_colour(fill);
    cairo_fill(m_context.get());
}

void CairoCanvas::rectangle(const FigureRect& rect, Colour fill, const Rounding&) {
    cairo_rectangle(m_context.get(), rect.x, rect.y, rect.width, rect.height);
    set_colour(fill);
    cairo_fill(m_context.get());
}

void CairoCanvas::frame(const FigureRect& rect, const Stroke& stroke) {
    cairo_rectangle(m_context.get(), rect.x, rect.y, rect.width, rect.height);
    apply(stroke);
}

void CairoCanvas::image(const FigureRect& rect, const FigureImage& cells) {
    if (cells.width <= 0 || cells.height <= 0 || rect.width <= 0 || rect.height <= 0) return;
    const CairoSurface pixels = image_surface(cells.width, cells.height, cells.rgba);
    const FigureRect place = cells.whole_place(rect);
    cairo_save(m_context.get());
    cairo_rectangle(m_context.get(), rect.x, rect.y, rect.width, rect.height);
    cairo_clip(m_context.get());
    cairo_translate(m_context.get(), place.x, place.y);
    cairo_scale(m_context.get(), place.width / static_cast<double>(cells.width),
                place.height / static_cast<double>(cells.height));
    cairo_set_source_surface(m_context.get(), pixels.get(), 0, 0);
    cairo_pattern_set_filter(cairo_get_source(m_context.get()), CAIRO_FILTER_NEAREST);
    cairo_rectangle(m_context.get(), 0, 0, static_cast<double>(cells.width),
                    static_cast<double>(cells.height));
    cairo_fill(m_context.get());
    cairo_restore(m_context.get());
}

void CairoCanvas::text(FigurePoint at, std::string_view utf8, const TextStyle& style) {
    if (utf8.empty()) return;
    const std::string clean = drawable_text(utf8);
    PangoLayout* layout = m_fonts.layout(clean, style);
    const double width = m_fonts.measure(clean, style).width;
    const double shift = style.align == TextStyle::Align::centre  ? width / 2
                         : style.align == TextStyle::Align::right ? width
                                                                  : 0;
    cairo_save(m_context.get());
    cairo_translate(m_context.get(), at.x, at.y);
    if (style.upwards) cairo_rotate(m_context.get(), -std::numbers::pi / 2);
    cairo_move_to(m_context.get(), -shift, 0);
    set_colour(style.colour);
    pango_cairo_show_layout_line(m_context.get(), pango_layout_get_line_readonly(layout, 0));
    cairo_new_path(m_context.get());
    cairo_restore(m_context.get());
}

std::string CairoCanvas::finish() {
    if (!m_is_pdf) return png_of(m_surface.get());
    cairo_show_page(m_context.get());
    check(cairo_status(m_context.get()));
    cairo_surface_finish(m_surface.get());
    check(cairo_surface_status(m_surface.get()));
    return m_bytes;
}

CairoCanvas::Image CairoCanvas::image_so_far() {
    RL_ASSERT(!m_is_pdf);
    cairo_surface_flush(m_surface.get());
    Image image{.width = cairo_image_surface_get_width(m_surface.get()),
                .height = cairo_image_surface_get_height(m_surface.get()),
                .rgba = {}};
    image.rgba.resize(static_cast<size_t>(image.width) * static_cast<size_t>(image.height));
    const unsigned char* data = cairo_image_surface_get_data(m_surface.get());
    const int stride = cairo_image_surface_get_stride(m_surface.get());
    for (int y = 0; y < image.height; ++y)
        for (int x = 0; x < image.width; ++x) {
            uint32_t pixel = 0;
            std::memcpy(&pixel, data + static_cast<ptrdiff_t>(y) * stride + static_cast<ptrdiff_t>(x) * 4, 4);
            image.rgba[static_cast<size_t>(y) * static_cast<size_t>(image.width) + static_cast<size_t>(x)] =
                rgba(pixel >> 16U & 0xFFU, pixel >> 8U & 0xFFU, pixel & 0xFFU);
        }
    return image;
}

} // namespace refreshlab::ui
