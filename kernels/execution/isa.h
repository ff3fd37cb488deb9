#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace refreshlab::kernels {

/// A kernel set: which CPU code runs. avx512 and avx2 give the same bits (same lanes, same fused operations); portable
/// has no fused multiply-add, so it agrees with them only to rounding. `reference` sends CPU tensors to the plain-ATen
/// versions. Those are not batch invariant; they are for comparisons.
enum class Isa { reference, portable, avx2, avx512 };

/// The kernel set of the calling thread's execution context (kernels/execution/execution_context.h).
[[nodiscard]] Isa isa();

[[nodiscard]] bool is_available(Isa isa);
/// Narrowest first; always holds reference and portable.
[[nodiscard]] std::vector<Isa> available_isas();
/// The last of available_isas(): it runs unless another is asked for.
[[nodiscard]] Isa widest_isa();
/// "reference", "portable", "avx2", "avx512".
[[nodiscard]] std::string_view to_string(Isa isa);
/// Name of all the sets that give the same bits as this one: "avx2/avx512", "portable", "reference".
[[nodiscard]] std::string_view bit_class(Isa isa);
/// Nothing for a text that to_string() does not give.
[[nodiscard]] std::optional<Isa> parse_isa(std::string_view name);

/// Whether the processor has products of bf16 numbers (AVX-512 BF16; processors with AMX have that too). True where it cannot be asked.
[[nodiscard]] bool has_bf16_products();

} // namespace refreshlab::kernels
