#include "engine/record/trace/load/checked_values.h"
#include "engine/record/trace/load/run_source.h"
#include "kernels/shared/attention_bins.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <span>

namespace refreshlab::trace {

namespace {

using sqlite::Statement;

/// layers * heads * numbers, each checked before; saturates where the product would not fit.
int64_t count_of(int64_t layers, int64_t heads, int64_t numbers) {
    const int64_t rows = layers * heads;
    return rows > 0 && numbers > std::numeric_limits<int64_t>::max() / rows
               ? std::numeric_limits<int64_t>::max()
               : rows * numbers;
}

/// Keys of a number, of rows from before edges whose weights are so many bytes: their size says it.
int64_t bin_of(const AttentionRows& rows, int64_t layers, size_t bytes) {
    const auto all = static_cast<int64_t>(bytes / sizeof(uint16_t));
    const int64_t heads = layers * rows.heads, numbers = heads > 0 ? all / heads : 0;
    const bool whole = numbers == 0 || numbers >= rows.keys;
    const int64_t bin = whole ? 1 : kernels::shared::width_of_bins(rows.keys, numbers);
    if (bin == 0) throw Damage("attention in bins of no width");
    return bin;
}

/// Keys that have numbers of their own beside their bins: ascending, and none that has one already.
void check_exact(const AttentionRows& rows) {
    const auto apart = static_cast<size_t>(rows.exact);
    for (size_t first = 0; first < rows.exact_keys.size(); first += apart) {
        int64_t before = -1;
        for (const int32_t key : std::span(rows.exact_keys).subspan(first, apart)) {
            within(key, before + 1, rows.keys - 1, "key of attention");
            before = key;
            const auto end = std::ranges::upper_bound(rows.edges, key);
            if (*end - *std::prev(end) == 1) throw Damage("attention of a key that has two numbers");
        }
    }
}

/// Edges and exact keys, of rows whose layers, heads and keys are known.
void load_bins(Statement& row, AttentionRows& rows) {
    const auto layers = std::ssize(rows.layers);
    if (row.is_null(8)) {
        if (!row.is_null(9)) throw Damage("exact keys of attention without bins");
        rows.edges = bin_edges(rows.keys, bin_of(rows, layers, row.blob(7).size()));
        return;
    }
    const auto edges = static_cast<int64_t>(row.blob(8).size() / sizeof(int32_t));
    within(edges, 2, rows.keys + 1, "number of bins");
    rows.edges = values<int32_t>(row, 8, edges, "bins of attention");
    const bool ascend = std::ranges::adjacent_find(rows.edges, std::greater_equal{}) == rows.edges.end();
    if (!ascend || rows.edges.front() != 0 || rows.edges.back() != rows.keys)
        throw Damage("bins of attention that do not cover its keys");
    if (row.is_null(9)) return;
    const int64_t heads = layers * rows.heads,
                  all = static_cast<int64_t>(row.blob(9).size() / sizeof(int32_t));
    rows.exact = heads > 0 ? all / heads : 0;
    rows.exact_keys = values<int32_t>(row, 9, count_of(layers, rows.heads, rows.exact), "keys of attention");
    if (rows.exact > 0) check_exact(rows);
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
        load_bins(rows, *attention);
        attention->weights = values<uint16_t, RowVector<uint16_t>>(
            rows, 7, count_of(layers, attention->heads, attention->stride()), "attention");
        recording.add_attention(std::move(attention));
    }
}

} // namespace refreshlab::trace
