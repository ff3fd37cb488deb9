#pragma once

#include "engine/record/recording/recording.h"
#include "engine/results/scope_map.h"
#include "engine/session/pair/model_pair.h"
#include "engine/session/pair/run_execution.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab {

/// Steps of refreshes that a map of this run is made of: every so many tokens, or with 0 where the run refreshed, every 16 where it did not.
[[nodiscard]] std::vector<int64_t> scope_boundaries(const Recording& run, int64_t every);

/// What a scope map is made of.
struct ScopeMapRequest {
    std::vector<int32_t> prompt_ids, tokens; ///< x, y_1 .. y_N: a finished run's, or a given text
    /// Steps of the refreshes, ascending. Each writes the positions since the one in front; those without `horizon` steps behind them are
    /// boundaries all the same, and not measured.
    std::vector<int64_t> boundaries;
    int64_t horizon = 16, blocks = 4;
    /// The greedy order goes on until it keeps this share of the gain; 0: no greedy order.
    double keep = 0.95;
    static constexpr int64_t looked_at = 8; ///< candidates that a step of the greedy order reads again
};

struct ScopeMapProgress {
    int64_t rows_done = 0, rows = 0; ///< of the map; the greedy order comes after it
    int64_t taken = 0;               ///< KV heads of the greedy order so far
    double share = 0;                ///< of the gain that they keep
};

/// Reads a text with parts of refreshes, a forward at a time: whoever has other work (the window's worker: commands, steps) does it between
/// two of them. Each number is an exact forward of the student with those entries (refresh_readings.h).
///
/// Greedy  cells are (layer, KV head). Each step looks at the `looked_at` cells whose gain, as it was known last, is largest, reads the text again
///         with each of them added, and takes the best. With gains that only shrink as the set grows this is the greedy choice of all cells; else it is
///         close to it. Chosen and judged on the same refreshes.
/// Cost    refreshes * horizon * 2 * (1 + 2 + 3 layers + layers * kv_heads + layers * blocks) rows of the student, and looked_at * horizon * refreshes rows a
///         step of the greedy order.
/// Threads one.
class ScopeMapComputation {
public:
    /// Checks everything, reads nothing. \param execution  not null (asserted)
    /// Throws Error{bad_input}: a pair that copies nothing, a text or ids that do not fit, no refresh with `horizon` steps behind it.
    ScopeMapComputation(std::shared_ptr<const ModelPair> pair, ScopeMapRequest request, Execution execution);
    ~ScopeMapComputation();
    ScopeMapComputation(const ScopeMapComputation&) = delete;
    ScopeMapComputation& operator=(const ScopeMapComputation&) = delete;

    /// One forward of the student; the first call is the teacher's reading. \return false when the map is whole
    bool step();
    [[nodiscard]] const ScopeMapProgress& progress() const;
    [[nodiscard]] const ScopeMapRequest& request() const;
    /// Once it is whole (asserted); leaves nothing behind.
    [[nodiscard]] ScopeMap take_map();

private:
    struct Impl;
    std::unique_ptr<Impl> m_impl;
};

/// The whole map at once. \param progress  after every forward; false ends it
/// \return nothing where it was ended. Throws as ScopeMapComputation.
[[nodiscard]] std::optional<ScopeMap>
compute_scope_map(const ModelPair& pair, const ScopeMapRequest& request, const Execution& execution,
                  const std::function<bool(const ScopeMapProgress&)>& progress = {});

} // namespace refreshlab
