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
/// segments are merged in index order: results do not depend on the thread count, and a single row of a big vocabulary
/// still uses all cores. Exponentials are double (8 lanes); 4,096 logits take a few microseconds.
namespace refreshlab::kernels::cpu {
namespace {

constexpr int64_t segment = 4096;
constexpr int64_t mc_segment = 512; // one is passes * 512 exponentials

constexpr int64_t most_inserted = 64; // candidates of a list that is kept by insertion

int64_t num_segments(int64_t n, int64_t length) {
    return (n + length - 1) / length;
}

struct SegmentPart {
    shared::SoftmaxSums sums;
    shared::KlSums kl;
};

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

TopK sorted_top(const float* z, int64_t vocab, int64_t k) {
    std::vector<uint64_t> keys(static_cast<size_t>(vocab));
    for (int64_t i = 0; i < vocab; ++i)
        keys[static_cast<size_t>(i)] = shared::top_k_key(z[i], static_cast<uint32_t>(i));
    std::partial_sort(keys.begin(), keys.begin() + k, keys.end(), std::greater<>());
    return finish_top_k(std::span(keys).first(static_cast<size_t>(k)));
}

} // namespace

std::vector<RowSummary> summarize_rows(const at::Tensor& rows, const RowAsk& ask) {
    const int64_t n = rows.size(0);
    const int64_t vocab = rows.size(1);
    const int64_t segments = num_segments(vocab, segment);
    const float* const data = rows.const_data_ptr<float>();
    const bool with_kl = std::ranges::any_of(ask.kl_rows, [](int64_t row) { return row >= 0; });
    const at::Tensor other = with_kl ? ask.kl_against.to(at::kCPU, at::kFloat).contiguous() : at::Tensor();
    const float* const q = with_kl ? other.const_data_ptr<float>() : nullptr;
    // Insertion into a long list would cost more than a partial sort of the row.
    const int64_t k = ask.top_k <= most_inserted ? ask.top_k : 0;
    const CpuKernels& table = kernels();
    std::vector<SegmentPart> parts(static_cast<size_t>(n * segments));
    std::vector<uint64_t> keys(static_cast<size_t>(n * segments * k), shared::top_k_empty);
    parallel_for(n * segments, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t row = i / segments, first = i % segments * segment;
            const int64_t count = std::min(segment, vocab - first);
            const float* const z = data + row * vocab + first;
            SegmentPart& part = parts[static_cast<size_t>(i)];
            part.sums = table.softmax_sums(z, count, first);
            if (k > 0) top_of_segment(table, z, count, first, k, keys.data() + i * k);
            const int64_t kl_row = with_kl ? ask.kl_rows[static_cast<size_t>(row)] : -1;
            if (kl_row >= 0) part.kl = table.kl_sums(z, q + kl_row * vocab + first, count);
        }
    });
    std::vector<RowSummary> result(static_cast<size_t>(n));
    std::vector<uint64_t> best(static_cast<size_t>(k)), merged(static_cast<size_t>(k));
    for (int64_t r = 0; r < n; ++r) {
        RowSummary& row = result[static_cast<size_t>(r)];
        shared::SoftmaxSums sums;
        shared::KlSums kl;
        std::fill(best.begin(), best.end(), shared::top_k_empty);
        for (int64_t s = r * segments; s < (r + 1) * segments; ++s) {
            sums.merge(parts[static_cast<size_t>(s)].sums);
            kl.merge(parts[static_cast<size_t>(s)].kl);
            if (k == 0) continue;
            shared::top_k_merge(best.data(), k, keys.data() + s * k, k, merged.data(), k);
            best.swap(merged);
        }
        row.statistics = finish_row(sums);
        if (k > 0) row.top = finish_top_k(best);
        if (ask.top_k > k) row.top = sorted_top(data + r * vocab, vocab, ask.top_k);
        const int32_t token = ask.tokens.empty() ? -1 : ask.tokens[static_cast<size_t>(r)];
        if (token >= 0) row.logprob = static_cast<double>(data[r * vocab + token]) - row.statistics.log_z;
        if (with_kl && ask.kl_rows[static_cast<size_t>(r)] >= 0) row.kl_nats = finish_kl(kl);
    }
    return result;
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
