#include "engine/policies/methods/storage/few_bits.h"

#include "engine/policies/bit_codes.h"
#include "engine/policies/code_products.h"

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
    block.payload.resize(bytes_of_codes(shape.numbers(), m_bits), 0); // row after row, whatever a group is
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
            put_code(block.payload, static_cast<int64_t>(group.at(i)), m_bits, static_cast<uint32_t>(code));
        }
    });
    return block;
}

CodeRows FewBits::rows_of(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                          float* to) const {
    return {block.payload, m_bits, shape.head_dim * m_bits, part.rows, part.first_channel, part.channels, to,
            part.channels};
}

std::span<const float> FewBits::pairs_of(const EncodedBlock& block, const BlockShape& shape,
                                         const BlockPart& part) const {
    static thread_local std::vector<float> pairs; // attention decodes at every step
    if (m_groups == Groups::channels) {
        pairs.resize(static_cast<size_t>(2 * part.channels));
        numbers_at(block.metadata, 2 * part.first_channel, StoredAs::float16, pairs);
        return pairs;
    }
    const int64_t groups = (shape.head_dim + m_group - 1) / m_group;
    pairs.resize(2 * part.rows.size() * static_cast<size_t>(groups));
    numbers_of_rows(block.metadata, part.rows, StoredAs::float16, pairs);
    return pairs;
}

void FewBits::decode(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                     float* to) const {
    const CodeRows codes = rows_of(block, shape, part, to);
    const std::span<const float> pairs = pairs_of(block, shape, part);
    m_groups == Groups::channels ? numbers_by_channel(codes, pairs) : numbers_by_row(codes, pairs, m_group);
}

bool FewBits::dots(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part, bool,
                   const CodeDots& d) const {
    const CodeRows codes = rows_of(block, shape, part, nullptr);
    const std::span<const float> pairs = pairs_of(block, shape, part);
    return m_groups == Groups::channels ? dots_by_channel(codes, pairs, d)
                                        : dots_by_row(codes, pairs, m_group, d);
}
bool FewBits::sums(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part, bool,
                   const CodeSums& s) const {
    if (m_groups == Groups::channels) return false;
    return sums_by_row(rows_of(block, shape, part, nullptr), pairs_of(block, shape, part), m_group, s);
}

} // namespace refreshlab
