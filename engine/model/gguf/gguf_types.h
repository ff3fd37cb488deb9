#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace refreshlab {

/// How the elements of a stored tensor are packed: blocks of so many elements in so many bytes, along the contiguous axis
/// and never across rows. Blocks are packed without alignment.
struct GgufType {
    uint32_t id;           ///< as in the file
    std::string_view name; ///< "Q4_K"
    int64_t block;         ///< elements
    int64_t block_bytes;
    /// Gives block * n elements of n blocks as fp32.
    void (*unpack)(const std::byte* blocks, int64_t n, float* out);

    [[nodiscard]] bool quantised() const { return block > 1; }
};

/// The types that weights may have: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K.
[[nodiscard]] std::span<const GgufType> gguf_types();
/// Null for any other id.
[[nodiscard]] const GgufType* find_gguf_type(uint32_t id);
/// For messages: the name of a type, supported or not; "number 77" for an unknown one.
[[nodiscard]] std::string gguf_type_name(uint32_t id);

} // namespace refreshlab
