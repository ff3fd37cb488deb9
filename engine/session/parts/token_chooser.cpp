#include "engine/session/parts/token_chooser.h"

#include "engine/model/sampler.h"

#include <cmath>

namespace refreshlab {

void TokenChooser::give(int64_t step, int64_t first_position, std::span<const int32_t> ids) {
    for (size_t i = 0; i < ids.size(); ++i)
        m_by_hand.push_back({step, first_position + static_cast<int64_t>(i), ids[i]});
}

void TokenChooser::rewind(int64_t step) {
    std::erase_if(m_by_hand, [step](const ByHand& given) { return given.step > step; });
}

std::optional<int32_t> TokenChooser::given_at(int64_t position) const {
    for (auto it = m_by_hand.rbegin(); it != m_by_hand.rend(); ++it)
        if (it->position == position) return it->id;
    const auto index = static_cast<size_t>(position - m_first_position);
    return index < m_given.size() ? std::optional(m_given[index]) : std::nullopt;
}

std::optional<DrawAsk> TokenChooser::draw_at(int64_t position, const SamplerConfig& sampler) const {
    if (gives(position) || sampler.temperature <= 0.0) return std::nullopt;
    return DrawAsk{.sampler = sampler, .share = uniform_number(m_seed, position, m_attempt, Draw::token)};
}

PendingToken TokenChooser::choose(const at::Tensor& row, int64_t position, Producer producer,
                                  const SamplerConfig& sampler, const kernels::RowStatistics* statistics,
                                  double logprob, const std::optional<Drawn>& drawn) const {
    const auto given = given_at(position);
    const bool known = statistics != nullptr && statistics->finite && !std::isnan(logprob);
    const Choice choice = !given && drawn ? drawn->choice
                          : !given ? choose_token(row, sampler, m_seed, position, statistics, m_attempt)
                          : known  ? Choice{*given, logprob, static_cast<int32_t>(statistics->top1_id)}
                                   : given_token(row, *given, statistics);
    PendingToken token;
    token.id = choice.token_id;
    token.producer = producer;
    token.logprob = choice.logprob;
    token.top1_hit = choice.top1_id == choice.token_id;
    return token;
}

} // namespace refreshlab
