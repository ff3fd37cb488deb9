#include "engine/model/forward/device_answers.h"

#include "engine/base/check.h"
#include "kernels/ops/row_results.h"

#include <algorithm>
#include <span>

namespace refreshlab {

DeviceAsk::DeviceAsk(const StepInputs& in, int64_t vocab)
    : m_in(in)
    , m_vocab(vocab)
    , m_answers(in.ask && in.ask->top_k <= kernels::most_answer_keys && in.ask->kl_rows.empty()) {
    RL_ASSERT(!in.draw || in.ask);
    if (!m_answers) return;
    m_top_k = m_keys = std::min(in.ask->top_k, vocab);
    if (!in.draw) return;
    m_needs = draw_needs(in.draw->sampler, vocab, kernels::most_answer_keys);
    if (m_needs) m_keys = std::max(m_keys, m_needs->keys);
}

void DeviceAsk::put_into(kernels::DeviceStep& step) const {
    step.top_k = m_keys;
    if (m_answers && !m_in.ask->tokens.empty()) step.asked = m_in.ask->tokens[0];
    if (m_needs && m_needs->weighs()) step.temperature = m_in.draw->sampler.temperature;
    if (m_needs && m_needs->token) step.share = m_in.draw->share;
}

void DeviceAsk::read(const kernels::DeviceAnswers& answers, StepOutputs& out) const {
    const auto keys = std::span(answers.keys);
    kernels::RowSummary summary;
    summary.statistics = kernels::finish_row(answers.sums);
    if (m_top_k > 0) summary.top = kernels::finish_top_k(keys.first(static_cast<size_t>(m_top_k)));
    if (!m_in.ask->tokens.empty() && m_in.ask->tokens[0] >= 0)
        summary.logprob = static_cast<double>(answers.asked_logit) - summary.statistics.log_z;
    if (m_needs && summary.statistics.finite) out.drawn = drawn(answers, summary.statistics);
    out.summary.push_back(std::move(summary));
}

std::optional<Drawn> DeviceAsk::drawn(const kernels::DeviceAnswers& answers,
                                      const kernels::RowStatistics& statistics) const {
    const kernels::TopK largest =
        kernels::finish_top_k(std::span(answers.keys).first(static_cast<size_t>(m_keys)));
    const std::optional<Choice> choice =
        m_needs->token ? Choice{answers.drawn, static_cast<double>(answers.drawn_logit) - statistics.log_z,
                                static_cast<int32_t>(statistics.top1_id)}
                       : choose_among({largest, m_vocab, answers.total, statistics}, m_in.draw->sampler,
                                      m_in.draw->share);
    if (!choice) return std::nullopt;
    Drawn result{*choice, std::nullopt};
    const auto place = std::ranges::find(largest.ids, choice->token_id);
    if (m_in.draw->ranked && place != largest.ids.end())
        result.rank = static_cast<int32_t>(place - largest.ids.begin()) + 1;
    return result;
}

} // namespace refreshlab
