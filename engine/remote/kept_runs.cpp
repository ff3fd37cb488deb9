#include "engine/remote/kept_runs.h"

#include <algorithm>

namespace refreshlab::remote {

bool KeptRuns::see(const Run& recording) {
    if (!recording || (!m_runs.empty() && m_runs.back() == recording)) return false;
    std::erase_if(m_runs, [&](const Run& run) { return run->info().id == recording->info().id; });
    m_runs.push_back(recording);
    thin_out();
    return true;
}

KeptRuns::Run KeptRuns::find(const std::string& id) const {
    const auto found = std::ranges::find_if(m_runs, [&](const Run& run) { return run->info().id == id; });
    return found == m_runs.end() ? nullptr : *found;
}

/// From the oldest on, so that what is left is what came last.
void KeptRuns::thin_out() {
    size_t bytes = 0, kept = 0;
    for (auto run = m_runs.rbegin(); run != m_runs.rend(); ++run) {
        bytes += (*run)->attention_bytes().kept;
        if (kept > 0 && (kept == most_runs || bytes > most_attention_bytes)) break;
        ++kept;
    }
    m_runs.erase(m_runs.begin(), m_runs.end() - static_cast<std::ptrdiff_t>(kept));
}

} // namespace refreshlab::remote
