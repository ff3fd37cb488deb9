#include "ui/panels/cache/cache_panel.h"

#include "engine/control/cache_choice.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/cells.h"
#include "ui/draw/colour_bar.h"
#include "ui/draw/text.h"
#include "ui/panels/cache/cache_frame.h"
#include "ui/scene/maps/heatmap.h"
#include "ui/theme/run_colours.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

void CachePanel::recording_changed(UiContext&) {
    m_state.clear();
    m_top = 0;
}

void CachePanel::Frame::place(ImVec2 at, ImVec2 room, bool bars) {
    const float gap = std::round(em * 0.25F);
    const float lane = std::round(std::clamp(room.y * 0.08F, 0.9F * em, 1.6F * em));
    lanes_min = at;
    x0 = std::round(at.x + 3.1F * em);
    bars_x1 = std::round(at.x + room.x);
    x1 = bars && room.x > 20 * em ? std::round(bars_x1 - 6 * em) : bars_x1;
    bottom = at.y + room.y;
    origin_y0 = std::round(at.y + em * 0.15F);
    origin_y1 = origin_y0 + lane;
    age_y0 = origin_y1 + gap;
    age_y1 = age_y0 + lane;
    drift_y0 = age_y1 + gap;
    const float bytes_height = ImGui::GetTextLineHeight() + gap;
    axis_y = bottom - bytes_height - 1.3F * em;
    drift_y1 = axis_y;
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
    m_log = f.view->log;
    f.length = std::max<int64_t>(1, m_state.columns().length());
    const CachePolicyConfig& policy = deciding_cache(f.recording->info().config);
    f.has_policy = has_entry_events(*f.recording);
    const CacheMethod* method = find_cache_method(policy.policy);
    f.method = method ? std::string(method->label) : policy.policy;
    m_rows = shown_rows(*f.view, m_state.cache());
    f.rows = m_rows.count(m_state.cache());

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
    const bool entries = f.map == CacheMap::entries;
    f.place(at, room, entries);
    draw_lanes(ctx, f);
    if (entries)
        draw_entries(ctx, f);
    else
        draw_drift(ctx, f);
    draw_lines(ctx, f);
    if (!entries) draw_no_drift(ctx, f);
    draw_axis(ctx, f);
    if (f.has_policy)
        draw_meter(ctx, f);
    else
        draw_bytes(ctx, f);
    hover(ctx, f);
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
    const float bar = 5.5F * f.em; // the shortest colour bar with its two numbers
    draw_quantity_choice(f, ImGui::CalcTextSize("Log").x + ImGui::GetFrameHeight() + 2.0F * f.em + bar);
    ImGui::SameLine();
    ImGui::Checkbox("Log", &f.view->log);
    ImGui::SameLine();
    m_top = std::max(m_top, m_state.shown_top());
    draw_fitting_colour_bar("drift", drift_scale(ctx.theme), 7 * f.em);
    if (ImGui::BeginPopupContextItem("drift range")) {
        if (ImGui::MenuItem("Fit range")) m_top = m_state.shown_top();
        ImGui::EndPopup();
    }
}

void CachePanel::draw_legend(UiContext& ctx, Frame& f) {
    // Only the origins that are there, in the order in which they appear.
    std::array<bool, 8> present{};
    for (const Origin origin : m_state.columns().origin)
        present[static_cast<size_t>(origin)] = true;
    ImDrawList* list = ImGui::GetWindowDrawList();
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float end = at.x + ImGui::GetContentRegionAvail().x, box = std::round(f.em * 0.65F);
    float x = at.x, top = at.y;
    const auto make_room = [&](float width) { // in the next line where this one is full
        if (x + width <= end || x == at.x) return;
        x = at.x;
        top += ImGui::GetTextLineHeight() + std::round(f.em * 0.1F);
    };
    const auto entry = [&](const std::string& label, Colour colour, bool hatch) {
        make_room(box + f.em * 0.4F + text_width(label));
        const float y = std::round(top + (ImGui::GetTextLineHeight() - box) * 0.5F);
        if (hatch)
            draw_absent(list, ctx.theme, ImVec2(x, y), ImVec2(x + box, y + box));
        else
            list->AddRectFilled(ImVec2(x, y), ImVec2(x + box, y + box), colour);
        x += box + f.em * 0.4F;
        text_at(list, ImVec2(x, top), ctx.theme.text_muted, label);
        ctx.landmarks.set({x, top, text_width(label), ImGui::GetTextLineHeight()}, "cache/legend/{}", label);
        x = std::round(x + text_width(label) + f.em * 0.9F);
    };
    for (const Origin origin : legend_origins)
        if (present[static_cast<size_t>(origin)])
            entry(origin_label(origin), column_colour(ctx.theme, origin), false);
    if (f.map == CacheMap::drift) {
        entry("not measured", 0, true);
    } else {
        const CellPalette palette = cell_palette(ctx.theme);
        for (size_t cell = 0; cell + 1 < num_cache_cells; ++cell)
            if (m_present[cell]) entry(cell_label(static_cast<CacheCell>(cell)), palette[cell], false);
    }
    // The lane of ages has a scale of its own.
    const ColourScale ages = age_scale(ctx.theme);
    const std::string low = "age 0";
    std::string high = fmt::format("{} steps", format_thousands(std::llround(ages.max)));
    const float bar = 3 * f.em, gap = f.em * 0.4F;
    if (x + text_width(low) + bar + text_width(high) + 2 * gap > end)
        high = format_thousands(std::llround(ages.max)); // the number alone rather than another line
    make_room(text_width(low) + bar + text_width(high) + 2 * gap);
    text_at(list, ImVec2(x, top), ctx.theme.text_muted, low);
    x += text_width(low) + gap;
    const float y = std::round(top + (ImGui::GetTextLineHeight() - box) * 0.5F);
    constexpr int pieces = 32;
    for (int i = 0; i < pieces; ++i)
        list->AddRectFilled(ImVec2(std::round(x + bar * static_cast<float>(i) / pieces), y),
                            ImVec2(std::round(x + bar * static_cast<float>(i + 1) / pieces), y + box),
                            ages.colour((i + 0.5) / pieces));
    ctx.landmarks.set("cache/legend/age", {x, y, bar, box});
    text_at(list, ImVec2(x + bar + gap, top), ctx.theme.text_muted, high);
    ImGui::Dummy(ImVec2(1, top + ImGui::GetTextLineHeight() - at.y));
}

void CachePanel::draw_axis(UiContext& ctx, Frame& f) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float y = f.axis_y + f.em * 0.2F;
    list->AddLine(ImVec2(f.x0, f.axis_y), ImVec2(f.x1, f.axis_y), ctx.theme.plot_border);
    const std::string title = "cache position";
    const float title_x = f.x1 - text_width(title);
    text_at(list, ImVec2(title_x, y), ctx.theme.text_muted, title);
    // The end of the prompt is named where it is; ticks that would touch it give way.
    const auto prompt = static_cast<double>(f.recording->prompt_length());
    const std::string prompt_label = "prompt";
    float prompt_end = f.x_of(prompt) - f.em * 0.3F, prompt_begin = prompt_end - text_width(prompt_label);
    if (prompt_begin < f.x0 + f.em) prompt_begin = prompt_end = -1e9F;
    if (prompt_end > title_x) prompt_begin = prompt_end = -1e9F;
    if (prompt_end > 0) text_at(list, ImVec2(prompt_begin, y), ctx.theme.text_muted, prompt_label);
    for (const int64_t tick :
         whole_ticks(0, f.length, std::max<int64_t>(2, static_cast<int64_t>((f.x1 - f.x0) / (4 * f.em))))) {
        const std::string label = format_thousands(tick);
        const float w = text_width(label);
        const float x = std::max(f.x0, std::round(f.x_of(static_cast<double>(tick) + 0.5)) - w * 0.5F);
        list->AddLine(ImVec2(f.x_of(static_cast<double>(tick) + 0.5), f.axis_y),
                      ImVec2(f.x_of(static_cast<double>(tick) + 0.5), f.axis_y + f.em * 0.2F),
                      ctx.theme.plot_border);
        if (x + w > title_x - f.em * 0.5F) continue;
        if (x < prompt_end + f.em * 0.4F && x + w > prompt_begin - f.em * 0.4F) continue;
        text_at(list, ImVec2(x, y), ctx.theme.text_muted, label);
    }
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

void CachePanel::draw_bytes(UiContext& ctx, Frame& f) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const std::string text = bytes_text(ctx, f, f.x1 - f.lanes_min.x);
    const float line = ImGui::GetTextLineHeight();
    list->PushClipRect(ImVec2(f.lanes_min.x, f.axis_y), ImVec2(f.x1, f.bottom + 2), true);
    text_at(list, ImVec2(f.lanes_min.x, f.bottom - line), ctx.theme.text, text);
    list->PopClipRect();
    ctx.landmarks.set("cache/bytes", {f.lanes_min.x, f.bottom - line, text_width(text), line});
    ctx.landmarks.set_text("cache/bytes", text);
}

void CachePanel::hover(UiContext& ctx, Frame& f) {
    ImGui::SetCursorScreenPos(ImVec2(f.x0, f.origin_y0));
    const bool clicked = ImGui::InvisibleButton(
        "map", ImVec2(std::max(1.0F, f.x1 - f.x0), std::max(1.0F, f.axis_y - f.origin_y0)));
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
        std::clamp<int64_t>(static_cast<int64_t>(static_cast<double>((mouse.x - f.x0) / (f.x1 - f.x0)) *
                                                 static_cast<double>(f.length)),
                            0, columns.length() - 1);
    const int64_t step = position - f.recording->prompt_length() + 1;
    if (step >= 1) ctx.next_hovered_step = step;
    std::string text = column_text(*f.recording, columns, position);
    const bool entries = f.map == CacheMap::entries;
    if (entries && mouse.y >= f.drift_y0) {
        const auto row =
            std::clamp<int64_t>(static_cast<int64_t>((mouse.y - f.drift_y0) / (f.drift_y1 - f.drift_y0) *
                                                     static_cast<float>(f.rows)),
                                0, f.rows - 1);
        text += entry_text(f, row, position);
    }
    if (const int64_t layers = m_state.drift().layers; !entries && mouse.y >= f.drift_y0 && layers > 0) {
        const auto layer =
            std::clamp<int64_t>(static_cast<int64_t>((mouse.y - f.drift_y0) / (f.drift_y1 - f.drift_y0) *
                                                     static_cast<float>(layers)),
                                0, layers - 1);
        text += drift_text(m_state.drift(), layer, position);
    }
    m_under_mouse = text;
    if (m_factor > 1) text += fmt::format("\nOne pixel shows {} positions", m_factor);
    ImGui::SetTooltip("%s", text.c_str());
    if (clicked) {
        ctx.selection.key_position = position;
        if (step >= 1) ctx.select_step(step);
    }
}

} // namespace refreshlab::ui
