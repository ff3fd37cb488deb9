#include "ui/theme/run_colours.h"

#include "ui/scene/marks/refresh_marks.h"
namespace refreshlab::ui {

Colour origin_colour(const Theme& theme, Origin origin) {
    switch (origin) {
    case Origin::teacher_prefill:
    case Origin::student_prefill:
    case Origin::teacher_decode:
        return theme.origin_prefill;
    case Origin::teacher_refresh:
        return theme.origin_refresh;
    case Origin::student:
        return theme.origin_student;
    case Origin::skipped:
        return theme.origin_skipped;
    case Origin::none:
        break;
    }
    return 0;
}

Colour marker_colour(const Theme& theme, const RefreshEvent& event) {
    const std::string first = event.hits.empty() ? std::string() : event.hits.front().signal;
    return theme.marker(first, marker_letter(event));
}

Colour group_colour(const Theme& theme, const Recording& recording, const RefreshMarks& marks,
                    const MarkerGroup& group) {
    const Colour first = marker_colour(theme, recording.refreshes()[marks.events[group.first]]);
    for (size_t i = group.first + 1; i <= group.last; ++i)
        if (marker_colour(theme, recording.refreshes()[marks.events[i]]) != first) return theme.several;
    return first;
}

} // namespace refreshlab::ui
