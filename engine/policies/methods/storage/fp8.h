#pragma once

#include "engine/policies/entry_codec.h"

#include <cstdint>

namespace refreshlab {

/// Eight bits of the format e4m3: sign, 4 bits of exponent (bias 7), 3 of fraction; largest number 448, no infinity. To nearest, ties to
/// even; what is larger becomes 448. NaN stays NaN. Source: Micikevicius et al. 2022 (FP8 formats for deep learning), table 1.
[[nodiscard]] uint8_t to_e4m3(float value);
[[nodiscard]] float from_e4m3(uint8_t code);

/// Numbers as e4m3, with one fp32 scale for each row: its largest number becomes 448. A row of zeros has scale 0.
class Fp8Rows final : public EntryCodec {
public:
    [[nodiscard]] EncodedBlock encode(std::span<const float> rows, const BlockShape& shape) const override;
    using EntryCodec::decode;
    void decode(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                float* to) const override;
};

} // namespace refreshlab
