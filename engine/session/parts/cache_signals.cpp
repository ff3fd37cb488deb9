#include "engine/session/parts/cache_signals.h"

namespace refreshlab {

namespace {

PublishedSignal layered(std::string name, std::string label, std::string unit, std::string description) {
    PublishedSignal signal;
    signal.name = std::move(name);
    signal.label = std::move(label);
    signal.unit = std::move(unit);
    signal.description = std::move(description);
    signal.layered = true;
    return signal;
}

} // namespace

std::vector<PublishedSignal> CacheSignals::published() const {
    std::vector<PublishedSignal> all{
        layered("cache_held", "Entries held", "entries",
                "Entries that the decoder's cache holds after the step, mean over the KV heads."),
        layered("cache_read", "Entries read", "entries",
                "Entries that attention read in the step, mean over the KV heads.")};
    for (const PolicySignal& of_policy : m_runner.policy().signals()) {
        PublishedSignal signal =
            layered(of_policy.name, of_policy.label, of_policy.unit, of_policy.description);
        signal.min = of_policy.min;
        signal.max = of_policy.max;
        all.push_back(std::move(signal));
    }
    return all;
}

void CacheSignals::measure(std::span<const size_t> ids, const StepValues& values, const StepInSight& step) {
    (void)step;
    values.set_layers(ids[0], m_runner.entries_held());
    values.set_layers(ids[1], m_runner.entries_read());
    size_t next = 2;
    for (const PolicySignal& of_policy : m_runner.policy().signals())
        values.set_layers(ids[next++], of_policy.values);
}

} // namespace refreshlab
