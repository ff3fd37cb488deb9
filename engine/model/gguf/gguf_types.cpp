// Layouts and formulas of ggml's blocks. Scales are f16, all arithmetic is fp32 in the order of ggml's reference:
// (scale * factor) * q, then - or +. Everything but three products and a sum is a small integer, so the numbers are those
// of the `gguf` package bit for bit (the build contracts nothing into fused multiply-adds).
// Source: ggml, src/ggml-common.h (structs) and src/ggml-quants.c (dequantize_row_*).
#include "engine/model/gguf/gguf_types.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <utility>

namespace refreshlab {

namespace {

static_assert(std::endian::native == std::endian::little, "GGUF data is little-endian and read as it is");

int byte_at(const std::byte* bytes, int64_t i) {
    return std::to_integer<int>(bytes[i]);
}
int low(int byte) {
    return byte & 15;
}
int high(int byte) {
    return byte >> 4;
}

float half_at(const std::byte* bytes) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes, sizeof(bits));
    return static_cast<float>(c10::Half(bits, c10::Half::from_bits()));
}

void unpack_f32(const std::byte* from, int64_t n, float* out) {
    std::memcpy(out, from, static_cast<size_t>(n) * sizeof(float));
}

void unpack_f16(const std::byte* from, int64_t n, float* out) {
    for (int64_t i = 0; i < n; ++i)
        out[i] = half_at(from + 2 * i);
}

void unpack_bf16(const std::byte* from, int64_t n, float* out) {
    for (int64_t i = 0; i < n; ++i) {
        uint16_t bits = 0;
        std::memcpy(&bits, from + 2 * i, sizeof(bits));
        out[i] = static_cast<float>(c10::BFloat16(bits, c10::BFloat16::from_bits()));
    }
}

// The simple types: 32 elements; i and 16 + i share a byte of qs.

void block_q4_0(const std::byte* b, float* x) {
    const float d = half_at(b);
    for (int64_t i = 0; i < 16; ++i) {
        const int q = byte_at(b, 2 + i);
        x[i] = d * static_cast<float>(low(q) - 8);
        x[16 + i] = d * static_cast<float>(high(q) - 8);
    }
}

void block_q4_1(const std::byte* b, float* x) {
    const float d = half_at(b), m = half_at(b + 2);
    for (int64_t i = 0; i < 16; ++i) {
        const int q = byte_at(b, 4 + i);
        x[i] = d * static_cast<float>(low(q)) + m;
        x[16 + i] = d * static_cast<float>(high(q)) + m;
    }
}

/// The fifth bits of a block: bit e belongs to element e.
int fifth_bit(uint32_t bits, int64_t element) {
    return static_cast<int>((bits >> element) & 1U) << 4;
}

void block_q5_0(const std::byte* b, float* x) {
    const float d = half_at(b);
    uint32_t bits = 0;
    std::memcpy(&bits, b + 2, sizeof(bits));
    for (int64_t i = 0; i < 16; ++i) {
        const int q = byte_at(b, 6 + i);
        x[i] = d * static_cast<float>((low(q) | fifth_bit(bits, i)) - 16);
        x[16 + i] = d * static_cast<float>((high(q) | fifth_bit(bits, 16 + i)) - 16);
    }
}

void block_q5_1(const std::byte* b, float* x) {
    const float d = half_at(b), m = half_at(b + 2);
    uint32_t bits = 0;
    std::memcpy(&bits, b + 4, sizeof(bits));
    for (int64_t i = 0; i < 16; ++i) {
        const int q = byte_at(b, 8 + i);
        x[i] = d * static_cast<float>(low(q) | fifth_bit(bits, i)) + m;
        x[16 + i] = d * static_cast<float>(high(q) | fifth_bit(bits, 16 + i)) + m;
    }
}

void block_q8_0(const std::byte* b, float* x) {
    const float d = half_at(b);
    for (int64_t i = 0; i < 32; ++i)
        x[i] = d * static_cast<float>(static_cast<int8_t>(byte_at(b, 2 + i)));
}

// The K types: 256 elements in groups of 16 or 32 with small integer scales of their own.

/// scales 16; qs 64; d; dmin
void block_q2_k(const std::byte* b, float* x) {
    const std::byte* const qs = b + 16;
    const float d = half_at(b + 80), dmin = half_at(b + 82);
    for (int64_t group = 0; group < 16; ++group) {
        const int packed = byte_at(b, group);
        const float scale = d * static_cast<float>(low(packed));
        const float offset = dmin * static_cast<float>(high(packed));
        const int64_t half = group / 8, shift = 2 * (group % 8 / 2), first = 16 * (group % 2);
        for (int64_t i = 0; i < 16; ++i) {
            const int q = (byte_at(qs, 32 * half + first + i) >> shift) & 3;
            x[16 * group + i] = scale * static_cast<float>(q) - offset;
        }
    }
}

/// hmask 32; qs 64; scales 12; d
void block_q3_k(const std::byte* b, float* x) {
    const std::byte *const qs = b + 32, *const scales = b + 96;
    const float d = half_at(b + 108);
    for (int64_t group = 0; group < 16; ++group) {
        const int four = group < 8 ? low(byte_at(scales, group)) : high(byte_at(scales, group - 8));
        const int two = (byte_at(scales, 8 + group % 4) >> (2 * (group / 4))) & 3;
        const float scale = d * static_cast<float>((four | two << 4) - 32);
        const int64_t half = group / 8, quarter = group % 8 / 2, first = 16 * (group % 2);
        for (int64_t i = 0; i < 16; ++i) {
            const int64_t l = first + i;
            const int q = (byte_at(qs, 32 * half + l) >> (2 * quarter)) & 3;
            const bool up = ((byte_at(b, l) >> (4 * half + quarter)) & 1) != 0;
            x[16 * group + i] = scale * static_cast<float>(q - (up ? 0 : 4));
        }
    }
}

/// Scale and offset of group k of 8: six bits each, packed in 12 bytes.
std::pair<int, int> six_bit_pair(const std::byte* s, int64_t k) {
    if (k < 4) return {byte_at(s, k) & 63, byte_at(s, k + 4) & 63};
    return {low(byte_at(s, k + 4)) | (byte_at(s, k - 4) >> 6) << 4,
            high(byte_at(s, k + 4)) | (byte_at(s, k) >> 6) << 4};
}

/// d; dmin; scales 12; qs 128
void block_q4_k(const std::byte* b, float* x) {
    const std::byte* const qs = b + 16;
    const float d = half_at(b), dmin = half_at(b + 2);
    for (int64_t k = 0; k < 8; ++k) {
        const auto [factor, shift] = six_bit_pair(b + 4, k);
        const float scale = d * static_cast<float>(factor), offset = dmin * static_cast<float>(shift);
        for (int64_t i = 0; i < 32; ++i) {
            const int byte = byte_at(qs, 32 * (k / 2) + i);
            x[32 * k + i] = scale * static_cast<float>(k % 2 == 0 ? low(byte) : high(byte)) - offset;
        }
    }
}

/// d; dmin; scales 12; qh 32; qs 128
void block_q5_k(const std::byte* b, float* x) {
    const std::byte *const qh = b + 16, *const qs = b + 48;
    const float d = half_at(b), dmin = half_at(b + 2);
    for (int64_t k = 0; k < 8; ++k) {
        const auto [factor, shift] = six_bit_pair(b + 4, k);
        const float scale = d * static_cast<float>(factor), offset = dmin * static_cast<float>(shift);
        for (int64_t i = 0; i < 32; ++i) {
            const int byte = byte_at(qs, 32 * (k / 2) + i);
            const int q = (k % 2 == 0 ? low(byte) : high(byte)) | ((byte_at(qh, i) >> k) & 1) << 4;
            x[32 * k + i] = scale * static_cast<float>(q) - offset;
        }
    }
}

/// ql 128; qh 64; scales 16, signed; d
void block_q6_k(const std::byte* b, float* x) {
    const std::byte *const qh = b + 128, *const scales = b + 192;
    const float d = half_at(b + 208);
    for (int64_t group = 0; group < 16; ++group) {
        const float scale = d * static_cast<float>(static_cast<int8_t>(byte_at(scales, group)));
        const int64_t half = group / 8, quarter = group % 8 / 2, first = 16 * (group % 2);
        for (int64_t i = 0; i < 16; ++i) {
            const int64_t l = first + i;
            const int byte = byte_at(b, 64 * half + 32 * (quarter % 2) + l);
            const int four = quarter < 2 ? low(byte) : high(byte);
            const int two = (byte_at(qh, 32 * half + l) >> (2 * quarter)) & 3;
            x[16 * group + i] = scale * static_cast<float>((four | two << 4) - 32);
        }
    }
}

template <int64_t elements, int64_t bytes, void (*one)(const std::byte*, float*)>
void unpack(const std::byte* blocks, int64_t n, float* out) {
    for (int64_t i = 0; i < n; ++i)
        one(blocks + i * bytes, out + i * elements);
}

template <int64_t elements, int64_t bytes, void (*one)(const std::byte*, float*)>
constexpr GgufType packed(uint32_t id, std::string_view name) {
    return {id, name, elements, bytes, unpack<elements, bytes, one>};
}

constexpr std::array<GgufType, 13> supported = {{
    {0, "F32", 1, 4, unpack_f32},
    {1, "F16", 1, 2, unpack_f16},
    {30, "BF16", 1, 2, unpack_bf16},
    packed<32, 18, block_q4_0>(2, "Q4_0"),
    packed<32, 20, block_q4_1>(3, "Q4_1"),
    packed<32, 22, block_q5_0>(6, "Q5_0"),
    packed<32, 24, block_q5_1>(7, "Q5_1"),
    packed<32, 34, block_q8_0>(8, "Q8_0"),
    packed<256, 84, block_q2_k>(10, "Q2_K"),
    packed<256, 110, block_q3_k>(11, "Q3_K"),
    packed<256, 144, block_q4_k>(12, "Q4_K"),
    packed<256, 176, block_q5_k>(13, "Q5_K"),
    packed<256, 210, block_q6_k>(14, "Q6_K"),
}};

/// Known to ggml and not read here.
constexpr std::pair<uint32_t, std::string_view> others[] = {
    {9, "Q8_1"},    {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},
    {20, "IQ4_NL"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {23, "IQ4_XS"}, {24, "I8"},      {25, "I16"},
    {26, "I32"},    {27, "I64"},   {28, "F64"},     {29, "IQ1_M"},  {34, "TQ1_0"},   {35, "TQ2_0"},
    {39, "MXFP4"},  {40, "NVFP4"}, {41, "Q1_0"},    {42, "Q2_0"}};

} // namespace

std::span<const GgufType> gguf_types() {
    return supported;
}

const GgufType* find_gguf_type(uint32_t id) {
    const auto* found = std::find_if(supported.begin(), supported.end(),
                                     [id](const GgufType& type) { return type.id == id; });
    return found == supported.end() ? nullptr : found;
}

std::string gguf_type_name(uint32_t id) {
    if (const GgufType* type = find_gguf_type(id)) return std::string(type->name);
    const auto* found = std::find_if(std::begin(others), std::end(others),
                                     [id](const auto& other) { return other.first == id; });
    return found == std::end(others) ? fmt::format("number {}", id) : std::string(found->second);
}

} // namespace refreshlab
