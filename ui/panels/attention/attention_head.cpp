// The enlarged head of the Attention panel: title, strip of the shown query, map of the queries before it.
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/cells.h"
#include "ui/panels/attention/attention_frame.h"
#include "ui/panels/attention/attention_panel.h"
#include "ui/scene/maps/cache_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace refreshlab::ui {

using namespace attention;

namespace {

/// "+0.19": a difference without its sign says the wrong thing half of the time.
std::string signed_number(double value) {
    return (value > 0 ? "+" : "") + format_number(value);
}

} // namespace

void AttentionPanel::draw_head(UiContext& ctx, Frame& f, ImVec2 at, ImVec2 size) {
    const float em = f.em;
    if (size.x < 8 * em || size.y < 5 * em) return;
    const int32_t layer = ctx.selection.layer, head = ctx.selection.head;

    read_row(f, layer, head);

    const float line = ImGui::GetTextLineHeight() + std::round(em * 0.2F);
    draw_head_title(ctx, f, at, size.x);
    const float top = at.y + 2 * line + std::round(em * 0.15F);
    if (m_row.empty()) {
        ImGui::SetCursorScreenPos(ImVec2(at.x, at.y + line));
        draw_missing(ctx, f);
    }
    const float axis = std::round(1.25F * em), left = std::round(2.9F * em);
    // A low panel has no room for the strip; the line of strongest keys says the most of it.
    const float strip_height =
        size.y < 9 * em ? 0.0F : std::round(std::clamp(size.y * 0.2F, 2.0F * em, 4.5F * em));
    const float bottom = at.y + size.y;
    const ImVec2 strip_min(at.x + left, top), strip_max(at.x + size.x, top + strip_height);
    f.map_min = ImVec2(strip_min.x, strip_max.y + std::round(em * 0.3F));
    f.map_max = ImVec2(strip_max.x, bottom - axis);
    f.query_keys = std::max<int64_t>(1, m_window.keys());
    if (f.map_max.y - f.map_min.y < 1.5F * em) return;
    if (!m_row.empty() && strip_height > 0) draw_strip(ctx, f, strip_min, strip_max);
    draw_map(ctx, f, f.map_min, f.map_max);
    draw_axes(ctx, f, f.map_min, f.map_max, bottom);
}

/// The shown query's weights over its keys.
void AttentionPanel::read_row(const Frame& f, int32_t layer, int32_t head) {
    if (m_row_query == f.query && m_row_layer == layer && m_row_head == head && m_row_of == m_of &&
        !m_row.empty())
        return;
    m_row = attention_row(*f.recording, f.query, m_of, layer, head);
    m_top = top_keys(m_row, 6);
    m_row_query = f.query;
    m_row_layer = layer;
    m_row_head = head;
    m_row_of = m_of;
    m_row_teacher.clear();
    m_row_student.clear();
    if (m_row.empty() || !differences()) return;
    m_row_teacher = attention_row(*f.recording, f.query, AttentionOf::teacher, layer, head);
    m_row_student = attention_row(*f.recording, f.query, AttentionOf::student, layer, head);
}

void AttentionPanel::draw_head_title(UiContext& ctx, Frame& f, ImVec2 at, float width) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float line = ImGui::GetTextLineHeight() + std::round(f.em * 0.2F);
    list->PushClipRect(at, ImVec2(at.x + width, at.y + 2 * line), true);
    const std::string name = fmt::format("Layer {}, head {}", ctx.selection.layer, ctx.selection.head);
    text_at(list, at, ctx.theme.text, name);
    const std::string query =
        fmt::format("step {}, {}", format_thousands(f.query - f.prompt + 1), label_at(*f.recording, f.query));
    const float query_x = text_width(name) + f.em; // whole or not at all: half a number is a wrong one
    if (query_x + text_width(query) <= width)
        text_at(list, ImVec2(at.x + query_x, at.y), ctx.theme.text_muted, query);
    // What people read first: which tokens this one looks at.
    float x = at.x;
    if (!m_row.empty()) {
        const std::string verb = differences() ? "differs" : "reads";
        text_at(list, ImVec2(x, at.y + line), ctx.theme.text_muted, verb);
        x += text_width(verb) + f.em * 0.5F;
    }
    const auto held = ctx.selection.key_position;
    const auto weight_text = [&](float weight) {
        return differences() ? signed_number(static_cast<double>(weight))
                             : format_number(static_cast<double>(weight));
    };
    const auto chip = [&](const TopKey& key) {
        const std::string token = label_at(*f.recording, key.position, 14), weight = weight_text(key.weight);
        const float needs = text_width(token) + f.em * 0.35F + text_width(weight);
        if (x + needs > at.x + width) return false;
        if (key.position == held) // the held cell, with the colour of its line in strip and map
            list->AddLine(ImVec2(x, at.y + 2 * line - 1), ImVec2(x + needs, at.y + 2 * line - 1),
                          ctx.theme.selection);
        text_at(list, ImVec2(x, at.y + line), ctx.theme.text, token);
        x += text_width(token) + f.em * 0.35F;
        text_at(list, ImVec2(x, at.y + line), ctx.theme.text_muted, weight);
        x += text_width(weight) + f.em * 0.9F;
        return true;
    };
    if (held && *held < static_cast<int64_t>(m_row.size())) chip({*held, m_row[static_cast<size_t>(*held)]});
    for (const TopKey& key : m_top)
        if (key.position != held && !chip(key)) break;
    list->PopClipRect();
}

void AttentionPanel::hover_key(UiContext& ctx, Frame& f, int64_t query, int64_t key, bool clicked) {
    if (key < 0 || key > query) return;
    const int64_t step = query - f.prompt + 1;
    if (step >= 1) ctx.next_hovered_step = step;
    const auto weight_of = [&](AttentionOf of) -> std::string {
        const auto row = attention_row(*f.recording, query, of, ctx.selection.layer, ctx.selection.head);
        if (static_cast<size_t>(key) >= row.size()) return "not recorded";
        const auto weight = static_cast<double>(row[static_cast<size_t>(key)]);
        return of == AttentionOf::difference ? signed_number(weight) : format_number(weight);
    };
    std::string weight = "Weight " + weight_of(m_of);
    if (differences())
        weight = fmt::format("Teacher {}\nStudent {}\nDifference {}", weight_of(AttentionOf::teacher),
                             weight_of(AttentionOf::student), weight_of(AttentionOf::difference));
    ImGui::SetTooltip("Query %s, step %lld, position %lld\nKey %s, position %lld\n%s",
                      label_at(*f.recording, query).c_str(), static_cast<long long>(step),
                      static_cast<long long>(query), label_at(*f.recording, key).c_str(),
                      static_cast<long long>(key), weight.c_str());
    if (!clicked) return;
    const bool same = query == f.query && ctx.selection.key_position == key;
    if (same) {
        ctx.selection.key_position.reset();
        return;
    }
    ctx.selection.key_position = key;
    if (query != f.query || ctx.live())
        ctx.select_step(std::max<int64_t>(1, step)); // a held cell must not run away
}

void AttentionPanel::draw_strip(UiContext& ctx, Frame& f, ImVec2 min, ImVec2 max) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    list->AddRectFilled(min, max, ctx.theme.plot_background);
    list->AddRect(min, max,
                  ctx.theme.plot_border); // behind the bars: the newest key stands at its right edge
    // A difference shows what it is made of: the teacher's weights upwards, the student's downwards, on one scale.
    const bool both = differences();
    const std::vector<float>& upward = both ? m_row_teacher : m_row;
    // Position 0 would often squeeze all others; then it is cut off and marked.
    const size_t from = m_without_first && m_row.size() > 1 ? 1 : 0;
    float top = 0;
    for (const std::vector<float>* row : {&upward, &std::as_const(m_row_student)})
        for (size_t k = from; k < row->size(); ++k)
            if (std::isfinite((*row)[k])) top = std::max(top, (*row)[k]);
    const float height = both ? std::floor((max.y - min.y - 2) / 2) : max.y - min.y - 2;
    const float foot = both ? min.y + 1 + height : max.y - 1;
    const auto pixels = static_cast<int>(max.x - min.x);
    const double keys_per_pixel = static_cast<double>(f.query_keys) / std::max(1, pixels);
    const auto bar = [&](float x0, float x1, float value, bool up, ImU32 colour) {
        if (value < 0 || top <= 0) return;
        const float h = std::round(std::min(1.0F, value / top) * height);
        // At least two pixels wide, else a single strong key is lost; two neighbours then share one.
        if (h > 0)
            list->AddRectFilled(ImVec2(std::min(x0, max.x - 2), up ? foot - h : foot),
                                ImVec2(std::max(x1, x0 + 2), up ? foot : foot + h), colour);
        if (value > top * 1.001F) { // beyond the scale
            const float tip = up ? min.y : max.y, base = tip + (up ? 0.3F : -0.3F) * f.em;
            list->AddTriangleFilled(ImVec2(x0, base), ImVec2(x0 + f.em * 0.5F, base),
                                    ImVec2(x0 + f.em * 0.25F, tip), ctx.theme.text);
        }
    };
    const auto bars = [&](const std::vector<float>& row, bool up, ImU32 colour) {
        const auto keys = static_cast<int64_t>(row.size());
        if (keys_per_pixel < 0.5) {
            for (int64_t k = 0; k < keys; ++k)
                bar(std::round(f.key_x(static_cast<double>(k))),
                    std::round(f.key_x(static_cast<double>(k + 1))) - 1, row[static_cast<size_t>(k)], up,
                    colour);
            return;
        }
        for (int i = 0; i < pixels; ++i) {
            const auto first = static_cast<int64_t>(static_cast<double>(i) * keys_per_pixel);
            const auto last =
                std::max(first + 1, static_cast<int64_t>(static_cast<double>(i + 1) * keys_per_pixel));
            float value = -1;
            for (int64_t k = first; k < std::min(last, keys); ++k)
                value = std::max(value, row[static_cast<size_t>(k)]);
            bar(min.x + static_cast<float>(i), min.x + static_cast<float>(i + 1), value, up, colour);
        }
    };
    if (both) {
        bars(m_row_teacher, true, ctx.theme.origin_prefill);
        bars(m_row_student, false, ctx.theme.origin_student);
        list->AddLine(ImVec2(min.x, foot), ImVec2(max.x, foot), ctx.theme.plot_border);
    } else {
        bars(m_row, true, ctx.theme.dark ? 0xFFE9B456U : 0xFFB27200U); // Okabe-Ito sky blue, blue on white
    }
    const std::string label = format_number(static_cast<double>(top));
    text_at(list, ImVec2(min.x - text_width(label) - f.em * 0.3F, min.y - f.em * 0.1F), ctx.theme.text_muted,
            label);
    if (const auto held = ctx.selection.key_position; held && *held < static_cast<int64_t>(m_row.size())) {
        const float x = std::round(f.key_x(static_cast<double>(*held) + 0.5));
        list->AddLine(ImVec2(x, min.y), ImVec2(x, max.y), ctx.theme.selection);
    }
    ctx.landmarks.set("attention/strip", {min.x, min.y, max.x - min.x, max.y - min.y});
    ImGui::SetCursorScreenPos(min);
    const bool clicked = ImGui::InvisibleButton("strip", ImVec2(max.x - min.x, max.y - min.y));
    if (ImGui::IsItemHovered()) {
        // Where several keys share a pixel, the one that made the bar.
        const double place = static_cast<double>((ImGui::GetIO().MousePos.x - min.x) / (max.x - min.x)) *
                             static_cast<double>(f.query_keys);
        auto key = static_cast<int64_t>(place);
        for (auto k = key + 1; k < std::min<int64_t>(static_cast<int64_t>(place + keys_per_pixel),
                                                     static_cast<int64_t>(m_row.size()));
             ++k)
            if (std::abs(m_row[static_cast<size_t>(k)]) > std::abs(m_row[static_cast<size_t>(key)])) key = k;
        hover_key(ctx, f, f.query, key, clicked);
    }
}

void AttentionPanel::draw_map(UiContext& ctx, Frame& f, ImVec2 min, ImVec2 max) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float width = max.x - min.x, height = max.y - min.y;
    const AttentionMap::Shape shape{m_of,
                                    m_window,
                                    {ctx.selection.layer},
                                    {ctx.selection.head},
                                    static_cast<int64_t>(width),
                                    static_cast<int64_t>(height)};
    const bool changed = m_head.update(*f.recording, shape);
    const int64_t rows = m_head.rows(), columns = m_head.columns();
    list->AddRectFilled(min, max, ctx.theme.plot_background);
    const auto row_y = [&](double query) {
        return min.y + static_cast<float>((query - static_cast<double>(m_window.first_query)) /
                                          static_cast<double>(m_window.rows())) *
                           height;
    };
    for (int64_t q = m_window.first_query; q <= m_window.last_query;) {
        if (m_head.has_row(q)) {
            ++q;
            continue;
        }
        const int64_t first = q;
        while (q <= m_window.last_query && !m_head.has_row(q))
            ++q;
        draw_absent(list, ctx.theme, ImVec2(min.x, row_y(static_cast<double>(first))),
                    ImVec2(f.key_x(static_cast<double>(q)), row_y(static_cast<double>(q))));
    }
    if (rows > 0 && columns > 0) {
        const auto index = [](const std::vector<int32_t>& all, int32_t one) {
            return static_cast<size_t>(std::ranges::find(all, one) - all.begin());
        };
        const ColourScale scale =
            head_scale(index(f.layers, ctx.selection.layer), index(f.heads, ctx.selection.head));
        std::string look =
            fmt::format("{} {} {} {} {}", m_colours, static_cast<int>(m_of), scale.log, scale.min, scale.max);
        if (changed || look != m_head_look) {
            m_head_look = std::move(look);
            m_head_rgba.resize(static_cast<size_t>(rows * columns));
            colour(m_head.cells(0, 0), scale, m_head_rgba);
            m_head_size = {static_cast<int>(columns), static_cast<int>(rows)};
            ++m_head_revision;
        }
        const ImTextureID texture =
            ctx.host.texture("attention/head", m_head_size[0], m_head_size[1], m_head_rgba, m_head_revision);
        const double block = static_cast<double>(rows * m_head.query_factor());
        draw_cells(
            list, texture, min, max,
            ImVec2(0, static_cast<float>(static_cast<double>(m_window.first_query - m_head.first_aligned()) /
                                         block)),
            ImVec2(static_cast<float>(static_cast<double>(m_window.keys()) /
                                      static_cast<double>(columns * m_head.key_factor())),
                   static_cast<float>(static_cast<double>(m_window.last_query + 1 - m_head.first_aligned()) /
                                      block)));
    }
    list->AddRect(min, max, ctx.theme.plot_border);
    ctx.landmarks.set("attention/head", {min.x, min.y, width, height});

    // Prompt on the left of the line, generated text on its right.
    const float prompt_x = std::round(f.key_x(static_cast<double>(f.prompt)));
    list->AddLine(ImVec2(prompt_x, min.y), ImVec2(prompt_x, max.y), faded(ctx.theme.text_muted, 0.55F));
    const auto mark_row = [&](int64_t query, ImU32 colour) {
        if (!m_window.contains(query)) return;
        const float y0 = row_y(static_cast<double>(query)), y1 = row_y(static_cast<double>(query + 1));
        list->AddRect(ImVec2(min.x, y0 - 0.5F),
                      ImVec2(f.key_x(static_cast<double>(query + 1)), std::max(y1, y0 + 2) + 0.5F), colour);
    };
    if (ctx.hovered_step) mark_row(f.prompt + *ctx.hovered_step - 1, faded(ctx.theme.crosshair, 0.8F));
    if (!ctx.live()) mark_row(f.query, ctx.theme.selection);
    if (const auto held = ctx.selection.key_position; held && *held < f.query_keys) {
        const float x = std::round(f.key_x(static_cast<double>(*held) + 0.5));
        list->AddLine(ImVec2(x, min.y), ImVec2(x, max.y), faded(ctx.theme.selection, 0.7F));
    }
    ImGui::SetCursorScreenPos(min);
    const bool clicked = ImGui::InvisibleButton("map", ImVec2(width, height));
    if (ImGui::IsItemHovered()) {
        const ImVec2 mouse = ImGui::GetIO().MousePos;
        const auto key = static_cast<int64_t>(static_cast<double>((mouse.x - min.x) / width) *
                                              static_cast<double>(f.query_keys));
        const auto query =
            m_window.first_query + static_cast<int64_t>(static_cast<double>((mouse.y - min.y) / height) *
                                                        static_cast<double>(m_window.rows()));
        hover_key(ctx, f, std::clamp(query, m_window.first_query, m_window.last_query), key, clicked);
    }
}

void AttentionPanel::draw_axes(UiContext& ctx, Frame& f, ImVec2 map_min, ImVec2 map_max, float bottom) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float em = f.em;
    const auto fit = [](float room, float one) {
        return std::max<int64_t>(2, static_cast<int64_t>(room / one));
    };
    // y: steps, their text right of the panel's edge and left of the map.
    const int64_t first_step = m_window.first_query - f.prompt + 1, last_step = first_step + m_window.rows();
    for (const int64_t step : whole_ticks(first_step, last_step, fit(map_max.y - map_min.y, 1.6F * em))) {
        const std::string label = format_thousands(step);
        const float y = map_min.y + (static_cast<float>(step - first_step) + 0.5F) /
                                        static_cast<float>(m_window.rows()) * (map_max.y - map_min.y);
        list->AddLine(ImVec2(map_min.x - em * 0.2F, std::round(y)), ImVec2(map_min.x, std::round(y)),
                      ctx.theme.plot_border);
        text_at(list,
                ImVec2(map_min.x - em * 0.35F - text_width(label), std::min(y - em * 0.5F, map_max.y - em)),
                ctx.theme.text_muted, label);
    }
    const float y = bottom - em * 1.15F;
    std::string title = "key position";
    if (m_head.key_factor() * m_head.query_factor() > 1)
        title += fmt::format(", max of {} x {}", m_head.query_factor(), m_head.key_factor());
    if (text_width(title) > map_max.x - map_min.x) title = "key";
    const float title_x = map_max.x - text_width(title);
    float free_from = map_min.x - em;
    for (const int64_t tick : whole_ticks(0, f.query_keys, fit(map_max.x - map_min.x, 4.0F * em))) {
        const std::string label = format_thousands(tick);
        const float x = std::round(f.key_x(static_cast<double>(tick) + 0.5)), w = text_width(label);
        list->AddLine(ImVec2(x, map_max.y), ImVec2(x, map_max.y + em * 0.2F), ctx.theme.plot_border);
        if (x - w * 0.5F < free_from || x + w * 0.5F > title_x - em * 0.5F) continue;
        text_at(list, ImVec2(x - w * 0.5F, y), ctx.theme.text_muted, label);
        free_from = x + w * 0.5F + em * 0.5F;
    }
    text_at(list, ImVec2(title_x, y), ctx.theme.text_muted, title);
}

void AttentionPanel::draw_missing(UiContext& ctx, Frame& f) {
    const Recording& recording = *f.recording;
    const EngineStatus& status = *ctx.status;
    // Of a difference the student's row is asked for first: it is the one that most runs keep by themselves.
    const bool teacher =
        m_of == AttentionOf::teacher || (differences() && recording.attention(f.query, false));
    if (differences() && teacher && recording.attention(f.query, true)) {
        ImGui::TextDisabled("Only one of the two models has this head");
        return;
    }
    const char* who = teacher ? "teacher" : "student";
    // The teacher has read the text up to its last pass only.
    const bool overfill = recording.info().config.mode == Mode::overfill;
    const int64_t held = teacher && overfill ? teacher_length(recording, ctx.steps) : f.query + 1;
    const std::pair asks(f.query, teacher);
    if (m_asked == asks && status.errors != m_asked_errors) m_asked.reset();

    std::string why = "Not kept at this step";
    if (!teacher && !recording.info().config.capture.attention) why = "Attention is not kept in this run";
    if (teacher && f.query >= held)
        why = held > f.prompt
                  ? fmt::format("The teacher has read up to step {}", format_thousands(held - f.prompt))
                  : "The teacher has read the prompt only";
    const bool never_read = recording.end() && recording.steps() == 1;
    if (never_read) why = "Nothing was read in this run";
    ImGui::TextDisabled("%s", why.c_str());
    if (never_read) return;
    ImGui::SameLine();
    if (teacher && f.query >= held) {
        if (held > f.prompt && ImGui::SmallButton("Go there")) ctx.select_step(held - f.prompt);
        return;
    }
    const bool busy = m_asked == asks;
    ImGui::BeginDisabled(!f.live_engine || busy);
    if (ImGui::SmallButton(busy ? "Reading..." : "Read it")) {
        ctx.engine.send(command::RequestAttention{f.query, teacher});
        m_asked = asks;
        m_asked_errors = status.errors;
    }
    ImGui::EndDisabled();
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
        ImGui::SetTooltip(
            "%s",
            f.live_engine
                ? fmt::format("One pass of the {} over this token, on the columns as they are now.", who)
                      .c_str()
                : "This run comes from a file; its models are not loaded.");
    if (!teacher || !f.live_engine) return;
    ImGui::SameLine();
    if (ImGui::SmallButton("Read all shown")) {
        for (int64_t q = m_window.first_query; q <= std::min(m_window.last_query, held - 1); ++q)
            if (!recording.attention(q, teacher)) ctx.engine.send(command::RequestAttention{q, teacher});
    }
    ImGui::SetItemTooltip("One pass of the teacher for each row of the map.");
}

} // namespace refreshlab::ui
