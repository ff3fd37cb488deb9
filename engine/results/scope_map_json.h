#pragma once

#include "engine/results/scope_map.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace refreshlab {

/// A map as it was measured, without what is worked out of it: layers, kv_heads, blocks, horizon, entry_bytes, refreshes [{step, delta, none, whole,
/// teacher}], parts [{kind, layer, kv_head, block, parts, alone, without}], taken [{layer, kv_head, loss}]. A layer, KV head or block that
/// is all of them is null; losses are nats a token, and one that is no number is null.
[[nodiscard]] nlohmann::json measured_json(const ScopeMap& map);

/// Reads it back, bit for bit. \param what  what the JSON is, for messages
/// Throws Error{bad_input} for what is no such map: other keys, losses that are not as many as the refreshes, parts that the model has not.
[[nodiscard]] ScopeMap scope_map_from_json(const nlohmann::json& json, const std::string& what);

} // namespace refreshlab
