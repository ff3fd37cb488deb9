#include "engine/record/trace/load/checked_values.h"
#include "engine/record/trace/load/run_source.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace refreshlab::trace {

namespace {

using sqlite::Statement;

/// The positions of a cache event, all before `end`.
void read_ranges(CacheEvent& event, const Statement& row, int64_t end) {
    const int64_t first = within(row.integer(8), 0, end, "first_pos"),
                  positions = within(row.integer(9), 1, end, "positions");
    if (row.is_null(10)) {
        event.positions = {{first, positions}};
    } else {
        const auto pairs = static_cast<int64_t>(row.blob(10).size() / sizeof(PositionRange));
        event.positions = values<PositionRange>(row, 10, pairs, "ranges");
        if (pairs < 2) throw Damage("a cache event has no ranges");
    }
    int64_t begin = first, count = 0;
    for (const PositionRange& range : event.positions) {
        within(range.first, begin, end, "position of a cache event");
        begin = range.first + within(range.n, 1, end - range.first, "positions of a cache event");
        count += range.n;
    }
    if (event.positions.front().first != first || count != positions)
        throw Damage("a cache event does not add up");
}

std::optional<Origin> origin_from_name(const std::string& name) {
    for (size_t i = 0; i < num_origins; ++i) {
        if (name == origin_name(static_cast<Origin>(i))) return static_cast<Origin>(i);
    }
    return std::nullopt;
}

void put_entry(Recording& recording, size_t n, CacheEvent event, int64_t steps, int64_t stride) {
    CacheEntry entry(std::move(event));
    entry.bytes_stride = stride;
    entry.set_steps(steps);
    if (!recording.put_cache_entry(n, std::move(entry)))
        throw Damage("a cache event is not that of the run it was forked from");
}

} // namespace

void load_cache(const RunSource& run, Recording& recording) {
    if (run.version < 3) return;
    Statement rows(run.db, run.select("cache", "n"));
    rows.bind(0, run.number);
    constexpr int64_t most_bytes = int64_t{1} << 50;
    const size_t inherited = recording.cache_entries().size();
    int64_t earliest = 0;
    std::set<std::pair<int32_t, int32_t>> planes; // told apart: cache_state() keeps all columns of each
    for (size_t i = 0; i < inherited; ++i)
        earliest = std::max(earliest, recording.cache_entries()[i].step);
    while (rows.step()) {
        const size_t size = recording.cache_entries().size();
        // A row of appends that came from the parent and goes on in the branch stands here again.
        const auto n =
            static_cast<size_t>(within(rows.integer(1), size > inherited ? static_cast<int64_t>(size) : 0,
                                       static_cast<int64_t>(size), "number of a cache event"));
        CacheEvent event;
        event.step = within(rows.integer(2), n < inherited ? 0 : earliest, last_boundary(recording),
                            "step of a cache event");
        const int64_t steps =
            within(rows.integer(3), 1, last_boundary(recording) - event.step + 1, "steps of a cache event");
        event.teacher = within(rows.integer(4), 0, 1, "teacher") != 0;
        const auto change = cache_change_from_string(rows.text(5));
        const bool too_new = run.version < 4 && change == CacheChange::encoded;
        if (!change || too_new) throw Damage("the change of a cache event is unknown");
        event.change = *change;
        event.layer = within32(rows.integer(6), -1, recording.info().layers - 1, "layer of a cache event");
        event.kv_head =
            within32(rows.integer(7), -1, recording.info().kv_heads - 1, "KV head of a cache event");
        planes.emplace(event.layer, event.kv_head);
        constexpr size_t cell = 10;
        run.memory.check(planes.size() * static_cast<size_t>(columns_at(recording, recording.steps())) *
                         cell);
        const int64_t end = columns_at(recording, event.step + steps - 1);
        read_ranges(event, rows, end);
        const auto origin = origin_from_name(rows.text(11));
        if (!origin) throw Damage("the origin of a cache event is unknown");
        event.origin = *origin;
        event.refresh_id = within32(rows.integer(12), -1, event.step, "refresh id");
        const int64_t stride = within(rows.integer(14), -most_bytes, most_bytes, "bytes of a cache event");
        if (!rows.is_null(13)) event.bytes = {rows.integer(13)};
        if (!rows.is_null(15))
            event.bytes = values<int64_t>(rows, 15, recording.info().layers, "bytes of a cache event");
        for (const int64_t bytes : event.bytes) {
            within(bytes, 0, most_bytes, "bytes of a cache event");
            within(bytes + (steps - 1) * stride, 0, most_bytes, "bytes of a cache event");
        }
        const auto& last = event.positions.back();
        const bool row = event.change == CacheChange::appended && event.positions.size() == 1 &&
                         event.bytes.size() <= 1 && last.first + steps * last.n <= end;
        if ((steps > 1 && !row) || (steps == 1 && stride != 0))
            throw Damage("a cache event is no row of appends");
        earliest = std::max(earliest, event.step);
        put_entry(recording, n, std::move(event), steps, stride);
    }
}

} // namespace refreshlab::trace
