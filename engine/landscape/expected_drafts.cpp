#include "engine/landscape/expected_drafts.h"

#include "engine/base/check.h"
#include "engine/landscape/objective.h"

#include <fmt/format.h>

namespace refreshlab {

std::vector<ExpectedDraft> expected_drafts(const Landscape& landscape, std::span<const int64_t> refreshes,
                                           std::span<const int64_t> rows) {
    RL_ASSERT(tells(landscape.info().values, Objective::tokens_a_pass));
    const size_t value = *landscape.value_index(value_of(Objective::tokens_a_pass));
    std::vector<ExpectedDraft> drafts;
    const auto draft = [&](int64_t first, int64_t last) {
        if (first >= last) return;
        const int64_t row = rows[static_cast<size_t>(first)]; // of step first + 1
        DraftRun run;
        ExpectedDraft one{first, last, 0};
        for (int64_t step = first + 1; step <= last; ++step)
            one.expected += run.next(static_cast<double>(landscape.cell(value, row, step)));
        drafts.push_back(one);
    };
    int64_t first = 0;
    for (const int64_t boundary : refreshes) {
        draft(first, boundary);
        first = boundary;
    }
    draft(first, landscape.num_steps());
    return drafts;
}

DraftMeans means_of(std::span<const ExpectedDraft> drafts) {
    DraftMeans means;
    for (const ExpectedDraft& draft : drafts) {
        means.expected += draft.expected;
        means.tokens += static_cast<double>(draft.tokens());
    }
    if (const auto n = static_cast<double>(drafts.size()); n > 0) {
        means.expected /= n;
        means.tokens /= n;
    }
    return means;
}

std::string why_no_drafts(std::span<const std::string> values, const RefreshPolicy& policy) {
    if (policy.on_fire != OnFire::verify) return {};
    if (policy.verify.rule != VerifyRule::exact) {
        return fmt::format("it verifies by rule {}, and a landscape's cells hold what rule exact accepts",
                           to_string(policy.verify.rule));
    }
    if (!policy.verify.splice)
        return "it verifies without a splice: the student keeps its own entries, so a refresh changes "
               "nothing";
    if (policy.verify.target)
        return "its threshold follows the share of tokens that stays (verify.target), and on a given text "
               "nothing is rejected";
    if (const std::string why = why_untold(values, Objective::tokens_a_pass); !why.empty())
        return fmt::format("it verifies, and {} (compute it with that value)", why);
    return {};
}

} // namespace refreshlab
