#include "ui/panels/cache/cache_panel.h"

#include "engine/control/cache_choice.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/screen_canvas.h"
#include "ui/draw/text.h"
#include "ui/draw/widgets.h"
#include "ui/panels/cache/cache_frame.h"
#include "ui/scene/policy/cache_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {
namespace {

constexpr const char* short_names[] = {"K and V", "K", "V", "max K", "max V"}; // in a narrow panel
constexpr const char* quantity_names[] = {"K and V, mean", "K", "V", "K, largest difference",
                                          "V, largest difference"};

} // namespace

std::unique_ptr<Panel> make_cache_panel() {
    return std::make_unique<CachePanel>();
}

void CachePanel::recording_changed(UiContext& ctx) {
    ctx.views.cache.top.reset();
    m_state.clear();
    m_top = 0;
}

void CachePanel::draw(UiContext& ctx) {
    if (!ctx.recording) {
        ImGui::TextDisabled("The cache appears here when a run has begun.");
        return;
    }
    Frame f;
    f.recording = ctx.recording.get();
    f.em = ImGui::GetFontSize();
    f.view = &ctx.views.cache;
    f.map = shown_map(*f.view, *f.recording);
    m_state.update(*f.recording, ctx.shown_step());
    if (m_state.quantity() != f.view->quantity) m_top = 0;
    m_state.show(f.view->quantity);
    f.length = std::max<int64_t>(1, m_state.columns().length());
    const CachePolicyConfig& policy = deciding_cache(f.recording->info().config);
    f.has_policy = has_entry_events(*f.recording);
    f.method = cache_label(policy);
    m_rows = shown_rows(*f.view, m_state.cache());
    colour_images(ctx, f);
    draw_toolbar(ctx, f);
    // In a low panel the map's rows come first, where there is room for some: the mouse over a position tells what its colours
    // mean.
    const float high = ImGui::GetContentRegionAvail().y / f.em;
    if (high < 7.5F || high > 10.5F) draw_legend(ctx, f);
    const ImVec2 at = ImGui::GetCursorScreenPos(), room = ImGui::GetContentRegionAvail();
    if (room.x < 10 * f.em || room.y < 6 * f.em) {
        muted_text(ctx, "Too small for the map: enlarge this panel");
        return;
    }
    const ScreenPen pen(ctx, ImGui::GetWindowDrawList());
    const CachePicture picture = this->picture(ctx, f);
    const float bytes = ImGui::GetTextLineHeight();
    f.bottom = at.y + room.y;
    f.bytes = {at.x, f.bottom - bytes, room.x, bytes};
    f.places = cache_places(pen, figure_rect({at.x, at.y, room.x, room.y - bytes - std::round(f.em * 0.25F)}),
                            picture);
    m_columns = std::max<int64_t>(1, static_cast<int64_t>(f.places.map.width));
    paint_cache_lanes(pen, f.places, picture);
    paint_cache_map(pen, f.places, picture);
    paint_cache_marks(pen, f.places, picture);
    draw_lines(ctx, f);
    draw_no_drift(ctx, f);
    paint_cache_axis(pen, f.places, picture);
    ctx.landmarks.set(pixel_box(f.places.origins), "cache/origin");
    ctx.landmarks.set(pixel_box(f.places.map), "cache/map");
    if (f.map == CacheMap::entries) answer_rows(ctx, f);
    if (f.has_policy)
        draw_meter(ctx, f, pen);
    else
        draw_bytes(ctx, f);
    hover(ctx, f);
}

/// As wide as the map was in the last frame: what stands above it is not known before.
void CachePanel::colour_images(const UiContext& ctx, const Frame& f) {
    m_top = std::max(m_top, m_state.shown_top());
    f.view->top = m_top > 0 ? std::optional(m_top) : std::nullopt;
    m_images.update(m_state, {f.map, m_rows, f.view->log, drift_top(*f.view, m_top), m_columns}, ctx.theme);
}

CachePicture CachePanel::picture(const UiContext& ctx, const Frame& f) const {
    return {*f.recording, m_state, m_images, ctx.marks};
}

/// Why the drift map is empty: on a card of its own, over the lines, so that none of them crosses the words.
void CachePanel::draw_no_drift(UiContext& ctx, const Frame& f) {
    if (f.map == CacheMap::entries || m_images.rows() > 0) return;
    ImDrawList* list = ImGui::GetWindowDrawList();
    const PixelBox map = pixel_box(f.places.map);
    const ImVec2 min(map.x, map.y), max(map.x + map.width, map.y + map.height);
    const std::string text = no_drift_text(*f.recording, ctx.engine.recording().get() == f.recording);
    const float most = max.x - min.x - 2 * f.em;
    const ImVec2 size = ImGui::CalcTextSize(text.c_str(), nullptr, false, most);
    const ImVec2 at(std::round((min.x + max.x - size.x) * 0.5F), std::round((min.y + max.y - size.y) * 0.5F));
    const ImVec2 low(at.x - f.em * 0.5F, at.y - f.em * 0.3F),
        high(at.x + size.x + f.em * 0.5F, at.y + size.y + f.em * 0.3F);
    list->PushClipRect(min, max, true);
    list->AddRectFilled(low, high, ctx.theme.plot_background, f.em * 0.3F);
    list->AddText(nullptr, 0, at, ctx.theme.text_muted, text.c_str(), nullptr, most);
    list->PopClipRect();
    ctx.landmarks.set("cache/no drift", {low.x, low.y, high.x - low.x, high.y - low.y});
}

/// The step under the mouse anywhere, and the position that is held.
void CachePanel::draw_lines(UiContext& ctx, const Frame& f) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const auto vertical = [&](double position, Colour colour) {
        const auto x = static_cast<float>(std::round(f.places.x_of(m_state, position)) + 0.5);
        list->AddLine(ImVec2(x, static_cast<float>(f.places.origins.y)),
                      ImVec2(x, static_cast<float>(f.places.map.bottom())), colour);
    };
    const int64_t prompt = f.recording->prompt_length();
    if (ctx.hovered_step && *ctx.hovered_step >= 1 && *ctx.hovered_step <= m_state.columns().step)
        vertical(static_cast<double>(prompt + *ctx.hovered_step) - 0.5, ctx.theme.crosshair);
    if (const auto held = ctx.selection.key_position; held && *held < f.length)
        vertical(static_cast<double>(*held) + 0.5, ctx.theme.selection);
}

/// \param others  width of what stands right of the list, pixels
void CachePanel::draw_quantity_choice(const Frame& f, float others) {
    const float em = f.em;
    if (ImGui::GetContentRegionAvail().x - others > 9 * em + ImGui::CalcTextSize("Drift of ").x) {
        ImGui::AlignTextToFramePadding();
        ImGui::TextUnformatted("Drift of");
        ImGui::SameLine();
    }
    ImGui::SetNextItemWidth(std::clamp(ImGui::GetContentRegionAvail().x - others, 5.4F * em, 9 * em));
    const auto chosen = static_cast<size_t>(m_state.quantity());
    const bool whole =
        text_width(quantity_names[chosen]) + ImGui::GetFrameHeight() + em <= ImGui::CalcItemWidth();
    if (ImGui::BeginCombo("##quantity", whole ? quantity_names[chosen] : short_names[chosen])) {
        for (size_t i = 0; i < std::size(quantity_names); ++i) {
            if (!ImGui::Selectable(quantity_names[i], i == static_cast<size_t>(m_state.quantity()))) continue;
            f.view->quantity = static_cast<DriftQuantity>(i);
        }
        ImGui::EndCombo();
    }
    ImGui::SetItemTooltip(
        "How far the student's entry was from the teacher's when a refresh or probe compared them:\n"
        "relative distance per layer and position, or the largest absolute difference.");
}

void CachePanel::draw_map_choice(const Frame& f) {
    ImGui::SetNextItemWidth(6 * f.em);
    if (ImGui::BeginCombo("##map", f.map == CacheMap::entries ? "Entries" : "Drift")) {
        for (const CacheMap choice : cache_maps)
            if (ImGui::Selectable(choice == CacheMap::entries ? "Entries" : "Drift", choice == f.map))
                f.view->map = choice;
        ImGui::EndCombo();
    }
    ImGui::SetItemTooltip(
        "Entries: what attention reads, what is held, and what has left.\n"
        "Drift: how far the student's entries were from the teacher's at the last refresh.");
}

/// All layers, or one with its KV heads.
void CachePanel::draw_rows_choice(const Frame& f) {
    const auto name = [](std::optional<int64_t> layer) {
        return layer ? fmt::format("Layer {}, KV heads", *layer) : std::string("All layers");
    };
    ImGui::SetNextItemWidth(std::min(11 * f.em, ImGui::GetContentRegionAvail().x));
    if (ImGui::BeginCombo("##rows", name(m_rows.layer).c_str())) {
        if (ImGui::Selectable("All layers", !m_rows.layer)) f.view->rows.layer.reset();
        for (int64_t layer = 0; layer < m_state.cache().layers(); ++layer)
            if (ImGui::Selectable(name(layer).c_str(), m_rows.layer == layer)) f.view->rows.layer = layer;
        ImGui::EndCombo();
    }
    ImGui::SetItemTooltip(
        "Rows of the map; a click on the name of a layer shows its KV heads, another one all layers");
}

void CachePanel::draw_toolbar(UiContext& ctx, Frame& f) {
    draw_map_choice(f);
    ImGui::SameLine();
    if (f.map == CacheMap::entries) return draw_rows_choice(f);
    const float bar = 7 * f.em; // the shortest colour bar with its two numbers
    draw_quantity_choice(f, ImGui::CalcTextSize("Log").x + ImGui::GetFrameHeight() + 2.0F * f.em + bar);
    ImGui::SameLine();
    ImGui::Checkbox("Log", &f.view->log);
    ImGui::SameLine();
    const std::string_view of = to_string(m_state.quantity());
    const ColourScale scale = m_images.drift_scale(ctx.theme);
    if (m_range_bar.draw(ctx, f.view->ranges,
                         {.name = "cache",
                          .of = of,
                          .scale = scale,
                          .kind = RangeKind::from_zero,
                          .above = m_state.shown_top() > scale.max,
                          .words = own_range(f.view->ranges, of)
                                       ? "A range of your own"
                                       : "Up to the largest drift; it widens by itself",
                          .all = ValueRange{0, m_state.shown_top()},
                          .widens = true},
                         7 * f.em))
        m_top = m_state.shown_top();
}

void CachePanel::draw_legend(UiContext& ctx, const Frame& f) {
    const ScreenPen pen(ctx, ImGui::GetWindowDrawList());
    const auto entries = cache_legend(ctx.theme, picture(ctx, f));
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const auto width = static_cast<double>(ImGui::GetContentRegionAvail().x);
    const auto places = legend_places(pen, width, entries);
    ui::draw_legend(pen, {static_cast<double>(at.x), static_cast<double>(at.y)}, width, entries);
    for (size_t i = 0; i < entries.size(); ++i) {
        PixelBox box = pixel_box(places[i]);
        box.x += at.x;
        box.y += at.y;
        const bool ages = entries[i].mark == LegendEntry::Mark::scale;
        ctx.landmarks.set(box, "cache/legend/{}", ages ? "age" : entries[i].words);
    }
    ImGui::Dummy(ImVec2(1, static_cast<float>(places.back().bottom())));
}

/// What the caches take, as much of it as the room allows.
std::string CachePanel::bytes_text(const UiContext& ctx, const Frame& f, float room) const {
    const EngineStatus& status = *ctx.status;
    const RunInfo& info = f.recording->info();
    const int64_t length = m_state.columns().length();
    const CacheBytes bytes = cache_bytes(*f.recording, status, length, m_state.teacher_length());
    std::string text;
    if (bytes.student > 0) text = fmt::format("Student {}", format_bytes(bytes.student));
    if (bytes.teacher > 0)
        text += fmt::format("{} {}", text.empty() ? "Teacher" : ", teacher", format_bytes(bytes.teacher));
    // A recording from a file has no live caches.
    if (text.empty()) text = format_bytes(length * info.cache_bytes_per_token);
    if (text_width(text) > room) // both in one number rather than half of them
        text = format_bytes(bytes.student + bytes.teacher) + " in use";
    if (ctx.engine.recording().get() == f.recording && status.cache_bytes_reserved > 0) {
        const std::string of = fmt::format(" of {}", format_bytes(status.cache_bytes_reserved));
        if (text_width(text + of) <= room) text += of; // whole or not at all
    }
    const std::string more = fmt::format(", {} a token", format_bytes(info.cache_bytes_per_token));
    if (text_width(text + more) <= room) text += more;
    return text;
}

void CachePanel::draw_bytes(UiContext& ctx, const Frame& f) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const std::string text = bytes_text(ctx, f, f.bytes.width);
    list->PushClipRect(ImVec2(f.bytes.x, f.bytes.y), ImVec2(f.bytes.x + f.bytes.width, f.bottom + 2), true);
    text_at(list, ImVec2(f.bytes.x, f.bytes.y), ctx.theme.text, text);
    list->PopClipRect();
    ctx.landmarks.set({f.bytes.x, f.bytes.y, text_width(text), f.bytes.height}, "cache/bytes");
    ctx.landmarks.set_text("cache/bytes", text);
}

/// The row of the map at a place on the screen.
int64_t CachePanel::row_at(const Frame& f, float y) const {
    const double part = (static_cast<double>(y) - f.places.map.y) / std::max(1.0, f.places.map.height);
    return std::clamp<int64_t>(static_cast<int64_t>(std::floor(part * static_cast<double>(m_images.rows()))),
                               0, std::max<int64_t>(1, m_images.rows()) - 1);
}

void CachePanel::hover(UiContext& ctx, Frame& f) {
    const PixelBox all = pixel_box(
        {f.places.map.x, f.places.origins.y, f.places.map.width, f.places.map.bottom() - f.places.origins.y});
    ImGui::SetCursorScreenPos(ImVec2(all.x, all.y));
    const bool clicked =
        ImGui::InvisibleButton("map", ImVec2(std::max(1.0F, all.width), std::max(1.0F, all.height)));
    const CacheColumns& columns = m_state.columns();
    if (m_menu.draw("##cache menu", [&] {
            return m_under_mouse.empty()
                       ? std::vector<CopyItem>()
                       : std::vector<CopyItem>{{"Copy what is known of this position", m_under_mouse}};
        }))
        return;
    if (!ImGui::IsItemHovered() || columns.length() == 0) return;
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    const auto position =
        std::clamp<int64_t>(static_cast<int64_t>(static_cast<double>((mouse.x - all.x) / all.width) *
                                                 static_cast<double>(f.length)),
                            0, columns.length() - 1);
    const int64_t step = position - f.recording->prompt_length() + 1;
    if (step >= 1) ctx.next_hovered_step = step;
    std::string text = column_text(*f.recording, columns, position);
    if (static_cast<double>(mouse.y) >= f.places.map.y && m_images.rows() > 0)
        text += f.map == CacheMap::entries ? entry_text(ctx, f, row_at(f, mouse.y), position)
                                           : drift_text(m_state.drift(), row_at(f, mouse.y), position);
    m_under_mouse = text;
    if (const int64_t positions = m_images.positions_a_column(); positions > 1)
        text += fmt::format("\nOne pixel shows {} positions", positions);
    ImGui::SetTooltip("%s", text.c_str());
    if (clicked) {
        ctx.selection.key_position = position;
        if (step >= 1) ctx.select_step(step);
    }
}

} // namespace refreshlab::ui
