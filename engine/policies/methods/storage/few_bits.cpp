#include "engine/policies/methods/storage/few_bits.h"

#include "engine/policies/bit_codes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

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

constexpr int64_t codes_at_once = 64;

struct Scale {
    float scale, min;
};
/// Scales of a block's groups.
class Scales {
public:
    explicit Scales(std::span<const uint8_t> metadata)
        : m_metadata(metadata) {}
    [[nodiscard]] Scale of(int64_t group) const {
        return {number_at(m_metadata, 2 * group, StoredAs::float16),
                number_at(m_metadata, 2 * group + 1, StoredAs::float16)};
    }

private:
    std::span<const uint8_t> m_metadata;
};

// Four numbers at a time, as every x86-64 and ARM64 has them. A number is code * scale + min, rounded twice, in any way of getting there.
using Four [[gnu::vector_size(16)]] = float;
using FourIndices [[gnu::vector_size(16)]] = int32_t;

/// What the codes of a byte are, as numbers.
template <int64_t bits>
constexpr auto numbers_of_bytes() {
    std::array<std::array<float, 8 / bits>, 256> numbers{};
    for (size_t byte = 0; byte < 256; ++byte)
        for (size_t i = 0; i < 8 / bits; ++i)
            numbers[byte][i] = static_cast<float>(byte >> (i * bits) & ((1U << bits) - 1));
    return numbers;
}
/// Codes 4 i .. 4 i + 3.
template <int64_t bits>
Four four_codes(const uint8_t* bytes, int64_t i) {
    alignas(16) static constexpr auto numbers = numbers_of_bytes<bits>();
    Four four;
    for (int64_t byte = 0; byte < bits / 2; ++byte)
        std::memcpy(reinterpret_cast<char*>(&four) + static_cast<size_t>(byte) * (8 / bits) * sizeof(float),
                    numbers[bytes[i * (bits / 2) + byte]].data(), (8 / bits) * sizeof(float));
    return four;
}
void store(Four four, float* to) {
    std::memcpy(to, &four, sizeof(four));
}

/// 4 n codes of each of four channels, `stride` bytes apart, into rows of `width` numbers.
template <int64_t bits>
void unpack_channels(const uint8_t* bytes, size_t stride, int64_t n, const Scale (&scales)[4], float* to,
                     int64_t width) {
    for (int64_t i = 0; i < n; ++i, to += 4 * width) {
        Four c[4];
        for (size_t channel = 0; channel < 4; ++channel)
            c[channel] =
                four_codes<bits>(bytes + channel * stride, i) * scales[channel].scale + scales[channel].min;
        const Four low01 = __builtin_shuffle(c[0], c[1], FourIndices{0, 4, 1, 5}),
                   low23 = __builtin_shuffle(c[2], c[3], FourIndices{0, 4, 1, 5}),
                   high01 = __builtin_shuffle(c[0], c[1], FourIndices{2, 6, 3, 7}),
                   high23 = __builtin_shuffle(c[2], c[3], FourIndices{2, 6, 3, 7});
        store(__builtin_shuffle(low01, low23, FourIndices{0, 1, 4, 5}), to);
        store(__builtin_shuffle(low01, low23, FourIndices{2, 3, 6, 7}), to + width);
        store(__builtin_shuffle(high01, high23, FourIndices{0, 1, 4, 5}), to + 2 * width);
        store(__builtin_shuffle(high01, high23, FourIndices{2, 3, 6, 7}), to + 3 * width);
    }
}

/// Codes [first, first + n) as the numbers that they stand for.
void unpack(std::span<const uint8_t> bytes, int64_t first, int64_t n, int64_t bits, Scale s, float* to) {
    int64_t done = 0;
    const auto fours = [&]<int64_t of>() {
        const uint8_t* const from = bytes.data() + first * of / 8;
        for (; done + 4 <= n; done += 4)
            store(four_codes<of>(from, done / 4) * s.scale + s.min, to + done);
    };
    if (first * bits % 8 == 0) {
        if (bits == 2) fours.template operator()<2>();
        if (bits == 4) fours.template operator()<4>();
        if (bits == 8) fours.template operator()<8>();
    }
    for (; done < n; ++done)
        to[done] = static_cast<float>(code_at(bytes, first + done, bits)) * s.scale + s.min;
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

void FewBits::decode(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                     float* to) const {
    const Scales scales(block.metadata);
    if (m_groups == Groups::channels) { // the codes of a channel follow one another
        float column[codes_at_once];
        int64_t c = 0;
        const bool whole =
            part.rows % 4 == 0 && shape.n * m_bits % 8 == 0 && part.first_row * m_bits % 8 == 0;
        for (; whole && c + 4 <= part.channels && (m_bits == 2 || m_bits == 4 || m_bits == 8); c += 4) {
            const int64_t channel = part.first_channel + c;
            const Scale four[4] = {scales.of(channel), scales.of(channel + 1), scales.of(channel + 2),
                                   scales.of(channel + 3)};
            const auto stride = static_cast<size_t>(shape.n * m_bits / 8);
            const uint8_t* const from = block.payload.data() + static_cast<size_t>(channel) * stride +
                                        static_cast<size_t>(part.first_row * m_bits / 8);
            const auto way = m_bits == 2   ? unpack_channels<2>
                             : m_bits == 4 ? unpack_channels<4>
                                           : unpack_channels<8>;
            way(from, stride, part.rows / 4, four, to + c, part.channels);
        }
        for (; c < part.channels; ++c) {
            const int64_t channel = part.first_channel + c;
            for (int64_t row = 0; row < part.rows; row += codes_at_once) {
                const int64_t n = std::min(codes_at_once, part.rows - row);
                unpack(block.payload, channel * shape.n + part.first_row + row, n, m_bits, scales.of(channel),
                       column);
                for (int64_t i = 0; i < n; ++i)
                    to[(row + i) * part.channels + c] = column[i];
            }
        }
        return;
    }
    const int64_t groups = (shape.head_dim + m_group - 1) / m_group, end = part.first_channel + part.channels;
    for (int64_t i = 0; i < part.rows; ++i) {
        const int64_t row = part.first_row + i;
        for (int64_t c = part.first_channel; c < end;) {
            const int64_t group = c / m_group, next = std::min((group + 1) * m_group, end);
            unpack(block.payload, row * shape.head_dim + c, next - c, m_bits, scales.of(row * groups + group),
                   to + i * part.channels + c - part.first_channel);
            c = next;
        }
    }
}

} // namespace refreshlab
