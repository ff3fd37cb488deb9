#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace refreshlab {

class LlamaModel;
class Recording;

/// What the teacher says about a text that somebody else made.
struct TextScore {
    double teacher_ppl = 0;  ///< exp(-mean lp_t)
    double tail_logprob = 0; ///< mean of lp_t over the last min(50, N) tokens, nats
    double agreement = 0;    ///< share of tokens that are the teacher's first choice
    int64_t tokens = 0;      ///< N
};

/// One teacher pass over prompt and text (reference/refresh.md, section 7): on the CPU the same bits as the closing pass
/// of a session, whatever refreshes the run had. Nothing for an empty text or prompt. Throws Error{bad_input} for ids
/// outside the vocabulary, or a text beyond the model's context.
[[nodiscard]] std::optional<TextScore> score_text(const LlamaModel& teacher, std::span<const int32_t> prompt,
                                                  std::span<const int32_t> text);

} // namespace refreshlab
