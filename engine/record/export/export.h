#pragma once

#include "engine/record/recording/recording.h"

#include <nlohmann/json_fwd.hpp>

#include <atomic>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace refreshlab {

/// Writes steps.csv, topk.csv, events.csv, drift.csv and meta.json into folder (made if missing), and layers.csv, cache.csv,
/// drafts.csv, blocked.csv and notes.csv where the run has layer values, cache events, drafts, blocked fires and notes (those of an earlier
/// export go). RFC 4180 quoting; a field that was not measured is empty, never 0; a measured NaN is "nan", infinity "inf" / "-inf"; floats round-trip.
///   steps.csv   step, position, token_id, text, logprob, <every other scalar signal by name>, refreshed, reason: one row
///               per record, so the pending token of a run that goes on is none. `refreshed` is 1 when the refresh of
///               that boundary spliced at least one column.
///   topk.csv    step, rank (from 1), token_id, text, prob: candidates for the token that step chose.
///   events.csv  step, kind (command | pass | refresh), reason, automatic, delta, first_pos, spliced, pass_tokens, on_fire,
///               token_before, token_after, kl_nats, mean_drift, teacher_ms, splice_ms, redraw_ms, fired_step,
///               bytes_sent (of a refresh, empty where it is not told), detail (JSON).
///   drift.csv   refresh, step, layer, position, k_relative, v_relative, k_max_abs, v_max_abs.
///   layers.csv  step, signal, layer, value: a row for each layer of a layered signal that was measured; steps.csv has the mean.
///   cache.csv   step, cache (teacher | student), change, layer, kv_head (empty = all), first_pos, positions, origin, refresh,
///               bytes_per_layer (one number, or one a layer with ';'): a row for each cache event and range of positions.
///   drafts.csv  step, refresh, place (from 1), position, token_id, text, stays, p_teacher, p_student, expected, instead_id,
///               instead_text: a row for each token of a draft; what took its place stands with the first that went.
///   blocked.csv step, limit (budget | cooldown | budget+cooldown), reason, detail (JSON): a row for each boundary at which the
///               policy would have refreshed without that limit (blocked_fires()).
///   notes.csv   note (from 1), first_step, last_step, colour, made_at, run (id of the one that has it), text: a row for each note that the
///               run shows (RunNotes::seen()).
///   meta.json   prompt and its token ids, full configuration, generated text and ids, commands, versions, ...
/// Text of a token: its bytes, those that are not UTF-8 by themselves as \xHH.
/// \param cancelled  true stops it within some hundred rows; may be set by another thread
/// \return false when it was cancelled: the files of this call are gone again
/// Throws Error{bad_input} if the folder or a file cannot be written.
bool export_csv(const Recording& recording, const std::filesystem::path& folder,
                const std::atomic<bool>* cancelled = nullptr);

/// A column of export_plotted(): a signal, or one number of a layered signal's layers.
struct PlottedSignal {
    size_t id = 0;
    Reduction reduce = Reduction::mean; ///< of a layered signal; its column is called reduced_name()
    int32_t layer = 0;                  ///< of Reduction::layer

    friend bool operator==(const PlottedSignal&, const PlottedSignal&) = default;
};

/// Writes what a time plot shows as one CSV: step, the plotted signals by name and the deviation of those that have a band
/// (Signal::band), refreshed, reason; columns, units and numbers as in steps.csv. The values are the raw ones, however
/// a plot reduces them.
/// \param first, last  steps, inclusive; clamped to the recording
/// \param plotted      in the order of the columns
/// The file is whole or not there: an existing table is replaced at the end only.
/// \return false when it was cancelled
/// Throws Error{bad_input} if the file cannot be written, or holds something other than a table of steps.
bool export_plotted(const Recording& recording, const std::filesystem::path& path, int64_t first,
                    int64_t last, std::span<const PlottedSignal> plotted,
                    const std::atomic<bool>* cancelled = nullptr);

/// Decoded y without special tokens, valid UTF-8 (ill-formed bytes as U+FFFD).
[[nodiscard]] std::string generated_text(const Recording& recording);

/// By all refreshes of the run (RefreshEvent::bytes_sent); nothing where one does not tell.
[[nodiscard]] std::optional<int64_t> bytes_sent(const Recording& recording);

/// The summary of a run (docs/reference/summary.md has every key with its unit): mode, policy, tokens, stop_reason, refreshes
/// [{step, reason, delta, spliced, bytes_sent, teacher_ms, splice_ms, ...}], ttft_ms, decode_tps, end_to_end_tps, total_s,
/// mean_entropy_bits, agreement, top1_hit, task_score, teacher_ppl, tail_logprob, repetition3, characters, device, dtype, threads, seed, versions.
/// A number that does not exist is null.
[[nodiscard]] nlohmann::json summary_json(const Recording& recording);
/// The same for people, a line a number.
struct SummaryLine {
    std::string label, value; ///< "decode", "41.2 tokens/s"; "-" where a number does not exist
};
[[nodiscard]] std::vector<SummaryLine> summary_lines(const Recording& recording);
/// These lines aligned, and a row for each refresh, for stderr.
[[nodiscard]] std::string summary_table(const Recording& recording);

} // namespace refreshlab
