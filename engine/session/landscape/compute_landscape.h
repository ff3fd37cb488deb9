#pragma once

#include "engine/control/run_config.h"
#include "engine/landscape/landscape.h"
#include "engine/session/pair/model_pair.h"
#include "engine/session/pair/run_execution.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace refreshlab {

class Recording;

/// What is to be computed. The text is given as ids: of a finished run, or of a file after a prompt.
struct LandscapeRequest {
    std::vector<int32_t> prompt_ids, tokens;
    std::vector<std::string> values{"logprob"}; ///< landscape_values()
    int64_t every = 1;                          ///< rows 0, every, 2 * every, ...; coarse ones first
    /// Rows per forward at most; fewer where their columns would take too much memory. A forward reads all weights, so more rows
    /// are faster; fewer leave the thread sooner to whoever waits (the window's worker).
    int64_t rows_at_once = most_rows_at_once;
    static constexpr int64_t most_rows_at_once = 64, rows_beside_a_window = 16;
    McConfig mc; ///< of values that need MC rows: samples and rate; they multiply the cost by 1 + samples
    uint64_t seed = 0;                          ///< of their masks: that of the run whose cells these are
    std::string teacher_digest, student_digest; ///< for the landscape's info; may be empty
};

/// That of a recorded run's text. Throws Error{bad_input} where the configuration has a cache policy: a landscape is about caches that keep and
/// read everything.
/// \param config  of the run, or what takes its place: MC rows and their seed
[[nodiscard]] LandscapeRequest landscape_request(const Recording& run, const RunConfig& config);
/// The part of it that needs no run.
void require_full_caches(const RunConfig& config);

/// How far it is. Rows come whole, some at a time.
struct LandscapeProgress {
    std::shared_ptr<const Landscape> landscape; ///< with the rows so far; null before the first
    int64_t cells_done = 0, cells = 0;          ///< of those that this call computes
};

/// Throws Error{bad_input} in one line: no teacher or no student, a pair in rebuild mode (nothing is copied there, so a refresh
/// changes nothing), a text of fewer than two tokens or beyond the context, ids outside the vocabulary, values without cells.
void check_landscape(const ModelPair& pair, const LandscapeRequest& request);

/// What a landscape will hold beyond the weights, device by device; the cells themselves are on the host.
[[nodiscard]] std::vector<MemoryEstimate>
memory_of_landscape(const ModelPair& pair, const LandscapeRequest& request,
                    const MemoryQuery& available = device_memory_available);

/// The refresh landscape of a text, a forward at a time: whoever has other work (the window's worker: commands) does it between two
/// steps. Rows appear as compute_landscape() says.
/// Threads  one.
class LandscapeComputation {
public:
    /// Checks everything, reads nothing. Throws as compute_landscape().
    /// \param pair  must outlive this unless it is shared with it
    LandscapeComputation(std::shared_ptr<const ModelPair> pair, LandscapeRequest request, Execution execution,
                         std::shared_ptr<const Landscape> known = {},
                         const MemoryQuery& available = device_memory_available);
    ~LandscapeComputation();
    LandscapeComputation(const LandscapeComputation&) = delete;
    LandscapeComputation& operator=(const LandscapeComputation&) = delete;

    /// One forward: some hundred tokens of the teacher's reading, or one column of some rows.
    /// \return false when there is nothing left to do
    bool step();
    [[nodiscard]] const LandscapeProgress& progress() const;

private:
    struct Impl;
    std::unique_ptr<Impl> m_impl;
};

/// The refresh landscape of a text (reference/refresh.md; engine/landscape/landscape.h). The teacher reads the text once. Each
/// row is the student's forward over the rest of the text on the teacher's prefix, several rows per forward. On the CPU a cell
/// has the bits of the record of a session that reads the same text with one refresh at the row's boundary.
///
/// Coarse rows come first (landscape_levels()); `known` is gone on with: its rows are not computed again.
/// \param known     null, or a landscape of this text with these values (Error{bad_input} for another)
/// \param progress  after every step and with every new row; false ends it, and what is there is returned
/// \param execution threads and kernel set; not null (asserted)
/// Throws Error as check_landscape(), and Error{failure} when the memory is not there.
/// Cost: N^2 / 2 token-forwards of the student for every == 1.
[[nodiscard]] std::shared_ptr<const Landscape>
compute_landscape(const ModelPair& pair, const LandscapeRequest& request, const Execution& execution,
                  const std::shared_ptr<const Landscape>& known = {},
                  const std::function<bool(const LandscapeProgress&)>& progress = {});

} // namespace refreshlab
