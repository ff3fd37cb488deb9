// The enlarged head of the Attention panel: its title, what is missing, and where strip and map stand.
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/screen_canvas.h"
#include "ui/panels/attention/attention_frame.h"
#include "ui/panels/attention/attention_panel.h"
#include "ui/scene/maps/cache_map.h"
#include "ui/scene/text/token_label.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace refreshlab::ui {
namespace {

/// "+0.19": a difference without its sign says the wrong thing half of the time.
std::string signed_number(double value) {
    return (value > 0 ? "+" : "") + format_number(value);
}

} // namespace

void AttentionPanel::draw_head(UiContext& ctx, Frame& f, PixelBox place) {
    const float em = f.em;
    if (place.width < 8 * em || place.height < 5 * em) return;
    m_row.read(*f.recording, f.query, m_colours.of(), ctx.selection.layer, ctx.selection.head);
    const ScreenPen pen(ctx, ImGui::GetWindowDrawList());
    f.places = head_places(pen, figure_rect(place), m_window.keys());
    if (f.places.map.height > 0) update_head(ctx, f);
    const HeadPicture picture = this->picture(ctx, f);
    paint_head_title(pen, f.places, picture);
    if (marks_unread(f)) draw_unread_note(ctx, f, pen);
    if (m_row.weights.empty()) {
        const PixelBox title = pixel_box(f.places.title);
        ImGui::SetCursorScreenPos(ImVec2(title.x, title.y + title.height / 2));
        draw_missing(ctx, f);
    }
    if (f.places.map.height <= 0) return;
    paint_strip(pen, f.places, picture);
    if (!m_row.weights.empty() && f.places.strip.height > 0) answer_strip(ctx, f);
    paint_head_map(pen, f.places, picture);
    draw_rows(ctx, f);
    answer_map(ctx, f);
    paint_head_axes(pen, f.places, picture);
    const PixelBox map = pixel_box(f.places.map);
    const auto steps = static_cast<float>(f.places.step_tokens),
               keys = static_cast<float>(f.places.key_tokens);
    if (steps > 0)
        ctx.landmarks.set({map.x - steps - 0.35F * em, map.y, steps, map.height}, "attention/step tokens");
    if (keys > 0) ctx.landmarks.set({map.x, map.y + map.height, map.width, keys}, "attention/key tokens");
}

HeadPicture AttentionPanel::picture(const UiContext& ctx, const Frame& f) const {
    return {.recording = *f.recording,
            .steps = ctx.steps,
            .map = m_head,
            .cells = {.width = m_head.columns(),
                      .height = m_head.rows(),
                      .rgba = m_head_rgba,
                      .key = "attention/head",
                      .revision = m_head_revision},
            .row = m_row,
            .query = f.query,
            .of = m_colours.of(),
            .layer = ctx.selection.layer,
            .head = ctx.selection.head,
            .without_first = f.view->without_first,
            .unread = marks_unread(f) ? &m_history : nullptr,
            .held = ctx.selection.key_position};
}

/// At the right of the title, where there is room: what the colour means.
void AttentionPanel::draw_unread_note(UiContext& ctx, const Frame& f, const FigurePen& pen) {
    const LegendEntry entry{"not read", f.unread, LegendEntry::Mark::box};
    const FigureRect& title = f.places.title;
    const double wide = legend_places(pen, title.width, std::span(&entry, 1)).front().width;
    if (wide > title.width * 0.3) return;
    const PixelBox box = pixel_box({title.right() - wide, title.y, wide, title.height / 2});
    pen.canvas.rectangle(figure_rect(box), ImGui::GetColorU32(ImGuiCol_WindowBg) | alpha_mask);
    ui::draw_legend(pen, {title.right() - wide, title.y}, title.width, std::span(&entry, 1));
    ctx.landmarks.set(box, "attention/not read");
}

bool AttentionPanel::marks_unread(const Frame& f) const {
    return ui::marks_unread(*f.recording, m_colours.of(), m_history);
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
    const auto share_of = [&](bool teacher) {
        return attention_share(*f.recording, query, teacher, ctx.selection.layer, ctx.selection.head, key);
    };
    const auto words = [](const std::optional<AttentionShare>& share) {
        return share ? share_words(*share) : std::string("not recorded");
    };
    std::string weight;
    if (m_colours.differences()) {
        const auto teacher = share_of(true), student = share_of(false);
        weight = fmt::format("Teacher {}\nStudent {}", words(teacher), words(student));
        if (teacher && student)
            weight += fmt::format("\n{} {}",
                                  teacher->exact() && student->exact() ? "Difference" : "Difference of these",
                                  signed_number(static_cast<double>(half_to_float(teacher->share)) -
                                                static_cast<double>(half_to_float(student->share))));
    } else {
        weight = "Weight " + words(share_of(m_colours.of() == AttentionOf::teacher));
    }
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
    if (const auto& link = ctx.status->link;
        link && link->rows_to_come > 0 && f.live_engine && !missing.teacher && missing.can_read) {
        ImGui::TextDisabled("On the way from the server");
        return;
    }
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
