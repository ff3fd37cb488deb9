#pragma once

#include "engine/study/measure/scope_shares.h"
#include "engine/study/studies/study_table.h"

#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab {

/// Layers that are refreshed alone, a third of them: gains on one text, nats a token.
struct LayerChoice {
    double own = 0;       ///< the best on this text
    double others = 0;    ///< the best on the other texts
    double at_random = 0; ///< the mean of some draws
};

/// All texts, as one student reads them.
struct StudentScopes {
    std::string student;              ///< derive_name()
    std::vector<std::string> texts;   ///< names
    std::vector<ScopeShares> shares;  ///< one a text; not empty
    std::vector<LayerChoice> carried; ///< one a text; empty: there is one text alone
};

/// Tables of the study of scopes. Shares are of what the whole refreshes gain, sum over sum; intervals are 95 % bootstrap intervals over texts. A
/// share has none where some draw of the texts gains nothing.
///   table      keys, values, thirds of the layers, quarters of delta: gain and share
///   positions  a quarter of the positions by each score, beside positions at random; rank correlation of each score with what a position gains
///   carry      a third of the layers, chosen on the text itself, on the other texts, at random
/// The figure has the share of every layer.
[[nodiscard]] StudyResult scope_study_tables(const std::vector<StudentScopes>& all, uint64_t seed);

} // namespace refreshlab
