#include "kernels/cpu/row_statistics_cpu.h"

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/execution/thread_pool.h"
#include "kernels/ops/row_results.h"
#include "kernels/shared/top_k.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

/// Story: a row is cut into segments of fixed length, each summed by one thread in one pass over memory, and the
/// segments are merged in index order: results do not depend on the thread count, and a single row of a big vocabulary
/// still uses all cores. Exponentials are double (8 lanes); 4,096 logits take a few microseconds.
namespace refreshlab::kernels::cpu {
namespace {

constexpr int64_t segment = 4096;
constexpr int64_t mc_segment = 512; // one is passes * 512 exponentials

int64_t num_segments(int64_t n, int64_t length) {
    return (n + length - 1) / length;
}

} // namespace

std::vector<RowStatistics> row_statistics(const at::Tensor& rows) {
    const int64_t n = rows.size(0);
    const int64_t vocab = rows.size(1);
    const int64_t segments = num_segments(vocab, segment);
    const float* const data = rows.const_data_ptr<float>();
    const CpuKernels& table = kernels();
    std::vector<shared::SoftmaxSums> parts(static_cast<size_t>(n * segments));
    parallel_for(n * segments, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t first = i % segments * segment;
            parts[static_cast<size_t>(i)] = table.softmax_sums(data + i / segments * vocab + first,
                                                               std::min(segment, vocab - first), first);
        }
    });
    std::vector<RowStatistics> result;
    result.reserve(static_cast<size_t>(n));
    for (int64_t r = 0; r < n; ++r) {
        shared::SoftmaxSums sums;
        for (int64_t s = 0; s < segments; ++s)
            sums.merge(parts[static_cast<size_t>(r * segments + s)]);
        result.push_back(finish_row(sums));
    }
    return result;
}

TopK top_k(const at::Tensor& row, int64_t k) {
    const int64_t vocab = row.size(0);
    const float* const data = row.const_data_ptr<float>();
    const CpuKernels& table = kernels();
    const auto key = [data](int64_t i) { return shared::top_k_key(data[i], static_cast<uint32_t>(i)); };
    if (k == 0) return {};
    if (k > 64) { // insertion would cost more than a partial sort
        std::vector<uint64_t> keys(static_cast<size_t>(vocab));
        for (int64_t i = 0; i < vocab; ++i)
            keys[static_cast<size_t>(i)] = key(i);
        std::partial_sort(keys.begin(), keys.begin() + k, keys.end(), std::greater<>());
        return finish_top_k(std::span(keys).first(static_cast<size_t>(k)));
    }
    std::vector<uint64_t> best(static_cast<size_t>(k), shared::top_k_empty);
    // Blocks whose maximum does not beat the list are skipped. Ids ascend, so an equal logit never displaces one.
    constexpr int64_t block = 64;
    for (int64_t first = 0; first < vocab; first += block) {
        const int64_t count = std::min(block, vocab - first);
        if (best.back() != shared::top_k_empty &&
            !(table.max(data + first, count) > shared::top_k_logit(best.back()))) {
            continue;
        }
        for (int64_t i = first; i < first + count; ++i)
            shared::top_k_insert(best.data(), k, key(i));
    }
    return finish_top_k(best);
}

std::vector<double> kl_divergence(const at::Tensor& p_logits, const at::Tensor& q_logits) {
    const int64_t n = p_logits.size(0);
    const int64_t vocab = p_logits.size(1);
    const int64_t segments = num_segments(vocab, segment);
    const float* const p = p_logits.const_data_ptr<float>();
    const float* const q = q_logits.const_data_ptr<float>();
    const CpuKernels& table = kernels();
    std::vector<shared::KlSums> parts(static_cast<size_t>(n * segments));
    parallel_for(n * segments, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t first = i % segments * segment;
            const int64_t offset = i / segments * vocab + first;
            parts[static_cast<size_t>(i)] =
                table.kl_sums(p + offset, q + offset, std::min(segment, vocab - first));
        }
    });
    std::vector<double> result;
    result.reserve(static_cast<size_t>(n));
    for (int64_t r = 0; r < n; ++r) {
        shared::KlSums sums;
        for (int64_t s = 0; s < segments; ++s)
            sums.merge(parts[static_cast<size_t>(r * segments + s)]);
        result.push_back(finish_kl(sums));
    }
    return result;
}

McStatistics mc_statistics(const at::Tensor& row0, const at::Tensor& rows) {
    const int64_t passes = rows.size(0);
    const int64_t vocab = rows.size(1);
    const std::vector<RowStatistics> stats = row_statistics(rows);
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
