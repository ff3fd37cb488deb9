#include "engine/record/export/draft_numbers.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace refreshlab {

namespace {

void count(const DraftEvent& draft, DraftNumbers& n) {
    const auto accepted = static_cast<size_t>(draft.accepted());
    ++n.drafts;
    n.drafted += static_cast<int64_t>(draft.tokens.size());
    n.tokens += draft.accepted() + (draft.instead >= 0 ? 1 : 0);
    if (n.accepted_lengths.size() <= accepted) n.accepted_lengths.resize(accepted + 1, 0);
    ++n.accepted_lengths[accepted];
    for (size_t i = 0; i < std::min(accepted + 1, draft.tokens.size()); ++i) {
        const DraftToken& token = draft.tokens[i];
        if (n.places.size() <= i) n.places.resize(i + 1);
        if (is_absent(token.expected)) continue; // given by hand
        ++n.places[i].judged;
        n.places[i].accepted += token.stays ? 1 : 0;
        n.places[i].expected += static_cast<double>(token.expected);
    }
}

/// Mean milliseconds of a step without its teacher passes and splices; those that were rejected included.
double student_step_ms(const Recording& r, double rejected_ms, int64_t rejected) {
    double sum = rejected_ms;
    int64_t steps = rejected;
    for (int64_t t = 1; t <= r.steps(); ++t) {
        const StepRecord& record = r.step(t);
        if (!record.fed) continue;
        ++steps;
        for (const Part part :
             {Part::model, Part::attention, Part::signals, Part::mc, Part::sample, Part::other})
            sum += static_cast<double>(record.part_ms[static_cast<size_t>(part)]);
    }
    return steps > 0 ? sum / static_cast<double>(steps) : 0;
}

} // namespace

std::optional<DraftNumbers> draft_numbers(const Recording& recording) {
    const auto& drafts = recording.drafts();
    if (drafts.empty()) return std::nullopt;
    DraftNumbers n;
    double teacher_ms = 0, rejected_ms = 0;
    int64_t rejected = 0;
    for (size_t i = 0, count_of = drafts.size(); i < count_of; ++i) {
        const DraftEvent& draft = drafts[i];
        count(draft, n);
        teacher_ms += draft.teacher_ms;
        rejected_ms += draft.rejected_ms;
        rejected += draft.rejected_read;
    }
    double expected = 0;
    for (const auto& place : n.places) {
        n.judged += place.judged;
        n.accepted += place.accepted;
        expected += place.expected;
    }
    const auto count_of = static_cast<double>(n.drafts);
    n.tokens_per_pass = static_cast<double>(n.tokens) / count_of;
    if (n.judged == 0) return n;
    n.acceptance = static_cast<double>(n.accepted) / static_cast<double>(n.judged);
    n.expected = expected / static_cast<double>(n.judged);

    const double pass_ms = teacher_ms / count_of, step_ms = student_step_ms(recording, rejected_ms, rejected);
    if (!(pass_ms > 0) || !std::isfinite(pass_ms) || !std::isfinite(step_ms)) return n;
    n.cost_ratio = step_ms / pass_ms;
    const double a = *n.acceptance, g = static_cast<double>(n.drafted) / count_of;
    const double tokens = a < 1 ? (1 - std::pow(a, g)) / (1 - a) : g;
    n.predicted_speed_up = tokens / (g * *n.cost_ratio + 1);
    const int64_t all = recording.num_tokens();
    if (all < 2) return n;
    const double decode_ms = recording.step(all - 1).arrival_ms - recording.info().ttft_ms;
    if (decode_ms > 0) n.speed_up = static_cast<double>(all - 1) * pass_ms / decode_ms;
    return n;
}

nlohmann::json to_json(const DraftNumbers& numbers) {
    const auto number = [](const std::optional<double>& value) {
        return value && std::isfinite(*value) ? nlohmann::json(*value) : nlohmann::json(nullptr);
    };
    nlohmann::json places = nlohmann::json::array();
    for (const auto& place : numbers.places) {
        const auto judged = static_cast<double>(place.judged);
        const auto share = [&](double of) {
            return place.judged > 0 ? nlohmann::json(of / judged) : nlohmann::json(nullptr);
        };
        places.push_back({{"judged", place.judged},
                          {"acceptance", share(static_cast<double>(place.accepted))},
                          {"expected", share(place.expected)}});
    }
    return {{"drafts", numbers.drafts},
            {"drafted", numbers.drafted},
            {"judged", numbers.judged},
            {"accepted", numbers.accepted},
            {"acceptance", number(numbers.acceptance)},
            {"expected_acceptance", number(numbers.expected)},
            {"by_place", std::move(places)},
            {"accepted_lengths", numbers.accepted_lengths},
            {"tokens_per_pass", number(numbers.tokens_per_pass)},
            {"cost_ratio", number(numbers.cost_ratio)},
            {"speed_up", number(numbers.speed_up)},
            {"predicted_speed_up", number(numbers.predicted_speed_up)}};
}

} // namespace refreshlab
