#pragma once

#include <string_view>
#include <vector>

namespace refreshlab::kernels {

/// Which CPU code runs. Chosen once, the widest that this processor has; a test or `--set kernels=...` may force another.
/// avx512 and avx2 give the same bits (same lanes, same fused operations); portable has no fused multiply-add, so it
/// agrees with them to rounding only. `reference` sends CPU tensors to the plain-ATen versions, which are not batch
/// invariant: it is there for comparisons.
enum class Isa { reference, portable, avx2, avx512 };

[[nodiscard]] Isa isa();
/// Call between steps only. The processor must have it (is_available)                             (asserted)
void set_isa(Isa isa);
[[nodiscard]] bool is_available(Isa isa);
/// Narrowest first; always holds reference and portable.
[[nodiscard]] std::vector<Isa> available_isas();
/// "reference", "portable", "avx2", "avx512".
[[nodiscard]] std::string_view to_string(Isa isa);

} // namespace refreshlab::kernels
