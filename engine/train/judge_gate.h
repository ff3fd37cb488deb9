#pragma once

#include "engine/model/gates/token_gate.h"
#include "engine/model/llama_model.h"
#include "engine/study/studies/study_table.h"
#include "engine/train/gate_trainer.h"
#include "engine/train/training_text.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab {

/// Reads the answers of texts token by token under the gate's policy and under others with as many entries: a half, a quarter and an
/// eighth of the text, or of the prompt where the policy thins the prompt alone. \return a table: KL to the model that reads everything (nats per token, 95 % over texts), loss of the
/// answer, share of its tokens that were the first choice, entries read
/// \param gate      its method is the policy
/// \param progress  fraction of the texts; false cancels
/// \return nothing where it was cancelled
[[nodiscard]] std::optional<StudyTable> judge_gate(const LlamaModel& model,
                                                   const std::shared_ptr<const TokenGate>& gate,
                                                   const std::vector<TrainingText>& texts, uint64_t seed,
                                                   const std::function<bool(double)>& progress);

} // namespace refreshlab
