#include "engine/record/trace/load/run_source.h"

#include "engine/record/trace/load/checked_values.h"
#include "engine/record/trace/schema/trace_versions.h"

#include <fmt/format.h>

namespace refreshlab::trace {

std::string RunSource::select(std::string_view table, std::string_view order) const {
    return fmt::format("{} WHERE run = ? ORDER BY {}", select_sql(table, version), order);
}

int32_t RunSource::known_id(int32_t id) const {
    if (id >= 0 && !tokens.contains(id))
        throw Damage(fmt::format("run {} has token {}, of which the file has no text", number, id));
    return id;
}

std::string RunSource::name() const {
    return fmt::format("run {} of {}", number, file);
}

int64_t last_boundary(const Recording& recording) {
    return recording.steps() + 1;
}

int64_t columns_at(const Recording& recording, int64_t boundary) {
    return recording.prompt_length() + boundary;
}

int64_t largest_id(const Recording& recording) {
    const int64_t vocab = recording.info().vocab_size;
    return vocab > 0 ? vocab - 1 : max_id;
}

} // namespace refreshlab::trace
