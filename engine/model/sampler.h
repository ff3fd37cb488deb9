#pragma once

#include "engine/control/run_config.h"
#include "kernels/ops/row_statistics.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace refreshlab {

struct Choice {
    int32_t token_id = -1;
    double logprob = 0;   ///< ln p(token) under the raw row (temperature 1, no filters)
    int32_t top1_id = -1; ///< arg max of the raw row, ties to the lower id
};

/// Draws the token of `position` from one row of logits. temperature 0 = arg max (ties to the lower id). Otherwise, in
/// the order of transformers 5: divide by the temperature, keep the top k, keep top-p (the smallest set of most likely
/// tokens whose probability reaches top_p), keep min-p (p >= min_p * max p), renormalise, and draw by one Philox number
/// keyed by (seed, position, attempt): earlier draws have no influence.
/// \param attempt     how many drafts were rejected before (reference/refresh.md, section 3); 0 in runs that verify nothing
/// \param statistics  of this row, where they exist already: saves the search for its arg max. At temperature 0 they are enough where the row is
///                    finite: then `row` may be undefined, and a device's row stays there
/// Sources: top-p Holtzman et al. 2020; min-p Nguyen et al. 2024.
[[nodiscard]] Choice choose_token(const at::Tensor& row, const SamplerConfig& sampler, uint64_t seed,
                                  int64_t position, const kernels::RowStatistics* statistics = nullptr,
                                  uint32_t attempt = 0);

/// What a random number of a position is for. Draws for different purposes are independent.
enum class Draw : uint32_t {
    residual = 13,   ///< the token in place of one that was rejected
    acceptance = 14, ///< whether a drafted token stays
    token = 15,      ///< choose_token()
};
/// One number of [0, 1), 53 bits, a function of its arguments alone (Philox, kernels/shared/philox.h).
[[nodiscard]] double uniform_number(uint64_t seed, int64_t position, uint32_t attempt, Draw draw);

/// What has to be known of a row where it is, so that a token can be drawn without it.
struct DrawNeeds {
    int64_t keys = 0;   ///< so many of its largest logits
    bool total = false; ///< the sum of exp((z - max z) / temperature) over the row
    bool token =
        false; ///< nothing is filtered: the row is walked over where it is, to this share of that sum
    [[nodiscard]] bool weighs() const { return total || token; }
};
/// \param temperature > 0 (asserted) \param most  keys that can be had
/// \return nothing: no so many keys are enough, the row has to be read
[[nodiscard]] std::optional<DrawNeeds> draw_needs(const SamplerConfig& sampler, int64_t vocab, int64_t most);

/// A row of which the largest logits and a sum are known.
struct KnownOfRow {
    const kernels::TopK& largest; ///< DrawNeeds::keys of them or more, as kernels::top_k() gives them
    int64_t vocab = 0;
    double total = 0;                         ///< DrawNeeds::total; else not read
    const kernels::RowStatistics& statistics; ///< finite (asserted)
};
/// choose_token() of a row with filters, without the row. The token is the same up to the rounding of `total`.
/// \param share  uniform_number() of Draw::token
/// \return nothing where a token that is not among the largest may pass the filters: they need the row
[[nodiscard]] std::optional<Choice> choose_among(const KnownOfRow& row, const SamplerConfig& sampler,
                                                 double share);

/// The distribution that choose_token() draws from: after temperature and filters, renormalised; temperature 0 has all of it on
/// the arg max.
/// \param row  [vocab], any device
/// \return [vocab], on the host
[[nodiscard]] std::vector<double> token_probabilities(const at::Tensor& row, const SamplerConfig& sampler,
                                                      const kernels::RowStatistics* statistics = nullptr);

/// What choose_token() would give for a token that was not drawn but given (teacher forcing).
/// \param token  inside the row (asserted)
[[nodiscard]] Choice given_token(const at::Tensor& row, int32_t token,
                                 const kernels::RowStatistics* statistics = nullptr);

} // namespace refreshlab
