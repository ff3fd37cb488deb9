#pragma once

#include "engine/model/llama_model.h"
#include "engine/study/studies/study_table.h"
#include "engine/train/training_text.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab {

/// Where a student's loss on answers comes from, as LossSplit has it: means over texts, in nats a token.
struct StudentSplit {
    int64_t texts = 0, tokens = 0;
    double teacher = 0, every_1 = 0, every_16 = 0, none = 0, alone = 0;
    double kl_every_1 = 0, kl_none = 0; ///< KL(teacher || student)

    [[nodiscard]] double own_weights() const { return every_1 - teacher; }
    [[nodiscard]] double cache() const { return none - every_1; }
};

/// Reads the answers of texts (behind TrainingText::prompt) with the teacher's entries at every place, with a refresh every 16 tokens, without a
/// refresh and alone. Texts with an answer of fewer than three tokens are left out.
/// Throws Error{failure}: a row is not finite; Error{bad_input}: no text is left.
/// \param progress  fraction; false cancels. \return nothing where it was cancelled
[[nodiscard]] std::optional<StudentSplit> split_student(const LlamaModel& teacher, const LlamaModel& student,
                                                        const std::vector<TrainingText>& texts,
                                                        const std::function<bool(double)>& progress);

/// Both as a table, "before" and "after", with a sentence of what is gone of each loss.
[[nodiscard]] StudyResult compared_splits(const StudentSplit& before, const StudentSplit& after);

} // namespace refreshlab
