#include "ui/scene/maps/cache_view.h"

#include "engine/control/cache_choice.h"

#include <array>

namespace refreshlab::ui {

bool has_entry_events(const Recording& recording) {
    return !deciding_cache(recording.info().config).is_full() && recording.info().has_cache_events;
}

CacheMap shown_map(const CacheView& view, const Recording& recording) {
    return view.map.value_or(has_entry_events(recording) ? CacheMap::entries : CacheMap::drift);
}

CacheRows shown_rows(const CacheView& view, const CacheState& cache) {
    if (view.rows.layer && (*view.rows.layer < 0 || *view.rows.layer >= cache.layers())) return {};
    return view.rows;
}

double entry_budget(const RunConfig& config) {
    const CachePolicyConfig& policy = deciding_cache(config);
    for (const char* key : {"budget", "partial"})
        if (const auto value = policy.values.find(key); value != policy.values.end()) return value->second;
    return 0;
}

std::string_view to_string(CacheMap map) {
    return map == CacheMap::entries ? "entries" : "drift";
}

std::string_view to_string(DriftQuantity quantity) {
    constexpr std::array<std::string_view, drift_quantities.size()> words = {"mean", "k", "v", "k_max",
                                                                             "v_max"};
    return words[static_cast<size_t>(quantity)];
}

double drift_top(const CacheView& view, double fitting) {
    const auto own = own_range(view.ranges, to_string(view.quantity));
    return own ? own->max : fitting;
}

} // namespace refreshlab::ui
