#include "ui/figure/canvas/svg_canvas.h"

#include "engine/text/utf8.h"
#include "ui/base/markup.h"
#include "ui/figure/canvas/font_subset.h"
#include "ui/figure/canvas/pixels.h"

#include <fmt/format.h>

#include <cmath>

namespace refreshlab::ui {

namespace {

/// Three digits after the point are a thousandth of a point; no trailing zeros, so that equal figures are equal bytes.
std::string number(double value) {
    std::string text = fmt::format("{:.3f}", value);
    while (text.back() == '0')
        text.pop_back();
    if (text.back() == '.') text.pop_back();
    return text == "-0" ? "0" : text;
}

/// The attributes of a colour: `name`="#rrggbb", and its opacity where it has one.
std::string paint(const char* name, Colour colour) {
    std::string text = fmt::format("{}=\"{}\"", name, colour_text(colour));
    const uint32_t alpha = colour >> 24U;
    if (alpha < 255) text += fmt::format(" {}-opacity=\"{}\"", name, number(alpha / 255.0));
    return text;
}

/// Characters that XML 1.0 allows, its own marks escaped.
std::string escaped(std::string_view utf8) {
    std::string text;
    for (const char c : utf8) {
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t')
            text += c;
        else
            text += "\xEF\xBF\xBD";
    }
    return escaped_markup(text);
}

std::string box(const FigureRect& r) {
    return fmt::format("x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", number(r.x), number(r.y),
                       number(r.width), number(r.height));
}

std::string stroke_text(const Stroke& stroke) {
    std::string text =
        fmt::format("{} stroke-width=\"{}\"", paint("stroke", stroke.colour), number(stroke.width));
    if (stroke.dash > 0) text += fmt::format(" stroke-dasharray=\"{}\"", number(stroke.dash));
    return text;
}

} // namespace

SvgCanvas::SvgCanvas(double width, double height, const FigureFonts& fonts)
    : m_width(width)
    , m_height(height)
    , m_fonts(fonts) {}

void SvgCanvas::begin_group(std::string_view id) {
    std::string name;
    for (const char c : id)
        name += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' ? c : '_';
    if (const int before = m_ids[name]++; before > 0) name += fmt::format("-{}", before + 1);
    m_body += fmt::format("<g id=\"{}\">\n", name);
    ++m_depth;
}

void SvgCanvas::end_group() {
    m_body += "</g>\n";
    --m_depth;
}

void SvgCanvas::push_clip(const FigureRect& rect) {
    m_definitions += fmt::format("<clipPath id=\"clip{}\"><rect {}/></clipPath>\n", ++m_clips, box(rect));
    m_body += fmt::format("<g clip-path=\"url(#clip{})\">\n", m_clips);
}

void SvgCanvas::pop_clip() {
    m_body += "</g>\n";
}

void SvgCanvas::polyline(std::span<const FigurePoint> points, const Stroke& stroke) {
    std::string path;
    bool down = false;
    for (const FigurePoint& p : points) {
        const bool finite = std::isfinite(p.x) && std::isfinite(p.y);
        if (finite) path += fmt::format("{}{} {}", down ? "L" : "M", number(p.x), number(p.y));
        down = finite;
    }
    if (!path.empty())
        m_body += fmt::format("<path d=\"{}\" fill=\"none\" {} stroke-linejoin=\"round\"/>\n", path,
                              stroke_text(stroke));
}

void SvgCanvas::polygon(std::span<const FigurePoint> points, Colour fill) {
    if (points.size() < 3) return;
    std::string list;
    for (const FigurePoint& p : points)
        list += fmt::format("{}{},{}", list.empty() ? "" : " ", number(p.x), number(p.y));
    m_body += fmt::format("<polygon points=\"{}\" {}/>\n", list, paint("fill", fill));
}

void SvgCanvas::rectangle(const FigureRect& rect, Colour fill, const Rounding&) {
    if (rect.width > 0 && rect.height > 0)
        m_body += fmt::format("<rect {} {}/>\n", box(rect), paint("fill", fill));
}

void SvgCanvas::frame(const FigureRect& rect, const Stroke& stroke) {
    m_body += fmt::format("<rect {} fill=\"none\" {}/>\n", box(rect), stroke_text(stroke));
}

void SvgCanvas::image(const FigureRect& rect, const FigureImage& image) {
    std::vector<uint32_t> kept;
    const FigureImage cells = image.touched(kept);
    if (cells.width <= 0 || cells.height <= 0 || rect.width <= 0 || rect.height <= 0) return;
    if (!cells.whole()) push_clip(rect);
    m_body +=
        fmt::format("<image {} preserveAspectRatio=\"none\" style=\"image-rendering:pixelated\" "
                    "xlink:href=\"data:image/png;base64,{}\"/>\n",
                    box(cells.whole_place(rect)), base64(png_bytes(cells.width, cells.height, cells.rgba)));
    if (!cells.whole()) pop_clip();
}

void SvgCanvas::text(FigurePoint at, std::string_view utf8, const TextStyle& style) {
    if (utf8.empty()) return;
    const std::string clean = drawable_text(utf8);
    auto& characters = m_characters[style.mono ? 2 : style.bold ? 1 : 0];
    for (size_t byte = 0; byte < clean.size();) {
        const Utf8Step step = utf8_step(clean, byte);
        characters.insert(static_cast<uint32_t>(step.code_point));
        byte += step.length;
    }
    const char* anchor = style.align == TextStyle::Align::centre  ? " text-anchor=\"middle\""
                         : style.align == TextStyle::Align::right ? " text-anchor=\"end\""
                                                                  : "";
    const std::string turn =
        style.upwards ? fmt::format(" transform=\"rotate(-90 {} {})\"", number(at.x), number(at.y)) : "";
    m_body += fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\" font-size=\"{}\" {}{}{}>{}</text>\n",
                          style.mono   ? "m"
                          : style.bold ? "b"
                                       : "r",
                          number(at.x), number(at.y), number(style.size), paint("fill", style.colour), anchor,
                          turn, escaped(clean));
}

std::string SvgCanvas::finish(const std::string& title, const std::string& metadata) const {
    std::string faces, classes;
    const char* const names[] = {"r", "b", "m"};
    for (size_t i = 0; i < m_characters.size(); ++i) {
        if (m_characters[i].empty()) continue;
        const TextStyle style{.bold = i == 1, .mono = i == 2};
        const std::string embedded = fmt::format("RefreshLab-{}", names[i]);
        if (const std::string font = font_subset(m_fonts.font_file(style), m_characters[i]); !font.empty())
            faces += fmt::format(
                "@font-face{{font-family:'{}';src:url(data:font/ttf;base64,{}) format('truetype')}}\n",
                embedded, base64(font));
        // Browsers round the widths of small letters to pixels unless they are asked not to: the words would
        // be wider than what was measured, and run out of the figure.
        classes += fmt::format(
            ".{}{{text-rendering:geometricPrecision;font-family:'{}', {};font-weight:{};white-space:pre}}\n",
            names[i], embedded, FigureFonts::families(style), i == 1 ? 500 : 400);
    }
    return fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" "
        "version=\"1.1\" width=\"{}mm\" height=\"{}mm\" viewBox=\"0 0 {} {}\">\n"
        "<title>{}</title>\n<metadata>{}</metadata>\n<defs>\n<style>\n{}{}</style>\n{}</defs>\n{}</svg>\n",
        number(m_width / points_per_mm), number(m_height / points_per_mm), number(m_width), number(m_height),
        escaped(title), escaped(metadata), faces, classes, m_definitions, m_body);
}

} // namespace refreshlab::ui
