#pragma once

#include "engine/record/recording/cache_state.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// What has become of an entry of one layer and KV head.
enum class CacheCell : uint8_t {
    attended, ///< attention reads it
    held,     ///< stored, and not read
    encoded,  ///< read, and stored in a shorter form
    merged,   ///< gone as an entry of its own: others hold it
    evicted,  ///< gone
    none,     ///< the cache has not got that far
};
inline constexpr size_t num_cache_cells = 6;
/// A colour for each.
using CellPalette = std::array<uint32_t, num_cache_cells>;
[[nodiscard]] const char* cell_label(CacheCell cell); ///< "attended", "held, not read", "quantised", ...

[[nodiscard]] inline CacheCell cell_of(const CacheState::Plane& plane, int64_t position) {
    const auto p = static_cast<size_t>(position);
    switch (plane.state[p]) {
    case EntryState::attended:
        return plane.encoded[p] != 0 ? CacheCell::encoded : CacheCell::attended;
    case EntryState::kept:
        return CacheCell::held;
    case EntryState::evicted:
        return CacheCell::evicted;
    case EntryState::merged:
        return CacheCell::merged;
    case EntryState::none:
        break;
    }
    return CacheCell::none;
}

/// Rows of the map: all layers, or the KV heads of one.
struct CacheRows {
    std::optional<int64_t> layer; ///< nothing: all layers
    [[nodiscard]] int64_t count(const CacheState& cache) const {
        return layer ? cache.kv_heads() : cache.layers();
    }
    friend bool operator==(const CacheRows&, const CacheRows&) = default;
};

/// RGBA of the cells of a cache that goes on, [rows][ceil(length / factor)]: the mean colour of the KV heads and positions that share one.
class EntryColours {
public:
    /// What the cells are of. Another one begins anew.
    struct Of {
        CacheRows rows = {};
        int64_t factor = 1; ///< positions that share a cell, > 0
        CellPalette palette = {};
        uint64_t cache = 0; ///< another number: another cache than before, or one that began again
        friend bool operator==(const Of&, const Of&) = default;
    };
    /// Cost: the positions once, and layers x KV heads x positions of the cells that changed since the last call; all of them where
    /// that was of an earlier cache or a later step.
    const std::vector<uint32_t>& update(const CacheState& cache, const Of& of);

private:
    void colour(const CacheState& cache, int64_t rows, std::span<const int64_t> texels);

    Of m_of;
    int64_t m_step = -1, m_length = 0, m_texels = 0;
    std::vector<uint32_t> m_rgba;
};

/// Entries of a row, means over its KV heads. Cost: layers x KV heads.
struct RowCount {
    double attended = 0, held = 0; ///< held: attended ones as well
};
[[nodiscard]] std::vector<RowCount> count_rows(const CacheState& cache, const CacheRows& rows);

/// Which of the states are there, for a legend. Cost: layers x KV heads.
[[nodiscard]] std::array<bool, num_cache_cells> cells_present(const CacheState& cache);

/// What the cache takes.
struct CacheMeter {
    int64_t held_bytes = 0;  ///< keys and values as they are stored, scales and the like among them
    int64_t index_bytes = 0; ///< positions and places of the entries
    int64_t full_bytes = 0;  ///< of a cache that keeps every entry as it was written
    double entries = 0;      ///< held, mean over layers and KV heads
};
/// Of the model that decodes. \param cache  its state
[[nodiscard]] CacheMeter cache_meter(const Recording& recording, const CacheState& cache);
/// "1.2 MB, 24 % of the 5.1 MB of a full cache; index 34 kB", or with fewer words "1.2 MB of 5.1 MB, 24 %".
[[nodiscard]] std::string meter_text(const CacheMeter& meter, bool brief = false);

/// Who chooses, and what it thought of the entries.
struct CacheJudge {
    std::string method;                  ///< "H2O"
    const EntryScores* scores = nullptr; ///< null: not known
    int64_t numbers = 0;                 ///< of an entry, keys and values together; 0: its codes are not told
    int64_t bytes = 0;                   ///< of an entry that nobody encoded
};
/// Bits that a number of the layer's encoded entries takes, scales included: what the layer holds, without its other entries. A mean,
/// as the events tell bytes of layers. Nothing: the layer has no encoded entry, or its bytes are not known.
/// \param numbers, bytes  as in CacheJudge
[[nodiscard]] std::optional<double> bits_a_number(const CacheState& cache, int64_t layer, int64_t numbers,
                                                  int64_t bytes);
/// What is known of one entry: lines of a tooltip.
[[nodiscard]] std::string cell_text(const CacheState& cache, const CacheRows& rows, int64_t row,
                                    int64_t position, const CacheJudge& judge);

} // namespace refreshlab::ui
