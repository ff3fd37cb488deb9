#include "engine/base/error.h"
#include "engine/results/sweep_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>

namespace refreshlab {

namespace {

namespace fs = std::filesystem;

constexpr const char* mix_hint =
    "merge the shards of each kernel set by themselves, or put all into one table with "
    "--mixed-kernels";

std::string names(const std::vector<std::string>& kernels) {
    return kernels.empty() ? "of an earlier program" : fmt::format("{}", fmt::join(kernels, ", "));
}

/// The first thing in which two sweeps differ, for a person.
std::string difference(const SweepPlan& a, const SweepPlan& b) {
    if (a.models.teacher != b.models.teacher) return "their teachers are different models";
    if (a.models.student != b.models.student) return "their students are different models";
    if (a.models.device != b.models.device)
        return fmt::format("one was made on {}, the other on {}: they round differently", a.models.device,
                           b.models.device);
    if (a.digest(false) == b.digest(false))
        return fmt::format(
            "one was computed with the kernel set {}, the other with {}: they round differently",
            names(a.kernels), names(b.kernels));
    if (a.rows != b.rows)
        return fmt::format("their specs give different rows ({} and {})", a.rows.size(), b.rows.size());
    if (a.prompts != b.prompts)
        return fmt::format("their specs give different prompts ({} and {})", a.prompts.size(),
                           b.prompts.size());
    if (a.cells != b.cells) return "their specs give different runs";
    return "their specs differ in name, timing or bootstrap";
}

/// Where a result belongs, for a person.
std::string place(const SweepPlan& plan, const std::string& id) {
    const auto cell =
        std::find_if(plan.cells.begin(), plan.cells.end(), [&](const SweepCell& c) { return c.id == id; });
    if (cell == plan.cells.end()) return "a run of an earlier spec";
    return fmt::format("{}, prompt {}, seed {}", plan.rows[cell->row].label, cell->prompt, cell->seed);
}

/// Bit for bit in all that no clock measures: what a digest stands for.
bool same_numbers(const MetricValues& a, const MetricValues& b) {
    for (size_t i = 0; i < num_metrics; ++i) {
        if (metric_infos[i].measured || metric_infos[i].summary.empty()) continue;
        if (a[i].has_value() != b[i].has_value()) return false;
        if (a[i] && std::bit_cast<uint64_t>(*a[i]) != std::bit_cast<uint64_t>(*b[i])) return false;
    }
    return true;
}

auto measured(const SweepTimingResult& t) {
    return std::tuple(t.total_ms, t.ttft_ms, t.none_total_ms, t.decode_tps, t.tokens);
}

/// All that was read so far; of several measurements of one run the smallest in a fixed order, whatever came first.
class Joined {
public:
    explicit Joined(const SweepPlan& plan)
        : m_plan(plan) {}

    void add(SweepStore& store) {
        for (SweepResult& result : store.all_results()) {
            const auto [place_of, fresh] = m_results.try_emplace(result.id, result);
            if (fresh) {
                m_source[result.id] = store.path().string();
                continue;
            }
            SweepResult& known = place_of->second;
            if (known.digest != result.digest) {
                if (m_conflicts++ < max_shown) {
                    m_shown +=
                        fmt::format("{}{} (in {} and {})", m_shown.empty() ? "" : "; ",
                                    place(m_plan, result.id), m_source[result.id], store.path().string());
                }
            } else if (!same_numbers(result.metrics, known.metrics)) {
                if (m_disputed++ < max_shown) {
                    m_disputed_shown +=
                        fmt::format("{}{} (in {} and {})", m_disputed_shown.empty() ? "" : "; ",
                                    place(m_plan, result.id), m_source[result.id], store.path().string());
                }
            } else if (std::tie(result.summary, result.config) < std::tie(known.summary, known.config)) {
                known = std::move(result);
            }
        }
        for (const SweepTimingResult& timing : store.all_timings()) {
            const auto [place_of, fresh] = m_timings.try_emplace({timing.id, timing.pair}, timing);
            if (!fresh && measured(timing) < measured(place_of->second)) place_of->second = timing;
        }
    }

    void require_agreement() const {
        if (m_conflicts == 0) return;
        throw Error("merging sweeps", {},
                    fmt::format("{} run{} different results in different files: {}{}", m_conflicts,
                                m_conflicts == 1 ? " has" : "s have", m_shown,
                                m_conflicts > max_shown ? "; ..." : ""),
                    "made by different programs or machines? Run one of the shards again into a new file");
    }

    [[nodiscard]] std::string disputed() const {
        if (m_disputed == 0) return {};
        return fmt::format(
            "{} run{} the same digest and other numbers in different files, of which one was changed; the "
            "first file's are kept: {}{}",
            m_disputed, m_disputed == 1 ? " has" : "s have", m_disputed_shown,
            m_disputed > max_shown ? "; ..." : "");
    }
    [[nodiscard]] bool has(const std::string& id) const { return m_results.contains(id); }
    [[nodiscard]] std::vector<SweepResult> results() const { return values(m_results); }
    [[nodiscard]] std::vector<SweepTimingResult> timings() const { return values(m_timings); }

private:
    static constexpr int64_t max_shown = 5;
    template <typename Map>
    static std::vector<typename Map::mapped_type> values(const Map& map) {
        std::vector<typename Map::mapped_type> list;
        for (const auto& [key, value] : map)
            list.push_back(value);
        return list;
    }

    const SweepPlan& m_plan;
    std::map<std::string, SweepResult> m_results;
    std::map<std::pair<std::string, int32_t>, SweepTimingResult> m_timings;
    std::map<std::string, std::string> m_source; ///< by id: the file of the first
    int64_t m_conflicts = 0, m_disputed = 0;
    std::string m_shown, m_disputed_shown;
};

/// Tells files whose runs say with which kernel set they were made from files whose runs do not.
class KernelsKnown {
public:
    void see(SweepStore& store) {
        for (const std::string& set : store.kernel_sets()) {
            std::string& first = set.empty() ? m_silent : m_named;
            if (!first.empty()) continue;
            first = store.path().string();
            if (!set.empty()) m_set = set;
        }
        ++m_files;
    }
    /// Throws Error{bad_input} if there are both.
    void require_all_or_none() const {
        if (m_files < 2 || m_silent.empty() || m_named.empty()) return;
        throw Error(
            "merging sweeps", m_silent,
            fmt::format(
                "its runs do not say with which kernel set they were made (an earlier program's), and those "
                "in {} were made with {}: they may round differently",
                m_named, m_set),
            "merge with --mixed-kernels if both machines have the same");
    }

private:
    std::string m_silent, m_named, m_set; ///< first file of each kind
    int m_files = 0;
};

/// One plan for shards of one grid that were computed with different kernel sets: each cell under the id that has a result,
/// the first file's where several have one.
SweepPlan mixed_plan(const std::vector<SweepPlan>& plans, const Joined& joined) {
    SweepPlan plan = plans.front();
    for (size_t i = 0; i < plan.cells.size(); ++i) {
        const auto found = std::find_if(plans.begin(), plans.end(), [&](const SweepPlan& other) {
            return joined.has(other.cells[i].id);
        });
        if (found != plans.end()) plan.cells[i].id = found->cells[i].id;
    }
    std::set<std::string> kernels;
    for (const SweepPlan& other : plans)
        kernels.insert(other.kernels.begin(), other.kernels.end());
    plan.kernels.assign(kernels.begin(), kernels.end());
    return plan;
}

} // namespace

std::string merge_sweeps(const fs::path& out, const std::vector<fs::path>& inputs, KernelMix kernels) {
    std::vector<fs::path> files;
    std::error_code ignored;
    if (fs::exists(out, ignored)) files.push_back(out);
    files.insert(files.end(), inputs.begin(), inputs.end());
    if (files.empty())
        throw Error("merging sweeps", out.string(), "no such file, and nothing to merge into it");
    const bool mixed = kernels == KernelMix::allow;
    std::vector<SweepPlan> plans; // of each file
    plans.reserve(files.size());  // `joined` speaks of the first
    std::optional<Joined> joined;
    KernelsKnown known;
    for (const fs::path& file : files) {
        const auto store = SweepStore::open_existing(file, true);
        plans.push_back(store->plan());
        if (!joined) joined.emplace(plans.front());
        const SweepPlan &first = plans.front(), &plan = plans.back();
        const bool same_grid = plan.digest(false) == first.digest(false);
        if (mixed ? !same_grid : plan.digest() != first.digest()) {
            throw Error(
                "merging sweeps", file.string(),
                fmt::format("it does not belong to {}: {}", files.front().string(), difference(first, plan)),
                same_grid ? mix_hint : "merge shards of one spec");
        }
        known.see(*store);
        joined->add(*store);
    }
    if (!mixed) known.require_all_or_none();
    joined->require_agreement();
    const SweepPlan plan = mixed_plan(plans, *joined);
    SweepStore::open(out, plan)->replace(joined->results(), joined->timings());
    return joined->disputed();
}

} // namespace refreshlab
