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

bool has_bf16_products() {
#ifdef __x86_64__
    return __builtin_cpu_supports("avx512bf16") != 0;
#else
    return true;
#endif
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
