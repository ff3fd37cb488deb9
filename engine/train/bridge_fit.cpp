#include "engine/train/bridge_fit.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace refreshlab {

namespace {

constexpr const char* fitting = "fitting a bridge";
constexpr std::array<double, 8> grid = {1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1};

at::TensorOptions doubles() {
    return at::TensorOptions().dtype(at::kDouble);
}

/// A text as a model's cache, its own prefill.
std::unique_ptr<KvCache> read_text(const LlamaModel& model, std::span<const int32_t> ids) {
    auto cache = model.make_cache(std::ssize(ids));
    StepInputs in;
    in.tokens = ids;
    in.origin = Origin::student_prefill;
    in.rows = Rows::none;
    static_cast<void>(model.forward().prefill(*cache, in));
    return cache;
}

} // namespace

std::vector<std::vector<int64_t>> paired_layers(int64_t teacher_layers, int64_t student_layers,
                                                LayerPairing pairing, int64_t reach) {
    RL_ASSERT(teacher_layers > 0 && student_layers > 0 && reach >= 0);
    std::vector<std::vector<int64_t>> all;
    for (int64_t l = 0; l < student_layers; ++l) {
        const double share =
            student_layers > 1 ? static_cast<double>(l) / static_cast<double>(student_layers - 1) : 1;
        const int64_t middle = pairing == LayerPairing::last
                                   ? std::max<int64_t>(l + teacher_layers - student_layers, 0)
                                   : std::llround(share * static_cast<double>(teacher_layers - 1));
        std::vector<int64_t>& from = all.emplace_back();
        for (int64_t m = std::max<int64_t>(middle - reach, 0);
             m <= std::min(middle + reach, teacher_layers - 1); ++m)
            from.push_back(m);
    }
    return all;
}

int64_t BridgeFit::InputSet::width(const ModelConfig& teacher) const {
    return std::ssize(from) * teacher.num_kv_heads * teacher.head_dim * ((keys ? 1 : 0) + (values ? 1 : 0));
}

BridgeFit::BridgeFit(const LlamaModel& teacher, const LlamaModel& student, BridgeInputs inputs,
                     std::vector<std::vector<int64_t>> from)
    : m_teacher(teacher)
    , m_student(student)
    , m_inputs(inputs)
    , m_from(std::move(from)) {
    RL_ASSERT(std::ssize(m_from) == student.config().num_layers);
    RL_ASSERT(teacher.device().is_cpu() && student.device().is_cpu());
    for (const auto& layers : m_from) {
        for (const bool of_values : {false, true}) {
            const bool both = inputs == BridgeInputs::both;
            const InputSet set{layers, both || !of_values, both || of_values};
            const auto known = std::ranges::find(m_sets, set);
            m_set_of.push_back(static_cast<size_t>(known - m_sets.begin()));
            if (known == m_sets.end()) m_sets.push_back(set);
        }
    }
    const int64_t out = student.config().num_kv_heads * student.config().head_dim;
    for (Sums& sums : m_sums) {
        for (const InputSet& set : m_sets) {
            const int64_t in = set.width(teacher.config());
            sums.inputs.push_back({at::zeros({in}, doubles()), at::zeros({in, in}, doubles())});
        }
        for (const size_t set : m_set_of)
            sums.outputs.push_back({at::zeros({out}, doubles()), at::zeros({out}, doubles()),
                                    at::zeros({m_sets[set].width(teacher.config()), out}, doubles())});
    }
}

void BridgeFit::add(std::span<const int32_t> ids, bool held_out) {
    const c10::InferenceMode guard;
    const auto of_teacher = read_text(m_teacher, ids), of_student = read_text(m_student, ids);
    const int64_t n = std::ssize(ids);
    Sums& sums = m_sums[held_out ? 1 : 0];
    sums.rows += n;
    std::vector<at::Tensor> inputs; // [n, inputs] of each set
    for (size_t i = 0; i < m_sets.size(); ++i) {
        std::vector<at::Tensor> keys, values;
        for (const int64_t layer : m_sets[i].from) {
            EntryRows rows = entry_rows(m_teacher, *of_teacher, layer, 0, n);
            if (m_sets[i].keys) keys.push_back(std::move(rows.keys));
            if (m_sets[i].values) values.push_back(std::move(rows.values));
        }
        keys.insert(keys.end(), values.begin(), values.end());
        const at::Tensor x = at::cat(keys, 1).to(at::kDouble);
        sums.inputs[i].sum += x.sum(0);
        sums.inputs[i].products.addmm_(x.t(), x);
        inputs.push_back(x);
    }
    for (size_t map = 0; map < m_set_of.size(); ++map) {
        const EntryRows rows = entry_rows(m_student, *of_student, static_cast<int64_t>(map / 2), 0, n);
        const at::Tensor y = (map % 2 == 0 ? rows.keys : rows.values).to(at::kDouble);
        OutputSums& out = sums.outputs[map];
        out.sum += y.sum(0);
        out.squares += y.square().sum(0);
        out.products.addmm_(inputs[m_set_of[map]].t(), y);
    }
}

int64_t BridgeFit::positions_needed() const {
    int64_t most = 0;
    for (const InputSet& set : m_sets)
        most = std::max(most, set.width(m_teacher.config()));
    return most + 1;
}

std::span<const double> BridgeFit::lambda_grid() {
    return grid;
}

std::optional<BridgeFit::Solution> BridgeFit::solve_map(size_t map, double lambda) const {
    const Sums& sums = m_sums[0];
    const InputSums& in = sums.inputs[m_set_of[map]];
    const OutputSums& out = sums.outputs[map];
    const auto n = static_cast<double>(sums.rows);
    const at::Tensor x_mean = in.sum / n, y_mean = out.sum / n;
    at::Tensor left = in.products / n - at::outer(x_mean, x_mean);
    const at::Tensor right = out.products / n - at::outer(x_mean, y_mean);
    // An input that never changes has no variance, and gets weight 0.
    const at::Tensor variance = left.diagonal().clone(), floor = variance.max() * 1e-12;
    left.diagonal().add_(at::where(variance > floor, variance * lambda, at::ones_like(variance)));
    const auto [factor, info] = at::linalg_cholesky_ex(left);
    if (info.item<int32_t>() != 0) return std::nullopt;
    Solution solution;
    solution.weight = at::cholesky_solve(right, factor).t().contiguous();
    solution.bias = y_mean - at::mv(solution.weight, x_mean);
    if (!at::isfinite(solution.weight).all().item<bool>()) return std::nullopt;
    solution.fit.lambda = lambda;
    solution.fit.fitted = explained(m_sums[0], map, solution);
    solution.fit.held_out = explained(m_sums[1], map, solution);
    return solution;
}

/// Error and variance from the sums alone: no row is looked at again.
double BridgeFit::explained(const Sums& sums, size_t map, const Solution& solution) const {
    const InputSums& in = sums.inputs[m_set_of[map]];
    const OutputSums& out = sums.outputs[map];
    const auto n = static_cast<double>(sums.rows);
    const at::Tensor &w = solution.weight, &b = solution.bias;
    const at::Tensor error = out.squares.sum() - 2 * (w.t() * out.products).sum() - 2 * b.dot(out.sum) +
                             (at::mm(w, in.products) * w).sum() + 2 * b.dot(at::mv(w, in.sum)) + n * b.dot(b);
    const at::Tensor variance = out.squares.sum() - out.sum.square().sum() / n;
    return 1 - (error / variance).item<double>();
}

BridgeFit::Result BridgeFit::solve(std::optional<double> lambda) const {
    const c10::InferenceMode guard;
    if (positions(false) < positions_needed())
        throw Error(fitting, "the texts",
                    fmt::format("have {} positions to fit on, and maps of {} inputs need {} at least",
                                positions(false), positions_needed() - 1, positions_needed()),
                    "give more or longer texts, or maps with fewer inputs (--inputs own, --reach 0)");
    if (positions(true) == 0) throw Error(fitting, "the texts", "leave none to judge on", "give more");
    Result result;
    result.bridge.inputs = m_inputs;
    const std::span<const double> tried = lambda ? std::span<const double>(&*lambda, 1) : grid;
    std::array<Solution, 2> best;
    for (size_t map = 0; map < m_set_of.size(); ++map) {
        std::optional<Solution> chosen;
        for (const double one : tried) {
            auto solution = solve_map(map, one);
            if (solution && (!chosen || solution->fit.held_out > chosen->fit.held_out))
                chosen = std::move(solution);
        }
        if (!chosen)
            throw Error(fitting, fmt::format("the {} of layer {}", map % 2 == 0 ? "keys" : "values", map / 2),
                        "the equations have no solution",
                        lambda ? "give a larger --lambda" : "give other texts");
        best[map % 2] = *std::move(chosen);
        if (map % 2 == 0) continue;
        const auto stored = [](const at::Tensor& tensor) { return tensor.to(at::kFloat).contiguous(); };
        result.bridge.layers.push_back({m_from[map / 2], stored(best[0].weight), stored(best[1].weight),
                                        stored(best[0].bias), stored(best[1].bias)});
        result.layers.push_back({best[0].fit, best[1].fit});
    }
    return result;
}

} // namespace refreshlab
