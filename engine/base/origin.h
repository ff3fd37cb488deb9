#pragma once

#include <cstdint>

namespace refreshlab {

/// Who wrote a cache column.
enum class Origin : uint8_t {
    none = 0,
    teacher_prefill = 1,
    teacher_refresh = 2, ///< spliced by a refresh
    student = 3,
    student_prefill = 4, ///< student's own prefill (modes student, rebuild)
    teacher_decode = 5,  ///< the teacher's own cache, generated positions
    skipped = 6,         ///< student-made for good: a windowed splice moved past it
};

[[nodiscard]] constexpr const char* origin_name(Origin o) {
    switch (o) {
    case Origin::none:
        return "none";
    case Origin::teacher_prefill:
        return "teacher_prefill";
    case Origin::teacher_refresh:
        return "teacher_refresh";
    case Origin::student:
        return "student";
    case Origin::student_prefill:
        return "student_prefill";
    case Origin::teacher_decode:
        return "teacher_decode";
    case Origin::skipped:
        return "skipped";
    }
    return "none";
}

} // namespace refreshlab
