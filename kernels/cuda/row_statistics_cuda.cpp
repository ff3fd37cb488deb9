#include "kernels/cuda/row_statistics_cuda.h"

#include "kernels/cpu/row_statistics_cpu.h"
#include "kernels/cuda/row_launchers.cuh"
#include "kernels/ops/row_results.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstddef>
#include <cstring>
#include <span>

namespace refreshlab::kernels::cuda {
namespace {

constexpr int64_t most_top_k = 128; // one round of the kernel per entry; beyond that the row goes to the host

/// Device memory for `count` plain values from ATen's allocator, which is ordered by stream like the launches.
template <typename T>
class Scratch {
public:
    Scratch(int64_t count, const at::Tensor& like)
        : m_bytes(at::empty({count * static_cast<int64_t>(sizeof(T))}, like.options().dtype(at::kByte))) {}

    [[nodiscard]] T* data() const { return static_cast<T*>(m_bytes.mutable_data_ptr()); }

    /// Waits for the stream.
    [[nodiscard]] std::vector<T> read() const {
        const at::Tensor host = m_bytes.cpu();
        const T* const first = static_cast<const T*>(host.const_data_ptr());
        return {first, first + host.numel() / static_cast<int64_t>(sizeof(T))};
    }

private:
    at::Tensor m_bytes;
};

void* current_stream(const at::Tensor& t) {
    return c10::cuda::getCurrentCUDAStream(t.device().index()).stream();
}

} // namespace

namespace {

std::vector<RowStatistics> statistics_of(const at::Tensor& rows) {
    const int64_t n = rows.size(0);
    const Scratch<shared::SoftmaxSums> parts(n * num_segments(rows.size(1)), rows);
    const Scratch<shared::SoftmaxSums> out(n, rows);
    launch_row_sums(rows.const_data_ptr<float>(), n, rows.size(1), parts.data(), out.data(),
                    current_stream(rows));
    std::vector<RowStatistics> result;
    for (const shared::SoftmaxSums& sums : out.read())
        result.push_back(finish_row(sums));
    return result;
}

TopK top_of_row(const at::Tensor& row, int64_t k) {
    const int64_t vocab = row.size(0);
    const Scratch<uint64_t> keys(num_segments(vocab) * k, row);
    const Scratch<uint64_t> out(k, row);
    launch_top_k(row.const_data_ptr<float>(), vocab, k, keys.data(), out.data(), current_stream(row));
    return finish_top_k(out.read());
}

std::vector<double> kl_of(const at::Tensor& p, const at::Tensor& q) {
    const int64_t n = p.size(0);
    const Scratch<shared::KlSums> parts(n * num_segments(p.size(1)), p);
    const Scratch<shared::KlSums> out(n, p);
    launch_kl_sums(p.const_data_ptr<float>(), q.const_data_ptr<float>(), n, p.size(1), parts.data(),
                   out.data(), current_stream(p));
    std::vector<double> result;
    for (const shared::KlSums& sums : out.read())
        result.push_back(finish_kl(sums));
    return result;
}

/// Host list to a tensor of indices on the device of `like`.
at::Tensor indices(const std::vector<int64_t>& list, const at::Tensor& like) {
    return at::tensor(list, at::TensorOptions().dtype(at::kLong)).to(like.device());
}

} // namespace

/// Story: rows stay on the device, and what crosses to the host are the answers: 48 bytes of sums per row, k keys, one
/// logit of the token asked for.
std::vector<RowSummary> summarize_rows(const at::Tensor& rows, const RowAsk& ask) {
    const int64_t n = rows.size(0);
    if (n == 0) return {};
    if (ask.top_k > most_top_k) return cpu::summarize_rows(rows.cpu(), ask);
    const c10::cuda::CUDAGuard guard(rows.device());
    std::vector<RowSummary> result(static_cast<size_t>(n));
    const std::vector<RowStatistics> statistics = statistics_of(rows);
    for (size_t r = 0; r < result.size(); ++r)
        result[r].statistics = statistics[r];

    for (int64_t r = 0; r < n && ask.top_k > 0; ++r)
        result[static_cast<size_t>(r)].top = top_of_row(rows[r], ask.top_k);

    std::vector<int64_t> asked, tokens, picked, others;
    for (int64_t r = 0; r < n; ++r) {
        const auto at_row = static_cast<size_t>(r);
        if (!ask.tokens.empty() && ask.tokens[at_row] >= 0) {
            asked.push_back(r);
            tokens.push_back(ask.tokens[at_row]);
        }
        if (!ask.kl_rows.empty() && ask.kl_rows[at_row] >= 0) {
            picked.push_back(r);
            others.push_back(ask.kl_rows[at_row]);
        }
    }
    if (!asked.empty()) {
        const at::Tensor logits = rows.index({indices(asked, rows), indices(tokens, rows)}).cpu();
        const float* const z = logits.const_data_ptr<float>();
        for (size_t i = 0; i < asked.size(); ++i) {
            RowSummary& row = result[static_cast<size_t>(asked[i])];
            row.logprob = static_cast<double>(z[i]) - row.statistics.log_z;
        }
    }
    if (!picked.empty()) {
        const at::Tensor mine =
            static_cast<int64_t>(picked.size()) == n ? rows : rows.index_select(0, indices(picked, rows));
        const at::Tensor theirs = ask.kl_against.index_select(0, indices(others, ask.kl_against))
                                      .to(rows.device(), at::kFloat)
                                      .contiguous();
        const std::vector<double> values = kl_of(mine, theirs);
        for (size_t i = 0; i < picked.size(); ++i)
            result[static_cast<size_t>(picked[i])].kl_nats = values[i];
    }
    return result;
}

std::vector<RowReading> read_rows(const at::Tensor& rows_, std::span<const int32_t> tokens,
                                  const at::Tensor& others, std::span<const int64_t> other_of) {
    const at::Tensor rows = rows_.to(at::kFloat).contiguous();
    const int64_t n = rows.size(0), vocab = rows.size(1), segments = num_segments(vocab);
    if (n == 0) return {};
    const c10::cuda::CUDAGuard guard(rows.device());
    // Of rows on another device those that are asked for alone come here.
    std::vector<int64_t> wanted(other_of.begin(), other_of.end());
    at::Tensor q = others;
    if (q.defined() && q.device() != rows.device()) {
        std::vector<int64_t> brought;
        for (int64_t& row : wanted) {
            if (row < 0) continue;
            brought.push_back(row);
            row = std::ssize(brought) - 1;
        }
        q = others.index_select(0, indices(brought, others)).to(rows.device());
    }
    if (q.defined()) q = q.to(at::kFloat).contiguous();
    std::vector<int64_t> asked = wanted; // both lists go over in one copy
    asked.insert(asked.end(), tokens.begin(), tokens.end());
    const at::Tensor lists = indices(asked, rows);
    const Scratch<shared::RowReadingSums> parts(n * segments, rows);
    const Scratch<shared::SoftmaxSums> overlap_parts(n * segments, rows);
    struct Answer {
        shared::RowReadingSums reading;
        shared::SoftmaxSums overlap;
    };
    const Scratch<std::byte> answers(n * static_cast<int64_t>(sizeof(Answer)), rows);
    RowReadingsInputs in;
    in.p = rows.const_data_ptr<float>();
    in.q = q.defined() ? q.const_data_ptr<float>() : nullptr;
    in.rows = n;
    in.vocab = vocab;
    in.other_of = lists.const_data_ptr<int64_t>();
    in.tokens = in.other_of + n;
    in.parts = parts.data();
    in.overlap_parts = overlap_parts.data();
    in.readings = reinterpret_cast<shared::RowReadingSums*>(answers.data());
    in.overlaps = reinterpret_cast<shared::SoftmaxSums*>(in.readings + n);
    launch_row_readings(in, current_stream(rows));
    const std::vector<std::byte> host = answers.read();
    std::vector<RowReading> result;
    for (int64_t r = 0; r < n; ++r) {
        Answer answer;
        std::memcpy(&answer.reading, host.data() + static_cast<size_t>(r) * sizeof answer.reading,
                    sizeof answer.reading);
        std::memcpy(&answer.overlap,
                    host.data() + static_cast<size_t>(n) * sizeof answer.reading +
                        static_cast<size_t>(r) * sizeof answer.overlap,
                    sizeof answer.overlap);
        result.push_back(finish_reading(answer.reading, answer.overlap, tokens[static_cast<size_t>(r)] >= 0));
    }
    return result;
}

McStatistics mc_statistics(const at::Tensor& row0, const at::Tensor& rows) {
    const c10::cuda::CUDAGuard guard(rows.device());
    const int64_t passes = rows.size(0);
    const int64_t vocab = rows.size(1);
    const int64_t segments = num_segments(vocab);
    void* const stream = current_stream(rows);
    // Row 0 rides along for its finiteness only.
    const Scratch<shared::SoftmaxSums> parts((passes + 1) * segments, rows);
    const Scratch<shared::SoftmaxSums> sums(passes + 1, rows);
    launch_row_sums(rows.const_data_ptr<float>(), passes, vocab, parts.data(), sums.data(), stream);
    launch_row_sums(row0.const_data_ptr<float>(), 1, vocab, parts.data() + passes * segments,
                    sums.data() + passes, stream);
    const Scratch<double> mc_parts(num_mc_blocks(vocab) * (passes + 1), rows);
    const Scratch<double> mc_sums(passes + 1, rows);
    launch_mc_sums(row0.const_data_ptr<float>(), rows.const_data_ptr<float>(), passes, vocab, sums.data(),
                   mc_parts.data(), mc_sums.data(), stream);
    std::vector<RowStatistics> row_results;
    for (const shared::SoftmaxSums& row : sums.read())
        row_results.push_back(finish_row(row));
    const std::vector<double> squares = mc_sums.read();
    const size_t n = static_cast<size_t>(passes);
    return finish_mc(std::span(row_results).first(n), row_results.back().finite, std::span(squares).first(n),
                     squares[n], vocab);
}

} // namespace refreshlab::kernels::cuda
