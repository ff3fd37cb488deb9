// KIVI: everything stays and is read, older entries in a few bits.
//   scale = (max - min) / (2^bits - 1), code = round((x - min) / scale) to even, x' = code * scale + min; scale and min in fp16
//   keys: per channel over `group_size` consecutive tokens, whenever a residual of R tokens is full
//   values: per token over `group_size` channels, all but the newest R
// The prompt reads itself unquantised. A constant group has scale 0 and code 0. Of a group that a refresh writes into, all is
// coded again, from what it was read as.
// Source: reference/cache_policies.md, section 9; Liu et al. 2024 (KIVI).
#include "engine/policies/common_parameters.h"
#include "engine/policies/entry_codec.h"
#include "engine/policies/methods/method_list.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace refreshlab {

namespace {

/// Codes of `bits` bits one after the other, lowest bit first; a scale and a minimum for each group. A group is a channel of all rows
/// (keys), or `group` channels of a row (values).
class FewBits final : public EntryCodec {
public:
    FewBits(int64_t bits, KvHalf half, int64_t group)
        : m_bits(bits)
        , m_half(half)
        , m_group(group) {}

    [[nodiscard]] EncodedBlock encode(std::span<const float> rows, const BlockShape& shape) const override {
        EncodedBlock block;
        block.payload.resize(static_cast<size_t>((shape.numbers() * m_bits + 7) / 8), 0);
        int64_t next = 0;
        for_groups(shape, [&](const Group& group) {
            float low = rows[group.at(0)], high = low;
            for (int64_t i = 1; i < group.n; ++i) {
                low = std::min(low, rows[group.at(i)]);
                high = std::max(high, rows[group.at(i)]);
            }
            const auto most = static_cast<float>((1 << m_bits) - 1);
            const size_t at = block.metadata.size();
            put_number(block.metadata, (high - low) / most, StoredAs::float16);
            put_number(block.metadata, low, StoredAs::float16);
            const auto own = std::span<const uint8_t>(block.metadata).subspan(at);
            const float scale = number_at(own, 0, StoredAs::float16),
                        min = number_at(own, 1, StoredAs::float16);
            for (int64_t i = 0; i < group.n; ++i) {
                const float code =
                    scale == 0 ? 0
                               : std::nearbyint(std::clamp((rows[group.at(i)] - min) / scale, 0.0F, most));
                put_code(block.payload, next++, static_cast<uint32_t>(code));
            }
        });
        return block;
    }
    void decode(const EncodedBlock& block, const BlockShape& shape, std::span<float> rows) const override {
        int64_t next = 0, number = 0;
        for_groups(shape, [&](const Group& group) {
            const float scale = number_at(block.metadata, 2 * number, StoredAs::float16),
                        min = number_at(block.metadata, 2 * number + 1, StoredAs::float16);
            ++number;
            for (int64_t i = 0; i < group.n; ++i)
                rows[group.at(i)] = static_cast<float>(code_at(block.payload, next++)) * scale + min;
        });
    }

private:
    struct Group {
        int64_t first, n, stride;
        [[nodiscard]] size_t at(int64_t i) const { return static_cast<size_t>(first + i * stride); }
    };
    template <typename Visit>
    void for_groups(const BlockShape& shape, const Visit& visit) const {
        const int64_t d = shape.head_dim;
        if (m_half == KvHalf::keys) {
            for (int64_t c = 0; c < d; ++c)
                visit(Group{c, shape.n, d});
            return;
        }
        for (int64_t row = 0; row < shape.n; ++row)
            for (int64_t c = 0; c < d; c += m_group)
                visit(Group{row * d + c, std::min(m_group, d - c), 1});
    }
    void put_code(std::vector<uint8_t>& bytes, int64_t index, uint32_t code) const {
        const auto bit = static_cast<size_t>(index * m_bits);
        const uint32_t moved = code << (bit % 8); // in two bytes at most
        bytes[bit / 8] |= static_cast<uint8_t>(moved);
        if (moved > 255) bytes[bit / 8 + 1] |= static_cast<uint8_t>(moved >> 8);
    }
    [[nodiscard]] uint32_t code_at(std::span<const uint8_t> bytes, int64_t index) const {
        const auto bit = static_cast<size_t>(index * m_bits);
        uint32_t two = bytes[bit / 8];
        if (bit / 8 + 1 < bytes.size()) two |= static_cast<uint32_t>(bytes[bit / 8 + 1]) << 8;
        return two >> (bit % 8) & ((1U << m_bits) - 1);
    }

    int64_t m_bits;
    KvHalf m_half;
    int64_t m_group;
};

class Kivi final : public CacheMethodBase<Kivi> {
public:
    Kivi(const CacheValues& values, const PolicyContext& context)
        : m_residual(values.whole("residual"))
        , m_group(values.whole("group_size"))
        , m_kv_heads(context.kv_heads)
        , m_codecs{std::make_shared<FewBits>(values.whole("bits"), KvHalf::keys, m_group),
                   std::make_shared<FewBits>(values.whole("bits"), KvHalf::values, m_group)}
        , m_coded(static_cast<size_t>(context.layers)) {}

    [[nodiscard]] PolicyNeeds needs() const override { return {.encodes = true}; }

    void read_prompt(const PromptView& view, CacheEditor& cache) override { code(view.layer, cache); }
    void after_attention(const StepView& view, CacheEditor& cache) override { code(view.layer, cache); }

private:
    struct Coded {
        int64_t keys = 0, values = 0; ///< of the first positions
    };

    void code(int64_t layer, CacheEditor& cache) {
        Coded& done = m_coded[static_cast<size_t>(layer)];
        const int64_t n = std::ssize(cache.held(layer, 0)); // nothing ever leaves: entry i is position i
        const Coded due{n - (n - done.keys) % m_residual, std::max(done.values, n - m_residual)};
        for (int64_t head = 0; head < m_kv_heads; ++head) {
            for (int64_t first = done.keys; first < due.keys; first += m_group)
                encode(layer, head, KvHalf::keys, first, std::min(m_group, due.keys - first), cache);
            if (due.values > done.values)
                encode(layer, head, KvHalf::values, done.values, due.values - done.values, cache);
        }
        done = due;
    }
    void encode(int64_t layer, int64_t head, KvHalf half, int64_t first, int64_t n,
                CacheEditor& cache) const {
        const auto positions =
            cache.held(layer, head).subspan(static_cast<size_t>(first), static_cast<size_t>(n));
        cache.encode(layer, head, half, positions, m_codecs[static_cast<size_t>(half)]);
    }

    int64_t m_residual, m_group, m_kv_heads;
    std::array<std::shared_ptr<const EntryCodec>, 2> m_codecs; ///< of keys and of values
    std::vector<Coded> m_coded;                                ///< per layer
};

} // namespace

CacheMethod cache_method_list::kivi() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "kivi";
    method.label = "KIVI";
    method.summary = "Everything stays and is read; older entries are stored in a few bits.";
    method.cost = "stores older keys and values in `bits` bits, and 4 B for every `group_size` of them; "
                  "decoded layer by "
                  "layer at every step";
    method.source = "Liu et al. 2024 (KIVI)";
    method.parameters = {
        whole("bits", "Bits", "bits", "Of a code; the paper has 2 and 4.", 2, 8, 2), residual(128),
        whole("group_size", "Group size", "numbers", "Numbers that share a scale.", 1, 4096, 32)};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<Kivi>(values, context);
    };
    return method;
}

} // namespace refreshlab
