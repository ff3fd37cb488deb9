#include "ui/scene/maps/cache_cells.h"

#include "engine/control/cache_choice.h"
#include "ui/base/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace refreshlab::ui {

namespace {

/// How many of the cells that share a texel are in each state.
struct Mixed {
    std::array<uint32_t, num_cache_cells> count{};
    void add(CacheCell cell) { ++count[static_cast<size_t>(cell)]; }
    /// The mean of red, green, blue and opacity.
    [[nodiscard]] uint32_t mean(const CellPalette& palette) const {
        uint32_t n = 0, colour = 0;
        for (const uint32_t cells : count)
            n += cells;
        for (size_t channel = 0; n > 0 && channel < 4; ++channel) {
            uint32_t sum = 0;
            for (size_t cell = 0; cell < num_cache_cells; ++cell)
                sum += count[cell] * ((palette[cell] >> (8 * channel)) & 0xFFU);
            colour |= ((sum + n / 2) / n) << (8 * channel);
        }
        return colour;
    }
};

/// The planes of a row.
std::vector<const CacheState::Plane*> planes_of(const CacheState& cache, const CacheRows& rows, int64_t row) {
    std::vector<const CacheState::Plane*> planes;
    if (rows.layer) return {&cache.plane(*rows.layer, row)};
    for (int64_t head = 0; head < cache.kv_heads(); ++head)
        planes.push_back(&cache.plane(row, head));
    return planes;
}

std::string one_cell(const CacheState& cache, int64_t layer, int64_t head, int64_t position,
                     const CacheJudge& judge) {
    const CacheState::Plane& plane = cache.plane(layer, head);
    const CacheCell cell = cell_of(plane, position);
    const int32_t since = plane.since[static_cast<size_t>(position)];
    const std::string when = since == 0 ? std::string("after the prompt") : fmt::format("at step {}", since);
    std::string text = cell == CacheCell::evicted ? fmt::format("evicted by {} {}", judge.method, when)
                       : cell == CacheCell::merged
                           ? fmt::format("merged into others by {} {}", judge.method, when)
                       : cell == CacheCell::held ? fmt::format("held, not read since step {}", since)
                                                 : cell_label(cell);
    const auto score =
        judge.scores != nullptr ? judge.scores->at(layer * cache.kv_heads() + head, position) : std::nullopt;
    // Scores are those of the newest step: of an older one that is shown they would be from its future.
    if (!score || score->step > cache.step()) return text;
    const bool gone = cell == CacheCell::evicted || cell == CacheCell::merged;
    text += fmt::format(", score {}", format_number(static_cast<double>(score->value)));
    if (!gone) text += score->step == 0 ? " after the prompt" : fmt::format(" at step {}", score->step);
    return text;
}

} // namespace

const char* cell_label(CacheCell cell) {
    switch (cell) {
    case CacheCell::attended:
        return "attended";
    case CacheCell::held:
        return "held, not read";
    case CacheCell::encoded:
        return "quantised";
    case CacheCell::merged:
        return "merged";
    case CacheCell::evicted:
        return "evicted";
    case CacheCell::none:
        break;
    }
    return "empty";
}

std::vector<uint32_t> colour_cells(const CacheState& cache, const CacheRows& rows, int64_t factor,
                                   const CellPalette& palette) {
    const int64_t length = cache.length(), texels = (length + factor - 1) / factor;
    std::vector<uint32_t> rgba;
    std::map<std::vector<const CacheState::Plane*>, int64_t> done; // rows of the same planes look alike
    for (int64_t row = 0; row < rows.count(cache); ++row) {
        auto planes = planes_of(cache, rows, row);
        std::ranges::sort(planes);
        if (const auto same = done.find(planes); same != done.end()) {
            const std::vector<uint32_t> line(rgba.begin() + same->second * texels,
                                             rgba.begin() + (same->second + 1) * texels);
            rgba.insert(rgba.end(), line.begin(), line.end());
            continue;
        }
        for (int64_t first = 0; first < length; first += factor) {
            Mixed mixed;
            for (int64_t p = first; p < std::min(length, first + factor); ++p)
                for (const CacheState::Plane* plane : planes)
                    mixed.add(cell_of(*plane, p));
            rgba.push_back(mixed.mean(palette));
        }
        done.emplace(std::move(planes), row);
    }
    return rgba;
}

std::vector<RowCount> count_rows(const CacheState& cache, const CacheRows& rows) {
    std::vector<RowCount> counts;
    for (int64_t row = 0; row < rows.count(cache); ++row) {
        const auto planes = planes_of(cache, rows, row);
        RowCount& count = counts.emplace_back();
        for (const CacheState::Plane* plane : planes) {
            const auto attended = static_cast<double>(plane->count(EntryState::attended));
            count.attended += attended;
            count.held += attended + static_cast<double>(plane->count(EntryState::kept));
        }
        count.held /= static_cast<double>(planes.size());
        count.attended /= static_cast<double>(planes.size());
    }
    return counts;
}

std::array<bool, num_cache_cells> cells_present(const CacheState& cache) {
    std::array<bool, num_cache_cells> present{};
    const auto found = [&](CacheCell cell, int64_t count) {
        present[static_cast<size_t>(cell)] |= count > 0;
    };
    for (int64_t layer = 0; layer < cache.layers(); ++layer)
        for (int64_t head = 0; head < cache.kv_heads(); ++head) {
            const CacheState::Plane& plane = cache.plane(layer, head);
            const int64_t attended = plane.count(EntryState::attended), held = plane.count(EntryState::kept),
                          evicted = plane.count(EntryState::evicted),
                          merged = plane.count(EntryState::merged);
            found(CacheCell::attended, attended - plane.attended_encoded);
            found(CacheCell::encoded, plane.attended_encoded);
            found(CacheCell::held, held);
            found(CacheCell::evicted, evicted);
            found(CacheCell::merged, merged);
            found(CacheCell::none, cache.length() - attended - held - evicted - merged);
        }
    return present;
}

CacheMeter cache_meter(const Recording& recording, const CacheState& cache) {
    CacheMeter meter;
    for (const RowCount& row : count_rows(cache, {}))
        meter.entries += row.held / static_cast<double>(cache.layers());
    const RunInfo& info = recording.info();
    const int64_t width = info.dtype == "f32" ? 4 : 2;
    meter.full_bytes = cache.length() * 2 * info.layers * info.kv_heads * info.head_dim * width;
    const bool told = std::ranges::none_of(cache.bytes(), [](int64_t bytes) { return bytes < 0; });
    for (const int64_t bytes : cache.bytes())
        if (told) meter.held_bytes += bytes;
    if (!told) meter.held_bytes = meter.full_bytes;
    const CachePolicyConfig& policy = deciding_cache(info.config);
    if (policy.is_full() || find_cache_method(policy.policy) == nullptr) return meter;
    PolicyContext context; // what a method needs of a cache is its own
    context.layers = context.heads = context.kv_heads = context.prompt_length = 1;
    context.head_dim = 2;
    context.rope_frequencies = {1};
    const PolicyNeeds needs = make_cache_policy(policy, context)->needs();
    if (!needs.edits) return meter; // dense: an entry stands at its position
    const double all = meter.entries * static_cast<double>(cache.layers() * cache.kv_heads());
    meter.index_bytes = static_cast<int64_t>(all + 0.5) * (needs.encodes ? 24 : 16);
    return meter;
}

std::string meter_text(const CacheMeter& meter, bool brief) {
    const double share = meter.full_bytes > 0 ? 100.0 * static_cast<double>(meter.held_bytes) /
                                                    static_cast<double>(meter.full_bytes)
                                              : 100.0;
    if (brief)
        return fmt::format("{} of {}, {} %", format_bytes(meter.held_bytes), format_bytes(meter.full_bytes),
                           format_number(share));
    std::string text = fmt::format("{}, {} % of the {} of a full cache", format_bytes(meter.held_bytes),
                                   format_number(share), format_bytes(meter.full_bytes));
    if (meter.index_bytes > 0) text += fmt::format("; index {}", format_bytes(meter.index_bytes));
    return text;
}

std::string cell_text(const CacheState& cache, const CacheRows& rows, int64_t row, int64_t position,
                      const CacheJudge& judge) {
    if (rows.layer)
        return fmt::format("\nLayer {}, KV head {}: {}", *rows.layer, row,
                           one_cell(cache, *rows.layer, row, position, judge));
    std::vector<std::string> heads;
    for (int64_t head = 0; head < cache.kv_heads(); ++head)
        heads.push_back(one_cell(cache, row, head, position, judge));
    const bool alike = std::ranges::all_of(heads, [&](const std::string& text) { return text == heads[0]; });
    if (alike) return fmt::format("\nLayer {}: {}", row, heads[0]);
    std::string text = fmt::format("\nLayer {}:", row);
    constexpr size_t most = 6; // lines of a tooltip
    for (size_t head = 0; head < std::min(most, heads.size()); ++head)
        text += fmt::format("\n    KV head {}: {}", head, heads[head]);
    if (heads.size() > most) text += fmt::format("\n    and {} KV heads more", heads.size() - most);
    return text;
}

} // namespace refreshlab::ui
