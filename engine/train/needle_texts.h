#pragma once

#include "engine/text/tokenizer/tokenizer.h"
#include "engine/train/training_text.h"

#include <cstdint>
#include <span>
#include <vector>

namespace refreshlab {

/// A text with a sentence in it (the needle) that is asked for at its end. All places are token positions.
struct NeedleText {
    std::vector<int32_t> ids;
    int64_t needle_begin = 0, needle_end = 0; ///< the sentence
    int64_t answer_begin = 0;                 ///< what the sentence says, once more; to the end
};

/// A needle in each text, at a tenth, three tenths, ... nine tenths of it in turns, after its first token: "The secret word of the
/// lighthouse is amber falcon river." and at the end "The secret word of the lighthouse is", with words drawn by the seed. So nobody
/// knows the answer who has not read the needle.
/// \param texts  at least 2 tokens each                                                                  (asserted)
[[nodiscard]] std::vector<NeedleText> needle_texts(const Tokenizer& tokenizer,
                                                   std::span<const TrainingText> texts, uint64_t seed);

} // namespace refreshlab
