#include "ui/panels/cache/cache_panel.h"

#include "engine/control/cache_choice.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/screen_canvas.h"
#include "ui/draw/text.h"
#include "ui/draw/widgets.h"
#include "ui/panels/cache/cache_frame.h"
#include "ui/scene/policy/cache_words.h"
#include "ui/scene/runs/run_set.h"
#include "ui/scene/theme/run_colours.h"

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
    m_shown.state.clear();
    m_top = 0;
}

std::shared_ptr<const Recording> CachePanel::compared_run(const UiContext& ctx) {
    const auto keys = ctx.runs.compared();
    if (keys.empty() || !ctx.views.cache.compared) return nullptr;
    return ctx.runs.recording(keys.front());
}

/// Of both runs: where one of them has a cache policy, what became of the entries.
CacheMap CachePanel::map_of(const UiContext& ctx, const Recording* other) {
    const CacheMap own = shown_map(ctx.views.cache, *ctx.recording);
    return other != nullptr && shown_map(ctx.views.cache, *other) == CacheMap::entries ? CacheMap::entries
                                                                                       : own;
}

void CachePanel::draw(UiContext& ctx) {
    if (!ctx.recording) {
        ImGui::TextDisabled("The cache appears here when a run has begun.");
        return;
    }
    if (m_shown.state.quantity() != ctx.views.cache.quantity) m_top = 0;
    const auto compared = compared_run(ctx);
    if (m_other.recording != compared) {
        m_other.recording = compared;
        m_other.state.clear();
        m_other.marks.clear();
    }
    m_shown.recording = ctx.recording;
    Frame shown, other;
    for (Frame* f : {&shown, &other}) {
        f->side = f == &shown ? &m_shown : &m_other;
        f->recording = f->side->recording.get();
        f->view = &ctx.views.cache;
        f->em = ImGui::GetFontSize();
        f->map = map_of(ctx, compared.get());
    }
    shown.marks = &ctx.marks;
    begin_side(ctx, shown, ctx.shown_step());
    if (compared) {
        m_other.marks.update(compared, compared->steps());
        other.marks = &m_other.marks;
        begin_side(ctx, other, std::min(ctx.shown_step(), compared->steps()));
    }
    draw_toolbar(ctx, shown);
    // In a low panel the map's rows come first, where there is room for some: the mouse over a position tells what its colours
    // mean.
    const float high = ImGui::GetContentRegionAvail().y / shown.em;
    if (compared ? high > 20 : high < 7.5F || high > 10.5F)
        draw_legend(ctx, shown, compared ? &other : nullptr);
    const ImVec2 at = ImGui::GetCursorScreenPos(), room = ImGui::GetContentRegionAvail();
    if (room.x < 10 * shown.em || room.y < 6 * shown.em) {
        muted_text(ctx, "Too small for the map: enlarge this panel");
        return;
    }
    if (!compared) return draw_side(ctx, shown, {at.x, at.y, room.x, room.y});
    const bool beside = room.x > 2.4F * room.y; // as wide as two maps of a good shape
    const float gap = std::round(shown.em * (beside ? 1.0F : 0.5F));
    const PixelBox first{at.x, at.y, beside ? std::round((room.x - gap) / 2) : room.x,
                         beside ? room.y : std::round((room.y - gap) / 2)};
    if (first.height < 6 * shown.em || first.width < 10 * shown.em) {
        draw_side(ctx, shown, {at.x, at.y, room.x, room.y}); // B goes to the other one
        return;
    }
    shown.lanes = other.lanes = first.height > 10 * shown.em;
    draw_side(ctx, shown, draw_name(ctx, shown, first));
    PixelBox second = first;
    (beside ? second.x : second.y) += gap + (beside ? first.width : first.height);
    const LandmarkPrefix names(ctx.landmarks, "compared/");
    ImGui::PushID("compared");
    draw_side(ctx, other, draw_name(ctx, other, second));
    ImGui::PopID();
}

void CachePanel::begin_side(const UiContext& ctx, Frame& f, int64_t step) {
    f.side->state.update(*f.recording, step);
    f.side->state.show(f.view->quantity);
    f.length = std::max<int64_t>(1, f.side->state.columns().length());
    const CachePolicyConfig& policy = deciding_cache(f.recording->info().config);
    f.has_policy = has_entry_events(*f.recording);
    f.method = cache_label(policy);
    f.side->rows = shown_rows(*f.view, f.side->state.cache());
    colour_images(ctx, f);
}

/// Whose map it is: colour, name, cache policy. \return the place below
PixelBox CachePanel::draw_name(UiContext& ctx, const Frame& f, PixelBox place) {
    const float line = ImGui::GetTextLineHeight(), em = f.em;
    const RunNode* const node = ctx.runs.tree().find_id(f.recording->info().id);
    ImDrawList* const list = ImGui::GetWindowDrawList();
    if (node != nullptr)
        list->AddRectFilled({place.x, place.y + line / 2 - 3}, {place.x + em * 0.8F, place.y + line / 2 + 3},
                            run_colour(ctx.theme, node->colour), 2);
    const std::string words = fmt::format("{}{}", node != nullptr ? node->name + ": " : std::string(),
                                          cache_words(deciding_cache(f.recording->info().config)));
    text_at(list, {place.x + em * 1.1F, place.y}, ctx.theme.text, shortened(words, place.width - em * 1.1F));
    const float used = std::round(line + em * 0.25F);
    return {place.x, place.y + used, place.width, place.height - used};
}

void CachePanel::draw_side(UiContext& ctx, Frame& f, PixelBox place) {
    const ScreenPen pen(ctx, ImGui::GetWindowDrawList());
    const CachePicture picture = CachePanel::picture(f);
    const float bytes = ImGui::GetTextLineHeight();
    f.bottom = place.y + place.height;
    f.bytes = {place.x, f.bottom - bytes, place.width, bytes};
    place.height -= bytes + std::round(f.em * 0.25F);
    f.places = cache_places(pen, figure_rect(place), picture, f.lanes);
    f.side->columns = std::max<int64_t>(1, static_cast<int64_t>(f.places.map.width));
    if (f.lanes) paint_cache_lanes(pen, f.places, picture);
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
    m_top = std::max(m_top, f.side->state.shown_top());
    f.view->top = m_top > 0 ? std::optional(m_top) : std::nullopt;
    f.side->images.update(f.side->state,
                          {f.map, f.side->rows, f.view->log, drift_top(*f.view, m_top), f.side->columns},
                          ctx.theme);
}

CachePicture CachePanel::picture(const Frame& f) {
    return {*f.recording, f.side->state, f.side->images, *f.marks};
}

/// Why the drift map is empty: on a card of its own, over the lines, so that none of them crosses the words.
void CachePanel::draw_no_drift(UiContext& ctx, const Frame& f) {
    if (f.map == CacheMap::entries || f.side->images.rows() > 0) return;
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
        const auto x = static_cast<float>(std::round(f.places.x_of(f.side->state, position)) + 0.5);
        list->AddLine(ImVec2(x, static_cast<float>(f.places.origins.y)),
                      ImVec2(x, static_cast<float>(f.places.map.bottom())), colour);
    };
    const int64_t prompt = f.recording->prompt_length();
    if (ctx.hovered_step && *ctx.hovered_step >= 1 && *ctx.hovered_step <= f.side->state.columns().step)
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
    const auto chosen = static_cast<size_t>(f.side->state.quantity());
    const bool whole =
        text_width(quantity_names[chosen]) + ImGui::GetFrameHeight() + em <= ImGui::CalcItemWidth();
    if (ImGui::BeginCombo("##quantity", whole ? quantity_names[chosen] : short_names[chosen])) {
        for (size_t i = 0; i < std::size(quantity_names); ++i) {
            if (!ImGui::Selectable(quantity_names[i], i == static_cast<size_t>(f.side->state.quantity())))
                continue;
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
/// \param others  width of what stands right of the list, pixels
void CachePanel::draw_rows_choice(const Frame& f, float others) {
    const auto name = [](std::optional<int64_t> layer) {
        return layer ? fmt::format("Layer {}, KV heads", *layer) : std::string("All layers");
    };
    ImGui::SetNextItemWidth(std::min(11 * f.em, ImGui::GetContentRegionAvail().x - others));
    if (ImGui::BeginCombo("##rows", name(f.side->rows.layer).c_str())) {
        if (ImGui::Selectable("All layers", !f.side->rows.layer)) f.view->rows.layer.reset();
        for (int64_t layer = 0; layer < f.side->state.cache().layers(); ++layer)
            if (ImGui::Selectable(name(layer).c_str(), f.side->rows.layer == layer))
                f.view->rows.layer = layer;
        ImGui::EndCombo();
    }
    ImGui::SetItemTooltip(
        "Rows of the map; a click on the name of a layer shows its KV heads, another one all layers");
}

void CachePanel::draw_toolbar(UiContext& ctx, Frame& f) {
    draw_map_choice(f);
    ImGui::SameLine();
    const float comparison = comparison_width(ctx);
    if (f.map == CacheMap::entries) {
        const bool room = ImGui::GetContentRegionAvail().x - comparison > 7 * f.em;
        draw_rows_choice(f, room ? comparison : 0);
        if (room) draw_comparison(ctx, f, comparison);
        return;
    }
    const float bar = 7 * f.em; // the shortest colour bar with its two numbers
    draw_quantity_choice(f, ImGui::CalcTextSize("Log").x + ImGui::GetFrameHeight() + 2.0F * f.em + bar);
    ImGui::SameLine();
    ImGui::Checkbox("Log", &f.view->log);
    ImGui::SameLine();
    const std::string_view of = to_string(f.side->state.quantity());
    const ColourScale scale = f.side->images.drift_scale(ctx.theme);
    if (m_range_bar.draw(ctx, f.view->ranges,
                         {.name = "cache",
                          .of = of,
                          .scale = scale,
                          .kind = RangeKind::from_zero,
                          .above = f.side->state.shown_top() > scale.max,
                          .words = own_range(f.view->ranges, of)
                                       ? "A range of your own"
                                       : "Up to the largest drift; it widens by itself",
                          .all = ValueRange{0, f.side->state.shown_top()},
                          .widens = true},
                         7 * f.em))
        m_top = f.side->state.shown_top();
    ImGui::SameLine();
    if (ImGui::GetContentRegionAvail().x >= comparison)
        draw_comparison(ctx, f, comparison);
    else
        ImGui::NewLine(); // the menu has it too
}

/// Room for the comparison with another run, at the end of the toolbar.
float CachePanel::comparison_width(const UiContext& ctx) {
    const ImGuiStyle& style = ImGui::GetStyle();
    const float width = ctx.runs.compared().empty()
                            ? text_width("Compare...") + 2 * style.FramePadding.x
                            : text_width("Both") + ImGui::GetFrameHeight() + style.ItemInnerSpacing.x;
    return width + style.ItemSpacing.x;
}

/// A run to compare with; where one is ticked, whether its map stands below.
void CachePanel::draw_comparison(UiContext& ctx, const Frame& f, float width) {
    ImGui::SameLine();
    ImGui::SetCursorPosX(content_right() - width + ImGui::GetStyle().ItemSpacing.x);
    if (!ctx.runs.compared().empty()) {
        ImGui::Checkbox("Both", &f.view->compared);
        ImGui::SetItemTooltip("The map of the ticked run too, at the same step");
        return;
    }
    if (ImGui::Button("Compare...")) ctx.run_action("run.compare_cache");
    ImGui::SetItemTooltip("Runs the same prompt with another cache policy, and shows both");
}

/// Of what is there in either run. \param other  null: none
void CachePanel::draw_legend(UiContext& ctx, const Frame& f, const Frame* other) {
    const ScreenPen pen(ctx, ImGui::GetWindowDrawList());
    auto entries = cache_legend(ctx.theme, picture(f));
    if (other != nullptr)
        for (LegendEntry& entry : cache_legend(ctx.theme, picture(*other)))
            if (entry.mark != LegendEntry::Mark::scale &&
                std::ranges::find(entries, entry.words, &LegendEntry::words) == entries.end())
                entries.insert(entries.end() - 1, std::move(entry));
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
    const int64_t length = f.side->state.columns().length();
    const CacheBytes bytes = cache_bytes(*f.recording, status, length, f.side->state.teacher_length());
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
    return std::clamp<int64_t>(
        static_cast<int64_t>(std::floor(part * static_cast<double>(f.side->images.rows()))), 0,
        std::max<int64_t>(1, f.side->images.rows()) - 1);
}

void CachePanel::hover(UiContext& ctx, Frame& f) {
    const PixelBox all = pixel_box(
        {f.places.map.x, f.places.origins.y, f.places.map.width, f.places.map.bottom() - f.places.origins.y});
    ImGui::SetCursorScreenPos(ImVec2(all.x, all.y));
    const bool clicked =
        ImGui::InvisibleButton("map", ImVec2(std::max(1.0F, all.width), std::max(1.0F, all.height)));
    const CacheColumns& columns = f.side->state.columns();
    if (f.side->menu.draw("##cache menu", [&] {
            return f.side->under_mouse.empty()
                       ? std::vector<CopyItem>()
                       : std::vector<CopyItem>{{"Copy what is known of this position", f.side->under_mouse}};
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
    if (static_cast<double>(mouse.y) >= f.places.map.y && f.side->images.rows() > 0)
        text += f.map == CacheMap::entries ? entry_text(ctx, f, row_at(f, mouse.y), position)
                                           : drift_text(f.side->state.drift(), row_at(f, mouse.y), position);
    f.side->under_mouse = text;
    if (const int64_t positions = f.side->images.positions_a_column(); positions > 1)
        text += fmt::format("\nOne pixel shows {} positions", positions);
    ImGui::SetTooltip("%s", text.c_str());
    if (clicked) {
        ctx.selection.key_position = position;
        if (step >= 1) ctx.select_step(step);
    }
}

} // namespace refreshlab::ui
