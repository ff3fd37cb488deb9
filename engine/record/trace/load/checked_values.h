#pragma once

#include "engine/record/recording/step_record.h"
#include "engine/record/trace/sqlite.h"
#include "engine/record/trace/trace_access.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

/// Values of a file that anybody may have written. What no recorder can have written is Damage.
namespace refreshlab::trace {

inline constexpr int64_t max_id = std::numeric_limits<int32_t>::max();

/// \return the value, which is from min to max, both included
inline int64_t within(int64_t value, int64_t min, int64_t max, const char* what) {
    if (value < min || value > max)
        throw Damage(fmt::format("{} {} is not from {} to {}", what, value, min, max));
    return value;
}
inline int32_t within32(int64_t value, int64_t min, int64_t max, const char* what) {
    return static_cast<int32_t>(within(value, min, max, what));
}

inline float real32(const sqlite::Statement& row, int column) {
    return static_cast<float>(row.real(column));
}
inline double number_or_nan(const sqlite::Statement& row, int column) {
    return row.number(column).value_or(std::numeric_limits<double>::quiet_NaN());
}
inline float number_or_absent(const sqlite::Statement& row, int column) {
    const auto value = row.number(column);
    return value ? static_cast<float>(*value) : absent();
}

/// A blob of `count` values, little-endian, without anything between them.
template <class T, class Vector = std::vector<T>>
Vector values(const sqlite::Statement& row, int column, int64_t count, const char* what) {
    const auto bytes = row.blob(column);
    if (bytes.size() % sizeof(T) != 0 || bytes.size() / sizeof(T) != static_cast<uint64_t>(count)) {
        throw Damage(fmt::format("{} has {} bytes instead of {} values", what, bytes.size(), count));
    }
    Vector out(static_cast<size_t>(count));
    if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
}

} // namespace refreshlab::trace
