#include "ui/scene/maps/cache_cells.h"

#include "engine/control/cache_choice.h"
#include "ui/base/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace refreshlab::ui {

namespace {

/// The sums of the colours of cells that share a texel. Two channels lie in one number, 32 bits each, so that a cell costs two additions.
struct Mixed {
    uint64_t red_blue = 0, green_alpha = 0, cells = 0;

    void add(uint32_t colour) {
        red_blue += (colour & 0xFFU) | (uint64_t{colour & 0xFF0000U} << 16U);
        green_alpha += ((colour >> 8U) & 0xFFU) | (uint64_t{colour & 0xFF000000U} << 8U);
        ++cells;
    }
    /// The mean of red, green, blue and opacity.
    [[nodiscard]] uint32_t mean() const {
        if (cells == 0) return 0;
        const auto channel = [&](uint64_t sum) { return static_cast<uint32_t>((sum + cells / 2) / cells); };
        return channel(red_blue & 0xFFFFFFFFU) | channel(green_alpha & 0xFFFFFFFFU) << 8U |
               channel(red_blue >> 32U) << 16U | channel(green_alpha >> 32U) << 24U;
    }
};

/// The colour of every state of an entry, stored as it is and in a shorter form: cell_of() as a table.
struct StateColours {
    explicit StateColours(const CellPalette& palette) {
        CacheState::Plane one;
        one.state.resize(1);
        one.encoded.resize(1);
        for (size_t state = 0; state < num_states; ++state)
            for (uint8_t encoded = 0; encoded < 2; ++encoded) {
                one.state[0] = static_cast<EntryState>(state);
                one.encoded[0] = encoded;
                colours[2 * state + encoded] = palette[static_cast<size_t>(cell_of(one, 0))];
            }
    }
    [[nodiscard]] uint32_t of(const CacheState::Plane& plane, size_t position) const {
        return colours[2 * static_cast<size_t>(plane.state[position]) + (plane.encoded[position] != 0)];
    }
    static constexpr size_t num_states = std::tuple_size_v<decltype(CacheState::Plane::of_state)>;
    std::array<uint32_t, 2 * num_states> colours{};
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
    const bool here = cell == CacheCell::encoded || cell == CacheCell::held;
    if (here && plane.encoded[static_cast<size_t>(position)] != 0) {
        if (cell == CacheCell::held) text += ", quantised";
        if (const auto bits = bits_a_number(cache, layer, judge.numbers, judge.bytes))
            text += fmt::format(", {} bits a number with scales (mean of the layer)", format_number(*bits));
    }
    const auto score =
        judge.scores != nullptr ? judge.scores->at(layer * cache.kv_heads() + head, position) : std::nullopt;
    // Scores are those of the newest step: of an older one that is shown they would be from its future.
    if (!score || score->step > cache.step()) return text;
    const bool gone = cell == CacheCell::evicted || cell == CacheCell::merged;
    text += fmt::format(", score {}", format_number(static_cast<double>(score->value)));
    if (!gone) text += score->step == 0 ? " after the prompt" : fmt::format(" at step {}", score->step);
    return text;
}

std::string cell_lines(const CacheState& cache, const CacheRows& rows, int64_t row, int64_t position,
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

const std::vector<uint32_t>& EntryColours::update(const CacheState& cache, const Of& of) {
    const bool anew = of != m_of || cache.step() < m_step || cache.length() < m_length;
    const int64_t rows = of.rows.count(cache), texels = (cache.length() + of.factor - 1) / of.factor;
    if (anew) {
        m_rgba.assign(static_cast<size_t>(rows * texels), 0);
    } else if (texels > m_texels) {
        std::vector<uint32_t> wider(static_cast<size_t>(rows * texels), 0);
        for (int64_t row = 0; row < rows; ++row)
            std::copy_n(m_rgba.begin() + row * m_texels, m_texels, wider.begin() + row * texels);
        m_rgba = std::move(wider);
    }
    std::vector<int64_t> changed;
    for (int64_t texel = 0; texel < texels; ++texel) {
        const int64_t end = std::min(cache.length(), (texel + 1) * of.factor);
        bool now = anew;
        for (int64_t p = texel * of.factor; p < end && !now; ++p)
            now = cache.changed_at(p) >= m_step; // of the step that was coloured more may have come
        if (now) changed.push_back(texel);
    }
    m_of = of;
    m_step = cache.step();
    m_length = cache.length();
    m_texels = texels;
    colour(cache, rows, changed);
    return m_rgba;
}

void EntryColours::colour(const CacheState& cache, int64_t rows, std::span<const int64_t> texels) {
    const StateColours colours(m_of.palette);
    const auto at = [&](int64_t row, int64_t texel) -> uint32_t& {
        return m_rgba[static_cast<size_t>(row * m_texels + texel)];
    };
    for (int64_t row = 0; row < rows; ++row) {
        if (row > 0 && cache.uniform()) {
            for (const int64_t texel : texels)
                at(row, texel) = at(0, texel);
            continue;
        }
        const auto planes = planes_of(cache, m_of.rows, row);
        for (const int64_t texel : texels) {
            Mixed mixed;
            const auto first = static_cast<size_t>(texel * m_of.factor),
                       end = static_cast<size_t>(std::min(m_length, (texel + 1) * m_of.factor));
            for (const CacheState::Plane* plane : planes)
                for (size_t p = first; p < end; ++p)
                    mixed.add(colours.of(*plane, p));
            at(row, texel) = mixed.mean();
        }
    }
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

std::optional<double> bits_a_number(const CacheState& cache, int64_t layer, int64_t numbers, int64_t bytes) {
    const int64_t held = cache.bytes()[static_cast<size_t>(layer)];
    int64_t encoded = 0, plain = 0;
    for (int64_t head = 0; head < cache.kv_heads(); ++head) {
        const CacheState::Plane& plane = cache.plane(layer, head);
        for (size_t p = 0; p < plane.state.size(); ++p) {
            if (plane.state[p] != EntryState::attended && plane.state[p] != EntryState::kept) continue;
            ++(plane.encoded[p] != 0 ? encoded : plain);
        }
    }
    const int64_t of_codes = held - plain * bytes;
    if (held < 0 || numbers <= 0 || encoded == 0 || of_codes < 0) return std::nullopt;
    return 8.0 * static_cast<double>(of_codes) / static_cast<double>(encoded * numbers);
}

std::string cell_text(const CacheState& cache, const CacheRows& rows, int64_t row, int64_t position,
                      const CacheJudge& judge) {
    const bool here = judge.scores == nullptr || judge.scores->here(position);
    return cell_lines(cache, rows, row, position, judge) +
           (here ? "" : "\nScores: not here yet, asked of the server");
}

} // namespace refreshlab::ui
