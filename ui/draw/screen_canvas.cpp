#include "ui/draw/screen_canvas.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace refreshlab::ui {

namespace {

ImVec2 pixel(FigurePoint at) {
    return {static_cast<float>(at.x), static_cast<float>(at.y)};
}
ImVec2 corner(const FigureRect& rect) {
    return {static_cast<float>(rect.x), static_cast<float>(rect.y)};
}
ImVec2 far_corner(const FigureRect& rect) {
    return {static_cast<float>(rect.right()), static_cast<float>(rect.bottom())};
}
bool is_finite(FigurePoint at) {
    return std::isfinite(at.x) && std::isfinite(at.y);
}
/// Images that follow have sharp cells, or are drawn as everything else is. (ImGui's renderer binds a linear sampler of its own.)
void sample(ImDrawList* list, ImDrawCallback sampler) {
    if (sampler != nullptr) list->AddCallback(sampler, nullptr);
}
/// The whole or nothing: what is turned would not be clipped.
bool in_sight(const ImDrawList* list, ImVec2 low, ImVec2 high) {
    const ImVec2 clip_low = list->GetClipRectMin(), clip_high = list->GetClipRectMax();
    return low.x >= clip_low.x && low.y >= clip_low.y && high.x <= clip_high.x && high.y <= clip_high.y;
}

} // namespace

void ScreenCanvas::begin_group(std::string_view id) {
    if (m_ctx.painted) m_ctx.painted->begin_group(id);
}

void ScreenCanvas::end_group() {
    if (m_ctx.painted) m_ctx.painted->end_group();
}

void ScreenCanvas::push_clip(const FigureRect& rect) {
    if (m_ctx.painted) m_ctx.painted->push_clip(rect);
    m_list->PushClipRect(corner(rect), far_corner(rect), true);
}

void ScreenCanvas::pop_clip() {
    if (m_ctx.painted) m_ctx.painted->pop_clip();
    m_list->PopClipRect();
}

void ScreenCanvas::polyline(std::span<const FigurePoint> points, const Stroke& stroke) {
    if (m_ctx.painted) m_ctx.painted->polyline(points, stroke);
    const auto thick = static_cast<float>(stroke.width);
    std::vector<ImVec2> part;
    for (size_t i = 0; i < points.size();) {
        size_t end = i;
        while (end < points.size() && is_finite(points[end]))
            ++end;
        const auto piece = points.subspan(i, end - i);
        i = end + 1;
        if (piece.size() < 2) continue;
        if (stroke.dash > 0) {
            dashes(piece, stroke);
        } else if (piece.size() == 2 && (piece[0].x == piece[1].x || piece[0].y == piece[1].y)) {
            const auto round = [](FigurePoint p) { return pixel({std::round(p.x), std::round(p.y)}); };
            m_list->AddLine(round(piece[0]), round(piece[1]), stroke.colour, thick);
        } else {
            part.clear();
            for (const FigurePoint& p : piece)
                part.push_back(pixel(p));
            m_list->AddPolyline(part.data(), static_cast<int>(part.size()), stroke.colour, thick);
        }
    }
}

/// The pattern goes on round corners.
void ScreenCanvas::dashes(std::span<const FigurePoint> points, const Stroke& stroke) {
    double done = 0; // of the pattern, a dash and a gap
    for (size_t i = 0; i + 1 < points.size(); ++i) {
        const FigurePoint a = points[i], b = points[i + 1];
        const double length = std::hypot(b.x - a.x, b.y - a.y);
        for (double at = 0; at < length;) {
            const bool drawn = done < stroke.dash;
            const double end = std::min(length, at + (drawn ? stroke.dash : 2 * stroke.dash) - done);
            const auto on_line = [&](double way) {
                return pixel({a.x + (b.x - a.x) * way / length, a.y + (b.y - a.y) * way / length});
            };
            if (drawn)
                m_list->AddLine(on_line(at), on_line(end), stroke.colour, static_cast<float>(stroke.width));
            done += end - at;
            if (done >= 2 * stroke.dash) done = 0;
            at = end > at ? end : length;
        }
    }
}

void ScreenCanvas::polygon(std::span<const FigurePoint> points, Colour fill) {
    if (m_ctx.painted) m_ctx.painted->polygon(points, fill);
    if (points.size() < 3) return;
    std::vector<ImVec2> corners;
    for (const FigurePoint& p : points)
        corners.push_back(pixel(p));
    m_list->AddConvexPolyFilled(corners.data(), static_cast<int>(corners.size()), fill);
}

void ScreenCanvas::rectangle(const FigureRect& rect, Colour fill, const Rounding& rounding) {
    if (m_ctx.painted) m_ctx.painted->rectangle(rect, fill, rounding);
    if (rect.width <= 0 || rect.height <= 0) return;
    const ImDrawFlags corners =
        (rounding.left ? ImDrawFlags_RoundLeft : 0) | (rounding.right ? ImDrawFlags_RoundRight : 0);
    m_list->AddRectFilled(corner(rect), far_corner(rect), fill, static_cast<float>(rounding.radius),
                          rounding.any() ? corners : ImDrawFlags_RoundNone);
}

void ScreenCanvas::frame(const FigureRect& rect, const Stroke& stroke) {
    if (m_ctx.painted) m_ctx.painted->frame(rect, stroke);
    m_list->AddRect(corner(rect), far_corner(rect), stroke.colour, 0, static_cast<float>(stroke.width));
}

void ScreenCanvas::image(const FigureRect& rect, const FigureImage& cells) {
    if (m_ctx.painted) m_ctx.painted->image(rect, cells);
    if (cells.width <= 0 || cells.height <= 0 || rect.width <= 0 || rect.height <= 0) return;
    if (!cells.key.empty()) {
        const ImTextureID texture = m_ctx.host.texture(
            m_ctx.landmarks.prefix() + std::string(cells.key), static_cast<int>(cells.width),
            static_cast<int>(cells.height), cells.rgba, cells.revision);
        const bool alone = !m_images;
        if (alone) begin_images();
        m_list->AddImage(texture, corner(rect), far_corner(rect), corner(cells.part), far_corner(cells.part));
        if (alone) end_images();
        return;
    }
    const FigureRect place = cells.whole_place(rect);
    const double wide = place.width / static_cast<double>(cells.width),
                 high = place.height / static_cast<double>(cells.height);
    for (int64_t y = 0; y < cells.height; ++y)
        for (int64_t x = 0; x < cells.width; ++x) {
            const Colour colour = cells.rgba[static_cast<size_t>(y * cells.width + x)];
            const auto left = static_cast<float>(std::round(place.x + static_cast<double>(x) * wide)),
                       right = static_cast<float>(std::round(place.x + static_cast<double>(x + 1) * wide));
            const auto top = static_cast<float>(place.y + static_cast<double>(y) * high),
                       bottom = static_cast<float>(place.y + static_cast<double>(y + 1) * high);
            if (right > left) m_list->AddRectFilled({left, top}, {right, bottom}, colour);
        }
}

void ScreenCanvas::begin_images() {
    m_images = true;
    sample(m_list, ImGui::GetPlatformIO().DrawCallback_SetSamplerNearest);
}

void ScreenCanvas::end_images() {
    m_images = false;
    sample(m_list, ImGui::GetPlatformIO().DrawCallback_SetSamplerLinear);
}

ImFont* ScreenCanvas::font(const TextStyle& style) const {
    return style.mono ? m_ctx.fonts.mono : style.bold ? m_ctx.fonts.medium : ImGui::GetFont();
}

TextSize ScreenCanvas::measure(std::string_view utf8, const TextStyle& style) const {
    const auto size = static_cast<float>(style.size);
    ImFont* face = font(style);
    if (m_measured != face || m_measured_size != size) {
        const ImFontBaked* baked = face->GetFontBaked(size);
        m_measured = face;
        m_measured_size = size;
        m_heights = {0, static_cast<double>(baked->Ascent), static_cast<double>(-baked->Descent)};
    }
    TextSize found = m_heights;
    if (!utf8.empty())
        found.width = static_cast<double>(
            face->CalcTextSizeA(size, FLT_MAX, 0, utf8.data(), utf8.data() + utf8.size()).x);
    return found;
}

void ScreenCanvas::text(FigurePoint at, std::string_view utf8, const TextStyle& style) {
    if (m_ctx.painted) m_ctx.painted->text(at, utf8, style);
    if (utf8.empty()) return;
    const auto size = static_cast<float>(style.size);
    const bool plain =
        style.align == TextStyle::Align::left && !style.upwards; // most are: no need of their width
    const TextSize box = measure(plain ? std::string_view() : utf8, style);
    const double before = style.align == TextStyle::Align::centre  ? box.width / 2
                          : style.align == TextStyle::Align::right ? box.width
                                                                   : 0;
    const auto whole = [](double x, double y) { return pixel({std::round(x), std::round(y)}); };
    const char *first = utf8.data(), *last = first + utf8.size();
    if (!style.upwards)
        return m_list->AddText(font(style), size, whole(at.x - before, at.y - box.ascent), style.colour,
                               first, last);
    // Dear ImGui draws only from left to right: written at the screen's corner, where nothing of it is clipped, then turned.
    const ImVec2 foot = whole(at.x - box.ascent, at.y + before), origin = ImGui::GetMainViewport()->Pos;
    const auto width = static_cast<float>(box.width), height = static_cast<float>(box.ascent + box.descent);
    if (!in_sight(m_list, {foot.x, foot.y - width}, {foot.x + height, foot.y})) return;
    m_list->PushClipRectFullScreen();
    const int from = m_list->VtxBuffer.Size;
    m_list->AddText(font(style), size, origin, style.colour, first, last);
    for (int i = from; i < m_list->VtxBuffer.Size; ++i) {
        ImVec2& p = m_list->VtxBuffer[i].pos;
        p = ImVec2(foot.x + (p.y - origin.y), foot.y - (p.x - origin.x));
    }
    m_list->PopClipRect();
}

} // namespace refreshlab::ui
