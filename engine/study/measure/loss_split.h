#pragma once

#include "engine/record/export/divergence.h"
#include "engine/session/pair/model_pair.h"
#include "engine/session/pair/run_text.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab {

/// One text read by a pair in five ways, and where the student's loss comes from. A loss is the mean of -ln p over the tokens
/// y_2 .. y_N, nats: y_1 is drawn from a prefill, by whoever makes it, and would compare prompts instead of caches.
///
/// own-weights loss  R1 - teacher: what the student loses though every entry before its token is the teacher's.
/// cache loss        none - R1: what its own entries add.
/// recovered share   (none - R) / (none - R1) of the cache loss, by a refresh every R tokens; nothing where there is no cache loss.
struct LossSplit {
    /// One way of reading; KL and acceptance of every position, by a shadow teacher.
    struct Reading {
        std::string name; ///< "teacher", "R = 1", "R = 16", "none", "alone"
        double nll = 0;
        Divergence divergence; ///< empty for "teacher", and for "alone", whose rows no teacher reads beside
    };
    int64_t tokens = 0;            ///< N - 1
    int32_t period = 0;            ///< R
    std::vector<Reading> readings; ///< in the order of the names above
    double own_weights = 0, cache = 0;
    std::optional<double> recovered;
};

/// Reads `text.given` in all five ways with the pair of a configuration; its mode, policy and sampling do not matter.
/// Throws Error{bad_input}: a text of fewer than two tokens, a pair in rebuild mode, a model that is missing.
/// \param progress  false cancels (Error "cancelled")
/// Cost: about N steps of the student four times, and of the teacher four times.
[[nodiscard]] LossSplit
split_loss(const std::shared_ptr<const ModelPair>& pair, const RunConfig& config, const RunText& text,
           int32_t period, const Execution& execution = {},
           const std::function<bool(double fraction, const std::string& what)>& progress = {});

} // namespace refreshlab
