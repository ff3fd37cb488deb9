#pragma once

#include "engine/control/run_config.h"
#include "engine/refresh/json_fields.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>

namespace refreshlab {

enum class ParameterNames : uint8_t {
    present,
    earlier, ///< ParameterEntry::earlier_name where there is one
};

/// The parameters that are fields of a run (ParameterEntry::of_run) as JSON. A key is its place: "sampler.top_k" is
/// {"sampler": {"top_k": 40}}, "seed" stands at the top. "none" is null, a list an array, "all" an empty one. A parameter that
/// earlier programs do not know (ParameterEntry::newer) is left out at its default.
void write_parameters(const RunConfig& config, nlohmann::json& json, ParameterNames names);

/// Reads what write_parameters() writes, and the names of earlier versions. Absent keys leave the value as it was. Throws
/// Error{bad_input} naming `what` and the key: a wrong type, a number outside the parameter's range, an unknown key of a group.
void read_parameters(JsonFields& fields, const std::string& what, RunConfig& config);

} // namespace refreshlab
