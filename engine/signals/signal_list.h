#pragma once

#include "engine/signals/registry.h"

/// Every signal, in display order. A new signal needs its own file and one line here.
#define RL_SIGNALS(X)                                                                                        \
    X(entropy_bits)                                                                                          \
    X(kl_nats)                                                                                               \
    X(kl_mean_nats)                                                                                          \
    X(mc_variance)                                                                                           \
    X(mc_mutual_information_bits)                                                                            \
    X(mc_entropy_bits)                                                                                       \
    X(top1_surprisal_bits)                                                                                   \
    X(top1_prob)                                                                                             \
    X(logprob)                                                                                               \
    X(top1_hit)                                                                                              \
    X(task_score)                                                                                            \
    X(teacher_logprob)                                                                                       \
    X(teacher_agreement)                                                                                     \
    X(drift)                                                                                                 \
    X(steps_since_refresh)                                                                                   \
    X(varentropy_bits2)                                                                                      \
    X(top2_margin)                                                                                           \
    X(attention_entropy_bits)                                                                                \
    X(last_kl_nats)                                                                                          \
    X(last_drift)                                                                                            \
    X(acceptance)                                                                                            \
    X(same_top1)                                                                                             \
    X(teacher_rank)                                                                                          \
    X(mc_variance_sd)                                                                                        \
    X(mc_entropy_sd_bits)

/// One function per signal, defined in the signal's own file.
namespace refreshlab::signal_definition {
#define RL_DECLARE_SIGNAL(name) [[nodiscard]] Signal name();
RL_SIGNALS(RL_DECLARE_SIGNAL)
#undef RL_DECLARE_SIGNAL
} // namespace refreshlab::signal_definition
