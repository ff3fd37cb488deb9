// TurboQuant: everything stays and is read; all but the newest entries in a few bits, by a code that knows the data's law beforehand.
//   x = r u, |u| = 1. u, with zeros up to D = a power of two numbers, is turned by a random rotation (random signs, then Hadamard); each
//   coordinate c of the result goes to the nearest level of the Lloyd-Max code for its law, (c + 1) / 2 ~ Beta((D-1)/2, (D-1)/2)
//   values: `bits` bits a coordinate, and r in fp16
//   keys: one bit less, and of what is left, e = x - x', the signs of S e and |e| in fp16, S Gaussian [d, d]. A product with a query is
//   <q, x'> + sqrt(pi/2) / d * |e| * <S q, sign(S e)>, which is <q, x' + sqrt(pi/2) / d * |e| * S^T sign(S e)>: that is what is read
// A query's product with a key is unbiased over the draws of S. The prompt reads itself as it was. The paper encodes every token at
// once; here `residual` of them, one at the least, wait.
// Source: reference/cache-definitions.md, section 9; Zandieh et al. 2025 (TurboQuant), 2024 (QJL).
#include "engine/policies/bit_codes.h"
#include "engine/policies/code_products.h"
#include "engine/policies/code_rows.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/entry_codec.h"
#include "engine/policies/methods/method_list.h"
#include "engine/policies/mixed_bits.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>

namespace refreshlab {

namespace {

using Doubles = std::vector<double>;

/// Levels of the Lloyd-Max code with 2^bits levels for a coordinate of a random unit vector of `dim` numbers, ascending: each level is
/// the mean of what is nearest to it.
Doubles lloyd_max(int64_t bits, int64_t dim) {
    constexpr int64_t cells = 4096;
    const double deviation = 1 / std::sqrt(static_cast<double>(dim)), end = std::min(8 * deviation, 1.0);
    Doubles place, mass;
    for (int64_t i = 0; i < cells; ++i) {
        place.push_back(end * (-1 + (2 * static_cast<double>(i) + 1) / cells));
        mass.push_back(std::pow(1 - place.back() * place.back(), (static_cast<double>(dim) - 3) / 2));
    }
    const auto n = static_cast<size_t>(int64_t{1} << bits);
    Doubles levels;
    for (size_t k = 0; k < n; ++k) // spread over three standard deviations
        levels.push_back(std::min(3 * deviation, 1.0) *
                         (-1 + (2 * static_cast<double>(k) + 1) / static_cast<double>(n)));
    for (int turn = 0; turn < 500; ++turn) {
        Doubles weight(n, 0), sum(n, 0);
        size_t k = 0;
        for (size_t i = 0; i < place.size(); ++i) {
            while (k + 1 < n && place[i] > (levels[k] + levels[k + 1]) / 2)
                ++k;
            weight[k] += mass[i];
            sum[k] += mass[i] * place[i];
        }
        double moved = 0;
        for (k = 0; k < n; ++k) {
            if (weight[k] <= 0) continue;
            moved = std::max(moved, std::abs(sum[k] / weight[k] - levels[k]));
            levels[k] = sum[k] / weight[k];
        }
        if (moved < 1e-7) break;
    }
    return levels;
}

/// A draw of the standard normal distribution for a number of its own (Box and Muller 1958).
double normal(uint64_t key) {
    const double u = (static_cast<double>(mixed_bits(key) >> 11) + 1) / 9007199254740993.0,
                 v = static_cast<double>(mixed_bits(key ^ 0xA5A5A5A5A5A5A5A5ULL) >> 11) / 9007199254740992.0;
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

/// What keys and values share: rotation and codes. Numbers of a row in double, in one order.
class TurboCodec final : public EntryCodec {
public:
    TurboCodec(int64_t bits, KvHalf half, int64_t head_dim, uint64_t seed)
        : m_bits(half == KvHalf::keys ? bits - 1 : bits)
        , m_dim(head_dim)
        , m_padded(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(head_dim))))
        , m_levels(lloyd_max(m_bits, m_padded))
        , m_float_levels(m_levels.begin(), m_levels.end())
        , m_sketch_scale(std::sqrt(std::numbers::pi / 2) / static_cast<double>(head_dim)) {
        const uint64_t key = mixed_bits(seed + (half == KvHalf::keys ? 1 : 2));
        for (int64_t i = 0; i < m_padded; ++i)
            m_signs.push_back(mixed_bits(key + static_cast<uint64_t>(i)) >> 63 != 0 ? -1 : 1);
        if (half == KvHalf::keys) m_sketch.resize(static_cast<size_t>(head_dim * head_dim));
        for (int64_t row = 0; half == KvHalf::keys && row < head_dim; ++row)
            for (int64_t c = 0; c < head_dim; ++c)
                m_sketch[static_cast<size_t>(c * head_dim + row)] =
                    normal(mixed_bits(key) + static_cast<uint64_t>(row * head_dim + c));
    }

    [[nodiscard]] EncodedBlock encode(std::span<const float> rows, const BlockShape& shape) const override {
        EncodedBlock block;
        block.payload.resize(static_cast<size_t>(shape.n) * row_bytes(), 0);
        for (int64_t i = 0; i < shape.n; ++i) {
            const auto x = rows.subspan(static_cast<size_t>(i * m_dim), static_cast<size_t>(m_dim));
            const auto codes =
                std::span(block.payload).subspan(static_cast<size_t>(i) * row_bytes(), row_bytes());
            encode_row(x, codes, block.metadata);
        }
        return block;
    }
    void decode(const EncodedBlock& block, const BlockShape&, const BlockPart& part,
                float* to) const override {
        for (const int64_t row : part.rows) {
            const auto codes =
                std::span(block.payload).subspan(static_cast<size_t>(row) * row_bytes(), row_bytes());
            Doubles x = turned_back(codes, number_at(block.metadata, row * norms(), StoredAs::float16));
            if (!m_sketch.empty())
                add_sketch(codes, number_at(block.metadata, row * norms() + 1, StoredAs::float16), x);
            for (int64_t c = 0; c < part.channels; ++c)
                *to++ = static_cast<float>(x[static_cast<size_t>(part.first_channel + c)]);
        }
    }

    [[nodiscard]] bool joins(int64_t) const override { return true; }

    // Turned, a row is levels times r, of keys then signs times the rest: the rotation and S are of the query, or of the sum.
    [[nodiscard]] int64_t turned_width(int64_t) const override {
        return m_padded + (m_sketch.empty() ? 0 : m_dim);
    }
    void read_turned(const EncodedBlock& block, const BlockShape&, std::span<const int64_t> rows,
                     float* to) const override {
        const std::span all = factors_of(block, rows);
        const int64_t width = turned_width(m_dim);
        numbers_of_levels(codes_of(block, rows, to, width), m_float_levels, all.first(rows.size()));
        if (norms() == 2)
            numbers_of_signs({block.payload, 1, 8 * static_cast<int64_t>(row_bytes()), rows, first_sign(),
                              m_dim, to + m_padded, width},
                             all.last(rows.size()));
    }
    [[nodiscard]] bool dots(const EncodedBlock& block, const BlockShape&, const BlockPart& part, bool turned,
                            const CodeDots& d) const override {
        if (!turned || norms() == 1) return false;
        const std::span all = factors_of(block, part.rows);
        const size_t n = part.rows.size();
        return dots_of_levels(codes_of(block, part.rows, nullptr, 0), m_float_levels, all.first(n),
                              {first_sign(), m_dim, all.last(n)}, d);
    }
    [[nodiscard]] bool sums(const EncodedBlock& block, const BlockShape&, const BlockPart& part, bool turned,
                            const CodeSums& s) const override {
        if (!turned || norms() == 2) return false;
        return sums_of_levels(codes_of(block, part.rows, nullptr, 0), m_float_levels,
                              factors_of(block, part.rows), s);
    }
    void turn(std::span<const float> query, float* to) const override {
        const Doubles u = rotated(query);
        for (const double number : u)
            *to++ = static_cast<float>(number);
        const Doubles x(query.begin(), query.end());
        for (const double number : sketched(x))
            *to++ = static_cast<float>(number);
    }
    void turn_back(const float* sum, std::span<float> to) const override {
        Doubles u(sum, sum + m_padded);
        hadamard(u); // its own inverse
        for (size_t c = 0; c < to.size(); ++c)
            to[c] += static_cast<float>(m_signs[c] * u[c]);
    }

private:
    [[nodiscard]] int64_t norms() const { return m_sketch.empty() ? 1 : 2; } ///< of a row
    [[nodiscard]] CodeRows codes_of(const EncodedBlock& block, std::span<const int64_t> rows, float* to,
                                    int64_t stride) const {
        return {block.payload, m_bits, 8 * static_cast<int64_t>(row_bytes()), rows, 0, m_padded, to, stride};
    }
    [[nodiscard]] int64_t first_sign() const {
        return 8 * static_cast<int64_t>(code_bytes());
    } ///< bit of a row
    /// r of all rows, then the factors of all signs. The calling thread's, until the next call.
    [[nodiscard]] std::span<const float> factors_of(const EncodedBlock& block,
                                                    std::span<const int64_t> rows) const {
        static thread_local std::vector<float> of_rows, factors; // attention decodes at every step
        const auto n = rows.size(), each = static_cast<size_t>(norms());
        const auto scale = static_cast<float>(m_sketch_scale);
        of_rows.resize(n * each);
        numbers_of_rows(block.metadata, rows, StoredAs::float16, of_rows);
        if (each == 1) return of_rows;
        factors.resize(2 * n);
        split_pairs(of_rows, std::span(factors).first(n), std::span(factors).last(n));
        for (float& factor : std::span(factors).last(n))
            factor *= scale;
        return factors;
    }
    [[nodiscard]] size_t code_bytes() const { return bytes_of_codes(m_padded, m_bits); }
    [[nodiscard]] size_t row_bytes() const {
        return code_bytes() + (m_sketch.empty() ? 0 : bytes_of_codes(m_dim, 1));
    }

    /// A number as fp16 has it, put at the end of the metadata.
    static double put_norm(double value, std::vector<uint8_t>& metadata) {
        put_number(metadata, static_cast<float>(std::min(value, 65504.0)), StoredAs::float16);
        const auto own = std::span<const uint8_t>(metadata).last(2);
        return static_cast<double>(number_at(own, 0, StoredAs::float16));
    }

    void encode_row(std::span<const float> x, std::span<uint8_t> codes,
                    std::vector<uint8_t>& metadata) const {
        double square = 0;
        for (const float number : x)
            square += static_cast<double>(number) * static_cast<double>(number);
        Doubles u = rotated(x);
        for (double& number : u)
            if (square > 0) number /= std::sqrt(square);
        for (size_t i = 0; i < u.size(); ++i) {
            const auto above = std::ranges::lower_bound(m_levels, u[i]);
            auto level = static_cast<size_t>(above - m_levels.begin());
            if (level == m_levels.size() ||
                (level > 0 && u[i] - m_levels[level - 1] <= m_levels[level] - u[i]))
                --level;
            put_code(codes, static_cast<int64_t>(i), m_bits, static_cast<uint32_t>(level));
        }
        const double norm = put_norm(std::sqrt(square), metadata);
        if (m_sketch.empty()) return;
        Doubles left = turned_back(codes, norm);
        double of_left = 0;
        for (size_t c = 0; c < x.size(); ++c) {
            left[c] = static_cast<double>(x[c]) - left[c];
            of_left += left[c] * left[c];
        }
        const Doubles sketch = sketched(left);
        for (int64_t row = 0; row < m_dim; ++row)
            if (sketch[static_cast<size_t>(row)] > 0) put_code(codes.subspan(code_bytes()), row, 1, 1);
        put_norm(std::sqrt(of_left), metadata);
    }

    /// With zeros behind it, turned: [padded].
    [[nodiscard]] Doubles rotated(std::span<const float> x) const {
        Doubles u(static_cast<size_t>(m_padded), 0);
        for (size_t c = 0; c < x.size(); ++c)
            u[c] = m_signs[c] * static_cast<double>(x[c]);
        hadamard(u);
        return u;
    }

    /// S x. Column by column, so that the sums of many rows grow at once.
    [[nodiscard]] Doubles sketched(const Doubles& x) const {
        Doubles sums(x.size(), 0);
        for (size_t c = 0; c < x.size(); ++c)
            for (size_t row = 0; row < x.size(); ++row)
                sums[row] += m_sketch[c * x.size() + row] * x[c];
        return sums;
    }

    /// x', [head_dim].
    [[nodiscard]] Doubles turned_back(std::span<const uint8_t> codes, double norm) const {
        Doubles u;
        for (int64_t i = 0; i < m_padded; ++i)
            u.push_back(m_levels[code_at(codes, i, m_bits)]);
        hadamard(u); // its own inverse
        u.resize(static_cast<size_t>(m_dim));
        for (size_t c = 0; c < u.size(); ++c)
            u[c] *= m_signs[c] * norm;
        return u;
    }

    void add_sketch(std::span<const uint8_t> codes, double norm, Doubles& x) const {
        const double scale = m_sketch_scale * norm;
        Doubles signs;
        for (int64_t row = 0; row < m_dim; ++row)
            signs.push_back(code_at(codes.subspan(code_bytes()), row, 1) != 0 ? scale : -scale);
        for (size_t c = 0; c < x.size(); ++c)
            for (size_t row = 0; row < signs.size(); ++row)
                x[c] += signs[row] * m_sketch[c * signs.size() + row];
    }

    /// Orthonormal.
    static void hadamard(Doubles& u) {
        for (size_t half = 1; half < u.size(); half *= 2) {
            for (size_t first = 0; first < u.size(); first += 2 * half) {
                for (size_t i = first; i < first + half; ++i) {
                    const double a = u[i], b = u[i + half];
                    u[i] = a + b;
                    u[i + half] = a - b;
                }
            }
        }
        const double scale = 1 / std::sqrt(static_cast<double>(u.size()));
        for (double& number : u)
            number *= scale;
    }

    int64_t m_bits, m_dim, m_padded;
    Doubles m_levels;
    std::vector<float> m_float_levels;
    std::vector<int> m_signs; ///< [padded]
    Doubles m_sketch;         ///< S transposed, [head_dim, head_dim]; of values empty
    double m_sketch_scale;    ///< what |e| is multiplied by
};

class TurboQuant final : public CacheMethodBase<TurboQuant> {
public:
    TurboQuant(const CacheValues& values, const PolicyContext& context)
        : m_residual(values.whole("residual"))
        , m_kv_heads(context.kv_heads)
        , m_coded(static_cast<size_t>(context.layers), 0) {
        for (const KvHalf half : {KvHalf::keys, KvHalf::values})
            m_codecs[static_cast<size_t>(half)] =
                std::make_shared<TurboCodec>(values.whole("bits"), half, context.head_dim, context.seed);
    }

    [[nodiscard]] PolicyNeeds needs() const override { return {.encodes = true}; }

    void read_prompt(const PromptView& view, CacheEditor& cache) override { code(view.layer, cache); }
    void after_attention(const StepView& view, CacheEditor& cache) override { code(view.layer, cache); }

private:
    void code(int64_t layer, CacheEditor& cache) {
        int64_t& done = m_coded[static_cast<size_t>(layer)];
        const int64_t due = std::ssize(cache.held(layer, 0)) - m_residual; // nothing ever leaves
        if (due <= done) return;
        for (int64_t head = 0; head < m_kv_heads; ++head) {
            const auto positions =
                cache.held(layer, head).subspan(static_cast<size_t>(done), static_cast<size_t>(due - done));
            const std::vector<int64_t> newly(positions.begin(), positions.end());
            for (const KvHalf half : {KvHalf::keys, KvHalf::values})
                cache.encode(layer, head, half, newly, m_codecs[static_cast<size_t>(half)]);
        }
        done = due;
    }

    int64_t m_residual, m_kv_heads;
    std::array<std::shared_ptr<const EntryCodec>, 2> m_codecs; ///< of keys and of values
    std::vector<int64_t> m_coded;                              ///< per layer: so many of the first positions
};

} // namespace

CacheMethod cache_method_list::turbo_quant() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "turbo_quant";
    method.label = "TurboQuant";
    method.summary = "Everything stays and is read; all but the newest entries are turned at random and "
                     "stored in a few bits.";
    method.cost = "stores `bits` bits a number, and 2 B for a value, 4 B for a key; decoded where attention "
                  "reads";
    method.source = "Zandieh et al. 2025 (TurboQuant)";
    method.parameters = {bits(4), residual(1)};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<TurboQuant>(values, context);
    };
    return method;
}

} // namespace refreshlab
