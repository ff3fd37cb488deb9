#include "kernels/cpu/row_statistics_cpu.h"

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/execution/thread_pool.h"
#include "kernels/ops/row_results.h"
#include "kernels/shared/top_k.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

/// Story: a row is cut into segments of fixed length, each summed by one thread in one pass over memory, and the
/// segments are merged in index order. So results do not depend on the thread count, a single row of a big vocabulary
/// still uses all cores, and a decode step can sum a segment as soon as its logits are there (row_products.h). Exponentials are double
/// (8 lanes); 4,096 logits take a few microseconds.
namespace refreshlab::kernels::cpu {
namespace {

constexpr int64_t mc_segment = 512; // one is passes * 512 exponentials

constexpr int64_t most_inserted = 64; // candidates of a list that is kept by insertion

int64_t num_segments(int64_t n, int64_t length) {
    return (n + length - 1) / length;
}

/// The k largest of z[0, count) into best[0, k), which is empty. Blocks whose maximum does not beat the list are skipped;
/// ids ascend, so an equal logit never displaces one.
void top_of_segment(const CpuKernels& table, const float* z, int64_t count, int64_t first_id, int64_t k,
                    uint64_t* best) {
    constexpr int64_t block = 64;
    for (int64_t begin = 0; begin < count; begin += block) {
        const int64_t end = std::min(begin + block, count);
        if (best[k - 1] != shared::top_k_empty &&
            !(table.max(z + begin, end - begin) > shared::top_k_logit(best[k - 1]))) {
            continue;
        }
        for (int64_t i = begin; i < end; ++i)
            shared::top_k_insert(best, k, shared::top_k_key(z[i], static_cast<uint32_t>(first_id + i)));
    }
}

/// The k largest of a row. It is cut into sets, a lane of a group each: the k-th largest of their maxima bounds the k largest numbers
/// from below, so that few are left to sort.
TopK sorted_top(const float* z, int64_t vocab, int64_t k) {
    constexpr int64_t lanes = 16, group = 256;
    const CpuKernels& table = kernels();
    const int64_t groups = num_segments(vocab, group);
    const auto size_of = [&](int64_t g) { return std::min(group, vocab - g * group); };
    std::vector<float> maxima(static_cast<size_t>(groups * lanes));
    for (int64_t g = 0; g < groups; ++g)
        table.maxima(z + g * group, size_of(g), maxima.data() + g * lanes);
    float floor = -INFINITY; // of a list that is longer than there are sets
    if (k <= groups * lanes) {
        std::vector<float> sorted = maxima;
        std::nth_element(sorted.begin(), sorted.begin() + (k - 1), sorted.end(), std::greater<>());
        floor = sorted[static_cast<size_t>(k - 1)];
    }
    std::vector<uint64_t> keys;
    for (int64_t g = 0; g < groups; ++g) {
        const float* const of_group = maxima.data() + g * lanes;
        if (*std::max_element(of_group, of_group + lanes) < floor) continue;
        for (int64_t i = g * group; i < g * group + size_of(g); ++i) {
            if (!(z[i] < floor)) keys.push_back(shared::top_k_key(z[i], static_cast<uint32_t>(i)));
        }
    }
    std::partial_sort(keys.begin(), keys.begin() + k, keys.end(), std::greater<>());
    return finish_top_k(std::span(keys).first(static_cast<size_t>(k)));
}

} // namespace

RowSegments::RowSegments(const float* row, int64_t vocab, int64_t top_k, const float* kl_against)
    : m_row(row)
    , m_kl_against(kl_against)
    , m_vocab(vocab)
    , m_top_k(top_k)
    , m_inserted(top_k <= most_inserted ? top_k : 0)
    , m_parts(static_cast<size_t>(count()))
    , m_keys(static_cast<size_t>(count() * m_inserted), shared::top_k_empty) {}

void RowSegments::sum(int64_t segment) {
    const CpuKernels& table = kernels();
    const int64_t first = segment * length, n = std::min(length, m_vocab - first);
    const float* const z = m_row + first;
    Part& part = m_parts[static_cast<size_t>(segment)];
    part.sums = table.softmax_sums(z, n, first);
    if (m_inserted > 0) top_of_segment(table, z, n, first, m_inserted, m_keys.data() + segment * m_inserted);
    if (m_kl_against != nullptr) part.kl = table.kl_sums(z, m_kl_against + first, n);
}

RowSummary RowSegments::finish(int64_t token) const {
    RowSummary row;
    shared::SoftmaxSums sums;
    shared::KlSums kl;
    const int64_t k = m_inserted;
    std::vector<uint64_t> best(static_cast<size_t>(k), shared::top_k_empty), merged(static_cast<size_t>(k));
    for (size_t s = 0; s < m_parts.size(); ++s) {
        sums.merge(m_parts[s].sums);
        kl.merge(m_parts[s].kl);
        if (k == 0) continue;
        const uint64_t* const keys = m_keys.data() + static_cast<int64_t>(s) * k;
        if (keys[0] <= best[static_cast<size_t>(k - 1)]) continue;
        shared::top_k_merge(best.data(), k, keys, k, merged.data(), k);
        best.swap(merged);
    }
    row.statistics = finish_row(sums);
    if (k > 0) row.top = finish_top_k(best);
    if (m_top_k > k) row.top = sorted_top(m_row, m_vocab, m_top_k);
    if (token >= 0) row.logprob = static_cast<double>(m_row[token]) - row.statistics.log_z;
    if (m_kl_against != nullptr) row.kl_nats = finish_kl(kl);
    return row;
}

std::vector<RowSummary> summarize_rows(const at::Tensor& rows, const RowAsk& ask) {
    const int64_t n = rows.size(0);
    const int64_t vocab = rows.size(1);
    const float* const data = rows.const_data_ptr<float>();
    const bool with_kl = std::ranges::any_of(ask.kl_rows, [](int64_t row) { return row >= 0; });
    const at::Tensor other = with_kl ? ask.kl_against.to(at::kCPU, at::kFloat).contiguous() : at::Tensor();
    std::vector<RowSegments> parts;
    parts.reserve(static_cast<size_t>(n));
    for (int64_t r = 0; r < n; ++r) {
        const int64_t kl_row = with_kl ? ask.kl_rows[static_cast<size_t>(r)] : -1;
        parts.emplace_back(data + r * vocab, vocab, ask.top_k,
                           kl_row >= 0 ? other.const_data_ptr<float>() + kl_row * vocab : nullptr);
    }
    const int64_t segments = num_segments(vocab, RowSegments::length);
    parallel_for(n * segments, 2, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            parts[static_cast<size_t>(i / segments)].sum(i % segments);
    });
    std::vector<RowSummary> result;
    result.reserve(static_cast<size_t>(n));
    for (int64_t r = 0; r < n; ++r)
        result.push_back(parts[static_cast<size_t>(r)].finish(
            ask.tokens.empty() ? -1 : ask.tokens[static_cast<size_t>(r)]));
    return result;
}

TopK top_k(const at::Tensor& row, int64_t k) {
    const float* const z = row.const_data_ptr<float>();
    const int64_t vocab = row.size(0);
    return k > 0 ? sorted_top(z, vocab, k) : TopK{};
}

McStatistics mc_statistics(const at::Tensor& row0, const at::Tensor& rows) {
    const int64_t passes = rows.size(0);
    const int64_t vocab = rows.size(1);
    std::vector<RowStatistics> stats;
    for (const RowSummary& row : summarize_rows(rows, {}))
        stats.push_back(row.statistics);
    const bool row0_finite = at::isfinite(row0).all().item<bool>();
    std::vector<double> log_z;
    for (const RowStatistics& row : stats)
        log_z.push_back(row.log_z);

    const int64_t segments = num_segments(vocab, mc_segment);
    std::vector<double> squares(static_cast<size_t>(segments * passes), 0.0);
    std::vector<double> disagreement(static_cast<size_t>(segments), 0.0);
    const float* const base = row0.const_data_ptr<float>();
    const float* const data = rows.const_data_ptr<float>();
    const CpuKernels& table = kernels();
    parallel_for(segments, 1, [&](int64_t begin, int64_t end) {
        for (int64_t s = begin; s < end; ++s) {
            McColumns c;
            c.row0 = base + s * mc_segment;
            c.rows = data + s * mc_segment;
            c.row_stride = vocab;
            c.passes = passes;
            c.columns = std::min(mc_segment, vocab - s * mc_segment);
            c.log_z = log_z.data();
            c.squares = squares.data() + s * passes;
            c.disagreement = disagreement.data() + s;
            table.mc_columns(c);
        }
    });
    for (int64_t s = 1; s < segments; ++s) {
        for (int64_t i = 0; i < passes; ++i) {
            squares[static_cast<size_t>(i)] += squares[static_cast<size_t>(s * passes + i)];
        }
        disagreement[0] += disagreement[static_cast<size_t>(s)];
    }
    return finish_mc(stats, row0_finite, std::span(squares).first(static_cast<size_t>(passes)),
                     disagreement[0], vocab);
}

} // namespace refreshlab::kernels::cpu
