#include "engine/control/exactness.h"

#include "engine/base/error.h"
#include "engine/refresh/json_fields.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

ExactnessReport exactness_report_from_json(const nlohmann::json& json, const std::string& what) {
    ExactnessReport report;
    try {
        report.options = exactness_options_from_json(json.at("options"), what);
        json.at("device").get_to(report.device);
        json.at("dtype").get_to(report.dtype);
        json.at("notes").get_to(report.notes);
        for (const nlohmann::json& entry : json.at("checks")) {
            ExactnessCheck& c = report.checks.emplace_back();
            entry.at("subject").get_to(c.subject);
            entry.at("name").get_to(c.name);
            entry.at("where").get_to(c.where);
            c.measured = !entry.at("passed").is_null();
            if (!c.measured) continue;
            entry.at("passed").get_to(c.passed);
            entry.at("tolerance").get_to(c.tolerance);
            c.max_abs = entry.at("max_abs").is_null() ? std::numeric_limits<double>::quiet_NaN()
                                                      : entry.at("max_abs").get<double>();
        }
        for (const nlohmann::json& entry : json.at("maps")) {
            ExactnessMap& m = report.maps.emplace_back();
            entry.at("subject").get_to(m.subject);
            entry.at("layers").get_to(m.layers);
            entry.at("steps").get_to(m.steps);
            entry.at("k").get_to(m.k);
            entry.at("v").get_to(m.v);
            entry.at("logits").get_to(m.logits);
            entry.at("same_token").get_to(m.same_token);
            const auto steps = static_cast<size_t>(std::max(0, m.steps));
            const size_t cells = static_cast<size_t>(std::max(0, m.layers)) * steps;
            if (m.k.size() != cells || m.v.size() != cells || m.logits.size() != steps ||
                m.same_token.size() != steps)
                throw Error("reading", what, "a map has not as many cells as layers and steps");
        }
        for (const nlohmann::json& entry : json.at("latency")) {
            LatencyCurve& l = report.latency.emplace_back();
            entry.at("subject").get_to(l.subject);
            entry.at("length").get_to(l.length);
            entry.at("prefill_ms").get_to(l.prefill_ms);
            entry.at("step").get_to(l.step);
            entry.at("naive_ms").get_to(l.naive_ms);
            entry.at("cached_ms").get_to(l.cached_ms);
            if (l.naive_ms.size() != l.step.size() || l.cached_ms.size() != l.step.size())
                throw Error("reading", what, "a curve has not one time a step");
        }
    } catch (const nlohmann::json::exception& e) {
        throw Error("reading", what, std::string("no report of an exactness check: ") + e.what());
    }
    return report;
}

} // namespace refreshlab
