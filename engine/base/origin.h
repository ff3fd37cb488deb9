#pragma once

#include <cstddef>
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
    skipped = 6,         ///< student-made for good: a windowed splice moved past it, or its scope left it out
    teacher_keys = 7,    ///< spliced by a refresh whose scope is keys: the values are the student's
    teacher_values = 8,  ///< the same the other way round
    teacher_partly = 9,  ///< of a position as a whole: spliced in some layers and KV heads
};
inline constexpr size_t num_origins = 10;

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
    case Origin::teacher_keys:
        return "teacher_keys";
    case Origin::teacher_values:
        return "teacher_values";
    case Origin::teacher_partly:
        return "teacher_partly";
    }
    return "none";
}

} // namespace refreshlab
