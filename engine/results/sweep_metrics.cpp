#include "engine/results/sweep_metrics.h"

#include <nlohmann/json.hpp>

#include <string>

namespace refreshlab {

MetricValues metrics_of(const nlohmann::json& summary) {
    MetricValues values;
    for (size_t i = 0; i < num_metrics; ++i) {
        if (metric_infos[i].summary.empty()) continue;
        const std::string key(metric_infos[i].summary);
        const nlohmann::json::json_pointer path(key.front() == '/' ? key : "/" + key);
        if (!summary.contains(path)) continue;
        if (const nlohmann::json& found = summary.at(path); found.is_number())
            values[i] = found.get<double>();
    }
    return values;
}

} // namespace refreshlab
