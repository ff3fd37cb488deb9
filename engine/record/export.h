#pragma once

#include "engine/record/recording.h"

#include <nlohmann/json_fwd.hpp>

#include <filesystem>

namespace refreshlab {

/// Writes steps.csv, topk.csv, events.csv, drift.csv and meta.json into folder (made if missing). RFC 4180 quoting; a
/// field that was not measured is empty, never 0; a measured NaN is "nan", infinity "inf" / "-inf"; floats round-trip.
/// steps.csv: step, position, token_id, text, logprob, <every other scalar signal by name>, refreshed, reason.
void export_csv(const Recording& recording, const std::filesystem::path& folder);

/// The summary of a run (docs/summary.md has every key with its unit): mode, policy, tokens, stop_reason, refreshes
/// [{step, reason, delta, spliced, teacher_ms, splice_ms, ...}], ttft_ms, decode_tps, end_to_end_tps, total_s,
/// mean_entropy_bits, teacher_ppl, tail_logprob, repetition3, characters, device, dtype, threads, seed, versions.
/// A number that does not exist is null.
[[nodiscard]] nlohmann::json summary_json(const Recording& recording);
/// The same as an aligned table for stderr.
[[nodiscard]] std::string summary_table(const Recording& recording);

} // namespace refreshlab
