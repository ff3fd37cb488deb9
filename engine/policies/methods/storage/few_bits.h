#pragma once

#include "engine/policies/code_rows.h"
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
    /// \param evicts  the policy does; else rows are joined, where groups are of rows
    FewBits(int64_t bits, Groups groups, int64_t group, bool evicts = true)
        : m_bits(bits)
        , m_groups(groups)
        , m_group(group)
        , m_evicts(evicts) {}

    [[nodiscard]] EncodedBlock encode(std::span<const float> rows, const BlockShape& shape) const override;
    using EntryCodec::decode;
    void decode(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                float* to) const override;
    [[nodiscard]] bool dots(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                            bool turned, const CodeDots& d) const override;
    [[nodiscard]] bool sums(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                            bool turned, const CodeSums& s) const override;

    [[nodiscard]] bool joins(int64_t head_dim) const override {
        return !m_evicts && m_groups == Groups::rows && head_dim * m_bits % 8 == 0;
    }

private:
    [[nodiscard]] CodeRows rows_of(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                                   float* to) const;
    /// Scales and minima of a part: of its channels, or of all groups of its rows. The calling thread's, until the next call.
    [[nodiscard]] std::span<const float> pairs_of(const EncodedBlock& block, const BlockShape& shape,
                                                  const BlockPart& part) const;

    int64_t m_bits;
    Groups m_groups;
    int64_t m_group;
    bool m_evicts;
};

} // namespace refreshlab
