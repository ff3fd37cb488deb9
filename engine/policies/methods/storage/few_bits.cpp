#include "engine/policies/methods/storage/few_bits.h"

#include "engine/policies/bit_codes.h"

#include <algorithm>
#include <cmath>

namespace refreshlab {

namespace {

struct Group {
    int64_t first, n, stride;
    [[nodiscard]] size_t at(int64_t i) const { return static_cast<size_t>(first + i * stride); }
};

template <typename Visit>
void for_groups(FewBits::Groups groups, int64_t group, const BlockShape& shape, const Visit& visit) {
    const int64_t d = shape.head_dim;
    if (groups == FewBits::Groups::channels) {
        for (int64_t c = 0; c < d; ++c)
            visit(Group{c, shape.n, d});
        return;
    }
    for (int64_t row = 0; row < shape.n; ++row)
        for (int64_t c = 0; c < d; c += group)
            visit(Group{row * d + c, std::min(group, d - c), 1});
}

} // namespace

EncodedBlock FewBits::encode(std::span<const float> rows, const BlockShape& shape) const {
    EncodedBlock block;
    block.payload.resize(bytes_of_codes(shape.numbers(), m_bits), 0);
    int64_t next = 0;
    for_groups(m_groups, m_group, shape, [&](const Group& group) {
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
        const float scale = number_at(own, 0, StoredAs::float16), min = number_at(own, 1, StoredAs::float16);
        for (int64_t i = 0; i < group.n; ++i) {
            const float code =
                scale == 0 ? 0 : std::nearbyint(std::clamp((rows[group.at(i)] - min) / scale, 0.0F, most));
            put_code(block.payload, next++, m_bits, static_cast<uint32_t>(code));
        }
    });
    return block;
}

void FewBits::decode(const EncodedBlock& block, const BlockShape& shape, std::span<float> rows) const {
    int64_t next = 0, number = 0;
    for_groups(m_groups, m_group, shape, [&](const Group& group) {
        const float scale = number_at(block.metadata, 2 * number, StoredAs::float16),
                    min = number_at(block.metadata, 2 * number + 1, StoredAs::float16);
        ++number;
        for (int64_t i = 0; i < group.n; ++i)
            rows[group.at(i)] = static_cast<float>(code_at(block.payload, next++, m_bits)) * scale + min;
    });
}

} // namespace refreshlab
