// The enlarged head of the Attention panel: its title, what is missing, and where strip and map stand.
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/text.h"
#include "ui/panels/attention/attention_frame.h"
#include "ui/panels/attention/attention_panel.h"
#include "ui/scene/maps/cache_map.h"
#include "ui/scene/text/token_label.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {
namespace {

/// "+0.19": a difference without its sign says the wrong thing half of the time.
std::string signed_number(double value) {
    return (value > 0 ? "+" : "") + format_number(value);
}

float title_line(float em) {
    return ImGui::GetTextLineHeight() + std::round(em * 0.2F);
}

} // namespace

void AttentionPanel::draw_head(UiContext& ctx, Frame& f, PixelBox place) {
    const float em = f.em;
    const ImVec2 at(place.x, place.y), size(place.width, place.height);
    if (size.x < 8 * em || size.y < 5 * em) return;
    m_row.read(*f.recording, f.query, m_colours.of(), ctx.selection.layer, ctx.selection.head);
    draw_head_title(ctx, f, at, size.x);
    const float line = title_line(em), top = at.y + 2 * line + std::round(em * 0.15F);
    if (m_row.weights.empty()) {
        ImGui::SetCursorScreenPos(ImVec2(at.x, at.y + line));
        draw_missing(ctx, f);
    }
    // Tokens stand on the axes where there is room for them beside a map of a readable size.
    f.step_tokens = size.x > 30 * em ? std::round(5.5F * em) : 0.0F;
    f.key_tokens = size.y > 19 * em ? std::round(4.2F * em) : 0.0F;
    const float name = size.y > 11 * em ? std::round(1.1F * em) : 0.0F; // of the upward axis
    const float axis = std::round(1.25F * em) + f.key_tokens,
                left = std::round(2.9F * em) + f.step_tokens + name;
    // A low panel has no room for the strip; the line of strongest keys says the most of it.
    const float strip_height =
        size.y < 9 * em ? 0.0F : std::round(std::clamp(size.y * 0.2F, 2.0F * em, 4.5F * em));
    const float bottom = at.y + size.y;
    const ImVec2 strip_min(at.x + left, top), strip_max(at.x + size.x, top + strip_height);
    const ImVec2 map_min(strip_min.x, strip_max.y + std::round(em * 0.3F)),
        map_max(strip_max.x, bottom - axis);
    f.axis = {map_min.x, map_max.x, std::max<int64_t>(1, m_window.keys())};
    if (map_max.y - map_min.y < 1.5F * em) return;
    if (!m_row.weights.empty() && strip_height > 0) draw_strip(ctx, f, strip_min, strip_max);
    draw_map(ctx, f, map_min, map_max);
    draw_step_axis(ctx, f, map_min, map_max);
    if (name > 0)
        text_upward(ImGui::GetWindowDrawList(),
                    {at.x - std::round(0.1F * em), (map_min.y + map_max.y + text_width("query step")) / 2},
                    ctx.theme.text_muted, "query step");
    if (f.step_tokens > 0) draw_step_tokens(ctx, f, map_min, map_max);
    if (f.key_tokens > 0) draw_key_tokens(ctx, f, map_min, map_max);
    draw_key_axis(ctx, f, map_min, map_max, bottom);
}

void AttentionPanel::draw_head_title(UiContext& ctx, Frame& f, ImVec2 at, float width) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float line = title_line(f.em);
    list->PushClipRect(at, ImVec2(at.x + width, at.y + 2 * line), true);
    const std::string name = fmt::format("Layer {}, head {}", ctx.selection.layer, ctx.selection.head);
    text_at(list, at, ctx.theme.text, name);
    std::string query = fmt::format("step {}, {}", format_thousands(f.query - f.prompt + 1),
                                    position_label(*f.recording, f.query, attention_label_chars));
    const auto rows = f.recording->attention(f.query, m_colours.of() == AttentionOf::teacher);
    if (rows && rows->bin > 1) query += fmt::format(", means of {} keys", format_thousands(rows->bin));
    const float query_x = text_width(name) + f.em; // whole or not at all: half a number is a wrong one
    if (query_x + text_width(query) <= width)
        text_at(list, ImVec2(at.x + query_x, at.y), ctx.theme.text_muted, query);
    draw_top_keys(ctx, f, {at.x, at.y + line}, at.x + width);
    if (marks_unread(f)) { // what the colour means
        const std::string words = "not read";
        const float box = std::round(f.em * 0.65F), x = at.x + width - text_width(words) - box - f.em * 0.3F;
        if (x > at.x + query_x + text_width(query) + f.em) {
            const float y = std::round(at.y + (ImGui::GetTextLineHeight() - box) * 0.5F);
            list->AddRectFilled(ImVec2(x, y), ImVec2(x + box, y + box), f.unread);
            text_at(list, ImVec2(x + box + f.em * 0.3F, at.y), ctx.theme.text_muted, words);
            ctx.landmarks.set("attention/not read", {x, y, box, box});
        }
    }
    list->PopClipRect();
}

/// What people read first: which tokens this one looks at. The held one stands in front.
void AttentionPanel::draw_top_keys(UiContext& ctx, const Frame& f, ImVec2 at, float right) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float foot = at.y + title_line(f.em) - 1;
    const bool differences = m_colours.differences();
    float x = at.x;
    if (!m_row.weights.empty()) {
        const std::string verb = differences ? "differs" : "reads";
        text_at(list, ImVec2(x, at.y), ctx.theme.text_muted, verb);
        x += text_width(verb) + f.em * 0.5F;
    }
    const auto held = ctx.selection.key_position;
    const auto chip = [&](const TopKey& key) {
        const auto number = static_cast<double>(key.weight);
        const std::string token = position_label(*f.recording, key.position, 14),
                          weight = differences ? signed_number(number) : format_number(number);
        const float needs = text_width(token) + f.em * 0.35F + text_width(weight);
        if (x + needs > right) return false;
        if (key.position == held) // the held cell, with the colour of its line in strip and map
            list->AddLine(ImVec2(x, foot), ImVec2(x + needs, foot), ctx.theme.selection | alpha_mask);
        text_at(list, ImVec2(x, at.y), ctx.theme.text, token);
        x += text_width(token) + f.em * 0.35F;
        text_at(list, ImVec2(x, at.y), ctx.theme.text_muted, weight);
        x += text_width(weight) + f.em * 0.9F;
        return true;
    };
    if (held && *held < static_cast<int64_t>(m_row.weights.size()))
        chip({*held, m_row.weights[static_cast<size_t>(*held)]});
    for (const TopKey& key : m_row.top)
        if (key.position != held && !chip(key)) break;
}

bool AttentionPanel::marks_unread(const Frame& f) const {
    const AttentionOf decoder =
        f.recording->info().config.mode == Mode::teacher ? AttentionOf::teacher : AttentionOf::student;
    return m_colours.of() == decoder && !m_history.all_read();
}

/// Of the enlarged head; empty where the key was read.
std::string AttentionPanel::why_unread(const UiContext& ctx, const Frame& f, int64_t query,
                                       int64_t key) const {
    if (!marks_unread(f)) return {};
    const auto row =
        attention_row(*f.recording, query, m_colours.of(), ctx.selection.layer, ctx.selection.head);
    if (static_cast<size_t>(key) >= row.size() || row[static_cast<size_t>(key)] != 0) return {};
    return m_history.why_unread(ctx.selection.layer, m_history.kv_head_of(ctx.selection.head), key,
                                query - f.prompt + 1);
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
    std::string weight = "Weight " + weight_of(m_colours.of());
    if (m_colours.differences())
        weight = fmt::format("Teacher {}\nStudent {}\nDifference {}", weight_of(AttentionOf::teacher),
                             weight_of(AttentionOf::student), weight_of(AttentionOf::difference));
    if (const std::string why = why_unread(ctx, f, query, key); !why.empty()) weight = "Not read: " + why;
    ImGui::SetTooltip("Query %s, step %lld, position %lld\nKey %s, position %lld\n%s",
                      position_label(*f.recording, query, attention_label_chars).c_str(),
                      static_cast<long long>(step), static_cast<long long>(query),
                      position_label(*f.recording, key, attention_label_chars).c_str(),
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

void AttentionPanel::draw_missing(UiContext& ctx, Frame& f) {
    const MissingRow missing = missing_row(*f.recording, ctx.steps, f.query, m_colours.of());
    const std::pair asks(f.query, missing.teacher);
    if (m_asked == asks && ctx.status->errors != m_asked_errors) m_asked.reset();
    ImGui::TextDisabled("%s", missing.why.c_str());
    if (missing.go_step) {
        ImGui::SameLine();
        if (ImGui::SmallButton("Go there")) ctx.select_step(*missing.go_step);
    }
    if (missing.can_read) draw_read_buttons(ctx, f, missing);
}

/// Rows of the teacher that the map lacks are asked for by themselves while nothing runs: the shown one first, then its neighbours,
/// a few at a time, so that play or a refresh never waits for long. Each once: what was refused or dropped stays a click away.
void AttentionPanel::read_what_is_missing(UiContext& ctx, const Frame& f) {
    constexpr int64_t at_once = 4;
    const bool wanted = m_colours.of() != AttentionOf::student || f.view->order == HeadOrder::differing;
    if (!f.view->read_missing || !wanted || !f.live_engine || ctx.decoding() ||
        f.recording->info().config.mode != Mode::overfill)
        return;
    const bool both = m_colours.differences() || f.view->order == HeadOrder::differing;
    const int64_t held = std::min(teacher_length(*f.recording, ctx.steps), m_window.last_query + 1);
    const auto is_here = [&](const std::pair<int64_t, bool>& row) {
        return f.recording->attention(row.first, row.second) != nullptr;
    };
    auto waiting =
        static_cast<int64_t>(std::ranges::count_if(m_sent, [&](const auto& row) { return !is_here(row); }));
    if (ctx.status->errors != m_asked_errors) waiting = 0; // one was refused: nobody answers it
    const auto ask = [&](int64_t query) {
        if (query < m_window.first_query || query >= held) return;
        for (const bool teacher : {true, false}) {
            const std::pair row(query, teacher);
            if ((!teacher && !both) || waiting >= at_once || m_sent.contains(row) || is_here(row)) continue;
            ctx.engine.send(command::RequestAttention{query, teacher});
            m_sent.insert(row);
            ++waiting;
        }
    };
    for (int64_t away = 0; away < m_window.rows() && waiting < at_once; ++away) {
        ask(f.query - away);
        if (away > 0) ask(f.query + away);
    }
    if (waiting > 0) ctx.host.keep_awake(0.2);
}

void AttentionPanel::draw_read_buttons(UiContext& ctx, const Frame& f, const MissingRow& missing) {
    const bool teacher = missing.teacher;
    const std::pair asks(f.query, teacher);
    const bool busy = m_asked == asks;
    ImGui::SameLine();
    ImGui::BeginDisabled(!f.live_engine || busy);
    if (ImGui::SmallButton(busy ? "Reading..." : "Read it")) {
        ctx.engine.send(command::RequestAttention{f.query, teacher});
        m_asked = asks;
        m_asked_errors = ctx.status->errors;
    }
    ImGui::EndDisabled();
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
        ImGui::SetTooltip(
            "%s", f.live_engine
                      ? fmt::format("One pass of the {} over this token, on the entries as they are now.",
                                    teacher ? "teacher" : "student")
                            .c_str()
                      : "This run comes from a file; its models are not loaded.");
    if (!teacher || !f.live_engine) return;
    ImGui::SameLine();
    if (ImGui::SmallButton("Read all shown")) {
        for (int64_t q = m_window.first_query; q <= std::min(m_window.last_query, missing.held - 1); ++q)
            if (!f.recording->attention(q, teacher)) ctx.engine.send(command::RequestAttention{q, teacher});
    }
    ImGui::SetItemTooltip("One pass of the teacher for each row of the map.");
}

} // namespace refreshlab::ui
