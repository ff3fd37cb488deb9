#include "engine/control/exactness.h"

#include "engine/refresh/json_fields.h"

#include <cmath>

namespace refreshlab {

std::string_view description(CacheFault f) {
    switch (f) {
    case CacheFault::none:
        return "The cache as it is.";
    case CacheFault::stale_cache:
        return "The prompt was edited and its old columns were kept: every layer's K and V are wrong from "
               "the edited "
               "position on, and so is each token that attends them.";
    case CacheFault::off_by_one_position:
        return "Decode steps rotate their keys and queries one position too far: distances to the prompt are "
               "off by one, K "
               "differs from the first step, V from the second layer on.";
    case CacheFault::mask_one_too_long:
        return "Each query sees one column beyond its own, which nothing has written: attention leaks into "
               "it from the "
               "first layer, and K and V are wrong from the second.";
    case CacheFault::duplicated_token:
        return "The last prompt token is fed again as the first decode input: it stands in the cache twice "
               "and all that "
               "follows is shifted by one.";
    }
    return {};
}

nlohmann::json to_json(const ExactnessOptions& options) {
    return {{"fault", to_string(options.fault)},
            {"steps", options.steps},
            {"latency", options.latency},
            {"lengths", options.lengths},
            {"latency_steps", options.latency_steps},
            {"repetitions", options.repetitions}};
}

ExactnessOptions exactness_options_from_json(const nlohmann::json& json, const std::string& what) {
    constexpr int64_t most = 4096;
    ExactnessOptions options;
    JsonFields fields(json, what);
    if (const auto fault = fields.choice("fault", {cache_fault_names.begin(), cache_fault_names.end()}))
        options.fault = static_cast<CacheFault>(*fault);
    fields.integer("steps", options.steps, 1, most);
    fields.boolean("latency", options.latency);
    fields.integer("latency_steps", options.latency_steps, 1, most);
    fields.integer("repetitions", options.repetitions, 1, 100);
    if (const nlohmann::json* lengths = fields.find("lengths")) {
        if (!lengths->is_array()) fields.fail("lengths", "must be a list of prompt lengths [...]");
        options.lengths.clear();
        for (const nlohmann::json& length : *lengths) {
            if (!length.is_number_integer() || length.get<int64_t>() < 1 || length.get<int64_t>() > (1 << 24))
                fields.fail("lengths", "must hold prompt lengths from 1, not " + shown(length));
            options.lengths.push_back(length.get<int32_t>());
        }
    }
    fields.finish();
    return options;
}

nlohmann::json to_json(const ExactnessReport& report) {
    nlohmann::json json = {{"options", to_json(report.options)},
                           {"device", report.device},
                           {"dtype", report.dtype},
                           {"passed", report.passed()},
                           {"notes", report.notes}};
    auto& checks = json["checks"] = nlohmann::json::array();
    for (const ExactnessCheck& c : report.checks) {
        nlohmann::json entry = {{"subject", c.subject}, {"name", c.name}, {"where", c.where}};
        // What was not measured is null, never 0; so is a difference that is no number.
        entry["passed"] = c.measured ? nlohmann::json(c.passed) : nlohmann::json();
        entry["max_abs"] =
            c.measured && std::isfinite(c.max_abs) ? nlohmann::json(c.max_abs) : nlohmann::json();
        entry["tolerance"] = c.measured ? nlohmann::json(c.tolerance) : nlohmann::json();
        checks.push_back(std::move(entry));
    }
    auto& maps = json["maps"] = nlohmann::json::array();
    for (const ExactnessMap& m : report.maps) {
        maps.push_back({{"subject", m.subject},
                        {"layers", m.layers},
                        {"steps", m.steps},
                        {"k", m.k},
                        {"v", m.v},
                        {"logits", m.logits},
                        {"same_token", m.same_token}});
    }
    auto& latency = json["latency"] = nlohmann::json::array();
    for (const LatencyCurve& l : report.latency) {
        latency.push_back({{"subject", l.subject},
                           {"length", l.length},
                           {"prefill_ms", l.prefill_ms},
                           {"step", l.step},
                           {"naive_ms", l.naive_ms},
                           {"cached_ms", l.cached_ms}});
    }
    return json;
}

} // namespace refreshlab
