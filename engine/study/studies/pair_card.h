#pragma once

#include "engine/study/studies/study_run.h"

#include <filesystem>
#include <string>
#include <vector>

namespace refreshlab {

/// What a pair is measured on.
struct PairCardOptions {
    StudyOptions
        study; ///< base.teacher_dir and base.student_dir: the pair. `limit`: of a kind and of the texts; 0: 40 and 30
    std::string baseline; ///< a model that reads alone beside the student; empty: none
    std::vector<std::filesystem::path>
        texts;                      ///< held-out texts, as read_text_rows() reads them; may be empty
    std::vector<std::string> kinds; ///< tasks of study.prompts; may be empty
};

/// Measures a pair on given texts: for every kind of task the share of units (attribute words, tokens) whose first choice is right, with the
/// refreshes that each of card_cases() makes; for the texts the nats per token of teacher, student alone, student on the teacher's prompt
/// cache, and baseline alone, with their differences over the same texts. Intervals are 95 % percentile bootstraps over records (bootstrap.h).
/// A text without a prompt is cut into pieces of at most piece_bytes, whose first half is the prompt.
///
/// \return tables "card" and "stories" to read, "tasks" and "texts" with all numbers.
/// Throws Error{bad_input}: nothing to measure, texts without a piece, models of several tokenizers. What else as StudyRunner.
/// Cost: one run per case and record.
[[nodiscard]] StudyResult measure_pair_card(const PairCardOptions& options);
inline constexpr size_t piece_bytes = 2000;

} // namespace refreshlab
