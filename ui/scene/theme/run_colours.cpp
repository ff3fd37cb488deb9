#include "ui/scene/theme/run_colours.h"

#include "ui/base/colour.h"

#include <array>

namespace refreshlab::ui {

Colour origin_colour(const Theme& theme, Origin origin) {
    switch (origin) {
    case Origin::teacher_prefill:
    case Origin::student_prefill:
    case Origin::teacher_decode:
        return theme.origin_prefill;
    case Origin::teacher_refresh:
        return theme.origin_refresh;
    case Origin::teacher_keys:
    case Origin::teacher_values:
    case Origin::teacher_partly:
        return mix(theme.origin_refresh, theme.origin_student, 0.5F);
    case Origin::student:
        return theme.origin_student;
    case Origin::skipped:
        return theme.origin_skipped;
    case Origin::none:
        break;
    }
    return 0;
}

Colour column_colour(const Theme& theme, Origin origin) {
    if (origin == Origin::teacher_decode) return theme.origin_student;
    return origin == Origin::none ? theme.absent_a : origin_colour(theme, origin);
}

CellPalette cell_palette(const Theme& theme) {
    // How alive an entry is, is how dark its ink is: hues are those of who wrote it. What is special has one from Okabe-Ito.
    const auto ink = [&](float share) { return mix(theme.plot_background, theme.text, share); };
    CellPalette palette{};
    palette[static_cast<size_t>(CacheCell::attended)] = ink(0.82F);
    palette[static_cast<size_t>(CacheCell::held)] = ink(0.4F);
    palette[static_cast<size_t>(CacheCell::encoded)] = rgba(0xCC, 0x79, 0xA7);
    palette[static_cast<size_t>(CacheCell::merged)] =
        theme.dark ? rgba(0xF0, 0xE4, 0x42) : rgba(0xD5, 0x5E, 0x00);
    palette[static_cast<size_t>(CacheCell::evicted)] = ink(0.1F);
    palette[static_cast<size_t>(CacheCell::none)] = 0;
    return palette;
}

Colour unread_colour(const Theme& theme) {
    return mix(theme.absent_b, theme.absent_a, 0.35F);
}

Colour run_colour(const Theme& theme, uint32_t colour) {
    // Okabe-Ito, yellow last; its dark blue is not read on a dark ground, and its yellow and sky blue not on a white one.
    constexpr std::array on_dark = {rgba(230, 159, 0),   rgba(86, 180, 233), rgba(0, 190, 140),
                                    rgba(204, 121, 167), rgba(236, 112, 54), rgba(110, 140, 255),
                                    rgba(190, 196, 205), rgba(240, 228, 66)};
    constexpr std::array on_light = {rgba(190, 125, 0),  rgba(0, 114, 178), rgba(0, 128, 92),
                                     rgba(176, 80, 136), rgba(200, 80, 0),  rgba(80, 70, 190),
                                     rgba(96, 100, 108), rgba(140, 128, 0)};
    const auto& colours = theme.dark ? on_dark : on_light;
    static_assert(on_dark.size() == run_colours && on_light.size() == run_colours);
    return colours[colour % run_colours];
}

Colour marker_colour(const Theme& theme, std::span<const TriggerHit> hits) {
    const std::string_view first = hits.empty() ? std::string_view() : hits.front().signal;
    return theme.marker(first, reason_letter(hits));
}

namespace {
constexpr float held_back_alpha = 0.5F;
}

Colour mark_colour(const Theme& theme, const StepMarks& all, MarkLane lane, size_t index) {
    switch (lane) {
    case MarkLane::refresh:
        return marker_colour(theme, all.hits(lane, index));
    case MarkLane::blocked:
        return with_alpha(marker_colour(theme, all.hits(lane, index)), held_back_alpha);
    case MarkLane::cut:
        return theme.text_error;
    case MarkLane::note:
        return run_colour(theme, all.note(index).note.colour);
    case MarkLane::change:
        break;
    }
    return theme.text_muted;
}

Colour held_back_colour(const Theme& theme) {
    return with_alpha(theme.text_muted, held_back_alpha);
}

Colour group_colour(const Theme& theme, const StepMarks& all, const LaneMarks& marks,
                    const MarkerGroup& group) {
    const auto colour = [&](size_t i) { return mark_colour(theme, all, marks.lane, marks.index[i]); };
    const Colour first = colour(group.first);
    for (size_t i = group.first + 1; i <= group.last; ++i)
        if (colour(i) != first) return theme.several;
    return first;
}

} // namespace refreshlab::ui
