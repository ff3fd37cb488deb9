#include "engine/record/trace/load/checked_values.h"
#include "engine/record/trace/load/run_source.h"

#include <limits>
#include <memory>

namespace refreshlab::trace {

namespace {

using sqlite::Statement;

/// layers * heads * keys, each checked before; saturates where the product would not fit.
int64_t count_of(int64_t layers, int64_t heads, int64_t keys) {
    const int64_t rows = layers * heads;
    return rows > 0 && keys > std::numeric_limits<int64_t>::max() / rows ? std::numeric_limits<int64_t>::max()
                                                                         : rows * keys;
}

} // namespace

void load_attention(const RunSource& run, Recording& recording) {
    Statement rows(run.db, run.select("attention", "weights IS NOT NULL, position, teacher"));
    rows.bind(0, run.number); // what a branch has dropped comes first: then what it holds fits its limit
    while (rows.step()) {
        const int64_t position = within(rows.integer(1), 0, columns_at(recording, recording.steps()),
                                        "position"); // the newest is that of the step in flight
        const bool teacher = within(rows.integer(2), 0, 1, "teacher") != 0;
        if (rows.is_null(7)) {
            recording.drop_attention(position, teacher);
            continue;
        }
        auto attention = std::make_shared<AttentionRows>();
        attention->position = position;
        attention->teacher = teacher;
        const int64_t step = position - recording.prompt_length() + 1;
        attention->step = within(rows.integer(3), step, step, "step of attention");
        attention->heads = within(rows.integer(4), 0, 1 << 16, "heads");
        attention->keys = within(rows.integer(5), position + 1, position + 1, "keys");
        const auto layers = static_cast<int64_t>(rows.blob(6).size() / sizeof(int32_t));
        attention->layers = values<int32_t>(rows, 6, layers, "layers of attention");
        if (layers > 1 << 16 || attention->keys > max_id) throw Damage("attention of an absurd size");
        for (const int32_t layer : attention->layers)
            within(layer, 0, 1 << 16, "layer");
        attention->weights = values<uint16_t, RowVector<uint16_t>>(
            rows, 7, count_of(layers, attention->heads, attention->keys), "attention");
        recording.add_attention(std::move(attention));
    }
}

} // namespace refreshlab::trace
