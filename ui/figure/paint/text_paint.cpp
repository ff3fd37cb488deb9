#include "ui/figure/paint/text_paint.h"

#include "ui/figure/paint/note_paint.h"
#include "ui/scene/maps/cache_map.h"
#include "ui/scene/text/text_finder.h"
#include "ui/scene/theme/run_colours.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

namespace refreshlab::ui {

namespace {

using Kind = TextLayout::Kind;

bool is_mark(Kind kind) {
    return kind == Kind::newline || kind == Kind::space || kind == Kind::escape;
}

/// A refresh chose it once more.
bool is_drawn_again(const Recording& run, int64_t token) {
    const RefreshEvent* event = token >= 2 ? run.refresh_at(token - 1) : nullptr;
    return event && event->on_fire != OnFire::keep;
}

/// Pulls what is drawn there towards the ground.
void dim(const FigurePen& pen, const FigureRect& place, Colour ground) {
    pen.canvas.rectangle(place, with_alpha(ground | alpha_mask, 0.62F));
}

double underline_height(const TextMetrics& m) {
    return m.font * 0.13;
}

/// A line below it, a thick one and a pointer from above where it is the first.
void paint_difference(const FigurePen& pen, const TextMetrics& m, const FigureRect& box, bool first) {
    const FigureGroup group(pen.canvas,
                            first ? "parts" : "differs"); // not among the underlines of the tokens
    const double thin = m.font * 0.1;
    pen.canvas.rectangle({box.x, box.bottom() + 1.8 * thin, box.width, first ? 2 * thin : thin},
                         pen.style.theme.text_error);
    if (!first) return;
    const double middle = box.x + box.width / 2, size = m.font * 0.3, foot = box.y - 1.8 * thin;
    const FigurePoint corners[] = {
        {middle - size, foot - size}, {middle + size, foot - size}, {middle, foot}};
    pen.canvas.polygon(corners, pen.style.theme.text_error);
}

/// Between the lines: over the room above its own token, never over the line before.
void paint_flag(const FigurePen& pen, const TextMetrics& m, std::span<const TriggerHit> hits, bool crowd,
                FigurePoint at) {
    const Colour colour = marker_colour(pen.style.theme, hits) | alpha_mask;
    const double x = std::floor(at.x) - m.font * 0.13, size = m.flag - m.font * 0.06;
    if (crowd) {
        const double side = size * 0.45;
        pen.canvas.rectangle({x, at.y + m.flag - side, side, side}, colour);
        return;
    }
    pen.canvas.rectangle({x, at.y, m.font * 0.09, m.flag + m.font * 1.1}, colour);
    const std::string letter(1, reason_letter(hits));
    TextStyle ink = pen.small(TextStyle::Align::centre);
    ink.size = size;
    ink.colour = readable_on(colour);
    const TextSize extent = pen.canvas.measure(letter, ink);
    const double width = std::max(size, extent.width + m.font * 0.25);
    pen.canvas.rectangle({x, at.y, width, size}, colour, {m.font * 0.12, false, true});
    pen.canvas.text(
        {x + width / 2 + m.font * 0.03, at.y + (size - extent.ascent - extent.descent) / 2 + extent.ascent},
        letter, ink);
}

void paint_flags(const FigurePen& pen, const TextMetrics& m, const TextLayout& layout, size_t begin,
                 size_t end, FigurePoint origin, const TextPicture& picture) {
    const auto in_sight = layout.tokens_in({begin, end});
    if (!in_sight) return;
    const int64_t first_token = in_sight->first + picture.first_token,
                  last_token = in_sight->second + picture.first_token;
    const size_t first = picture.marks->first_from(MarkLane::refresh, std::max<int64_t>(1, first_token - 1)),
                 last = picture.marks->first_from(MarkLane::refresh, last_token);
    // Letters over every other word say nothing: in a crowd the colour alone stays.
    const bool crowd = static_cast<int64_t>(last - first) * 6 > last_token - first_token;
    for (size_t i = first; i < last; ++i) {
        const int64_t index = picture.marks->refresh(i).step + 1 - picture.first_token;
        if (index < 0 || index >= static_cast<int64_t>(layout.num_tokens())) continue;
        const auto& f = layout.fragments()[layout.token(static_cast<size_t>(index)).first];
        paint_flag(pen, m, picture.marks->refresh(i).hits, crowd,
                   {origin.x + static_cast<double>(f.x), origin.y + static_cast<double>(f.line) * m.pitch});
    }
}

/// A bar over the tokens that a note is about, with its number over the first: above what says who made a token, below no letter. A flag
/// of a refresh there goes before the number.
void paint_note(const FigurePen& pen, const TextMetrics& m, const TextLayout& layout, size_t begin,
                size_t end, FigurePoint origin, const TextPicture& picture, size_t index) {
    const StepNote& note = picture.marks->note(index).note;
    const Colour colour = mark_colour(pen.style.theme, *picture.marks, MarkLane::note, index) | alpha_mask;
    const auto covered = [&](const TextLayout::Fragment& f) {
        const int64_t step = picture.token_of(f) - 1; // y_{t+1} is chosen at step t
        return f.token >= 0 && note.first_step <= step && step <= note.last_step;
    };
    const auto& all = layout.fragments();
    for (size_t i = begin; i < end; ++i) {
        const TextLayout::Fragment& f = all[i];
        if (!covered(f)) continue;
        const FigureRect box = token_box(m, f, origin);
        const bool goes_on = i + 1 < all.size() && all[i + 1].line == f.line && covered(all[i + 1]);
        const double right = goes_on ? token_box(m, all[i + 1], origin).x : box.right(),
                     line = underline_height(m);
        pen.canvas.rectangle({box.x, box.y - 1.7 * line, right - box.x, 0.7 * line}, colour);
        if (!f.starts_token || picture.token_of(f) - 1 != note.first_step) continue;
        const double size = m.flag - m.font * 0.06;
        const bool flagged = picture.marks->at(MarkLane::refresh, note.first_step).has_value();
        paint_note_badge(
            pen, {box.x - m.font * 0.13 + (flagged ? size * 1.15 : 0), box.y + m.font * 0.07 - m.flag}, size,
            colour, fmt::format("{}", index + 1));
    }
}

void paint_notes(const FigurePen& pen, const TextMetrics& m, const TextLayout& layout, size_t begin,
                 size_t end, FigurePoint origin, const TextPicture& picture) {
    const auto in_sight = layout.tokens_in({begin, end});
    if (!in_sight) return;
    const FigureGroup group(pen.canvas, "note_marks");
    for (const size_t index : picture.marks->notes_over(in_sight->first + picture.first_token - 1,
                                                        in_sight->second + picture.first_token - 1))
        paint_note(pen, m, layout, begin, end, origin, picture, index);
}

void paint_words(const FigurePen& pen, const TextMetrics& m, std::string_view words, double x, double top,
                 Colour colour) {
    TextStyle ink = pen.text();
    ink.colour = colour;
    const TextSize size = pen.canvas.measure({}, ink);
    pen.canvas.text({x, top + (m.font - size.ascent - size.descent) / 2 + size.ascent}, words, ink);
}

/// Corners are round where a word begins and ends; pieces of one word touch.
Rounding corners_of(const TextMetrics& m, const TextLayout& layout, size_t index) {
    const auto& all = layout.fragments();
    const auto& f = all[index];
    return {m.font * 0.13, index == 0 || all[index - 1].line != f.line || f.gap > 0,
            index + 1 >= all.size() || all[index + 1].line != f.line || all[index + 1].gap > 0};
}

/// A token that was drafted and is none of the text: pale, and struck out in the colour of what is wrong.
void paint_rejected(const FigurePen& pen, const TextMetrics& m, std::string_view words, const FigureRect& box,
                    double top) {
    const FigureGroup group(pen.canvas, "rejected");
    paint_words(pen, m, words, box.x, top, with_alpha(pen.style.theme.text_muted | alpha_mask, 0.8F));
    pen.canvas.rectangle({box.x, pen.style.pitch(top + m.font * 0.56), box.width, m.font * 0.08},
                         pen.style.theme.text_error);
}

void paint_token(const FigurePen& pen, const TextMetrics& m, const TextLayout& layout, size_t index,
                 FigurePoint origin, const TextPicture& picture) {
    const TextLayout::Fragment& f = layout.fragments()[index];
    const Theme& theme = pen.style.theme;
    const int64_t token = picture.token_of(f);
    const FigureRect box = token_box(m, f, origin);
    const double top = origin.y + static_cast<double>(f.line) * m.pitch + m.flag;
    const std::string_view words = layout.text(f);
    if (f.token < 0) return paint_rejected(pen, m, words, box, top);
    if (picture.played_to && token > *picture.played_to)
        return paint_words(pen, m, words, box.x, top, with_alpha(theme.text_muted | alpha_mask, 0.45F));
    const double line = underline_height(m);
    TokenLook look;
    if (picture.shows_pending && token == picture.steps + 1)
        pen.canvas.frame({box.x - 0.5, box.y, box.width + 1, box.height},
                         {theme.accent_ink, pen.style.axis_pt});
    else
        look = picture.text.look(picture.paint,
                                 picture.on_other_scale
                                     ? picture.text.value_of(picture.recording, picture.steps, token)
                                     : picture.text.value(token));
    if (look.background) pen.canvas.rectangle(box, look.background, corners_of(m, layout, index));
    const Colour underline =
        picture.origins ? origin_colour(theme, picture.origins->of(token)) : look.underline;
    if (underline)
        pen.canvas.rectangle({box.x, box.bottom(), box.width, line},
                             picture.origins ? underline | alpha_mask : underline);
    paint_words(pen, m, words, box.x, top,
                is_mark(f.kind)   ? theme.text_muted
                : look.background ? look.ink
                                  : theme.text);
    if (look.struck)
        pen.canvas.rectangle({box.x, std::round(top + m.font * 0.56), box.width, m.font * 0.07},
                             look.underline);
    if (picture.gone && picture.gone->gone_at(picture.recording.prompt_length() + token - 1))
        dim(pen, {box.x, box.y, box.width, box.height + (underline ? line : 0)}, picture.ground);
    // Who made it: a line above the teacher's tokens; a double underline where a refresh drew the token again.
    if (producer_of(picture.recording, token) == Producer::teacher)
        pen.canvas.rectangle({box.x, box.y - line, box.width, line}, theme.origin_prefill);
    if (is_drawn_again(picture.recording, token))
        pen.canvas.rectangle({box.x, box.bottom() + 1.5 * line, box.width, line}, theme.accent);
    if (picture.other && picture.other->differs(token, picture.side)) {
        FigureRect over = box;
        if (is_drawn_again(picture.recording, token)) over.height += 1.5 * line; // below that line
        paint_difference(pen, m, over, picture.other->first() == token);
    }
}

/// Of words that are not settled.
Colour draft_ink(const Theme& theme) {
    return with_alpha(theme.text_muted | alpha_mask, 0.8F);
}
/// Dots below them.
void paint_dots(const FigurePen& pen, double x, double right, double y, double size) {
    for (; x + size <= right; x += 2.5 * size)
        pen.canvas.rectangle({x, y, size, size}, pen.style.theme.accent_ink);
}

/// A box with something on it, as small as letters.
LegendEntry sample(std::string words, std::function<void(const FigurePen&, const FigureRect&)> draw) {
    return {.words = std::move(words), .mark = LegendEntry::Mark::sample, .draw_sample = std::move(draw)};
}
void draw_ground(const FigurePen& pen, const FigureRect& place) {
    pen.canvas.rectangle(place, pen.style.theme.grid);
}

} // namespace

Producer producer_of(const Recording& run, int64_t token) {
    return token == 1 ? run.info().first_producer : run.step(token - 1).next_producer;
}

TextMetrics text_metrics(const FigurePen& pen) {
    const double font = pen.style.text_pt;
    return {font, pen.style.pitch(font * 0.62), pen.style.pitch(font * 1.78), pen.style.pitch(font * 1.25)};
}

TextLayout::Style text_layout_style(const FigurePen& pen, double width) {
    const TextStyle text = pen.text();
    return {.width = static_cast<float>(width),
            .space = static_cast<float>(pen.canvas.width_of(" ", text) * 1.1),
            .newline = pen.canvas.has_glyph(0x21B5, text) ? "\u21B5" : "\\n",
            .dot = pen.canvas.has_glyph(0xB7, text) ? "\u00B7" : "."};
}

TextLayout::Measure text_measure(const FigurePen& pen) {
    return [&canvas = pen.canvas, text = pen.text()](std::string_view words) {
        return static_cast<float>(canvas.width_of(words, text));
    };
}

FigureRect token_box(const TextMetrics& m, const TextLayout::Fragment& f, FigurePoint origin) {
    const double x = std::floor(origin.x + static_cast<double>(f.x)),
                 right = std::floor(origin.x + static_cast<double>(f.x + f.width)), over = m.font * 0.07;
    return {x, origin.y + static_cast<double>(f.line) * m.pitch + m.flag - over, right - x,
            m.font + 2 * over};
}

void paint_tokens(const FigurePen& pen, const TextMetrics& m, const TextLayout& layout, size_t begin,
                  size_t end, FigurePoint origin, const TextPicture& picture, std::string_view id) {
    if (begin >= end) return;
    {
        const FigureGroup group(pen.canvas, id);
        for (size_t i = begin; i < end; ++i)
            paint_token(pen, m, layout, i, origin, picture);
    }
    if (picture.marks && picture.notes) paint_notes(pen, m, layout, begin, end, origin, picture);
    const FigureGroup group(pen.canvas, "flags");
    if (picture.marks) paint_flags(pen, m, layout, begin, end, origin, picture);
}

void paint_prompt(const FigurePen& pen, const TextMetrics& m, const TextLayout& layout, size_t begin,
                  size_t end, FigurePoint origin, const TextPicture& picture) {
    const FigureGroup group(pen.canvas, "prompt");
    const Colour muted = pen.style.theme.text_muted | alpha_mask;
    for (size_t i = begin; i < end; ++i) {
        const auto& f = layout.fragments()[i];
        const double top = origin.y + static_cast<double>(f.line) * m.prompt_pitch;
        const double x = std::floor(origin.x + static_cast<double>(f.x));
        const FigureRect box{x, top, std::floor(x + static_cast<double>(f.width)) - x, m.font};
        const bool mark = f.kind != Kind::text;
        const TokenLook look = picture.text.look(picture.paint, picture.text.prompt_value(f.token));
        if (look.background) pen.canvas.rectangle(box, look.background, {m.font * 0.13});
        paint_words(pen, m, layout.text(f), x, top,
                    look.background && !mark ? look.ink : with_alpha(muted, mark ? 0.6F : 1.0F));
        if (picture.gone && picture.gone->gone_at(f.token)) dim(pen, box, picture.ground);
    }
}

void paint_draft(const FigurePen& pen, const TextMetrics& m, const TextLayout& layout, FigurePoint origin) {
    const FigureGroup group(pen.canvas, "draft");
    const Colour ink = draft_ink(pen.style.theme);
    for (const TextLayout::Fragment& f : layout.fragments()) {
        const FigureRect box = token_box(m, f, origin);
        paint_words(pen, m, layout.text(f), box.x, origin.y + static_cast<double>(f.line) * m.pitch + m.flag,
                    ink);
        paint_dots(pen, box.x, box.right(), box.bottom() + m.font * 0.04, std::max(1.0, m.font * 0.1));
    }
}

std::vector<LegendEntry> text_legend(const Theme& theme, const TextPicture& picture,
                                     std::optional<StepRange> tokens) {
    const Recording& run = picture.recording;
    const auto occurs = [&](auto&& is) {
        if (!tokens) return true;
        for (int64_t t = tokens->first; t <= tokens->last; ++t)
            if (is(t)) return true;
        return false;
    };
    std::vector<LegendEntry> all;
    if (picture.drafted)
        all.push_back(sample("not yet settled", [](const FigurePen& pen, const FigureRect& at) {
            TextStyle ink = pen.small();
            ink.colour = draft_ink(pen.style.theme);
            pen.canvas.text({at.x, at.bottom() - at.height * 0.1}, "ab", ink);
            paint_dots(pen, at.x, at.right(), at.bottom() + at.height * 0.05,
                       std::max(1.0, at.height * 0.12));
        }));
    if (picture.origins) {
        for (const Origin origin :
             {Origin::student, Origin::teacher_refresh, Origin::teacher_keys, Origin::teacher_values,
              Origin::teacher_partly, Origin::skipped, Origin::teacher_decode})
            if (const bool rare = origin >= Origin::teacher_keys; // listed where it is known to occur
                (tokens || !rare) && occurs([&](int64_t t) { return picture.origins->of(t) == origin; }))
                all.push_back({origin_label(origin), origin_colour(theme, origin) | alpha_mask});
    }
    if (picture.gone && picture.gone->any())
        all.push_back(
            sample("held by no layer", [ground = picture.ground](const FigurePen& pen, const FigureRect& at) {
                TextStyle ink = pen.small();
                ink.colour = pen.style.theme.text;
                pen.canvas.text({at.x, at.bottom()}, "ab", ink);
                dim(pen, {at.x, at.y - 2, at.width + 2, at.height + 4}, ground);
            }));
    if (occurs([&](int64_t t) { return producer_of(run, t) == Producer::teacher; }))
        all.push_back(sample("teacher's token", [](const FigurePen& pen, const FigureRect& at) {
            draw_ground(pen, at);
            pen.canvas.rectangle({at.x, at.y, at.width, at.height * 0.2}, pen.style.theme.origin_prefill);
        }));
    if (occurs([&](int64_t t) { return is_drawn_again(run, t); }))
        all.push_back(sample("drawn again", [](const FigurePen& pen, const FigureRect& at) {
            draw_ground(pen, {at.x, at.y, at.width, at.height * 0.7});
            pen.canvas.rectangle({at.x, at.bottom() - at.height * 0.2, at.width, at.height * 0.2},
                                 pen.style.theme.accent);
        }));
    if (picture.notes && picture.marks &&
        (tokens ? !picture.marks->notes_over(tokens->first - 1, tokens->last - 1).empty()
                : picture.marks->count(MarkLane::note) > 0))
        all.push_back(sample("note", [](const FigurePen& pen, const FigureRect& at) {
            draw_ground(pen, {at.x, at.y + at.height * 0.3, at.width, at.height * 0.7});
            pen.canvas.rectangle({at.x, at.y, at.width, at.height * 0.2},
                                 run_colour(pen.style.theme, 0) | alpha_mask);
        }));
    if (picture.rejected)
        all.push_back(sample("rejected draft", [](const FigurePen& pen, const FigureRect& at) {
            TextStyle ink = pen.small();
            ink.colour = pen.style.theme.text_muted;
            pen.canvas.text({at.x, at.bottom()}, "ab", ink);
            pen.canvas.rectangle({at.x, at.y + at.height * 0.5, at.width, at.height * 0.12},
                                 pen.style.theme.text_error);
        }));
    if (picture.other && occurs([&](int64_t t) { return picture.other->differs(t, picture.side); }))
        all.push_back(sample("differs", [](const FigurePen& pen, const FigureRect& at) {
            draw_ground(pen, {at.x, at.y, at.width, at.height * 0.7});
            pen.canvas.rectangle({at.x, at.bottom() - at.height * 0.15, at.width, at.height * 0.15},
                                 pen.style.theme.text_error);
        }));
    return all;
}

} // namespace refreshlab::ui
