#include "kernels/execution/isa.h"

#include "kernels/cpu/cpu_kernels.h"

#include <algorithm>
#include <array>

namespace refreshlab::kernels {

namespace {

constexpr std::array all_isas = {Isa::reference, Isa::portable, Isa::avx2, Isa::avx512};

} // namespace

bool is_available(Isa isa) {
    switch (isa) {
    case Isa::reference:
    case Isa::portable:
        return true;
    case Isa::avx2:
        return cpu::avx2_kernels() != nullptr;
    case Isa::avx512:
        return cpu::avx512_kernels() != nullptr;
    }
    return false;
}

std::vector<Isa> available_isas() {
    std::vector<Isa> isas;
    std::copy_if(all_isas.begin(), all_isas.end(), std::back_inserter(isas), is_available);
    return isas;
}

Isa widest_isa() {
    static const Isa widest = available_isas().back();
    return widest;
}

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
    for (const Isa isa : all_isas) {
        if (to_string(isa) == name) return isa;
    }
    return std::nullopt;
}

namespace cpu {

const CpuKernels& kernels() {
    switch (isa()) {
    case Isa::avx512:
        return *avx512_kernels();
    case Isa::avx2:
        return *avx2_kernels();
    case Isa::reference:
    case Isa::portable:
        break;
    }
    return *portable_kernels();
}

} // namespace cpu
} // namespace refreshlab::kernels
