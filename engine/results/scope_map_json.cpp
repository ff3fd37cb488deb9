#include "engine/results/scope_map_json.h"

#include "engine/refresh/json_fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <functional>
#include <limits>

namespace refreshlab {

namespace {

using nlohmann::json;

constexpr int64_t most_layers = 4096, most_steps = int64_t{1} << 31, most_bytes = int64_t{1} << 40;

constexpr std::array<std::string_view, 3> half_names = {"both", "keys",
                                                        "values"}; ///< as to_string(ScopeParts)

json of_all(int32_t i) {
    return i < 0 ? json() : json(i);
}

/// Reads a loss, or null for one that is no number.
double loss_of(const json& value, JsonFields& fields, std::string_view key) {
    if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
    if (!value.is_number()) fields.fail(key, "must be numbers, not " + shown(value));
    return value.get<double>();
}

double loss(JsonFields& fields, std::string_view key) {
    const json* value = fields.find(key);
    if (value == nullptr) fields.fail(key, "is missing");
    return loss_of(*value, fields, key);
}

std::vector<double> losses(JsonFields& fields, std::string_view key, size_t count) {
    const json* list = fields.find(key);
    if (list == nullptr || !list->is_array() || list->size() != count)
        fields.fail(key, fmt::format("must be {} losses, one for each refresh", count));
    std::vector<double> all;
    for (const json& value : *list)
        all.push_back(loss_of(value, fields, key));
    return all;
}

void whole(JsonFields& fields, std::string_view key, int64_t& out, int64_t least, int64_t most) {
    out = least - 1;
    fields.integer(key, out, least, most);
    if (out < least) fields.fail(key, "is missing");
}

/// A number below `end`, or -1 for null.
int32_t index_of(JsonFields& fields, std::string_view key, int64_t end) {
    std::optional<int32_t> index;
    fields.optional_integer(key, index, 0, end - 1);
    return index.value_or(-1);
}

void each(JsonFields& fields, std::string_view key, const std::string& what,
          const std::function<void(JsonFields&)>& read) {
    const json* list = fields.find(key);
    if (list == nullptr || !list->is_array()) fields.fail(key, "must be a list [...]");
    for (size_t i = 0; i < list->size(); ++i) {
        JsonFields one((*list)[i], what, fmt::format("{}[{}]", key, i));
        read(one);
        one.finish();
    }
}

/// What a part of a kind names, and what is all.
bool fits(const ScopePart& part) {
    using Kind = ScopePart::Kind;
    const bool layer = part.layer >= 0, head = part.kv_head >= 0, block = part.block >= 0,
               half = part.parts != ScopeParts::both;
    return layer == (part.kind != Kind::half) && head == (part.kind == Kind::head) &&
           block == (part.kind == Kind::block) &&
           half == (part.kind == Kind::half || part.kind == Kind::layer_half);
}

} // namespace

json measured_json(const ScopeMap& map) {
    json all{{"layers", map.layers},   {"kv_heads", map.kv_heads},       {"blocks", map.blocks},
             {"horizon", map.horizon}, {"entry_bytes", map.entry_bytes}, {"refreshes", json::array()},
             {"parts", json::array()}, {"taken", json::array()}};
    for (const ScopeMap::Refresh& r : map.refreshes)
        all["refreshes"].push_back({{"step", r.boundary},
                                    {"delta", r.delta},
                                    {"none", r.none},
                                    {"whole", r.whole},
                                    {"teacher", r.teacher}});
    for (const ScopeMap::Reading& reading : map.readings)
        all["parts"].push_back({{"kind", to_string(reading.part.kind)},
                                {"layer", of_all(reading.part.layer)},
                                {"kv_head", of_all(reading.part.kv_head)},
                                {"block", of_all(reading.part.block)},
                                {"parts", to_string(reading.part.parts)},
                                {"alone", reading.alone},
                                {"without", reading.without}});
    for (const ScopeMap::Taken& one : map.taken)
        all["taken"].push_back({{"layer", one.layer}, {"kv_head", one.kv_head}, {"loss", one.loss}});
    return all;
}

ScopeMap scope_map_from_json(const json& text, const std::string& what) {
    ScopeMap map;
    JsonFields fields(text, what);
    whole(fields, "layers", map.layers, 1, most_layers);
    whole(fields, "kv_heads", map.kv_heads, 1, most_layers);
    whole(fields, "blocks", map.blocks, 1, most_steps);
    whole(fields, "horizon", map.horizon, 1, most_steps);
    whole(fields, "entry_bytes", map.entry_bytes, 1, most_bytes);
    each(fields, "refreshes", what, [&](JsonFields& one) {
        ScopeMap::Refresh refresh;
        whole(one, "step", refresh.boundary, 1, most_steps);
        whole(one, "delta", refresh.delta, 1, most_steps);
        refresh.none = loss(one, "none");
        refresh.whole = loss(one, "whole");
        refresh.teacher = loss(one, "teacher");
        map.refreshes.push_back(refresh);
    });
    const size_t count = map.refreshes.size();
    if (count == 0) fields.fail("refreshes", "there are none");
    each(fields, "parts", what, [&](JsonFields& one) {
        ScopeMap::Reading reading;
        std::vector<std::string_view> kinds;
        for (size_t kind = 0; kind < num_scope_kinds; ++kind)
            kinds.push_back(to_string(static_cast<ScopePart::Kind>(kind)));
        reading.part = {
            .kind = static_cast<ScopePart::Kind>(one.choice("kind", kinds).value_or(0)),
            .layer = index_of(one, "layer", map.layers),
            .kv_head = index_of(one, "kv_head", map.kv_heads),
            .block = index_of(one, "block", map.blocks),
            .parts = static_cast<ScopeParts>(
                one.choice("parts", {half_names.begin(), half_names.end()}).value_or(0)),
        };
        if (!fits(reading.part))
            one.fail("kind",
                     fmt::format("a part of the kind {} does not name this", to_string(reading.part.kind)));
        reading.alone = losses(one, "alone", count);
        reading.without = losses(one, "without", count);
        map.readings.push_back(std::move(reading));
    });
    if (map.readings.empty()) fields.fail("parts", "there are none");
    each(fields, "taken", what, [&](JsonFields& one) {
        ScopeMap::Taken taken{.layer = index_of(one, "layer", map.layers),
                              .kv_head = index_of(one, "kv_head", map.kv_heads),
                              .loss = losses(one, "loss", count)};
        if (taken.layer < 0 || taken.kv_head < 0)
            one.fail("layer", "the greedy order takes KV heads of layers");
        map.taken.push_back(std::move(taken));
    });
    fields.finish();
    return map;
}

} // namespace refreshlab
