#include "engine/landscape/best_schedule.h"

#include "engine/base/check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace refreshlab {

namespace {

constexpr double unreachable = std::numeric_limits<double>::infinity();
constexpr size_t none_before = static_cast<size_t>(-1);

/// c(a, b) of one row at the boundaries that follow in the list, and to the end of the text.
struct RowCosts {
    std::vector<double> to; ///< [rows]: 0 at the row itself and before it
    double to_end = 0;
};
RowCosts costs_of(const Landscape& landscape, std::span<const int64_t> rows, size_t a, Objective objective) {
    RowCosts costs;
    CellCosts cells(landscape, objective);
    cells.enter(rows[a]);
    costs.to.assign(rows.size(), 0);
    size_t next = a + 1;
    double sum = 0;
    for (int64_t step = rows[a] + 1; step <= landscape.num_steps(); ++step) {
        sum += cells.next(step);
        if (next < rows.size() && rows[next] == step) costs.to[next++] = sum;
    }
    costs.to_end = sum;
    return costs;
}

/// The least cost of standing at each row after m refreshes, and where it came from.
struct Reach {
    std::vector<double> cost;
    std::vector<size_t> from;
    explicit Reach(size_t rows)
        : cost(rows, unreachable)
        , from(rows, none_before) {}
};

} // namespace

std::vector<Schedule> best_schedules(const Landscape& landscape, int64_t max_refreshes, Objective objective) {
    const std::vector<int64_t> rows = landscape.rows();
    RL_ASSERT(!rows.empty() && rows.front() == 0 && max_refreshes >= 0);
    const auto counts =
        static_cast<size_t>(std::min<int64_t>(max_refreshes, static_cast<int64_t>(rows.size()) - 1) + 1);
    std::vector<Reach> reach(counts, Reach(rows.size()));
    reach[0].cost[0] = 0;
    struct End {
        double cost = unreachable;
        size_t row = 0;
    };
    std::vector<End> ends(counts);
    // Rows ascending: what reaches a row is known when the row is left, and its costs are needed once.
    for (size_t a = 0; a < rows.size(); ++a) {
        const RowCosts costs = costs_of(landscape, rows, a, objective);
        for (size_t m = 0; m < counts; ++m) {
            const double here = reach[m].cost[a];
            if (here == unreachable) continue;
            if (here + costs.to_end < ends[m].cost) ends[m] = {here + costs.to_end, a};
            if (m + 1 == counts) continue;
            Reach& next = reach[m + 1];
            for (size_t b = a + 1; b < rows.size(); ++b) {
                const double cost = here + costs.to[b];
                if (cost >= next.cost[b]) continue;
                next.cost[b] = cost;
                next.from[b] = a;
            }
        }
    }
    std::vector<Schedule> best;
    for (size_t m = 0; m < counts; ++m) {
        if (ends[m].cost == unreachable) break; // a loss that is not finite stands on every way
        Schedule schedule;
        size_t row = ends[m].row;
        for (size_t left = m; left > 0; --left) {
            schedule.steps.push_back(rows[row]);
            row = reach[left].from[row];
        }
        std::ranges::reverse(schedule.steps);
        schedule.loss = ends[m].cost / static_cast<double>(landscape.num_steps());
        best.push_back(std::move(schedule));
    }
    return best;
}

const Schedule& best_of_at_most(std::span<const Schedule> best, size_t k) {
    RL_ASSERT(!best.empty());
    return *std::ranges::min_element(best.first(std::min(k + 1, best.size())), {}, &Schedule::loss);
}

Schedule best_at_price(const Landscape& landscape, double price, Objective objective) {
    const std::vector<int64_t> rows = landscape.rows();
    RL_ASSERT(!rows.empty() && rows.front() == 0);
    Reach reach(rows.size());
    reach.cost[0] = 0;
    double least = unreachable;
    size_t last = 0;
    for (size_t a = 0; a < rows.size(); ++a) {
        const RowCosts costs = costs_of(landscape, rows, a, objective);
        const double here = reach.cost[a];
        if (here + costs.to_end < least) {
            least = here + costs.to_end;
            last = a;
        }
        for (size_t b = a + 1; b < rows.size(); ++b) {
            const double cost = here + costs.to[b] + price;
            if (cost >= reach.cost[b]) continue;
            reach.cost[b] = cost;
            reach.from[b] = a;
        }
    }
    Schedule schedule;
    for (size_t row = last; row != 0 && row != none_before; row = reach.from[row])
        schedule.steps.push_back(rows[row]);
    std::ranges::reverse(schedule.steps);
    schedule.loss = (least - price * static_cast<double>(schedule.steps.size())) /
                    static_cast<double>(landscape.num_steps());
    return schedule;
}

std::vector<size_t> hull_of(std::span<const Schedule> best) {
    std::vector<size_t> hull;
    for (size_t k = 0; k < best.size(); ++k) {
        while (hull.size() > 1) { // the corner before goes if it does not lie below the line past it
            const size_t a = hull[hull.size() - 2], b = hull.back();
            const double there = (best[b].loss - best[a].loss) * static_cast<double>(k - a),
                         here = (best[k].loss - best[a].loss) * static_cast<double>(b - a);
            if (there < here) break;
            hull.pop_back();
        }
        hull.push_back(k);
    }
    // Beyond the least loss no price below zero counts.
    while (hull.size() > 1 && best[hull.back()].loss >= best[hull[hull.size() - 2]].loss)
        hull.pop_back();
    return hull;
}

std::optional<BlindPlacement> blind_placement(const Landscape& landscape, int64_t refreshes,
                                              Objective objective) {
    const int64_t boundaries = landscape.num_rows() - 1; // 1 .. N - 2
    if (refreshes < 1 || refreshes > boundaries) return std::nullopt;
    BlindPlacement blind;
    blind.refreshes = refreshes;
    blind.stride = boundaries / refreshes;
    for (int64_t phase = 1; phase <= blind.stride; ++phase) {
        Schedule schedule;
        for (int64_t i = 0; i < refreshes; ++i)
            schedule.steps.push_back(phase + i * blind.stride);
        if (!std::ranges::all_of(schedule.steps, [&](int64_t j) { return landscape.has_row(j); })) continue;
        schedule.loss = walk_schedule(landscape, schedule.steps, objective).loss;
        blind.mean_loss += schedule.loss;
        if (blind.phases == 0 || schedule.loss < blind.best.loss) blind.best = schedule;
        if (blind.phases == 0 || schedule.loss > blind.worst.loss) blind.worst = std::move(schedule);
        ++blind.phases;
    }
    if (blind.phases == 0) return std::nullopt;
    blind.mean_loss /= static_cast<double>(blind.phases);
    return blind;
}

std::optional<double> efficiency(double none, double loss, double best) {
    if (!(best < none)) return std::nullopt;
    return (none - loss) / (none - best);
}

} // namespace refreshlab
