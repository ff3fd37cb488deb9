#include "engine/landscape/landscape_export.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/landscape/best_schedule.h"
#include "engine/landscape/frontier.h"
#include "engine/landscape/npz_file.h"
#include "engine/landscape/staircase.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace refreshlab {

namespace {

using nlohmann::json;

/// What JSON lacks is null.
json number(double value) {
    return std::isfinite(value) ? json(value) : json(nullptr);
}
json number(const std::optional<double>& value) {
    return value ? number(*value) : json(nullptr);
}

/// What a summary and a table are made of.
struct Findings {
    Objective objective;
    int64_t steps;
    double teacher = 0, none = 0;
    std::vector<Schedule> best; ///< by count, from 0
    std::vector<BlindPlacement> blind;
    std::optional<Schedule> priced;
    std::optional<Staircase> walk;

    Findings(const Landscape& landscape, const LandscapeQuestions& questions)
        : objective(questions.objective)
        , steps(landscape.num_steps())
        , teacher(teacher_value(landscape, objective))
        , none(value_without_refresh(landscape, objective)) {
        if (questions.policy) walk = walk_policy(landscape, *questions.policy, objective);
        const int64_t counts =
            std::max(questions.best, walk ? static_cast<int64_t>(walk->refreshes.size()) : int64_t{0});
        best = best_schedules(landscape, counts, objective);
        for (int64_t k = 1; k <= counts; ++k) {
            if (auto placement = blind_placement(landscape, k, objective))
                blind.push_back(*std::move(placement));
        }
        if (questions.price) priced = best_at_price(landscape, *questions.price, objective);
    }
    [[nodiscard]] std::optional<double> efficiency_of(size_t refreshes, double loss) const {
        if (refreshes == 0 || refreshes >= best.size()) return std::nullopt;
        return efficiency(none, loss, best[refreshes].loss);
    }
    /// A loss of so many refreshes as a person reads it.
    [[nodiscard]] double shown(double loss, size_t refreshes) const {
        return shown_value(objective, loss, steps, static_cast<int64_t>(refreshes));
    }
    [[nodiscard]] const BlindPlacement* blind_of(size_t refreshes) const {
        const auto found =
            std::ranges::find(blind, static_cast<int64_t>(refreshes), &BlindPlacement::refreshes);
        return found == blind.end() ? nullptr : &*found;
    }
};

/// Refreshes, losses and boundaries, of a schedule or of a policy's way.
json losses_json(const Findings& found, const std::vector<int64_t>& steps, double loss) {
    json out = {{"refreshes", steps.size()},
                {"loss", number(loss)},
                {"loss_above_teacher", number(loss - found.teacher)},
                {"steps", steps}};
    if (found.objective == Objective::tokens_a_pass)
        out["tokens_a_pass"] = number(found.shown(loss, steps.size()));
    return out;
}
json schedule_json(const Findings& found, const Schedule& schedule) {
    return losses_json(found, schedule.steps, schedule.loss);
}

json policy_json(const Findings& found, const RefreshPolicy& policy) {
    const Staircase& walk = *found.walk;
    const size_t count = walk.refreshes.size();
    const BlindPlacement* blind = found.blind_of(count);
    json out = losses_json(found, walk.refreshes, walk.loss);
    out["name"] = policy.name;
    out["probes"] = walk.probes;
    out["efficiency"] = number(found.efficiency_of(count, walk.loss));
    out["blind_efficiency"] = blind ? number(found.efficiency_of(count, blind->mean_loss)) : json(nullptr);
    out["exact"] = !walk.exact_until.has_value();
    out["drafts"] = nullptr;
    if (!walk.drafts.empty()) {
        out["drafts"] = json::array();
        for (const ExpectedDraft& draft : walk.drafts)
            out["drafts"].push_back(
                {{"first", draft.first}, {"last", draft.last}, {"expected", number(draft.expected)}});
    }
    return out;
}

std::string refreshes_text(size_t count) {
    return fmt::format("{} refresh{}", count, count == 1 ? "" : "es");
}

/// A CSV cell of a number: all its digits; empty where there is none.
std::string cell(const std::optional<double>& value) {
    if (!value) return {};
    if (std::isnan(*value)) return "nan";
    if (std::isinf(*value)) return *value < 0 ? "-inf" : "inf";
    return fmt::format("{}", *value);
}

} // namespace

json landscape_summary(const Landscape& landscape, const LandscapeQuestions& questions) {
    const Findings found(landscape, questions);
    json out = {{"objective", to_string(found.objective)},
                {"unit", unit_of(found.objective)},
                {"tokens", landscape.num_tokens()},
                {"rows", landscape.rows().size()},
                {"complete", landscape.complete()},
                {"values", landscape.info().values},
                {"teacher", number(found.teacher)},
                {"none", number(found.none)},
                {"best", json::array()},
                {"blind", json::array()},
                {"hull", hull_of(found.best)},
                {"price", nullptr},
                {"policy", nullptr}};
    for (const Schedule& schedule : found.best)
        out["best"].push_back(schedule_json(found, schedule));
    for (const BlindPlacement& blind : found.blind) {
        json entry = schedule_json(found, blind.best);
        entry["stride"] = blind.stride;
        entry["phases"] = blind.phases;
        entry["mean_loss"] = number(blind.mean_loss);
        entry["worst_loss"] = number(blind.worst.loss);
        entry["worst_steps"] = blind.worst.steps;
        entry["efficiency"] =
            number(found.efficiency_of(static_cast<size_t>(blind.refreshes), blind.mean_loss));
        out["blind"].push_back(std::move(entry));
    }
    if (found.priced) {
        out["price"] = schedule_json(found, *found.priced);
        out["price"][questions.objective == Objective::loss || questions.objective == Objective::kl
                         ? "nats_per_refresh"
                         : "price_per_refresh"] = *questions.price;
    }
    if (found.walk) out["policy"] = policy_json(found, *questions.policy);
    return out;
}

std::string landscape_table(const Landscape& landscape, const LandscapeQuestions& questions) {
    const Findings found(landscape, questions);
    const bool ratio = found.objective == Objective::tokens_a_pass;
    std::string text = fmt::format("tokens {}, rows {} of {}\n", landscape.num_tokens(),
                                   landscape.rows().size(), landscape.num_rows());
    if (found.objective != Objective::loss || !questions.why.empty()) {
        text += fmt::format("objective {}: {}{}{}\n", to_string(found.objective), label_of(found.objective),
                            questions.why.empty() ? "" : "; ", questions.why);
    }
    if (found.objective == Objective::loss) {
        text += fmt::format("mean loss in nats: teacher {:.4f}, no refresh {:.4f}\n\n", found.teacher,
                            found.none);
    } else {
        text +=
            fmt::format("no refresh: {:.4f} {}\n\n", found.shown(found.none, 0), unit_of(found.objective));
    }
    const std::string_view measured = ratio ? "tokens a pass" : to_string(found.objective);
    text += "refreshes  best      blind, mean  blind, best  blind, worst  best steps\n";
    for (size_t k = 1; k < found.best.size(); ++k) {
        const BlindPlacement* blind = found.blind_of(k);
        const auto loss = [&](double value) {
            return blind ? fmt::format("{:.4f}", found.shown(value, k)) : std::string("-");
        };
        std::string steps = fmt::format("{}", fmt::join(found.best[k].steps, " "));
        if (steps.size() > 60) steps = steps.substr(0, steps.rfind(' ', 57)) + " ...";
        text += fmt::format("{:>9}  {:<8.4f}  {:<11}  {:<11}  {:<12}  {}\n", k,
                            found.shown(found.best[k].loss, k), loss(blind ? blind->mean_loss : 0),
                            loss(blind ? blind->best.loss : 0), loss(blind ? blind->worst.loss : 0), steps);
    }
    if (found.priced) {
        text += fmt::format("\nat {} {} per refresh: {}, {} {:.4f}\n", *questions.price,
                            unit_of(found.objective), refreshes_text(found.priced->steps.size()), measured,
                            found.shown(found.priced->loss, found.priced->steps.size()));
    }
    if (found.walk) {
        const size_t count = found.walk->refreshes.size();
        const auto efficiency = found.efficiency_of(count, found.walk->loss);
        text += fmt::format("\npolicy {}: {}, {} {:.4f}", questions.policy->name, refreshes_text(count),
                            measured, found.shown(found.walk->loss, count));
        if (efficiency) text += fmt::format(", efficiency {:.2f}", *efficiency);
        if (const BlindPlacement* blind = found.blind_of(count)) {
            const auto blind_efficiency = found.efficiency_of(count, blind->mean_loss);
            if (blind_efficiency) text += fmt::format(" (blind placement: {:.2f})", *blind_efficiency);
            if (found.walk->loss >= blind->mean_loss) text += "; no better than blind placement";
        }
        if (found.walk->exact_until)
            text +=
                fmt::format("; exact up to step {}, whose row was not computed", *found.walk->exact_until);
        text += '\n';
        if (const auto& drafts = found.walk->drafts; !drafts.empty()) {
            const DraftMeans means = means_of(drafts);
            text += fmt::format(
                "its drafts: {}, of {:.2f} tokens in the mean; {:.2f} of them are expected to be let "
                "out, if all before had stood\n",
                drafts.size(), means.tokens, means.expected);
        }
    }
    return text;
}

void export_landscape_npz(const Landscape& landscape, const std::filesystem::path& path) {
    const std::vector<int64_t> rows = landscape.rows();
    const int64_t steps = landscape.num_steps(), count = static_cast<int64_t>(rows.size());
    const double bytes = 4.0 * static_cast<double>(steps) * static_cast<double>(count) *
                         static_cast<double>(landscape.info().values.size());
    if (bytes > static_cast<double>(int64_t{1} << 31)) {
        throw Error("writing", path.string(),
                    fmt::format("the arrays take {:.0f} MB, and 2048 are the most", bytes / 1e6),
                    "compute a coarser landscape, or fewer values");
    }
    NpzFile file;
    const LandscapeInfo& info = landscape.info();
    file.add("prompt_ids", std::span(info.prompt_ids), {static_cast<int64_t>(info.prompt_ids.size())});
    file.add("tokens", std::span(info.tokens), {landscape.num_tokens()});
    file.add("teacher_logprob", std::span(info.teacher_logprob), {landscape.num_tokens()});
    file.add("rows", std::span(rows), {count});
    std::vector<int64_t> columns(static_cast<size_t>(steps));
    std::iota(columns.begin(), columns.end(), 1);
    file.add("steps", std::span(std::as_const(columns)), {steps});
    for (size_t v = 0; v < info.values.size(); ++v) {
        std::vector<float> cells(static_cast<size_t>(count * steps), std::numeric_limits<float>::quiet_NaN());
        for (int64_t r = 0; r < count; ++r) {
            const auto plane = landscape.plane(v, rows[static_cast<size_t>(r)]);
            std::ranges::copy(plane, cells.begin() + (r + 1) * steps - static_cast<int64_t>(plane.size()));
        }
        file.add(info.values[v], std::span(std::as_const(cells)), {count, steps});
    }
    file.write(path);
}

void export_landscape_csv(const Landscape& landscape, const std::filesystem::path& folder, int64_t best,
                          Objective objective) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) throw Error("exporting to", folder.string(), error.message());
    LandscapeQuestions questions;
    questions.best = best;
    questions.objective = objective;
    const Findings found(landscape, questions);

    std::string schedules = "kind,refreshes,loss,loss_above_teacher,efficiency,steps,objective\r\n";
    const auto line = [&](const char* kind, const Schedule& schedule) {
        schedules += fmt::format("{},{},{},{},{},{},{}\r\n", kind, schedule.steps.size(), cell(schedule.loss),
                                 cell(schedule.loss - found.teacher),
                                 cell(found.efficiency_of(schedule.steps.size(), schedule.loss)),
                                 fmt::join(schedule.steps, ";"), to_string(objective));
    };
    for (const Schedule& schedule : found.best)
        line("best", schedule);
    for (const BlindPlacement& blind : found.blind) {
        line("blind_best", blind.best);
        line("blind_worst", blind.worst);
    }
    std::string frontiers =
        "policy,signal,threshold,refreshes,loss,loss_above_teacher,efficiency,objective\r\n";
    for (const RefreshPolicy& policy : frontier_policies(landscape)) {
        for (const FrontierPoint& point : threshold_frontier(landscape, policy, 0, 64, objective)) {
            frontiers += fmt::format(
                "{},{},{},{},{},{},{},{}\r\n", policy.name, policy.triggers[0].signal, cell(point.threshold),
                point.refreshes, cell(point.loss), cell(point.loss - found.teacher),
                cell(found.efficiency_of(static_cast<size_t>(point.refreshes), point.loss)),
                to_string(objective));
        }
    }
    write_file(folder / "schedules.csv", schedules);
    write_file(folder / "frontiers.csv", frontiers);
}

} // namespace refreshlab
