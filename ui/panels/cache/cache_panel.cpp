#include "ui/panels/cache/cache_panel.h"

#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/cells.h"
#include "ui/draw/colour_bar.h"
#include "ui/scene/maps/heatmap.h"
#include "ui/scene/text/token_label.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace refreshlab::ui {
namespace {

constexpr const char* short_names[] = {"K and V", "K", "V", "max K", "max V"}; // in a narrow panel
constexpr const char* quantity_names[] = {"K and V, mean", "K", "V", "K, largest difference",
                                          "V, largest difference"};

/// Of a column of the cache: here who decodes has one colour, the student or the teacher.
ImU32 column_colour(const Theme& theme, Origin origin) {
    switch (origin) {
    case Origin::teacher_prefill:
    case Origin::student_prefill:
        return theme.origin_prefill;
    case Origin::teacher_refresh:
        return theme.origin_refresh;
    case Origin::student:
    case Origin::teacher_decode:
        return theme.origin_student;
    case Origin::skipped:
        return theme.origin_skipped;
    case Origin::none:
        break;
    }
    return theme.absent_a;
}

void text_at(ImDrawList* list, ImVec2 at, ImU32 colour, const std::string& text) {
    list->AddText(ImVec2(std::round(at.x), std::round(at.y)), colour, text.data(), text.data() + text.size());
}

float text_width(const std::string& text) {
    return ImGui::CalcTextSize(text.data(), text.data() + text.size()).x;
}

std::string drift_text(float value) {
    return is_absent(value) ? std::string("not measured") : format_number(static_cast<double>(value));
}

} // namespace

struct CachePanel::Frame {
    const Recording* recording = nullptr;
    float em = 0;
    ImVec2 lanes_min; ///< top left of the first lane
    float x0 = 0, x1 = 0;
    float origin_y0 = 0, origin_y1 = 0, age_y0 = 0, age_y1 = 0, drift_y0 = 0, drift_y1 = 0, axis_y = 0,
          bottom = 0;
    int64_t length = 1;
    [[nodiscard]] float x_of(double position) const {
        return x0 + static_cast<float>(position / static_cast<double>(length)) * (x1 - x0);
    }
};

std::unique_ptr<Panel> make_cache_panel() {
    return std::make_unique<CachePanel>();
}

void CachePanel::recording_changed(UiContext&) {
    m_columns = {};
    m_drift = {};
    m_step = -1;
    m_top = 0;
}

float CachePanel::drift_at(size_t index) const {
    switch (m_quantity) {
    case Quantity::keys:
        return m_drift.k[index];
    case Quantity::values:
        return m_drift.v[index];
    case Quantity::keys_max:
        return m_drift.k_max[index];
    case Quantity::values_max:
        return m_drift.v_max[index];
    case Quantity::mean:
        break;
    }
    const float k = m_drift.k[index], v = m_drift.v[index];
    return is_absent(k) || is_absent(v) ? absent() : 0.5F * (k + v);
}

void CachePanel::update(const Recording& recording, int64_t step) {
    const size_t refreshes = recording.refreshes().size(), drifts = recording.drifts().size();
    if (step == m_step && refreshes == m_refreshes && drifts == m_drifts) return;
    m_step = step;
    m_refreshes = refreshes;
    m_drifts = drifts;
    m_columns = cache_columns(recording, step);
    m_drift = drift_columns(recording, step, m_columns.length());
    m_ages.resize(static_cast<size_t>(m_columns.length()));
    for (int64_t p = 0; p < m_columns.length(); ++p)
        m_ages[static_cast<size_t>(p)] = static_cast<float>(m_columns.age(p));
    ++m_revision;
}

ColourScale CachePanel::drift_scale() const {
    ColourScale scale{colour_map("viridis"), 0, m_top > 0 ? m_top : 1, m_log};
    if (m_log) scale.min = scale.max * 1e-3;
    return scale;
}

ColourScale CachePanel::age_scale() const {
    return {colour_map("cividis"), 0, std::max(1.0, static_cast<double>(m_columns.step)), false};
}

void CachePanel::draw(UiContext& ctx) {
    if (!ctx.recording) {
        ImGui::TextDisabled("The cache appears here when a run has begun.");
        return;
    }
    Frame f;
    f.recording = ctx.recording.get();
    f.em = ImGui::GetFontSize();
    update(*f.recording, ctx.shown_step());
    f.length = std::max<int64_t>(1, m_columns.length());

    draw_toolbar(ctx, f);
    draw_legend(ctx, f);
    const ImVec2 at = ImGui::GetCursorScreenPos(), room = ImGui::GetContentRegionAvail();
    const float em = f.em, gap = std::round(em * 0.25F);
    if (room.x < 10 * em || room.y < 6 * em) {
        muted_text(ctx, "Too small for the map: enlarge this panel");
        return;
    }
    f.lanes_min = at;
    f.x0 = std::round(at.x + 3.1F * em);
    f.x1 = std::round(at.x + room.x);
    f.bottom = at.y + room.y;
    const float lane = std::round(std::clamp(room.y * 0.08F, 0.9F * em, 1.6F * em));
    f.origin_y0 = std::round(at.y + em * 0.15F);
    f.origin_y1 = f.origin_y0 + lane;
    f.age_y0 = f.origin_y1 + gap;
    f.age_y1 = f.age_y0 + lane;
    f.drift_y0 = f.age_y1 + gap;
    const float bytes_height = ImGui::GetTextLineHeight() + gap;
    f.axis_y = f.bottom - bytes_height - 1.3F * em;
    f.drift_y1 = f.axis_y;
    draw_lanes(ctx, f);
    draw_drift(ctx, f);
    draw_lines(ctx, f);
    draw_no_drift(ctx, f);
    draw_axis(ctx, f);
    draw_bytes(ctx, f);
    hover(ctx, f);
}

void CachePanel::draw_toolbar(UiContext&, Frame& f) {
    const float others = ImGui::CalcTextSize("Log").x + ImGui::GetFrameHeight() + 2.0F * f.em;
    if (ImGui::GetContentRegionAvail().x - others > 9 * f.em + ImGui::CalcTextSize("Drift of ").x) {
        ImGui::AlignTextToFramePadding();
        ImGui::TextUnformatted("Drift of");
        ImGui::SameLine();
    }
    ImGui::SetNextItemWidth(std::clamp(ImGui::GetContentRegionAvail().x - others, 4 * f.em, 9 * f.em));
    const auto chosen = static_cast<size_t>(m_quantity);
    const bool whole =
        text_width(quantity_names[chosen]) + ImGui::GetFrameHeight() + f.em <= ImGui::CalcItemWidth();
    if (ImGui::BeginCombo("##quantity", whole ? quantity_names[chosen] : short_names[chosen])) {
        for (size_t i = 0; i < std::size(quantity_names); ++i) {
            if (!ImGui::Selectable(quantity_names[i], i == static_cast<size_t>(m_quantity))) continue;
            m_quantity = static_cast<Quantity>(i);
            m_top = 0;
            ++m_revision;
        }
        ImGui::EndCombo();
    }
    ImGui::SetItemTooltip(
        "How far the student's entry was from the teacher's when a refresh or probe compared them:\n"
        "relative distance per layer and position, or the largest absolute difference.");
    ImGui::SameLine();
    ImGui::Checkbox("Log", &m_log);
    ImGui::SameLine();
    // What the scale must cover: every layer and position, so only when they are others.
    if (m_shown_revision != m_revision) {
        m_shown_revision = m_revision;
        m_shown_top = 0;
        m_shown.resize(m_drift.k.size());
        for (size_t i = 0; i < m_shown.size(); ++i) {
            m_shown[i] = drift_at(i);
            if (std::isfinite(m_shown[i]))
                m_shown_top = std::max(m_shown_top, static_cast<double>(m_shown[i]));
        }
    }
    m_top = std::max(m_top, m_shown_top);
    const float room = ImGui::GetContentRegionAvail().x;
    if (room > 7 * f.em) {
        draw_colour_bar("drift", drift_scale(), std::min(7 * f.em, room - 6 * f.em));
        if (ImGui::BeginPopupContextItem("drift range")) {
            if (ImGui::MenuItem("Fit range")) m_top = m_shown_top;
            ImGui::EndPopup();
        }
    } else {
        ImGui::NewLine();
    }
}

void CachePanel::draw_legend(UiContext& ctx, Frame& f) {
    // Only the origins that are there, in the order in which they appear.
    std::array<bool, 8> present{};
    for (const Origin origin : m_columns.origin)
        present[static_cast<size_t>(origin)] = true;
    ImDrawList* list = ImGui::GetWindowDrawList();
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float end = at.x + ImGui::GetContentRegionAvail().x, box = std::round(f.em * 0.65F);
    float x = at.x;
    const auto entry = [&](const std::string& label, ImU32 colour, bool hatch) {
        if (x + box + f.em * 0.4F + text_width(label) > end) return;
        const float y = std::round(at.y + (ImGui::GetTextLineHeight() - box) * 0.5F);
        if (hatch)
            draw_absent(list, ctx.theme, ImVec2(x, y), ImVec2(x + box, y + box));
        else
            list->AddRectFilled(ImVec2(x, y), ImVec2(x + box, y + box), colour);
        x += box + f.em * 0.4F;
        text_at(list, ImVec2(x, at.y), ctx.theme.text_muted, label);
        x = std::round(x + text_width(label) + f.em * 0.9F);
    };
    for (const Origin origin : {Origin::teacher_prefill, Origin::student_prefill, Origin::teacher_refresh,
                                Origin::student, Origin::teacher_decode, Origin::skipped})
        if (present[static_cast<size_t>(origin)])
            entry(origin_label(origin), column_colour(ctx.theme, origin), false);
    entry("not measured", 0, true);
    ImGui::Dummy(ImVec2(1, ImGui::GetTextLineHeight()));
}

void CachePanel::draw_lanes(UiContext& ctx, Frame& f) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const auto label = [&](float y0, float y1, const char* text) {
        text_at(list, ImVec2(f.lanes_min.x, (y0 + y1 - f.em) * 0.5F), ctx.theme.text_muted, text);
    };
    label(f.origin_y0, f.origin_y1, "Origin");
    label(f.age_y0, f.age_y1, "Age");

    const int64_t length = m_columns.length();
    const auto pixels = std::max(1, static_cast<int>(f.x1 - f.x0));
    std::string look = fmt::format("{} {} {} {} {} {} {}", m_revision, pixels, m_top, m_log,
                                   static_cast<int>(m_quantity), ctx.theme.name, m_drift.layers);
    if (look != m_look && length > 0) {
        m_look = std::move(look);
        ++m_image_revision;
        // Where columns share a texel: the latest origin of the block in the order of rarity, so that nothing vanishes.
        m_origin_factor = reduction_factor(length, pixels);
        m_texels = static_cast<int>(reduced_size(length, m_origin_factor));
        m_origin_rgba.assign(static_cast<size_t>(m_texels), 0U);
        const auto rank = [](Origin o) {
            return o == Origin::skipped ? 3 : o == Origin::student ? 2 : o == Origin::teacher_refresh ? 1 : 0;
        };
        for (int64_t p = 0; p < length; p += m_origin_factor) {
            const auto first = m_columns.origin.begin() + p;
            const auto last = m_columns.origin.begin() + std::min(length, p + m_origin_factor);
            const Origin shown =
                *std::max_element(first, last, [&](Origin a, Origin b) { return rank(a) < rank(b); });
            m_origin_rgba[static_cast<size_t>(p / m_origin_factor)] = column_colour(ctx.theme, shown);
        }
        const auto ages = reduce_columns_max(m_ages, 1, length, m_origin_factor);
        m_age_rgba.resize(ages.size());
        colour_values(ages, age_scale(), m_age_rgba);
        m_drift_rgba.clear();
        if (m_drift.layers > 0) {
            const auto drift = reduce_columns_max(m_shown, m_drift.layers, length, m_origin_factor);
            m_drift_rgba.resize(drift.size());
            colour_values(drift, drift_scale(), m_drift_rgba);
        }
    }
    if (m_texels < 1) return;
    const auto u_end =
        static_cast<float>(static_cast<double>(length) / static_cast<double>(m_texels * m_origin_factor));
    const auto strip = [&](const char* key, const std::vector<uint32_t>& rgba, float y0, float y1) {
        const ImTextureID texture = ctx.host.texture(key, m_texels, 1, rgba, m_image_revision);
        draw_cells(list, texture, ImVec2(f.x0, y0), ImVec2(f.x1, y1), ImVec2(0, 0), ImVec2(u_end, 1));
    };
    strip("cache/origin", m_origin_rgba, f.origin_y0, f.origin_y1);
    strip("cache/age", m_age_rgba, f.age_y0, f.age_y1);
    ctx.landmarks.set("cache/origin", {f.x0, f.origin_y0, f.x1 - f.x0, f.origin_y1 - f.origin_y0});
}

void CachePanel::draw_drift(UiContext& ctx, Frame& f) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const ImVec2 min(f.x0, f.drift_y0), max(f.x1, f.drift_y1);
    draw_absent(list, ctx.theme, min, max);
    ctx.landmarks.set("cache/map", {min.x, min.y, max.x - min.x, max.y - min.y});
    const int64_t layers = m_drift.layers;
    if (layers == 0 || m_drift_rgba.empty()) return; // draw_no_drift() says why
    const ImTextureID texture =
        ctx.host.texture("cache/drift", m_texels, static_cast<int>(layers), m_drift_rgba, m_image_revision);
    const auto u_end =
        static_cast<float>(static_cast<double>(f.length) / static_cast<double>(m_texels * m_origin_factor));
    draw_cells(list, texture, min, max, ImVec2(0, 0), ImVec2(u_end, 1));
    const float row = (max.y - min.y) / static_cast<float>(layers);
    const auto every = static_cast<int64_t>(std::ceil(1.05F * f.em / row));
    for (int64_t layer = 0; layer < layers; layer += every) {
        const std::string label = fmt::format("L{}", layer);
        text_at(list,
                ImVec2(f.x0 - f.em * 0.4F - text_width(label),
                       min.y + (static_cast<float>(layer) + 0.5F) * row - f.em * 0.5F),
                ctx.theme.text_muted, label);
    }
}

/// Why the drift map is empty: on a card of its own, drawn behind the lines, so that none of them crosses the words.
void CachePanel::draw_no_drift(UiContext& ctx, Frame& f) {
    if (m_drift.layers > 0 && !m_drift_rgba.empty()) return;
    ImDrawList* list = ImGui::GetWindowDrawList();
    const ImVec2 min(f.x0, f.drift_y0), max(f.x1, f.drift_y1);
    const bool live = ctx.engine.recording().get() == f.recording && !f.recording->end();
    const std::string text = f.recording->info().config.mode != Mode::overfill
                                 ? "No drift: this run has one model only"
                             : f.recording->info().note.starts_with("rebuild mode")
                                 ? "No drift: in rebuild mode nothing is copied from the teacher"
                             : live ? "Drift is measured at each refresh: press Refresh now"
                                    : "Drift is measured at each refresh, and there was none";
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
    text_at(list, ImVec2(f.lanes_min.x, (min.y + max.y - f.em) * 0.5F), ctx.theme.text_muted, "Drift");
}

void CachePanel::draw_lines(UiContext& ctx, Frame& f) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const auto vertical = [&](double position, ImU32 colour, float thickness) {
        const float x = std::round(f.x_of(position)) + 0.5F;
        list->AddLine(ImVec2(x, f.origin_y0), ImVec2(x, f.axis_y), colour, thickness);
    };
    const int64_t prompt = f.recording->prompt_length();
    vertical(static_cast<double>(prompt), ctx.theme.text_muted, 1);
    const auto& refreshes = f.recording->refreshes();
    float last_x = -1e9F;
    for (size_t i = 0, n = refreshes.size(); i < n; ++i) {
        const RefreshEvent& event = refreshes[i];
        if (event.step > m_columns.step) break;
        const double end = static_cast<double>(event.first_pos + event.spliced);
        if (f.x_of(end) - last_x < 3) continue; // a line a pixel would hide the map
        last_x = f.x_of(end);
        vertical(end, ctx.theme.accent, 1);
    }
    if (ctx.hovered_step && *ctx.hovered_step >= 1 && *ctx.hovered_step <= m_columns.step)
        vertical(static_cast<double>(prompt + *ctx.hovered_step) - 0.5, ctx.theme.crosshair, 1);
    if (const auto held = ctx.selection.key_position; held && *held < f.length)
        vertical(static_cast<double>(*held) + 0.5, ctx.theme.selection, 1);
}

void CachePanel::draw_axis(UiContext& ctx, Frame& f) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float y = f.axis_y + f.em * 0.2F;
    list->AddLine(ImVec2(f.x0, f.axis_y), ImVec2(f.x1, f.axis_y), ctx.theme.plot_border);
    const std::string title = "position";
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

void CachePanel::draw_bytes(UiContext& ctx, Frame& f) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const EngineStatus& status = *ctx.status;
    const RunInfo& info = f.recording->info();
    // A model's columns at this step times its bytes a column. The teacher holds what its passes have read.
    const int64_t teacher_held = teacher_length(*f.recording, m_columns.step);
    const int64_t width = info.dtype == "f32" ? 4 : 2;
    const auto column = [&](const ModelSummary& model) {
        return model.name.empty() ? int64_t{0} : 2 * model.layers * model.kv_heads * model.head_dim * width;
    };
    const Mode mode = info.config.mode;
    std::string text;
    if (const int64_t student = column(status.student); student > 0 && mode != Mode::teacher)
        text = fmt::format("Student {}", format_bytes(student * m_columns.length()));
    if (const int64_t teacher = column(status.teacher); teacher > 0 && mode != Mode::student)
        text +=
            fmt::format("{} {}", text.empty() ? "Teacher" : ", teacher",
                        format_bytes(teacher * (mode == Mode::teacher ? m_columns.length() : teacher_held)));
    // A recording from a file has no live caches.
    if (text.empty()) text = format_bytes(m_columns.length() * info.cache_bytes_per_token);
    const float room = f.x1 - f.lanes_min.x;
    if (text_width(text) > room) { // both in one number rather than half of them
        int64_t all = 0;
        if (mode != Mode::teacher) all += column(status.student) * m_columns.length();
        if (mode != Mode::student)
            all += column(status.teacher) * (mode == Mode::teacher ? m_columns.length() : teacher_held);
        text = format_bytes(all) + " in use";
    }
    if (ctx.engine.recording().get() == f.recording && status.cache_bytes_reserved > 0) {
        const std::string of = fmt::format(" of {}", format_bytes(status.cache_bytes_reserved));
        if (text_width(text + of) <= room) text += of; // whole or not at all
    }
    const std::string more = fmt::format(", {} a token", format_bytes(info.cache_bytes_per_token));
    if (text_width(text + more) <= room) text += more;
    list->PushClipRect(ImVec2(f.lanes_min.x, f.axis_y), ImVec2(f.x1, f.bottom + 2), true);
    text_at(list, ImVec2(f.lanes_min.x, f.bottom - ImGui::GetTextLineHeight()), ctx.theme.text, text);
    list->PopClipRect();
    ctx.landmarks.set("cache/bytes", {f.lanes_min.x, f.bottom - ImGui::GetTextLineHeight(), text_width(text),
                                      ImGui::GetTextLineHeight()});
    ctx.landmarks.set_text("cache/bytes", text);
}

void CachePanel::hover(UiContext& ctx, Frame& f) {
    ImGui::SetCursorScreenPos(ImVec2(f.x0, f.origin_y0));
    const bool clicked = ImGui::InvisibleButton(
        "map", ImVec2(std::max(1.0F, f.x1 - f.x0), std::max(1.0F, f.axis_y - f.origin_y0)));
    if (!ImGui::IsItemHovered() || m_columns.length() == 0) return;
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    const auto position =
        std::clamp<int64_t>(static_cast<int64_t>(static_cast<double>((mouse.x - f.x0) / (f.x1 - f.x0)) *
                                                 static_cast<double>(f.length)),
                            0, m_columns.length() - 1);
    const auto at = static_cast<size_t>(position);
    const int64_t prompt = f.recording->prompt_length(), step = position - prompt + 1;
    if (step >= 1) ctx.next_hovered_step = step;
    const int32_t id = position < prompt ? f.recording->info().prompt_ids[at] : f.recording->token(step);
    std::string text = fmt::format("Position {}, {}", position, token_label(f.recording->tokens(), id));
    if (step >= 1) text += fmt::format(", step {}", step);
    text += fmt::format("\nOrigin: {}", origin_label(m_columns.origin[at]));
    if (m_columns.refresh[at] >= 0)
        text +=
            fmt::format(" ({} refresh {})", m_columns.origin[at] == Origin::skipped ? "passed over by" : "by",
                        m_columns.refresh[at] + 1);
    text += fmt::format("\nWritten {} steps ago", m_columns.age(position));
    if (mouse.y >= f.drift_y0 && m_drift.layers > 0) {
        const auto layer =
            std::clamp<int64_t>(static_cast<int64_t>((mouse.y - f.drift_y0) / (f.drift_y1 - f.drift_y0) *
                                                     static_cast<float>(m_drift.layers)),
                                0, m_drift.layers - 1);
        const size_t index = m_drift.index(layer, position);
        text += fmt::format("\nLayer {}: drift K {}, V {}", layer, drift_text(m_drift.k[index]),
                            drift_text(m_drift.v[index]));
        if (!is_absent(m_drift.k_max[index]))
            text += fmt::format("\nLargest difference K {}, V {}", drift_text(m_drift.k_max[index]),
                                drift_text(m_drift.v_max[index]));
    }
    if (m_origin_factor > 1)
        text += fmt::format("\nOne pixel shows the maximum of {} positions", m_origin_factor);
    ImGui::SetTooltip("%s", text.c_str());
    if (clicked) {
        ctx.selection.key_position = position;
        if (step >= 1) ctx.select_step(step);
    }
}

} // namespace refreshlab::ui
