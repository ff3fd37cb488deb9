#pragma once

#include "engine/control/run_config.h"
#include "engine/model/forward.h"
#include "engine/record/recording/step_record.h"
#include "kernels/ops/row_statistics.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace refreshlab {

/// The token chosen last, not fed yet, and what is known of it.
struct PendingToken {
    int32_t id = -1;
    Producer producer = Producer::teacher;
    double logprob = 0;    ///< under the row it was drawn from
    bool top1_hit = false; ///< it is the arg max of that row
    /// ln p_T, whether the teacher's arg max is this token (1 or 0), and its place in the teacher's row; known when the
    /// teacher's row of that position is.
    std::optional<double> teacher_logprob, teacher_agrees, teacher_rank;
};

/// Gives the token of a position by a row of logits: drawn, or the given one where the run reads a given text.
class TokenChooser {
public:
    /// \param given         y_1, y_2, ... of a given text; empty: tokens are drawn
    /// \param first_position  of y_1
    TokenChooser(std::vector<int32_t> given, int64_t first_position, uint64_t seed)
        : m_given(std::move(given))
        , m_first_position(first_position)
        , m_seed(seed) {}
    /// \param row         [vocab]; undefined where `statistics` are finite and nothing is drawn, or draw_at() was answered with `drawn`
    /// \param statistics  of that row where they exist already: saves a pass over it
    /// \param logprob     of the given token, where it is known already; NaN: it is not
    /// \param drawn       what draw_at() of this position came to, where it is known
    [[nodiscard]] PendingToken choose(const at::Tensor& row, int64_t position, Producer producer,
                                      const SamplerConfig& sampler,
                                      const kernels::RowStatistics* statistics = nullptr,
                                      double logprob = std::numeric_limits<double>::quiet_NaN(),
                                      const std::optional<Drawn>& drawn = std::nullopt) const;

    /// The draw that choose() makes of a row of logits; nothing: statistics and the given token's logprob are enough.
    [[nodiscard]] std::optional<DrawAsk> draw_at(int64_t position, const SamplerConfig& sampler) const;
    /// The token that choose() gives at this position; nothing: it is drawn.
    [[nodiscard]] std::optional<int32_t> given_at(int64_t position) const;

    /// Tokens by hand for first_position and those after it, instead of what choose() would give. The last word on a position
    /// counts. \param step  from which on it is known
    void give(int64_t step, int64_t first_position, std::span<const int32_t> ids);
    /// Of the choices from now on.
    void set_seed(uint64_t seed) { m_seed = seed; }
    /// Rejections so far: choose_token()'s attempt.
    void set_attempt(uint32_t attempt) { m_attempt = attempt; }
    [[nodiscard]] uint32_t attempt() const { return m_attempt; }
    [[nodiscard]] uint64_t seed() const { return m_seed; }
    /// choose() draws nothing at this position: the token is given.
    [[nodiscard]] bool gives(int64_t position) const { return given_at(position).has_value(); }
    /// After a rewind to `step`: forgets what was given later.
    void rewind(int64_t step);

private:
    struct ByHand {
        int64_t step, position;
        int32_t id;
    };

    std::vector<ByHand> m_by_hand; ///< in the order in which they were given
    std::vector<int32_t> m_given;
    int64_t m_first_position;
    uint64_t m_seed;
    uint32_t m_attempt = 0;
};

} // namespace refreshlab
