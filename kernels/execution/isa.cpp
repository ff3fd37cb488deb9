#include "kernels/execution/isa.h"

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/shared/check.h"

#include <atomic>

namespace refreshlab::kernels {
namespace {

Isa widest_isa() {
    if (is_available(Isa::avx512)) return Isa::avx512;
    if (is_available(Isa::avx2)) return Isa::avx2;
    return Isa::portable;
}

std::atomic<Isa>& current_isa() {
    static std::atomic<Isa> current{widest_isa()};
    return current;
}

} // namespace

Isa isa() {
    return current_isa().load(std::memory_order_relaxed);
}

void set_isa(Isa isa) {
    RL_ASSERT(is_available(isa));
    current_isa().store(isa, std::memory_order_relaxed);
}

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
    for (const Isa isa : {Isa::reference, Isa::portable, Isa::avx2, Isa::avx512}) {
        if (is_available(isa)) isas.push_back(isa);
    }
    return isas;
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
