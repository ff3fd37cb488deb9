#pragma once

#include <cstdint>

namespace refreshlab::kernels {

/// What an MLP makes of its gate: silu(g) = g / (1 + e^-g); gelu_tanh(g) = g / (1 + e^-2u), u = sqrt(2/pi) (g + 0.044715 g^3), which
/// is the usual g/2 (1 + tanh u). Source: Elfwing et al. 2017; Hendrycks and Gimpel 2016.
enum class Activation : uint8_t { silu, gelu_tanh };

} // namespace refreshlab::kernels
