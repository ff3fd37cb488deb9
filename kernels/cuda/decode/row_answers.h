#pragma once

#include "kernels/cuda/build.h"
#include "kernels/cuda/decode/decode_kernels.h"
#include "kernels/decode/device_decoder.h"

#include <cstdint>

namespace refreshlab::kernels::RL_GPU {

/// Answers about a step's row of logits, where the host reads them: statistics and the k largest logits, by one launch behind the head.
/// Its last block to end merges the segments of the row in index order, writes the answers, and then the step's sequence number.
struct RowAnswersInputs {
    const StepState* state = nullptr;
    const float* logits = nullptr; ///< [vocab], of row 0
    int64_t vocab = 0;
    int64_t top_k = 0;                    ///< 0 .. most_answer_keys, and not above vocab
    shared::SoftmaxSums* parts = nullptr; ///< scratch, [segments]
    uint64_t* keys = nullptr;             ///< scratch, [segments * top_k]
    uint32_t* arrived = nullptr;          ///< scratch, [1]: 0 before the launch, and after it
    DeviceAnswers* answers = nullptr;     ///< mapped pinned memory, as the device sees it
    bool dependent = false;
};
RL_LAUNCHER void launch_row_answers(const RowAnswersInputs& in, void* stream);
/// Segments of a row of logits, for the scratch.
[[nodiscard]] RL_LAUNCHER int64_t answer_segments(int64_t vocab);

} // namespace refreshlab::kernels::RL_GPU
