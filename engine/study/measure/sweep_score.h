#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace refreshlab {

class LlamaModel;
namespace kernels {
class ExecutionContext;
}
class Recording;
class Tokenizer;

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
/// \param execution  threads and kernel set; those of the session, for the same bits
[[nodiscard]] std::optional<TextScore> score_text(const LlamaModel& teacher, std::span<const int32_t> prompt,
                                                  std::span<const int32_t> text,
                                                  const kernels::ExecutionContext& execution);

/// Whether a judge reads the ids of recorded runs as those runs did. Another text under the same ids would get a
/// perplexity like any other.
class JudgeTokens {
public:
    /// \param folder  the judge's folder or GGUF file. Throws Error{bad_input} for what cannot be read.
    explicit JudgeTokens(const std::filesystem::path& folder);
    [[nodiscard]] const std::filesystem::path& folder() const { return m_folder; }

    /// Throws Error{bad_input} unless every id has the same bytes here and in the run: the ids of the prompt, of the text and
    /// of the candidates, whose bytes the recording holds, and where a folder of the run's models still has the run's
    /// tokenizer, all ids of the run's vocabulary.
    void require_same(const Recording& run);

private:
    std::filesystem::path m_folder;
    std::shared_ptr<const Tokenizer> m_tokenizer;
    std::map<std::string, std::shared_ptr<const Tokenizer>> m_others; ///< by folder; null: cannot be read
};

} // namespace refreshlab
