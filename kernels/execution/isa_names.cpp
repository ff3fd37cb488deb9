#include "kernels/execution/isa.h"

namespace refreshlab::kernels {

std::string_view to_string(Isa isa) {
    switch (isa) {
    case Isa::reference:
        return "reference";
    case Isa::portable:
        return "portable";
    case Isa::avx2:
        return "avx2";
    case Isa::avx512:
        return "avx512";
    }
    return "unknown";
}

std::string_view bit_class(Isa isa) {
    return isa == Isa::avx2 || isa == Isa::avx512 ? "avx2/avx512" : to_string(isa);
}

std::optional<Isa> parse_isa(std::string_view name) {
    for (const Isa isa : {Isa::reference, Isa::portable, Isa::avx2, Isa::avx512}) {
        if (to_string(isa) == name) return isa;
    }
    return std::nullopt;
}

} // namespace refreshlab::kernels
