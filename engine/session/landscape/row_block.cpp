#include "engine/session/landscape/row_block.h"

#include "engine/base/check.h"
#include "engine/model/forward/captures.h"
#include "engine/model/forward/mc_rows.h"
#include "engine/session/landscape/tail_rows.h"
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

/// Attention entropies of rows that stand at one position.
class RowEntropies final : public LayerHooks {
public:
    RowEntropies(const ModelConfig& config, int64_t position, size_t rows)
        : m_position(position) {
        for (size_t r = 0; r < rows; ++r)
            m_rows.push_back(std::make_unique<AttentionEntropy>(config, position));
    }

    [[nodiscard]] LayerTaps taps(int64_t) const override {
        LayerTaps taps;
        taps.attention_from = 0;
        return taps;
    }
    void observe(const LayerView& view) override {
        if (!view.attention.defined() && !view.left_out) return;
        LayerView one = view;
        one.positions = std::span(&m_position, 1);
        for (size_t r = 0; r < m_rows.size(); ++r) {
            if (!view.left_out) one.attention = view.attention.narrow(0, static_cast<int64_t>(r), 1);
            m_rows[r]->observe(one);
        }
    }
    /// [layers] of a row; empty where there are none.
    [[nodiscard]] std::span<const float> bits(size_t row) const {
        return m_rows.empty() ? std::span<const float>() : std::span<const float>(m_rows[row]->bits());
    }

private:
    int64_t m_position;
    std::vector<std::unique_ptr<AttentionEntropy>> m_rows;
};

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
    const RowEntropies& entropies;
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
        signal.attention_entropy_bits = seen.entropies.bits(r);
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
    // MC rows stand behind all others: each has its row's tail, with a column of its own in the last place.
    const auto samples = static_cast<size_t>(m_mc.passes), rows = n * (1 + samples);
    const std::vector<int32_t> fed(rows, m_info.tokens[static_cast<size_t>(step - 1)]),
        next(rows, m_info.tokens[static_cast<size_t>(step)]);
    std::vector<RowPlace> places;
    std::vector<int32_t> passes(n);
    std::vector<std::vector<int64_t>> tails(m_tails.begin(), m_tails.begin() + static_cast<int64_t>(n));
    for (size_t r = 0; r < n; ++r)
        places.push_back({position, position, m_visible[r]});
    for (size_t i = 0; i < n * samples; ++i) {
        places.push_back(places[i / samples]);
        passes.push_back(static_cast<int32_t>(i % samples) + 1);
        tails.push_back(tails[i / samples]);
        tails.back().back() = first + static_cast<int64_t>(n + i);
    }
    TailRows tail_rows(m_student.config(), std::move(places), tails);
    RowEntropies entropies(m_student.config(), position, m_attention ? n : 0);
    McRows dropout(m_mc, position, std::move(passes));
    std::vector<LayerHooks*> hooks{&tail_rows};
    if (m_attention) hooks.push_back(&entropies);
    if (samples > 0) hooks.push_back(&dropout);
    StepInputs in;
    in.tokens = fed;
    in.origin = Origin::student;
    in.rows = Rows::all;
    in.logits = m_kl || m_overlap || samples > 0;
    in.ask.emplace().top_k = 2;
    in.ask->tokens = next;
    in.hooks = hooks;
    const StepOutputs outputs = m_student.forward().prefill(m_cache, in);
    m_cache.truncate(first + static_cast<int64_t>(n)); // columns of MC rows are nobody's
    const auto logits_of = [&](size_t begin, size_t count) {
        return outputs.logits.narrow(0, static_cast<int64_t>(begin), static_cast<int64_t>(count));
    };
    put_cells({outputs, in.logits ? logits_of(0, n) : at::Tensor(),
               samples > 0 ? logits_of(n, n * samples) : at::Tensor(), entropies, first, step, position, n});
    return static_cast<int64_t>(n);
}

std::vector<std::shared_ptr<const LandscapeRow>> RowBlock::take() {
    RL_ASSERT(done() && !m_rows.empty());
    m_cache.truncate(m_shared);
    m_rows.clear();
    return {m_out.begin(), m_out.end()};
}

} // namespace refreshlab
