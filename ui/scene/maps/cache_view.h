#pragma once

#include "engine/record/recording/recording.h"
#include "ui/scene/axes/own_range.h"
#include "ui/scene/maps/cache_cells.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace refreshlab::ui {

/// What the map of a cache shows.
enum class CacheMap : uint8_t {
    entries, ///< what became of each entry: read, held, gone
    drift,   ///< how far it was from the teacher's
};
inline constexpr std::array cache_maps = {CacheMap::entries, CacheMap::drift};

/// Which number of a drift map is shown.
enum class DriftQuantity : uint8_t { mean, keys, values, keys_max, values_max };
inline constexpr std::array drift_quantities = {DriftQuantity::mean, DriftQuantity::keys,
                                                DriftQuantity::values, DriftQuantity::keys_max,
                                                DriftQuantity::values_max};

/// What a person has chosen to see of a cache.
struct CacheView {
    std::optional<CacheMap> map = {}; ///< nothing: as the run has it
    CacheRows rows = {};              ///< of entries: all layers, or the KV heads of one
    DriftQuantity quantity = DriftQuantity::mean;
    bool log = false;      ///< of drift
    OwnRanges ranges = {}; ///< of drift's colours, by quantity; they begin at 0
    bool compared = true;  ///< below it the same of the first ticked run, where one is ticked
    std::optional<double> top =
        {}; ///< end of drift's scale, as the panel shows it: of one run, in no file; nothing: what fits
    friend bool operator==(const CacheView&, const CacheView&) = default;
};

/// A cache policy decides what the model that decodes keeps, and its events were recorded.
[[nodiscard]] bool has_entry_events(const Recording& recording);
/// That of the view; else entries where a cache policy was at work, and drift where none was.
[[nodiscard]] CacheMap shown_map(const CacheView& view, const Recording& recording);
/// Those of the view; all layers where the run has no such layer.
[[nodiscard]] CacheRows shown_rows(const CacheView& view, const CacheState& cache);
/// Upper end of drift's colours: a person's own. \param fitting  what fits
[[nodiscard]] double drift_top(const CacheView& view, double fitting);
/// Entries that the run's cache policy may keep in a row: its budget; 0 where it has none.
[[nodiscard]] double entry_budget(const RunConfig& config);

/// A logarithmic scale of drift shows so much of its upper end.
inline constexpr double drift_log_share = 1e-3;

/// "entries", "drift"; "mean", "k", "v", "k_max", "v_max": on command lines and in the settings file.
[[nodiscard]] std::string_view to_string(CacheMap map);
[[nodiscard]] std::string_view to_string(DriftQuantity quantity);

} // namespace refreshlab::ui
