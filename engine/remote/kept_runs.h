#pragma once

#include "engine/record/recording/recording.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab::remote {

/// The runs that an engine has had, for clients that were away when they were made: as many as a window keeps.
/// Threads  one
class KeptRuns {
public:
    static constexpr size_t most_runs = 40;
    static constexpr size_t most_attention_bytes = size_t{2}
                                                   << 30; ///< a branch counts what it shares as well

    using Run = std::shared_ptr<const Recording>;

    /// The engine's recording now; null: none. Of a known id it takes the place of the former one.
    /// \return whether it is another one than the last time
    bool see(const Run& recording);
    /// In the order in which they came; the last one is the engine's.
    [[nodiscard]] const std::vector<Run>& runs() const { return m_runs; }
    [[nodiscard]] Run find(const std::string& id) const; ///< null: there is none

private:
    void thin_out();
    std::vector<Run> m_runs;
};

} // namespace refreshlab::remote
