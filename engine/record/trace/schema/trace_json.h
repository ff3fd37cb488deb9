#pragma once

#include "engine/record/recording/recording.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

/// Columns of a trace that hold JSON: what goes into them and comes out again. Reading throws for anything that was not written here.
namespace refreshlab::trace {

/// Prompt, configuration and the rest of RunInfo, apart from id, parent and fork step, which have columns; of a recording,
/// because it also names the signals that its writer had.
[[nodiscard]] std::string info_to_text(const Recording& recording);
/// Throws Error or nlohmann::json::exception for anything that is not what info_to_text wrote.
/// \param version  schema of the trace: what it does not say is derived or marked as unknown
[[nodiscard]] RunInfo info_from_text(const std::string& text, int64_t version, const std::string& what);

[[nodiscard]] std::string hits_to_text(const std::vector<TriggerHit>& hits);
[[nodiscard]] std::vector<TriggerHit> hits_from_text(const std::string& text, const std::string& what);

/// A double in JSON: a number, or "nan", "inf", "-inf".
[[nodiscard]] nlohmann::json number_json(double value);
[[nodiscard]] double number_from_json(const nlohmann::json& json);

} // namespace refreshlab::trace
