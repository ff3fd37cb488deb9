#pragma once

#include "engine/tasks/almanac.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "engine/train/models/reading_plan.h"
#include "engine/train/text_loss.h"
#include "engine/train/training_text.h"

#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab {

/// Facts that a student shall read from entries of the teacher, and not have in its own weights.
///
/// Where        A text states a fact of an almanac's name in a list that FactReader reads. A row that predicts a token of the fact's word is withheld if the
///              student made the entry of the name itself: the entry of the last token of the name, where the text has it first.
/// Target       the distribution of the next token for a word that is drawn uniformly from the attribute's words, if the word's tokens so far are
///              those that the text has. So the target of the whole word is uniform. Where a word may be over and another goes on ("gold",
///              "golden"), the token behind it is withheld too.
/// Source       the target of the bundled student (assets/models/llama-tales-student); of words of several tokens: our choice.

/// Notes in each text the tokens that may be withheld.
/// \return how many facts the texts state
int64_t note_facts(std::vector<TrainingText>& texts, const Almanac& almanac, const Tokenizer& tokenizer);

/// The rows of a text, read so, that are withheld, counted from plan.first.
[[nodiscard]] RowTargets withheld_rows(const TrainingText& text, const ReadingPlan& plan);

/// Of names and facts.
[[nodiscard]] std::string almanac_digest(const Almanac& almanac);

} // namespace refreshlab
