#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/attention.h"
#include "tests/kernels/kernel_fixture.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>

/// Entries whose rows are made where they are read give the bits of the same rows in a cache.
namespace coded_attention_test {

using namespace refreshlab;
using kernels::AttentionInputs;
using kernels::Isa;
using test::Random;
using test::same_bits;
using test::Setting;

namespace {

/// Rows of a cache, behind the interface of codes.
class Rows : public kernels::CodedEntries {
public:
    Rows(at::Tensor k, at::Tensor v) ///< [columns, head_dim] fp32
        : m_halves{k.contiguous(), v.contiguous()} {}
    void read(bool values, const int64_t* places, int64_t n, int64_t first, int64_t channels,
              float* to) const override {
        const at::Tensor& half = m_halves[values ? 1 : 0];
        for (int64_t i = 0; i < n; ++i)
            std::copy_n(half.const_data_ptr<float>() + places[i] * half.size(1) + first, channels,
                        to + i * channels);
    }

protected:
    at::Tensor m_halves[2];
};

/// The same; products and sums are made here.
class FromCodes final : public Rows {
public:
    using Rows::Rows;
    [[nodiscard]] bool dots(const Some& some, const float* x, int64_t x_stride, int64_t rows, float* y,
                            int64_t y_stride) const override {
        const std::vector<float> all = rows_of(some);
        kernels::cpu::Dots d;
        d.x = x;
        d.x_stride = x_stride;
        d.rows = rows;
        d.w = all.data();
        d.w_stride = d.in = some.channels;
        d.outs = some.n;
        d.y = y;
        d.y_stride = y_stride;
        kernels::cpu::avx512_kernels()->dots(d);
        ++calls;
        return true;
    }
    [[nodiscard]] bool weighted_sum(const Some& some, const float* p, int64_t p_stride, int64_t rows,
                                    float* acc, int64_t acc_stride) const override {
        const std::vector<float> all = rows_of(some);
        kernels::cpu::WeightedSum s;
        s.p = p;
        s.p_stride = p_stride;
        s.rows = rows;
        s.v = all.data();
        s.v_stride = s.width = some.channels;
        s.end = some.n;
        s.acc = acc;
        s.acc_stride = acc_stride;
        kernels::cpu::avx512_kernels()->weighted_sum(s);
        ++calls;
        return true;
    }
    mutable std::atomic<int> calls = 0;

private:
    [[nodiscard]] std::vector<float> rows_of(const Some& some) const {
        std::vector<float> all(static_cast<size_t>(some.n * some.channels));
        read(some.values, some.places, some.n, some.first_channel, some.channels, all.data());
        return all;
    }
};

/// The same; some entries can be read turned as well: channels in another order, keys doubled, values halved, with zeros behind them.
class TurnedRows final : public Rows {
public:
    TurnedRows(at::Tensor k, at::Tensor v, int64_t more_keys, int64_t more_values, uint32_t seed)
        : Rows(std::move(k), std::move(v))
        , m_more{more_keys, more_values} {
        std::mt19937 random(seed);
        m_stored = seed % 2 == 0;
        m_turned_stored = seed % 3 == 0;
        for (auto& order : m_order) {
            order.resize(static_cast<size_t>(m_halves[0].size(1)));
            std::iota(order.begin(), order.end(), 0);
            std::ranges::shuffle(order, random);
        }
        for (int64_t i = 0, same = 0; i < m_halves[0].size(0); ++i, --same) {
            if (same <= 0) same = static_cast<int64_t>(random() % 90 + 1);
            m_turned.push_back(m_turned.empty() || same > 1 ? !m_turned.empty() && m_turned.back()
                                                            : !m_turned.back());
        }
        std::vector<int64_t> all(m_turned.size());
        std::iota(all.begin(), all.end(), 0);
        for (const bool values : {false, true}) {
            at::Tensor& rows = m_turned_rows[values ? 1 : 0];
            rows = at::empty({std::ssize(all), turned_width(values)});
            read_turned(values, all.data(), std::ssize(all), rows.mutable_data_ptr<float>());
        }
    }
    [[nodiscard]] int64_t turned_width(bool values) const override {
        return m_halves[0].size(1) + m_more[values ? 1 : 0];
    }
    [[nodiscard]] Stretch stretch(bool values, const int64_t* places, int64_t n,
                                  int64_t most_made) const override {
        Stretch all{1, is_turned(places[0]), nullptr, 0};
        const bool stored = all.turned ? m_turned_stored : m_stored;
        while (all.n < n && (stored ? places[all.n] == places[all.n - 1] + 1 : all.n < most_made) &&
               is_turned(places[all.n]) == all.turned)
            ++all.n;
        if (!stored) return all;
        const at::Tensor& rows = all.turned ? m_turned_rows[values ? 1 : 0] : m_halves[values ? 1 : 0];
        all.stride = rows.size(1);
        all.stored = rows.const_data_ptr<float>() + places[0] * all.stride;
        return all;
    }
    void sort(bool values, const int64_t* places, int64_t n, Sorted& to) const override {
        to.plain.n = to.turned.n = 0;
        to.stored = m_stored ? m_halves[values ? 1 : 0].const_data_ptr() : nullptr;
        for (int64_t i = 0; i < n; ++i) {
            Alike& alike = is_turned(places[i]) ? to.turned : to.plain;
            if (!is_turned(places[i])) to.slots[alike.n] = places[i];
            alike.ones[alike.n++] = i;
        }
    }
    void read_turned(bool values, const int64_t* places, int64_t n, float* to) const override {
        const at::Tensor& half = m_halves[values ? 1 : 0];
        for (int64_t i = 0; i < n; ++i, to += turned_width(values)) {
            std::fill_n(to, turned_width(values), 0.0F);
            for (int64_t c = 0; c < half.size(1); ++c)
                to[c] = half.const_data_ptr<float>()[places[i] * half.size(1) + order(values)[c]] *
                        (values ? 0.5F : 2.0F);
        }
    }
    void turn(const float* query, float* to) const override {
        std::fill_n(to, turned_width(false), 1.0F);
        for (int64_t c = 0; c < m_halves[0].size(1); ++c)
            to[c] = query[order(false)[c]] * 0.5F;
    }
    void turn_back(const float* sum, float* to) const override {
        for (int64_t c = 0; c < m_halves[1].size(1); ++c)
            to[order(true)[c]] += sum[c] * 2;
    }

private:
    [[nodiscard]] const int64_t* order(bool values) const { return m_order[values ? 1 : 0].data(); }
    int64_t m_more[2];
    std::vector<int64_t> m_order[2];
    [[nodiscard]] bool is_turned(int64_t place) const { return m_turned[static_cast<size_t>(place)]; }
    std::vector<bool> m_turned;
    at::Tensor m_turned_rows[2];
    bool m_stored; ///< what is not turned is read where it stands
    bool m_turned_stored;
};

} // namespace

TEST_CASE("coded entries give the bits of the same rows in a cache", "[kernels][attention]") {
    Random random(31);
    int from_codes = 0;
    for (int i = 0; i < 14; ++i) {
        const int64_t kv_heads = random.between(1, 3), d = random.pick<int64_t>({8, 40, 64}),
                      heads = kv_heads * random.between(1, 4), rows = random.between(1, 10);
        // Short contexts, and those that all threads share.
        const int64_t n =
            i % 2 == 0 ? random.between(1, 200) : (1 << 18) / (kv_heads * d) + random.between(8, 99);
        const at::ScalarType dtype = random.pick<at::ScalarType>({at::kFloat, at::kBFloat16});
        const at::Tensor q = random.normal({rows, heads, d}), k = random.normal({kv_heads, n, d}, 1, dtype),
                         v = random.normal({kv_heads, n, d}, 1, dtype);
        std::vector<int64_t> positions(static_cast<size_t>(n)), columns;
        std::iota(positions.begin(), positions.end(), 3);
        columns.resize(positions.size());
        std::iota(columns.begin(), columns.end(), 0);
        if (i % 3 == 0)
            std::ranges::shuffle(columns, std::mt19937(static_cast<uint32_t>(random.between(0, 1 << 30))));
        std::vector<std::unique_ptr<Rows>> stored;
        std::vector<kernels::KeyList> plain, coded;
        for (int64_t h = 0; h < kv_heads; ++h) {
            if (h % 2 == i % 2)
                stored.push_back(std::make_unique<FromCodes>(k[h].to(at::kFloat), v[h].to(at::kFloat)));
            else
                stored.push_back(std::make_unique<Rows>(k[h].to(at::kFloat), v[h].to(at::kFloat)));
            const int64_t listed = h == 1 ? n / 2 : n;
            plain.push_back({positions.data(), columns.data(), listed});
            coded.push_back({positions.data(), columns.data(), listed, stored.back().get()});
        }
        std::vector<int64_t> visible, first;
        for (int64_t r = 0; r < rows; ++r) {
            visible.push_back(random.between(1, n + 5));
            first.push_back(random.between(0, n / 2));
        }
        AttentionInputs in;
        in.q = q;
        in.num_visible = visible;
        if (i % 4 == 0) in.first_visible = first;
        in.scale = 0.3;
        if (i % 5 == 0) {
            in.own_k = random.normal({rows, kv_heads, d});
            in.own_v = random.normal({rows, kv_heads, d});
        }
        for (const Isa isa : kernels::available_isas()) {
            for (const int threads : {1, 3}) {
                CAPTURE(i, std::string(to_string(isa)), threads, q.sizes(), k.sizes());
                const Setting setting(isa, threads);
                in.k_cache = k;
                in.v_cache = v;
                in.lists = plain;
                at::Tensor wanted, given;
                const at::Tensor expected = kernels::attention(in, &wanted);
                in.k_cache = in.v_cache = at::empty({kv_heads, 0, d}, k.options());
                in.lists = coded;
                REQUIRE(same_bits(kernels::attention(in, &given), expected));
                REQUIRE(same_bits(given, wanted));
                REQUIRE(same_bits(kernels::attention(in), expected));
            }
        }
        for (const auto& entries : stored)
            if (const auto* direct = dynamic_cast<const FromCodes*>(entries.get()); direct != nullptr)
                from_codes += direct->calls;
    }
    CHECK((from_codes > 0) == kernels::is_available(Isa::avx512));
}

TEST_CASE("entries that are read turned give what their rows give, for any threads and rows of a call",
          "[kernels][attention]") {
    Random random(33);
    for (int i = 0; i < 10; ++i) {
        const int64_t kv_heads = random.between(1, 3), d = random.pick<int64_t>({8, 40, 64}),
                      heads = kv_heads * random.between(1, 4), rows = random.between(1, 10);
        const int64_t n =
            i % 2 == 0 ? random.between(1, 200) : (1 << 18) / (kv_heads * d) + random.between(8, 99);
        const at::Tensor q = random.normal({rows, heads, d}), k = random.normal({kv_heads, n, d}),
                         v = random.normal({kv_heads, n, d});
        std::vector<int64_t> positions(static_cast<size_t>(n)), visible;
        std::iota(positions.begin(), positions.end(), 0);
        std::vector<std::unique_ptr<TurnedRows>> stored;
        std::vector<kernels::KeyList> plain, coded;
        for (int64_t h = 0; h < kv_heads; ++h) {
            stored.push_back(std::make_unique<TurnedRows>(k[h], v[h], random.between(0, 70),
                                                          random.between(0, 70),
                                                          static_cast<uint32_t>(random.between(0, 1 << 30))));
            plain.push_back({positions.data(), positions.data(), n});
            coded.push_back({positions.data(), positions.data(), n, stored.back().get()});
        }
        for (int64_t r = 0; r < rows; ++r)
            visible.push_back(random.between(1, n));
        AttentionInputs in;
        in.q = q;
        in.num_visible = visible;
        in.scale = 0.3;
        if (i % 5 == 0) {
            in.own_k = random.normal({rows, kv_heads, d});
            in.own_v = random.normal({rows, kv_heads, d});
        }
        for (const Isa isa : kernels::available_isas()) {
            CAPTURE(i, std::string(to_string(isa)), q.sizes(), k.sizes());
            at::Tensor first;
            for (const int threads : {1, 3}) {
                const Setting setting(isa, threads);
                in.q = q;
                in.num_visible = visible;
                in.k_cache = k;
                in.v_cache = v;
                in.lists = plain;
                at::Tensor wanted, given;
                const at::Tensor expected = kernels::attention(in, &wanted);
                in.k_cache = in.v_cache = at::empty({kv_heads, 0, d}, k.options());
                in.lists = coded;
                const at::Tensor out = kernels::attention(in, &given);
                REQUIRE(at::allclose(given, wanted, 1e-4, 1e-5));
                REQUIRE(at::allclose(out, expected, 1e-3, 1e-4));
                if (isa == Isa::reference) continue; // ATen cuts sums as threads come
                if (first.defined()) REQUIRE(same_bits(out, first));
                first = out;
                if (in.own_k.defined()) continue;
                in.q = q.narrow(0, rows - 1, 1); // one row alone
                in.num_visible = std::span(visible).last(1);
                REQUIRE(same_bits(kernels::attention(in), out.narrow(0, rows - 1, 1)));
            }
        }
    }
}

} // namespace coded_attention_test
