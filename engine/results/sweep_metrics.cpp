#include "engine/results/sweep_metrics.h"

#include <nlohmann/json.hpp>

#include <string>

namespace refreshlab {

MetricValues metrics_of(const nlohmann::json& summary) {
    MetricValues values;
    for (size_t i = 0; i < num_metrics; ++i) {
        if (metric_infos[i].summary.empty()) continue;
        const auto found = summary.find(std::string(metric_infos[i].summary));
        if (found != summary.end() && found->is_number()) values[i] = found->get<double>();
    }
    return values;
}

} // namespace refreshlab
