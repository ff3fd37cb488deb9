#include "kernels/simt/machine.h"
#include "kernels/simt/place.h"

#include <algorithm>
#include <bit>
#include <cstring>

/// Operations that the lanes of a warp carry out together: they run when all lanes of the mask have come.
namespace refreshlab::simt {

namespace {

float half_value(uint16_t bits) {
    const uint32_t sign = (bits & 0x8000U) << 16U;
    const uint32_t exponent = bits >> 10U & 0x1FU;
    uint32_t mantissa = bits & 0x3FFU;
    if (exponent == 0)
        return std::copysign(std::ldexp(static_cast<float>(mantissa), -24),
                             (bits & 0x8000U) != 0 ? -1.0F : 1.0F);
    const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
    return std::bit_cast<float>(sign | wide << 23U | mantissa << 13U);
}

float operand(uint32_t pair, unsigned which, bool bf16) {
    const auto bits = static_cast<uint16_t>(pair >> (16U * which));
    return bf16 ? std::bit_cast<float>(static_cast<uint32_t>(bits) << 16U) : half_value(bits);
}

/// d[16][8] += a[16][16] b[16][8]: fragments of PTX ISA 9.0, figures 86 to 88. Lane = 4 group + thread.
void multiply(const std::array<WarpCall*, 32>& calls) {
    float a[16][16], b[16][8], d[16][8];
    for (unsigned lane = 0; lane < 32; ++lane) {
        const WarpCall& c = *calls[lane];
        const unsigned group = lane / 4, thread = lane % 4;
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned row = group + (i % 2) * 8, column = thread * 2 + (i / 2) * 8;
            for (unsigned h = 0; h < 2; ++h)
                a[row][column + h] = operand(c.a[i], h, c.bf16);
            d[group + (i / 2) * 8][thread * 2 + i % 2] = c.d[i];
        }
        for (unsigned i = 0; i < 2; ++i) {
            for (unsigned h = 0; h < 2; ++h)
                b[thread * 2 + i * 8 + h][group] = operand(c.b[i], h, c.bf16);
        }
    }
    for (auto& row : d) {
        const auto r = static_cast<size_t>(&row - d);
        for (size_t n = 0; n < 8; ++n) {
            for (size_t k = 0; k < 16; ++k)
                row[n] += a[r][k] * b[k][n];
        }
    }
    for (unsigned lane = 0; lane < 32; ++lane) {
        const unsigned group = lane / 4, thread = lane % 4;
        for (unsigned i = 0; i < 4; ++i)
            calls[lane]->d[i] = d[group + (i / 2) * 8][thread * 2 + i % 2];
    }
}

/// Lane 8 m + r brings row r of matrix m; lane 4 r + c takes elements 2c and 2c + 1 of row r (transposed: of column r).
void load_matrix(const std::array<WarpCall*, 32>& calls) {
    const auto count = static_cast<unsigned>(calls[0]->argument);
    const bool transposed = calls[0]->width == 1;
    for (unsigned m = 0; m < count; ++m) {
        uint16_t matrix[8][8];
        for (unsigned r = 0; r < 8; ++r)
            std::memcpy(matrix[r], calls[8 * m + r]->row, sizeof matrix[r]);
        for (unsigned lane = 0; lane < 32; ++lane) {
            const unsigned r = lane / 4, c = lane % 4 * 2;
            const uint32_t low = transposed ? matrix[c][r] : matrix[r][c];
            const uint32_t high = transposed ? matrix[c + 1][r] : matrix[r][c + 1];
            calls[lane]->registers[m] = low | high << 16U;
        }
    }
}

uint32_t reduced(Reduce kind, uint32_t a, uint32_t b) {
    switch (kind) {
    case Reduce::add:
        return a + b;
    case Reduce::min_signed:
        return static_cast<uint32_t>(std::min(static_cast<int32_t>(a), static_cast<int32_t>(b)));
    case Reduce::max_signed:
        return static_cast<uint32_t>(std::max(static_cast<int32_t>(a), static_cast<int32_t>(b)));
    case Reduce::min_unsigned:
        return std::min(a, b);
    case Reduce::max_unsigned:
        return std::max(a, b);
    case Reduce::bits_and:
        return a & b;
    case Reduce::bits_or:
        return a | b;
    case Reduce::bits_xor:
        return a ^ b;
    }
    return 0;
}

/// The lane that a shuffle reads, for `lane`. Outside of its part of the warp a lane reads itself. Source: PTX ISA 9.0, shfl.sync.
unsigned source_lane(const WarpCall& call, unsigned lane) {
    const int width = call.width, l = static_cast<int>(lane);
    const int first = l / width * width, last = first + width - 1;
    switch (call.shuffle) {
    case Shuffle::index:
        return static_cast<unsigned>(first + (call.argument & (width - 1)));
    case Shuffle::up:
        return static_cast<unsigned>(l - call.argument < first ? l : l - call.argument);
    case Shuffle::down:
        return static_cast<unsigned>(l + call.argument > last ? l : l + call.argument);
    case Shuffle::exclusive_or: {
        const int other = l ^ call.argument;
        return static_cast<unsigned>(other > last ? l : other);
    }
    }
    return lane;
}

} // namespace

void Machine::wait_for_warp(WarpCall& call, const void* place) {
    Thread& t = *m_thread;
    if ((call.mask >> t.lane() & 1U) == 0)
        fault(place, "is not in the mask of the operation of its warp that it takes part in");
    if (call.kind == WarpCall::Kind::shuffle &&
        (call.width < 1 || call.width > 32 || !std::has_single_bit(static_cast<unsigned>(call.width))))
        fault(place,
              "shuffles with width " + std::to_string(call.width) + ", which is no power of two up to 32");
    t.call = &call;
    t.place = place;
    t.state = Thread::State::at_warp;
    t.fiber.leave();
    t.call = nullptr;
}

bool Machine::finish_warps() {
    bool any = false;
    const auto of_block = static_cast<unsigned>(m_slots / 32),
               first = static_cast<unsigned>(m_block - m_blocks.data()) * of_block;
    for (unsigned w = first; w < first + of_block; ++w) {
        for (unsigned lane = 0; lane < m_warps[w].lanes; ++lane) {
            const Thread& t = *m_threads[w * 32 + lane];
            if (t.state == Thread::State::at_warp) any = finish_warp_call(w, t.call->mask) || any;
        }
    }
    return any;
}

bool Machine::finish_warp_call(unsigned w, uint32_t mask) {
    Warp& warp = m_warps[w];
    const uint32_t existing = warp.lanes == 32 ? 0xFFFFFFFFU : (1U << warp.lanes) - 1;
    std::array<WarpCall*, 32> calls{};
    const Thread* leader = nullptr;
    for (unsigned lane = 0; lane < warp.lanes; ++lane) {
        if ((mask >> lane & 1U) == 0) continue;
        Thread& t = *m_threads[w * 32 + lane];
        if (t.state != Thread::State::at_warp || t.call->mask != mask ||
            (leader != nullptr && t.call->kind != leader->call->kind))
            return false;
        if (leader == nullptr) leader = &t;
        calls[lane] = t.call;
    }
    const WarpCall::Kind kind = leader->call->kind;
    const bool whole = kind == WarpCall::Kind::multiply || kind == WarpCall::Kind::load_matrix;
    const auto refuse = [&](unsigned lane, const std::string& what) {
        const Thread& t = *m_threads[w * 32 + lane];
        throw Fault(at(t, t.place) + ": " + what);
    };
    if (whole && (mask != 0xFFFFFFFFU || existing != mask))
        refuse(leader->lane(), "an operation of a whole warp in a part of one");
    uint64_t together =
        kind == WarpCall::Kind::reduce && leader->call->reduce == Reduce::bits_and ? 0xFFFFFFFFU : 0;
    if (kind == WarpCall::Kind::reduce) together = leader->call->value;
    for (unsigned lane = 0; lane < 32; ++lane) {
        if (calls[lane] == nullptr) continue;
        if (kind == WarpCall::Kind::ballot && calls[lane]->value != 0) together |= uint64_t{1} << lane;
        if (kind == WarpCall::Kind::reduce && calls[lane] != leader->call)
            together = reduced(calls[lane]->reduce, static_cast<uint32_t>(together),
                               static_cast<uint32_t>(calls[lane]->value));
    }
    for (unsigned lane = 0; lane < 32; ++lane) {
        if (calls[lane] == nullptr) continue;
        if (kind != WarpCall::Kind::shuffle) {
            calls[lane]->result = together;
            continue;
        }
        const unsigned from = source_lane(*calls[lane], lane);
        if (calls[from] == nullptr)
            refuse(lane, "shuffles from lane " + std::to_string(from) + ", which does not take part");
        calls[lane]->result = calls[from]->value;
    }
    if (kind == WarpCall::Kind::multiply) multiply(calls);
    if (kind == WarpCall::Kind::load_matrix) load_matrix(calls);
    if (kind == WarpCall::Kind::barrier && (mask & existing) == existing) ++warp.clock;
    for (unsigned lane = 0; lane < warp.lanes; ++lane) {
        if (calls[lane] != nullptr) m_threads[w * 32 + lane]->state = Thread::State::ready;
    }
    return true;
}

} // namespace refreshlab::simt
