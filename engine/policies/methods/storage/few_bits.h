#pragma once

#include "engine/policies/entry_codec.h"

#include <cstdint>

namespace refreshlab {

/// Numbers as codes of a few bits, with a scale and a minimum for each group (Liu et al. 2024, KIVI):
///   scale = (max - min) / (2^bits - 1), code = round((x - min) / scale) to even, x' = code * scale + min; scale and min in fp16.
/// A constant group has scale 0 and code 0.
class FewBits final : public EntryCodec {
public:
    enum class Groups : uint8_t {
        channels, ///< a channel of all rows is a group
        rows,     ///< `group` channels of a row, one after the other
    };
    FewBits(int64_t bits, Groups groups, int64_t group)
        : m_bits(bits)
        , m_groups(groups)
        , m_group(group) {}

    [[nodiscard]] EncodedBlock encode(std::span<const float> rows, const BlockShape& shape) const override;
    using EntryCodec::decode;
    void decode(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                float* to) const override;

private:
    int64_t m_bits;
    Groups m_groups;
    int64_t m_group;
};

} // namespace refreshlab
