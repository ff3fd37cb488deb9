#include "engine/study/measure/sweep_score.h"

#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/forward/score_tokens.h"
#include "engine/model/llama_model.h"
#include "engine/model/model_source.h"
#include "engine/record/recording/recording.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "kernels/execution/execution_context.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>
#include <string_view>
#include <vector>

namespace refreshlab {

std::optional<TextScore> score_text(const LlamaModel& teacher, std::span<const int32_t> prompt,
                                    std::span<const int32_t> text,
                                    const kernels::ExecutionContext& execution) {
    if (prompt.empty() || text.empty()) return std::nullopt;
    const kernels::ExecutionScope scope(execution);
    const c10::InferenceMode guard;
    std::vector<int32_t> ids(prompt.begin(), prompt.end());
    ids.insert(ids.end(), text.begin(), text.end());
    const auto length = static_cast<int64_t>(prompt.size()), n = static_cast<int64_t>(text.size());
    if (length + n - 1 > teacher.config().max_position) {
        throw Error("scoring", "a text",
                    fmt::format("{} tokens with its prompt, and the teacher's context is {}", length + n,
                                teacher.config().max_position));
    }
    for (const int32_t id : ids) {
        if (id >= 0 && id < teacher.config().vocab_size) continue;
        throw Error("scoring", "a text",
                    fmt::format("token id {} is outside the teacher's vocabulary of {}", id,
                                teacher.config().vocab_size),
                    "it was made with another tokenizer");
    }
    // Tokens stand at [length, length + n).
    const auto cache = teacher.make_cache(length + n);
    double sum = 0, tail = 0, agreed = 0;
    const int64_t tail_tokens = std::min<int64_t>(50, n);
    score_tokens(teacher.forward(), *cache, ids, length, [&](int64_t position, const auto& row, int32_t) {
        // Single precision, as a recording keeps it.
        const auto lp = static_cast<double>(static_cast<float>(row.logprob));
        sum += lp;
        if (position - length >= n - tail_tokens) tail += lp;
        if (row.statistics.top1_id == ids[static_cast<size_t>(position)]) agreed += 1;
    });
    TextScore score;
    score.tokens = n;
    score.teacher_ppl = std::exp(-sum / static_cast<double>(n));
    score.tail_logprob = tail / static_cast<double>(tail_tokens);
    score.agreement = agreed / static_cast<double>(n);
    return score;
}

namespace {

/// Bytes of a token as a JSON string: printable, whatever they are.
std::string shown(std::string_view bytes) {
    return nlohmann::json(std::string(bytes)).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

/// Ids that occur in a recording.
std::set<int32_t> ids_of(const Recording& run) {
    std::set<int32_t> ids(run.info().prompt_ids.begin(), run.info().prompt_ids.end());
    for (int64_t t = 1; t <= run.steps(); ++t) {
        const StepRecord& record = run.step(t);
        ids.insert({record.token_id, record.next_token_id});
        ids.insert(record.top_ids.begin(), record.top_ids.begin() + record.top_k);
    }
    ids.erase(-1);
    return ids;
}

/// First id whose bytes differ, or -1.
template <typename Ids>
int32_t first_other(const TokenTable& a, const TokenTable& b, const Ids& ids) {
    for (const int32_t id : ids) {
        if (a.token_bytes(id) != b.token_bytes(id)) return id;
    }
    return -1;
}

} // namespace

JudgeTokens::JudgeTokens(const std::filesystem::path& folder)
    : m_folder(folder)
    , m_tokenizer(ModelSource::open(folder)->tokenizer()) {
    m_others[folder.string()] = m_tokenizer;
}

void JudgeTokens::require_same(const Recording& run) {
    const Tokenizer& judge = *m_tokenizer;
    const auto require = [&](const TokenTable& own, const auto& ids) {
        const int32_t id = first_other(own, judge, ids);
        if (id < 0) return;
        const std::string meant = shown(own.token_bytes(id));
        throw Error("scoring", "run " + run.info().id,
                    id < judge.vocab_size() ? fmt::format("token {} is {} in the run and {} in {}", id, meant,
                                                          shown(judge.token_bytes(id)), m_folder.string())
                                            : fmt::format("token {} ({}) is outside the vocabulary of {}", id,
                                                          meant, m_folder.string()),
                    "the judge must have the run's tokenizer");
    };
    const std::set<int32_t> occurring = ids_of(run);
    require(run.tokens(), occurring);
    std::vector<int32_t> all(static_cast<size_t>(run.info().vocab_size));
    std::iota(all.begin(), all.end(), 0);
    for (const std::string& folder : {run.info().config.teacher_dir, run.info().config.student_dir}) {
        if (folder.empty()) continue;
        const auto [known, fresh] = m_others.try_emplace(folder);
        if (fresh) {
            try {
                known->second = ModelSource::open(folder)->tokenizer();
            } catch (const Error&) { // gone, or on another machine: then it does not help
            }
        }
        const auto& own = known->second;
        if (!own || first_other(run.tokens(), *own, occurring) >= 0)
            continue; // another model lies there by now
        if (own->fingerprint() != judge.fingerprint()) require(*own, all);
        return;
    }
}

} // namespace refreshlab
