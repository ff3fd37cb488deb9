#pragma once

#include "engine/study/studies/study_run.h"

namespace refreshlab {

/// The built-in studies of a model pair (the simulation needs none: simulation.h). Each ends in tables and in the data of a
/// figure. All throw Error{bad_input} for what is wrong with models, prompts or options.

/// The tasks of the prompt folder under each mode and policy. Parts:
///   table    roll_call, company, chronicle on given text: share of attribute words right, like the student's card (40 records)
///   answers  chain_of_key, ledger, table, retell on given text: token accuracy, exact match, correct prefix     (40 records)
///   live     all seven kinds, generated: the almanac kinds at temperature 0.8, top-p 0.95, the others greedily  (10 records)
///   stories  story_continuations on given text: loss, and the difference to no refresh                         (30 records)
[[nodiscard]] StudyResult study_tasks(const StudyOptions& options);

/// Thresholds of the entropy, top-1 surprisal, KL, MC-variance and MC-mutual-information triggers on chronicle, company and story
/// prompts (the parts). Calibration runs record all signals on given text, 2,000 tokens or more; for a target of F fires per 1,000
/// tokens and `every` s, tau = quantile 1 - F*s/1000 of the values at boundaries t mod s == 0 (reference/refresh.md, section 5). Each
/// is then tried live (sampled) on other records of the family; options.limit counts those. Cool-down: 4 with `every` 1, else 32. Tables:
///   table        the rule's threshold for F = 2.5, what it really gives, and the quantiles with 2 to 3 refreshes per 1,000 tokens
///   grid         every target that was tried: threshold, refreshes, teacher-PPL, task score
///   correlation  of the signals over the calibration texts
/// The figure has fires per 1,000 tokens over the threshold: a line that the calibration promises (source calibration), and the
/// points of the grid (source live) with what they give.
[[nodiscard]] StudyResult study_thresholds(const StudyOptions& options);

/// Drift of the student's columns against their distance from the last refresh (1 = the first token after it), under periodic
/// refreshes every 16, 64, 256 tokens on given text: chronicle, company, stories (the parts). Mean over layers in the table; the figure has every
/// distance, layer by layer. Intervals are over texts, not over tokens.
[[nodiscard]] StudyResult study_drift(const StudyOptions& options);

/// The refresh landscapes of texts (engine/landscape): what the teacher writes after chronicle prompts, and given chronicles, companies
/// and stories, 3 of each and at most 128 tokens; with options.limit so many of each and 256 tokens. For a student that was asked for:
/// what its teacher answers to questions of MT-Bench, and passages of Andersen's tales, half as long. options.parts names any of them. With options.traces every
/// landscape is kept there, and a later call goes on with what is there. Tables, intervals over texts:
///   table       loss above the teacher without refreshes, with blind and with the best ones, 1 to 16 in 256 tokens
///   efficiency  of a gate on each signal, its threshold set for those counts, and how much above blind placement
///   ranks       of each signal against the gain of a refresh over 32 tokens: rank correlation, area under the ROC curve
/// The figure has loss against refreshes, text by text: the best, and one curve for each gate.
[[nodiscard]] StudyResult study_landscape(const StudyOptions& options);

/// Students made of the teacher's own weights (4-bit, 3-bit, 3-bit MLP, FFN 75 and 50 %, two sets of sublayers left out; or the one
/// derivation that is given as student) on texts that stand fixed: what the teacher writes after mt_bench questions (temperature 0.8,
/// top-p 0.95), and passages of tales (the parts), 3 of each and at most 64 tokens; with options.limit so many of each and 128 tokens.
/// Each text is read by the student alone, on the teacher's prompt cache, with refreshes every 64, 16, 4, 1 tokens, and with an
/// entropy gate that refreshes as often as "every 16". Tables: derived_tables.h. With options.traces texts and readings are kept there
/// (derived.db, a sweep's file), and a later call goes on with what is there. Only the teacher of the options is loaded.
[[nodiscard]] StudyResult study_derived(const StudyOptions& options);

/// Which of the teacher's entries carry the gain of a refresh, for three students of its weights (4-bit, 3-bit, without a quarter of the
/// attention; or the one derivation that is given as student), on what the teacher answers to mt_bench questions (temperature 0.8, top-p 0.95): 3
/// answers of 50 tokens; with options.limit so many of 82. Refreshes every 16 tokens, judged on the 16 tokens behind each. Tables:
/// scope_study_tables.h. With options.traces numbers are kept there (scope-ID.json), and a later call goes on with what is there. It has no parts. Only
/// the teacher of the options is loaded.
[[nodiscard]] StudyResult study_scope(const StudyOptions& options);

/// Cache policies at equal budgets, in the rows of RefreshKV's comparison. Without options.limit the quick form: 3 texts of a kind, 6 records
/// of a kind; with it so many. Intervals over texts. With options.traces the numbers of every text and run are kept there
/// (cache-ID.json), and a later call goes on with what is there. Parts:
///   text    the end of long texts (64 of 2,048 tokens, or 256 of 4,096; at most half of the context) under budgets of n/8 and n/4: perplexity,
///           loss and KL against everything read, entries read, effective stride of RefreshKV. Any teacher; tales and stories
///   recall  chain_of_key, table, ledger, retell by the teacher: first choices on the given answer, at most 48 tokens of it without
///           options.limit; of each kind and of all. Any teacher
///   written the same greedily: score of what is written (leading right share; table: row F1)
///   both    a student with refreshes and cache policies on given chronicles: does what a refresh saves depend on the policy?
/// The figure has the loss of every token; full_steps how often each layer read everything.
[[nodiscard]] StudyResult study_cache(const StudyOptions& options);

} // namespace refreshlab
