#pragma once

#include "engine/session/parts/signal_source.h"
#include "engine/session/policies/policy_runner.h"

namespace refreshlab {

/// Publishes what a cache policy measures: `cache_held`, entries that the cache holds, and `cache_read`, entries that attention read
/// in the step, both per layer and as means over the KV heads; and the policy's own signals.
class CacheSignals final : public SignalSource {
public:
    explicit CacheSignals(const PolicyRunner& runner) ///< outlives this
        : m_runner(runner) {}
    [[nodiscard]] std::vector<PublishedSignal> published() const override;
    void measure(std::span<const size_t> ids, const StepValues& values, const StepInSight& step) override;

private:
    const PolicyRunner& m_runner;
};

} // namespace refreshlab
