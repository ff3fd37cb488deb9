#include "engine/bench/measure/read_bandwidth.h"

#include "engine/session/parts/stopwatch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace refreshlab::bench {

namespace {

constexpr int64_t block = 64 << 10; ///< bytes that a thread takes at a time
constexpr int warm_ups = 8; ///< until a buffer that fits into the last cache has driven a model out of it

// Sums, so that no load can be left out. Four accumulators: an addition must not wait for the one before it.
#if defined(__x86_64__)
__attribute__((target("avx512f"))) uint64_t sum_avx512(const char* data, int64_t bytes) {
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    for (int64_t i = 0; i + 256 <= bytes; i += 256) {
        a = _mm512_add_epi64(a, _mm512_loadu_si512(data + i));
        b = _mm512_add_epi64(b, _mm512_loadu_si512(data + i + 64));
        c = _mm512_add_epi64(c, _mm512_loadu_si512(data + i + 128));
        d = _mm512_add_epi64(d, _mm512_loadu_si512(data + i + 192));
    }
    alignas(64) uint64_t parts[8];
    _mm512_store_si512(parts, _mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(c, d)));
    uint64_t sum = 0;
    for (const uint64_t part : parts)
        sum += part;
    return sum;
}

__attribute__((target("avx2"))) uint64_t sum_avx2(const char* data, int64_t bytes) {
    const auto* const from = reinterpret_cast<const __m256i*>(data);
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    for (int64_t i = 0; i + 4 <= bytes / 32; i += 4) {
        a = _mm256_add_epi64(a, _mm256_loadu_si256(from + i));
        b = _mm256_add_epi64(b, _mm256_loadu_si256(from + i + 1));
        c = _mm256_add_epi64(c, _mm256_loadu_si256(from + i + 2));
        d = _mm256_add_epi64(d, _mm256_loadu_si256(from + i + 3));
    }
    alignas(32) uint64_t parts[4];
    _mm256_store_si256(reinterpret_cast<__m256i*>(parts),
                       _mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d)));
    return parts[0] + parts[1] + parts[2] + parts[3];
}
#endif

uint64_t sum_plain(const char* data, int64_t bytes) {
    uint64_t sums[4] = {};
    const auto* words = reinterpret_cast<const uint64_t*>(data);
    for (int64_t i = 0; i + 4 <= bytes / 8; i += 4)
        for (int64_t k = 0; k < 4; ++k)
            sums[k] += words[i + k];
    return sums[0] + sums[1] + sums[2] + sums[3];
}

uint64_t sum_of(const char* data, int64_t bytes) {
#if defined(__x86_64__)
    static const bool wide = __builtin_cpu_supports("avx512f") != 0,
                      middle = __builtin_cpu_supports("avx2") != 0;
    if (wide) return sum_avx512(data, bytes);
    if (middle) return sum_avx2(data, bytes);
#endif
    return sum_plain(data, bytes);
}

} // namespace

ReadBuffer::ReadBuffer(Execution execution, at::Device device, int64_t bytes)
    : m_execution(std::move(execution)) {
    const kernels::ExecutionScope scope(*m_execution);
    const int64_t size = bytes >= block ? bytes / block * block : std::max<int64_t>(bytes / 256, 16) * 256;
    m_buffer = at::full({size / 4}, 1, at::TensorOptions().device(device).dtype(at::kInt));
}

std::vector<double> ReadBuffer::rates(int64_t passes) const {
    const kernels::ExecutionScope scope(*m_execution);
    const int64_t size = m_buffer.numel() * 4, blocks = std::max<int64_t>(size / block, 1);
    std::atomic<uint64_t> kept{0};
    const auto read = [&] {
        if (!m_buffer.is_cpu()) {
            kept += static_cast<uint64_t>(m_buffer.sum().item<int64_t>());
            return;
        }
        const char* const data = static_cast<const char*>(m_buffer.const_data_ptr());
        kernels::parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
            const int64_t last = std::min(end * block, size);
            kept += sum_of(data + begin * block, last - begin * block);
        });
    };
    std::vector<double> rates;
    for (int64_t pass = -warm_ups; pass < passes; ++pass) {
        const Stopwatch watch;
        read();
        if (pass >= 0) rates.push_back(static_cast<double>(size) * 1e-6 / watch.ms());
    }
    return rates;
}

} // namespace refreshlab::bench
