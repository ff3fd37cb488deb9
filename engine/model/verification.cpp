#include "engine/model/verification.h"

#include "engine/base/check.h"
#include "kernels/ops/row_overlap.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace refreshlab {

namespace {

/// Walks over the weights by id, to where those passed reach this share of their sum. \return -1 where no weight is positive
int32_t at_share(std::span<const double> weights, double share) {
    double total = 0;
    for (const double weight : weights)
        total += weight;
    int32_t drawn = -1;
    double reached = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
        if (weights[i] <= 0.0) continue; // never drawn, not even by a rounding of the sum
        drawn = static_cast<int32_t>(i);
        reached += weights[i];
        if (reached > share * total) break;
    }
    return drawn;
}

/// The lenient rules: by the raw row.
bool is_lenient(VerifyRule rule) {
    return rule == VerifyRule::near_best || rule == VerifyRule::top_k;
}

/// Tokens that a lenient rule lets stay.
class Leniency {
public:
    Leniency(const DraftRows& rows, const Verification& verify)
        : m_rows(rows)
        , m_verify(verify) {}

    [[nodiscard]] bool takes(int32_t token) const {
        if (m_verify.rule == VerifyRule::top_k) {
            const auto ranks = kernels::token_ranks(m_rows.teacher.unsqueeze(0), std::span(&token, 1));
            return ranks[0] <= m_verify.rank;
        }
        const double p = std::exp(given_token(m_rows.teacher, token, &m_rows.teacher_statistics).logprob);
        return p >= m_verify.share * m_rows.teacher_statistics.top1_prob;
    }
    /// Share of q on the tokens that it takes.
    [[nodiscard]] double mass(std::span<const double> q) const {
        double sum = 0;
        if (m_verify.rule == VerifyRule::top_k) {
            for (const int32_t id : kernels::top_k(m_rows.teacher, m_verify.rank).ids)
                sum += q[static_cast<size_t>(id)];
            return sum;
        }
        const SamplerConfig raw{.temperature = 1};
        const auto p = token_probabilities(m_rows.teacher, raw, &m_rows.teacher_statistics);
        const double least = m_verify.share * m_rows.teacher_statistics.top1_prob;
        for (size_t i = 0; i < p.size(); ++i)
            sum += p[i] >= least ? q[i] : 0;
        return sum;
    }

private:
    const DraftRows& m_rows;
    const Verification& m_verify;
};

/// Both rows have all their weight on their arg max, and the token is the student's.
Judgement judge_greedily(const DraftRows& rows, int32_t token, const Verification& verify) {
    const Choice of_teacher = given_token(rows.teacher, token, &rows.teacher_statistics);
    Judgement judgement;
    judgement.p_teacher = std::exp(of_teacher.logprob);
    judgement.p_student = std::exp(given_token(rows.student, token).logprob);
    judgement.stays =
        of_teacher.top1_id == token || (is_lenient(verify.rule) && Leniency(rows, verify).takes(token));
    judgement.expected = judgement.stays ? 1 : 0;
    if (!judgement.stays)
        judgement.instead = given_token(rows.teacher, of_teacher.top1_id, &rows.teacher_statistics);
    return judgement;
}

} // namespace

Judgement judge_token(const DraftRows& rows, int32_t token, const Verification& verify,
                      const SamplerConfig& sampler, uint64_t seed, int64_t position, uint32_t attempt) {
    RL_ASSERT(rows.teacher.sizes() == rows.student.sizes() && token >= 0 && token < rows.teacher.size(0));
    if (sampler.temperature <= 0.0) return judge_greedily(rows, token, verify);

    std::vector<double> p = token_probabilities(rows.teacher, sampler, &rows.teacher_statistics);
    const std::vector<double> q = token_probabilities(rows.student, sampler);
    const auto y = static_cast<size_t>(token);
    const auto best = static_cast<size_t>(given_token(rows.teacher, token, &rows.teacher_statistics).top1_id);
    Judgement judgement;
    judgement.p_teacher = p[y];
    judgement.p_student = q[y];
    switch (verify.rule) {
    case VerifyRule::exact:
        // u < p / q without a division: a token that was drawn has q > 0.
        judgement.stays = uniform_number(seed, position, attempt, Draw::acceptance) * q[y] < p[y];
        for (size_t i = 0; i < p.size(); ++i)
            judgement.expected += std::min(p[i], q[i]);
        break;
    case VerifyRule::greedy:
        judgement.stays = y == best;
        judgement.expected = q[best];
        break;
    case VerifyRule::near_best:
    case VerifyRule::top_k: {
        const Leniency lenient(rows, verify);
        judgement.stays = lenient.takes(token);
        judgement.expected = lenient.mass(q);
        break;
    }
    }
    judgement.expected = std::min(judgement.expected, 1.0); // against rounding
    if (judgement.stays) return judgement;

    auto instead = static_cast<int32_t>(best);
    if (verify.rule != VerifyRule::greedy) {
        const bool exact = verify.rule == VerifyRule::exact;
        std::vector<double> rest = p;
        for (size_t i = 0; exact && i < rest.size(); ++i)
            rest[i] = std::max(p[i] - q[i], 0.0);
        rest[y] = 0; // under `exact` it is 0 already: the token went because p < q there
        const double share = uniform_number(seed, position, attempt, Draw::residual);
        const int32_t drawn = at_share(rest, share);
        instead = drawn >= 0 ? drawn : at_share(p, share); // rows equal but for rounding have no residual
    }
    judgement.instead = given_token(rows.teacher, instead, &rows.teacher_statistics);
    return judgement;
}

} // namespace refreshlab
