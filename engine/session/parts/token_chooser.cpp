#include "engine/session/parts/token_chooser.h"

#include "engine/model/sampler.h"

namespace refreshlab {

PendingToken TokenChooser::choose(const at::Tensor& row, int64_t position, Producer producer,
                                  const SamplerConfig& sampler,
                                  const kernels::RowStatistics* statistics) const {
    const auto index = static_cast<size_t>(position - m_first_position);
    const Choice choice = index < m_given.size() ? given_token(row, m_given[index], statistics)
                                                 : choose_token(row, sampler, m_seed, position, statistics);
    PendingToken token;
    token.id = choice.token_id;
    token.producer = producer;
    token.logprob = choice.logprob;
    token.top1_hit = choice.top1_id == choice.token_id;
    return token;
}

} // namespace refreshlab
