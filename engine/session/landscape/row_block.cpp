#include "engine/session/landscape/row_block.h"

#include "engine/base/check.h"
#include "engine/model/forward/captures.h"
#include "engine/model/forward/layer_hooks.h"
#include "engine/signals/registry.h"
#include "kernels/ops/column_distance.h"
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
    /// \param visible  per row: L + j, the teacher's columns that it sees
    /// \param tails    [rows, m]: AttentionInputs::tails, the column of this step included
    TailRows(const ModelConfig& config, int64_t position, std::span<const int64_t> visible, at::Tensor tails,
             bool attention)
        : m_config(config)
        , m_position(position)
        , m_visible(visible)
        , m_tails(std::move(tails)) {
        for (size_t r = 0; attention && r < visible.size(); ++r)
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
    std::span<const int64_t> m_visible;
    at::Tensor m_tails;
    std::vector<int64_t> m_first;
    std::vector<std::unique_ptr<AttentionEntropy>> m_entropy; ///< empty: not asked for
};

/// [rows, longest] with -1 behind the end of each list.
at::Tensor as_tensor(const std::vector<std::vector<int64_t>>& lists, size_t rows) {
    size_t longest = 0;
    for (size_t r = 0; r < rows; ++r)
        longest = std::max(longest, lists[r].size());
    at::Tensor tensor = at::full({static_cast<int64_t>(rows), static_cast<int64_t>(longest)}, -1, at::kLong);
    auto* out = tensor.mutable_data_ptr<int64_t>();
    for (size_t r = 0; r < rows; ++r)
        std::ranges::copy(lists[r], out + r * longest);
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
        m_drift |= name == "drift";
    }
    RL_ASSERT(!m_kl || teacher_rows.defined());
}

int64_t RowBlock::columns(std::span<const int64_t> rows, int64_t num_tokens) {
    int64_t columns = 0;
    for (const int64_t j : rows)
        columns += num_tokens - 1 - j;
    return columns;
}

std::vector<std::shared_ptr<const LandscapeRow>>
RowBlock::compute(std::span<const int64_t> rows, const std::function<bool(int64_t)>& step_done) {
    const c10::InferenceMode guard;
    RL_ASSERT(!rows.empty() && std::ranges::is_sorted(rows));
    const auto steps = static_cast<int64_t>(m_info.tokens.size()) - 1,
               prompt = static_cast<int64_t>(m_info.prompt_ids.size());
    const int64_t shared = m_cache.length();
    RL_ASSERT(shared == prompt + steps);
    std::vector<std::shared_ptr<LandscapeRow>> out;
    std::vector<int64_t> visible;
    for (const int64_t j : rows) {
        auto row = std::make_shared<LandscapeRow>();
        row->row = j;
        row->planes.assign(m_ids.size(), {});
        for (auto& plane : row->planes)
            plane.reserve(static_cast<size_t>(steps - j));
        out.push_back(std::move(row));
        visible.push_back(prompt + j);
    }

    std::vector<std::vector<int64_t>> tails(rows.size());
    bool wanted = true;
    for (int64_t step = rows.front() + 1; step <= steps && wanted; ++step) {
        const auto n = static_cast<size_t>(std::ranges::lower_bound(rows, step) - rows.begin());
        const int64_t first = m_cache.length(), position = prompt + step - 1;
        for (size_t r = 0; r < n; ++r)
            tails[r].push_back(first + static_cast<int64_t>(r));
        const std::vector<int32_t> fed(n, m_info.tokens[static_cast<size_t>(step - 1)]),
            next(n, m_info.tokens[static_cast<size_t>(step)]);
        TailRows hook(m_student.config(), position, std::span(visible).first(n), as_tensor(tails, n),
                      m_attention);
        LayerHooks* const hooks[] = {&hook};
        StepInputs in;
        in.tokens = fed;
        in.origin = Origin::student;
        in.rows = Rows::all;
        in.logits = m_kl;
        in.ask.emplace().top_k = 2;
        in.ask->tokens = next;
        in.hooks = hooks;
        const StepOutputs outputs = m_student.forward().prefill(m_cache, in);

        const std::vector<double> kl =
            m_kl ? kl_of(m_teacher_rows[step - 1], outputs.logits) : std::vector<double>();
        const std::vector<double> drift =
            m_drift ? drift_of(m_cache, first, static_cast<int64_t>(n), position) : std::vector<double>();
        std::array<float, max_signals> values{};
        for (size_t r = 0; r < n; ++r) {
            SignalInputs signal = inputs_of(outputs.summary[r], next[r]);
            if (m_kl) signal.kl_nats = kl[r];
            if (m_drift) signal.drift = drift[r];
            signal.attention_entropy_bits = hook.entropy(r);
            values.fill(absent());
            LayerValues layers;
            evaluate_signals(signal, values, &layers);
            for (size_t v = 0; v < m_ids.size(); ++v)
                out[r]->planes[v].push_back(values[m_ids[v]]);
        }
        wanted = !step_done || step_done(static_cast<int64_t>(n));
    }
    m_cache.truncate(shared);
    if (!wanted) return {};
    return {out.begin(), out.end()};
}

} // namespace refreshlab
