#include "engine/session/landscape/row_block.h"

#include "engine/base/check.h"
#include "engine/model/forward/captures.h"
#include "engine/model/forward/layer_hooks.h"
#include "engine/model/forward/mc_rows.h"
#include "engine/signals/registry.h"
#include "kernels/ops/column_distance.h"
#include "kernels/ops/row_overlap.h"
#include "kernels/ops/row_summary.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace refreshlab {

namespace {

/// One step of a block, inside the layers: every row stands at the same position, sees the teacher's columns up to its own row,
/// and then its tail.
class TailRows final : public LayerHooks {
public:
    /// \param visible  per row of the pass: L + j, the teacher's columns that it sees
    /// \param tails    [rows, m]: AttentionInputs::tails, the column of this step included
    /// \param measured the first rows, whose attention entropy is wanted
    TailRows(const ModelConfig& config, int64_t position, std::vector<int64_t> visible, at::Tensor tails,
             size_t measured)
        : m_config(config)
        , m_position(position)
        , m_visible(std::move(visible))
        , m_tails(std::move(tails)) {
        for (size_t r = 0; r < measured; ++r)
            m_entropy.push_back(std::make_unique<AttentionEntropy>(config, position));
    }

    void place(std::span<RowPlace> rows) override {
        RL_ASSERT(rows.size() == m_visible.size());
        for (size_t r = 0; r < rows.size(); ++r)
            rows[r] = {m_position, m_position, m_visible[r]};
    }
    [[nodiscard]] LayerTaps taps(int64_t) const override {
        LayerTaps taps;
        if (!m_entropy.empty()) taps.attention_from = 0;
        return taps;
    }
    void attend(int64_t layer, kernels::AttentionInputs& inputs) override {
        inputs.tails = m_tails;
        if (const int64_t window = m_config.window(layer); window > 0) {
            m_first.assign(m_visible.size(), std::max<int64_t>(m_position - window + 1, 0));
            inputs.first_visible = m_first;
        }
    }
    void observe(const LayerView& view) override {
        if (m_entropy.empty() || !view.attention.defined()) return;
        LayerView one = view;
        one.positions = std::span(&m_position, 1);
        for (size_t r = 0; r < m_entropy.size(); ++r) {
            one.attention = view.attention.narrow(0, static_cast<int64_t>(r), 1);
            m_entropy[r]->observe(one);
        }
    }
    /// [layers] of a row; empty where it was not asked for.
    [[nodiscard]] std::span<const float> entropy(size_t row) const {
        return m_entropy.empty() ? std::span<const float>() : std::span<const float>(m_entropy[row]->bits());
    }

private:
    const ModelConfig& m_config;
    int64_t m_position;
    std::vector<int64_t> m_visible;
    at::Tensor m_tails;
    std::vector<int64_t> m_first;
    std::vector<std::unique_ptr<AttentionEntropy>> m_entropy; ///< empty: not asked for
};

/// AttentionInputs::tails of n rows and of the MC rows behind them, `samples` for each: an MC row has its row's tail with a column
/// of its own in the last place. -1 behind the end of each list.
/// \param first  column of the pass's first row
at::Tensor tails_of(const std::vector<std::vector<int64_t>>& tails, size_t n, size_t samples, int64_t first) {
    size_t longest = 0;
    for (size_t r = 0; r < n; ++r)
        longest = std::max(longest, tails[r].size());
    const auto rows = static_cast<int64_t>(n * (1 + samples));
    at::Tensor tensor = at::full({rows, static_cast<int64_t>(longest)}, -1, at::kLong);
    auto* out = tensor.mutable_data_ptr<int64_t>();
    for (size_t r = 0; r < n; ++r)
        std::ranges::copy(tails[r], out + r * longest);
    for (size_t i = 0; i < n * samples; ++i) {
        const auto& tail = tails[i / samples];
        auto* const row = out + (n + i) * longest;
        std::ranges::copy(tail, row);
        row[tail.size() - 1] = first + static_cast<int64_t>(n + i);
    }
    return tensor;
}

/// Mean over the layers of the relative distances of K and of V, for each of n columns from `first` on, against the teacher's
/// column of `position` (session/parts/splice.h measures the same at a refresh).
std::vector<double> drift_of(const KvCache& cache, int64_t first, int64_t n, int64_t position) {
    const at::Tensor keys = cache.keys(first, n), values = cache.values(first, n);
    const auto k = kernels::column_distance(keys, cache.keys(position, 1).expand(keys.sizes()));
    const auto v = kernels::column_distance(values, cache.values(position, 1).expand(values.sizes()));
    const auto layers = k.relative.size(0);
    const at::Tensor dense_k = k.relative.contiguous(), dense_v = v.relative.contiguous();
    std::vector<double> drift;
    for (int64_t i = 0; i < n; ++i) {
        double sum = 0;
        for (int64_t layer = 0; layer < layers; ++layer) {
            sum += static_cast<double>(dense_k.const_data_ptr<float>()[layer * n + i]) +
                   static_cast<double>(dense_v.const_data_ptr<float>()[layer * n + i]);
        }
        drift.push_back(sum / (2.0 * static_cast<double>(layers)));
    }
    return drift;
}

/// KL(teacher || student), one teacher row against n student rows.
std::vector<double> kl_of(const at::Tensor& teacher_row, const at::Tensor& student_rows) {
    const int64_t n = student_rows.size(0);
    std::vector<int64_t> against(static_cast<size_t>(n));
    std::iota(against.begin(), against.end(), 0);
    kernels::RowAsk ask;
    ask.kl_against = student_rows;
    ask.kl_rows = against;
    const at::Tensor teacher =
        teacher_row.to(student_rows.device()).unsqueeze(0).expand({n, -1}).contiguous();
    std::vector<double> kl;
    for (const kernels::RowSummary& row : kernels::summarize_rows(teacher, ask))
        kl.push_back(row.kl_nats);
    return kl;
}

/// Acceptance and equal choices, one teacher row against n student rows.
std::vector<kernels::RowOverlap> overlap_of(const at::Tensor& teacher_row, const at::Tensor& student_rows) {
    const int64_t n = student_rows.size(0);
    const at::Tensor teacher =
        teacher_row.to(student_rows.device()).unsqueeze(0).expand({n, -1}).contiguous();
    std::vector<int64_t> other(static_cast<size_t>(n));
    std::iota(other.begin(), other.end(), 0);
    return kernels::row_overlap(teacher, kernels::row_statistics(teacher), student_rows, other);
}

/// What a session would have offered to the signals at this step, and, of the token that the row predicts, at the next.
SignalInputs inputs_of(const kernels::RowSummary& summary, int32_t next) {
    const kernels::RowStatistics& s = summary.statistics;
    SignalInputs in;
    in.row = {s.log_z, s.entropy_bits, s.top1_prob, s.finite, s.varentropy_bits2};
    if (s.finite && summary.top.logits.size() > 1)
        in.row->top2_prob = std::exp(static_cast<double>(summary.top.logits[1]) - s.log_z);
    in.logprob = summary.logprob;
    in.top1_hit = s.top1_id == next ? 1 : 0;
    in.steps_since_refresh = -1;
    return in;
}

} // namespace

RowBlock::RowBlock(const LlamaModel& student, KvCache& cache, const LandscapeInfo& info,
                   const at::Tensor& teacher_rows)
    : m_student(student)
    , m_cache(cache)
    , m_info(info)
    , m_teacher_rows(teacher_rows) {
    for (const std::string& name : info.values) {
        m_ids.push_back(require_signal(name, "a landscape"));
        m_attention |= signals()[m_ids.back()].attention;
        m_kl |= name == "kl_nats";
        m_overlap |= name == "acceptance" || name == "same_top1";
        m_drift |= name == "drift";
    }
    m_mc.passes = info.mc.samples;
    m_mc.p = info.mc.p;
    m_mc.seed = info.mc.seed;
    m_mc.attention_output = m_mc.mlp_output = info.mc.residual;
    RL_ASSERT(!(m_kl || m_overlap) || teacher_rows.defined());
}

RowBlock::~RowBlock() {
    if (m_shared > 0 && m_cache.length() > m_shared) m_cache.truncate(m_shared);
}

int64_t RowBlock::columns(std::span<const int64_t> rows, int64_t num_tokens) {
    int64_t columns = 0;
    for (const int64_t j : rows)
        columns += num_tokens - 1 - j;
    return columns;
}

void RowBlock::begin(std::span<const int64_t> rows) {
    RL_ASSERT(!rows.empty() && std::ranges::is_sorted(rows) && done() == m_rows.empty());
    m_steps = static_cast<int64_t>(m_info.tokens.size()) - 1;
    const auto prompt = static_cast<int64_t>(m_info.prompt_ids.size());
    m_shared = m_cache.length();
    RL_ASSERT(m_shared == prompt + m_steps);
    m_rows.assign(rows.begin(), rows.end());
    m_visible.clear();
    m_out.clear();
    for (const int64_t j : rows) {
        auto row = std::make_shared<LandscapeRow>();
        row->row = j;
        row->planes.assign(m_ids.size(), {});
        for (auto& plane : row->planes)
            plane.reserve(static_cast<size_t>(m_steps - j));
        m_out.push_back(std::move(row));
        m_visible.push_back(prompt + j);
    }
    m_tails.assign(rows.size(), {});
    m_next = rows.front() + 1;
}

/// What one forward said of n rows at a step.
struct RowBlock::Seen {
    const StepOutputs& outputs;
    at::Tensor logits; ///< [n, vocab]; undefined where no value needs them
    at::Tensor mc;     ///< [n * samples, vocab]; undefined where no value needs them
    const TailRows& hook;
    int64_t first; ///< scratch column of the first row
    int64_t step, position;
    size_t n;
};

void RowBlock::put_cells(const Seen& seen) {
    const auto rows = static_cast<int64_t>(seen.n);
    const int32_t next = m_info.tokens[static_cast<size_t>(seen.step)];
    const at::Tensor teacher = m_kl || m_overlap ? m_teacher_rows[seen.step - 1] : at::Tensor();
    const auto kl = m_kl ? kl_of(teacher, seen.logits) : std::vector<double>();
    const auto overlap = m_overlap ? overlap_of(teacher, seen.logits) : std::vector<kernels::RowOverlap>();
    const auto drift = m_drift ? drift_of(m_cache, seen.first, rows, seen.position) : std::vector<double>();
    std::array<float, max_signals> values{};
    for (size_t r = 0; r < seen.n; ++r) {
        SignalInputs signal = inputs_of(seen.outputs.summary[r], next);
        if (m_kl) signal.kl_nats = kl[r];
        if (m_overlap) {
            signal.acceptance = overlap[r].acceptance;
            signal.same_top1 = overlap[r].same_top1 ? 1 : 0;
        }
        if (m_drift) signal.drift = drift[r];
        if (seen.mc.defined()) {
            const auto i = static_cast<int64_t>(r);
            const kernels::McStatistics mc =
                kernels::mc_statistics(seen.logits[i], seen.mc.narrow(0, i * m_mc.passes, m_mc.passes));
            signal.mc = {mc.variance, mc.variance_sd, mc.mutual_information_bits, mc.mean_entropy_bits,
                         mc.mean_entropy_sd_bits};
        }
        signal.attention_entropy_bits = seen.hook.entropy(r);
        values.fill(absent());
        LayerValues layers;
        evaluate_signals(signal, values, &layers);
        for (size_t v = 0; v < m_ids.size(); ++v)
            m_out[r]->planes[v].push_back(values[m_ids[v]]);
    }
}

int64_t RowBlock::step() {
    RL_ASSERT(!done());
    const c10::InferenceMode guard;
    const int64_t step = m_next++;
    const auto n = static_cast<size_t>(std::ranges::lower_bound(m_rows, step) - m_rows.begin());
    const int64_t first = m_cache.length(),
                  position = static_cast<int64_t>(m_info.prompt_ids.size()) + step - 1;
    for (size_t r = 0; r < n; ++r)
        m_tails[r].push_back(first + static_cast<int64_t>(r));
    const auto samples = static_cast<size_t>(m_mc.passes), rows = n * (1 + samples);
    const std::vector<int32_t> fed(rows, m_info.tokens[static_cast<size_t>(step - 1)]),
        next(rows, m_info.tokens[static_cast<size_t>(step)]);
    std::vector<int64_t> visible(m_visible.begin(), m_visible.begin() + static_cast<int64_t>(n));
    std::vector<int32_t> passes(n);
    for (size_t i = 0; i < n * samples; ++i) {
        visible.push_back(m_visible[i / samples]);
        passes.push_back(static_cast<int32_t>(i % samples) + 1);
    }
    TailRows hook(m_student.config(), position, std::move(visible), tails_of(m_tails, n, samples, first),
                  m_attention ? n : 0);
    McRows dropout(m_mc, position, std::move(passes));
    LayerHooks* const hooks[] = {&hook, &dropout};
    StepInputs in;
    in.tokens = fed;
    in.origin = Origin::student;
    in.rows = Rows::all;
    in.logits = m_kl || m_overlap || samples > 0;
    in.ask.emplace().top_k = 2;
    in.ask->tokens = next;
    in.hooks = std::span(hooks).first(samples > 0 ? 2 : 1);
    const StepOutputs outputs = m_student.forward().prefill(m_cache, in);
    m_cache.truncate(first + static_cast<int64_t>(n)); // columns of MC rows are nobody's
    const at::Tensor logits = in.logits ? outputs.logits.narrow(0, 0, static_cast<int64_t>(n)) : at::Tensor();
    const at::Tensor mc =
        samples > 0 ? outputs.logits.narrow(0, static_cast<int64_t>(n), static_cast<int64_t>(n * samples))
                    : at::Tensor();
    put_cells({outputs, logits, mc, hook, first, step, position, n});
    return static_cast<int64_t>(n);
}

std::vector<std::shared_ptr<const LandscapeRow>> RowBlock::take() {
    RL_ASSERT(done() && !m_rows.empty());
    m_cache.truncate(m_shared);
    m_rows.clear();
    return {m_out.begin(), m_out.end()};
}

} // namespace refreshlab
