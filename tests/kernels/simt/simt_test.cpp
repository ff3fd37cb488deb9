#include "tests/kernels/simt/planted.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <bit>
#include <cmath>
#include <numeric>
#include <random>

/// The machine proves itself: each mistake is planted, found and named, and the same kernel without it passes in every order.
namespace refreshlab::test::simt_cases {
namespace {

using Catch::Matchers::ContainsSubstring;
using simt::Array;
using simt::Contents;

/// What ends `body`; empty: nothing.
template <typename Body>
std::string fault_of(const Body& body) {
    try {
        body();
    } catch (const simt::Fault& fault) {
        return fault.what();
    }
    return {};
}

/// The kernel, its thread, the line, and these words.
#define REQUIRE_FAULT(MESSAGE, KERNEL, ...)                                                                  \
    do {                                                                                                     \
        const std::string message_ = (MESSAGE);                                                              \
        INFO(message_);                                                                                      \
        REQUIRE_THAT(message_, ContainsSubstring(KERNEL ", block (") && ContainsSubstring(", thread (") &&   \
                                   ContainsSubstring("tests/kernels/simt/planted.cu:"));                     \
        REQUIRE_THAT(message_, __VA_ARGS__);                                                                 \
    } while (false)

/// Access by access faults are the address sanitizer's to find where that is compiled in.
void need_look() {
    if (!simt::looks_at_memory()) SKIP("accesses are looked at by AddressSanitizer in this build");
}

std::vector<float> ramp(size_t n) {
    std::vector<float> values(n);
    std::iota(values.begin(), values.end(), 1.0F);
    return values;
}

constexpr int orders = 5;

TEST_CASE("a missing barrier is found", "[simt]") {
    const Array<float> in(ramp(96), "in", Contents::read_only);
    simt::in_orders(orders, [&](uint64_t) {
        const Array<float> out(96, "out");
        planted::reverse(in.data(), out.data(), 96, true);
        for (size_t i = 0; i < 96; ++i)
            REQUIRE(out.values()[i] == static_cast<float>(96 - i));
    });
    need_look();
    simt::in_orders(orders, [&](uint64_t) {
        const Array<float> out(96, "out");
        const std::string message = fault_of([&] { planted::reverse(in.data(), out.data(), 96, false); });
        REQUIRE_FAULT(message, "reverse_kernel",
                      ContainsSubstring("nobody has written") || ContainsSubstring("no barrier between"));
    });
}

TEST_CASE("a write one number too far is found", "[simt]") {
    const Array<float> in(ramp(100), "in", Contents::read_only);
    const Array<float> out(100, "out");
    planted::copy(in.data(), out.data(), 100, false);
    REQUIRE(out.values() == ramp(100));
    need_look();
    REQUIRE_FAULT(fault_of([&] { planted::copy(in.data(), out.data(), 100, true); }), "copy_kernel",
                  ContainsSubstring("writes 4 bytes outside of all arrays: byte 400 of out, which has 400"));
}

TEST_CASE("what is to be read only is not written", "[simt]") {
    need_look();
    const Array<float> in(ramp(10), "in", Contents::read_only);
    REQUIRE_FAULT(fault_of([&] { planted::copy(in.data(), in.data(), 10, false); }), "copy_kernel",
                  ContainsSubstring("which is to be read only"));
}

TEST_CASE("a wrong stride is found", "[simt]") {
    const Array<float> in(ramp(256), "in", Contents::read_only);
    for (const int stride : {32, 33}) {
        const Array<float> out(8, "out");
        planted::row_sums(in.data(), out.data(), stride);
        for (size_t r = 0; r < 8; ++r)
            REQUIRE(out.values()[r] == static_cast<float>(32 * (32 * r + 16) + 16));
    }
    need_look();
    const Array<float> out(8, "out");
    // Rows that lie over each other, and rows that reach over the end of the block's memory.
    REQUIRE_FAULT(fault_of([&] { planted::row_sums(in.data(), out.data(), 31); }), "row_sums_kernel",
                  ContainsSubstring("no barrier between"));
    REQUIRE_FAULT(fault_of([&] { planted::row_sums(in.data(), out.data(), 34); }), "row_sums_kernel",
                  ContainsSubstring("of dynamic shared memory, which has 1056"));
}

TEST_CASE("copies arrive at the wait and not before", "[simt]") {
    const Array<float> in(ramp(64), "in", Contents::read_only);
    const Array<float> out(64, "out");
    planted::copy_async(in.data(), out.data(), true);
    REQUIRE(out.values() == ramp(64));
    simt::in_orders(orders, [&](uint64_t) { planted::copy_async_of_others(in.data(), out.data(), true); });
    REQUIRE(out.values() == ramp(64));
    if (!simt::looks_at_memory()) {
        planted::copy_async(in.data(), out.data(), false);
        REQUIRE(std::isnan(out.values()[0])); // nothing has arrived
        return;
    }
    REQUIRE_FAULT(fault_of([&] { planted::copy_async(in.data(), out.data(), false); }), "copy_async_kernel",
                  ContainsSubstring("under way (cp.async without a wait)"));
    simt::in_orders(orders, [&](uint64_t) {
        REQUIRE_FAULT(fault_of([&] { planted::copy_async_of_others(in.data(), out.data(), false); }),
                      "copy_async_of_others_kernel",
                      ContainsSubstring("nobody has written") || ContainsSubstring("under way") ||
                          ContainsSubstring("no barrier between"));
    });
}

TEST_CASE("a vector at an address that is no multiple of its size is found", "[simt]") {
    const Array<float> in(ramp(40), "in", Contents::read_only);
    const Array<float> out(32, "out");
    planted::copy_vectors(in.data(), out.data(), 32, 4);
    REQUIRE(out.values()[0] == 5);
    need_look(); // UBSan ends the program there
    for (const int first : {1, 2, 3}) {
        REQUIRE_FAULT(fault_of([&] { planted::copy_vectors(in.data(), out.data(), 32, first); }),
                      "copy_vectors_kernel",
                      ContainsSubstring("a vector of 16 bytes at an address that is no multiple of them"));
    }
}

TEST_CASE("a launch that depends on another must wait for it", "[simt]") {
    const Array<float> in(ramp(100), "in", Contents::read_only);
    const auto run = [&](bool wait) {
        const Array<float> middle(100, "middle");
        const Array<float> out(100, "out");
        planted::two_launches(in.data(), middle.data(), out.data(), 100, wait);
        return out.values();
    };
    REQUIRE(run(true)[99] == 102);
    need_look();
    REQUIRE_FAULT(fault_of([&] { (void)run(false); }), "add_one_kernel",
                  ContainsSubstring(
                      "of middle, which the launch of add_one_kernel in front, before a wait for its end"));
    // Before sm_90 such a launch is a launch like any other.
    const simt::Settings before = simt::set_settings({0, 80});
    REQUIRE(run(false)[99] == 102);
    simt::set_settings(before);

    const auto three = [&](bool second_waits) {
        const Array<float> middle(100, "middle"), other(100, "other"), out(100, "out");
        planted::three_launches(in.data(), middle.data(), other.data(), out.data(), 100, second_waits);
        return out.values();
    };
    REQUIRE(three(true)[0] == 3);
    REQUIRE_FAULT(fault_of([&] { (void)three(false); }), "add_one_kernel",
                  ContainsSubstring("whose end nobody has waited for"));
}

TEST_CASE("a lost atomic is found", "[simt]") {
    std::vector<int> values(64);
    for (size_t i = 0; i < 64; ++i)
        values[i] = static_cast<int>(i * i % 8);
    const Array<int> in(values, "in", Contents::read_only);
    simt::in_orders(orders, [&](uint64_t) {
        const Array<unsigned> bins(std::vector<unsigned>(8), "bins");
        planted::histogram(in.data(), bins.data(), 64, true);
        REQUIRE(bins.values() == std::vector<unsigned>{16, 32, 0, 0, 16, 0, 0, 0});
    });
    need_look();
    const Array<unsigned> bins(std::vector<unsigned>(8), "bins");
    REQUIRE_FAULT(
        fault_of([&] { planted::histogram(in.data(), bins.data(), 64, false); }), "histogram_kernel",
        ContainsSubstring("of bins, which thread (") && ContainsSubstring("(no barrier between) writes at"));
}

TEST_CASE("blocks are ordered by a fence and an atomic variable, and by nothing less", "[simt]") {
    const Array<float> in(ramp(32 * 6), "in", Contents::read_only);
    const auto run = [&](bool fence) {
        const Array<float> parts(6, "parts"), out(1, "out");
        const Array<unsigned> arrived(std::vector<unsigned>{0}, "arrived");
        planted::sum_by_last_block(in.data(), parts.data(), arrived.data(), out.data(), 6, fence);
        return out.values()[0];
    };
    simt::in_orders(orders, [&](uint64_t) { REQUIRE(run(true) == 192 * 193 / 2); });
    need_look();
    REQUIRE_FAULT(fault_of([&] { (void)run(false); }), "sum_by_last_block_kernel",
                  ContainsSubstring("of parts, which another block writes at"));
    const Array<float> out(2, "out");
    planted::blocks_write_one(out.data(), true);
    REQUIRE_FAULT(fault_of([&] { planted::blocks_write_one(out.data(), false); }), "blocks_write_one_kernel",
                  ContainsSubstring("which another block writes at"));
}

TEST_CASE("a barrier that not all threads reach is found", "[simt]") {
    const Array<float> out(64, "out");
    planted::barrier_in_branch(out.data(), true);
    planted::barrier_after_return(out.data(), 64);
    REQUIRE_FAULT(
        fault_of([&] { planted::barrier_in_branch(out.data(), false); }), "barrier_in_branch_kernel",
        ContainsSubstring("waits at a barrier that not all threads reach: thread (32, 0, 0) has ended"));
    REQUIRE_FAULT(fault_of([&] { planted::barrier_after_return(out.data(), 63); }),
                  "barrier_after_return_kernel", ContainsSubstring("thread (63, 0, 0) has ended"));
}

TEST_CASE("a shuffle from a lane that takes no part is found", "[simt]") {
    const Array<float> in(ramp(32), "in", Contents::read_only);
    const Array<float> out(32, "out");
    planted::shuffle(in.data(), out.data(), true);
    REQUIRE(out.values()[0] == 2);
    REQUIRE_FAULT(fault_of([&] { planted::shuffle(in.data(), out.data(), false); }), "shuffle_kernel",
                  ContainsSubstring("shuffles from lane 1, which does not take part"));
}

TEST_CASE("lanes of a warp are ordered by its barrier alone", "[simt]") {
    const Array<float> in(ramp(32), "in", Contents::read_only);
    simt::in_orders(orders, [&](uint64_t) {
        const Array<float> out(32, "out");
        planted::exchange_in_warp(in.data(), out.data(), true);
        REQUIRE(out.values()[31] == 31);
    });
    need_look();
    const Array<float> out(32, "out");
    simt::in_orders(orders, [&](uint64_t) {
        REQUIRE_FAULT(fault_of([&] { planted::exchange_in_warp(in.data(), out.data(), false); }),
                      "exchange_in_warp_kernel",
                      ContainsSubstring("nobody has written") || ContainsSubstring("no barrier between"));
    });
}

TEST_CASE("memory that nobody has written is not read", "[simt]") {
    const Array<float> out(64, "out");
    planted::unwritten_shared(out.data(), 64);
    if (!simt::looks_at_memory()) {
        planted::unwritten_shared(out.data(), 63);
        REQUIRE(std::isnan(out.values()[63])); // each block begins with poison
        return;
    }
    REQUIRE_FAULT(fault_of([&] { planted::unwritten_shared(out.data(), 63); }), "unwritten_shared_kernel",
                  ContainsSubstring("of static shared memory, which nobody has written"));
    const Array<float> sums(8, "sums");
    REQUIRE_FAULT(fault_of([&] { planted::add_onto(sums.data(), 8); }), "add_onto_kernel",
                  ContainsSubstring("reads byte 0 of sums, which nobody has written"));
    simt::note_written(sums.data(), 8 * sizeof(float));
    planted::add_onto(sums.data(), 8);
    simt::note_unwritten(sums.data(), 4);
    REQUIRE(!fault_of([&] { planted::add_onto(sums.data(), 8); }).empty());
}

TEST_CASE("an index outside of a static array is found", "[simt]") {
    std::vector<int> index(32);
    std::iota(index.begin(), index.end(), 0);
    const Array<float> out(32, "out");
    planted::static_index(Array<int>(index, "index").data(), out.data());
    need_look();
    index[7] = 32;
    const Array<int> wrong(index, "index");
    REQUIRE_FAULT(fault_of([&] { planted::static_index(wrong.data(), out.data()); }), "static_index_kernel",
                  ContainsSubstring("index 32 is outside of its array"));
}

TEST_CASE("a launch that the architecture cannot run is refused", "[simt]") {
    planted::launch_with(1024, 0);
    REQUIRE(fault_of([] { planted::launch_with(1025, 0); }) ==
            "nothing_kernel, launch: 1025 threads in a block; 1024 are allowed");
    planted::launch_with(32, 227 * 1024);
    REQUIRE(fault_of([] { planted::launch_with(32, 227 * 1024 + 1); }) ==
            "nothing_kernel, launch: 232449 bytes of dynamic shared memory; sm_90 has 232448");
    const simt::Settings before = simt::set_settings({0, 89});
    const std::string message = fault_of([] { planted::launch_with(32, 128 * 1024); });
    simt::set_settings(before);
    REQUIRE_THAT(message, ContainsSubstring("sm_89 has 101376"));
}

/// Numbers of blocks of 32, each moved by `blocks` within its cluster.
std::vector<float> moved_in_clusters(const std::vector<float>& in, size_t cluster, size_t by) {
    std::vector<float> out(in.size());
    for (size_t i = 0; i < in.size(); ++i) {
        const size_t block = i / 32, first = block / cluster * cluster;
        out[i] = in[(first + (block - first + by) % cluster) * 32 + i % 32];
    }
    return out;
}

TEST_CASE("blocks of a cluster reach each other's shared memory", "[simt]") {
    for (const int cluster : {1, 2, 4, 8, 16}) {
        const int blocks = 3 * cluster;
        const auto n = static_cast<size_t>(32 * blocks), of = static_cast<size_t>(cluster);
        const Array<float> in(ramp(n), "in", Contents::read_only);
        simt::in_orders(orders, [&](uint64_t) {
            const Array<float> brought(n, "brought"), read(n, "read"),
                parts(static_cast<size_t>(blocks), "parts"), sums(3, "sums");
            planted::bring_in_cluster(in.data(), brought.data(), blocks, cluster,
                                      planted::ClusterMistake::none);
            REQUIRE(brought.values() == moved_in_clusters(ramp(n), of, of - 1));
            planted::read_in_cluster(in.data(), read.data(), blocks, cluster, planted::ClusterMistake::none);
            REQUIRE(read.values() == moved_in_clusters(ramp(n), of, 1));
            planted::sum_in_cluster(parts.data(), sums.data(), blocks, cluster, true);
            REQUIRE(sums.values() == std::vector<float>(3, static_cast<float>(cluster)));
        });
    }
}

TEST_CASE("mistakes of the blocks of a cluster are found in every order", "[simt]") {
    need_look();
    const Array<float> in(ramp(32 * 8), "in", Contents::read_only);
    const auto end = [&](auto kernel, planted::ClusterMistake mistake) {
        const Array<float> out(32 * 8, "out");
        return fault_of([&] { kernel(in.data(), out.data(), 8, 4, mistake); });
    };
    using enum planted::ClusterMistake;
    const auto bring = planted::bring_in_cluster, read = planted::read_in_cluster;
    simt::in_orders(orders, [&](uint64_t) {
        REQUIRE_FAULT(end(bring, not_begun), "bring_in_cluster_kernel",
                      ContainsSubstring("another block of its cluster, which may not have begun"));
        REQUIRE_FAULT(end(bring, no_barrier), "bring_in_cluster_kernel",
                      ContainsSubstring("nobody has written") ||
                          ContainsSubstring("(no barrier of the cluster between)") ||
                          ContainsSubstring("which may have ended"));
        REQUIRE_FAULT(
            end(bring, block_stays_away), "bring_in_cluster_kernel",
            ContainsSubstring("waits at a barrier of the cluster that not all threads reach: of block (") &&
                ContainsSubstring("thread (0, 0, 0) has ended"));
        REQUIRE_FAULT(end(bring, no_wait), "bring_in_cluster_kernel",
                      ContainsSubstring("ends and has not waited for the barrier of the cluster"));
        REQUIRE_FAULT(end(bring, arrives_twice), "bring_in_cluster_kernel",
                      ContainsSubstring("has not waited for the one before"));
        REQUIRE_FAULT(end(bring, no_arrival), "bring_in_cluster_kernel",
                      ContainsSubstring("has not arrived at it"));
        REQUIRE_FAULT(end(bring, rank_outside), "bring_in_cluster_kernel",
                      ContainsSubstring("asks for block 4 of a cluster that has 4"));
        for (const planted::ClusterMistake late : {after_arrival, read_late}) {
            REQUIRE_FAULT(
                end(read, late), "read_in_cluster_kernel",
                ContainsSubstring("of dynamic shared memory") &&
                    ContainsSubstring("another block of its cluster (no barrier of the cluster between)"));
        }
        REQUIRE_FAULT(end(read, leaves_early), "read_in_cluster_kernel",
                      ContainsSubstring("another block of its cluster, which may have ended"));
        REQUIRE_FAULT(end(read, static_memory), "read_in_cluster_kernel",
                      ContainsSubstring("what is not its own dynamic shared memory"));
        const Array<float> parts(8, "parts"), sums(2, "sums");
        REQUIRE_FAULT(fault_of([&] { planted::sum_in_cluster(parts.data(), sums.data(), 8, 4, false); }),
                      "sum_in_cluster_kernel",
                      ContainsSubstring("reads byte ") &&
                          (ContainsSubstring("nobody has written") ||
                           ContainsSubstring("another block of its cluster")));
    });
}

TEST_CASE("clusters that the architecture does not run are refused", "[simt]") {
    const Array<float> in(ramp(32 * 32), "in", Contents::read_only), out(32 * 32, "out");
    const auto of = [&](int blocks, int cluster) {
        return fault_of([&] {
            planted::bring_in_cluster(in.data(), out.data(), blocks, cluster, planted::ClusterMistake::none);
        });
    };
    REQUIRE_THAT(of(6, 4), ContainsSubstring("launch: a grid of 6 blocks in clusters of 4"));
    REQUIRE_THAT(of(17, 17), ContainsSubstring("launch: clusters of 17 blocks; sm_90 runs 16"));
    REQUIRE(fault_of([] { planted::cluster_without_asking(8); }).empty());
    REQUIRE_THAT(fault_of([] { planted::cluster_without_asking(9); }),
                 ContainsSubstring("launch: clusters of 9 blocks; sm_90 runs 8"));
    REQUIRE(planted::cluster_runs(16));
    REQUIRE_FALSE(planted::cluster_runs(17));
    const simt::Settings before = simt::set_settings({0, 89});
    const std::string message = of(4, 2);
    const bool runs = planted::cluster_runs(2);
    simt::set_settings(before);
    REQUIRE_THAT(message, ContainsSubstring("launch: clusters of 2 blocks; sm_89 runs 1"));
    REQUIRE_FALSE(runs);
}

TEST_CASE("what was launched is told", "[simt]") {
    (void)simt::take_activity();
    const Array<float> in(ramp(100), "in"), middle(100, "middle"), out(100, "out");
    planted::two_launches(in.data(), middle.data(), out.data(), 100, true);
    const simt::Activity activity = simt::take_activity();
    REQUIRE(activity.launches.size() == 2);
    REQUIRE(activity.launches[0].kernel == "add_one_kernel");
    REQUIRE(activity.launches[0].grid[0] == 2);
    REQUIRE(activity.launches[0].block[0] == 64);
    REQUIRE(!activity.launches[0].dependent);
    REQUIRE(activity.launches[1].dependent);
    REQUIRE(simt::take_activity().launches.empty());
}

uint16_t to_half(float value, bool bf16) {
    // Small integers and halves are exact in both.
    const auto bits = std::bit_cast<uint32_t>(value);
    if (bf16) return static_cast<uint16_t>(bits >> 16U);
    if (value == 0) return static_cast<uint16_t>(bits >> 16U);
    return static_cast<uint16_t>((bits >> 16U & 0x8000U) | (((bits >> 23U & 0xFFU) - 112U) << 10U) |
                                 (bits >> 13U & 0x3FFU));
}

TEST_CASE("a product of a warp has the fragments that PTX gives it", "[simt]") {
    std::mt19937 random(seed(1101));
    std::uniform_int_distribution<int> number(-8, 8);
    for (const bool bf16 : {false, true}) {
        std::vector<uint16_t> a(256), b(128);
        std::vector<float> fa(256), fb(128), d(128);
        for (size_t i = 0; i < 256; ++i)
            a[i] = to_half(fa[i] = static_cast<float>(number(random)) / 2, bf16);
        for (size_t i = 0; i < 128; ++i)
            b[i] = to_half(fb[i] = static_cast<float>(number(random)) / 2, bf16);
        for (float& x : d)
            x = static_cast<float>(number(random));
        for (const bool by_ldmatrix : {false, true}) {
            const Array<uint16_t> device_a(a, "a", Contents::read_only),
                device_b(b, "b", Contents::read_only);
            const Array<float> device_d(d, "d");
            planted::multiply(device_a.data(), device_b.data(), device_d.data(), bf16, by_ldmatrix);
            const std::vector<float> result = device_d.values();
            for (size_t r = 0; r < 16; ++r) {
                for (size_t n = 0; n < 8; ++n) {
                    float sum = d[r * 8 + n];
                    for (size_t k = 0; k < 16; ++k)
                        sum += fa[r * 16 + k] * fb[k * 8 + n];
                    CAPTURE(bf16, by_ldmatrix, r, n);
                    REQUIRE(result[r * 8 + n] == sum); // exact: small multiples of a quarter
                }
            }
        }
    }
}

TEST_CASE("votes and sums of a warp", "[simt]") {
    std::vector<int> values(32);
    for (int i = 0; i < 32; ++i)
        values[static_cast<size_t>(i)] = i % 3 == 0 ? -i : 3 * i;
    const Array<int> in(values, "in", Contents::read_only);
    simt::in_orders(orders, [&](uint64_t) {
        const Array<unsigned> out(32 * 7, "out");
        planted::votes(in.data(), out.data());
        unsigned ballot = 0, sum = 0, bits = 0;
        for (size_t i = 0; i < 32; ++i) {
            ballot |= values[i] > 0 ? 1U << i : 0U;
            sum += static_cast<unsigned>(values[i]);
            bits |= static_cast<unsigned>(values[i]);
        }
        for (size_t lane = 0; lane < 32; ++lane) {
            const std::vector<unsigned> all = out.values();
            REQUIRE(std::vector(all.begin() + static_cast<ptrdiff_t>(lane * 7),
                                all.begin() + static_cast<ptrdiff_t>(lane * 7 + 7)) ==
                    std::vector<unsigned>{ballot, 0, 1, sum, 93, static_cast<unsigned>(-30), bits});
        }
    });
}

TEST_CASE("shuffles within parts of a warp", "[simt]") {
    std::vector<int> values(32);
    std::iota(values.begin(), values.end(), 100);
    const Array<int> in(values, "in", Contents::read_only);
    for (const int width : {32, 16, 8}) {
        for (const int argument : {0, 1, 3, 5}) {
            const Array<int> out(128, "out");
            planted::shuffles(in.data(), out.data(), argument, width);
            const std::vector<int> got = out.values();
            for (int lane = 0; lane < 32; ++lane) {
                CAPTURE(width, argument, lane);
                const int first = lane / width * width;
                const auto l = static_cast<size_t>(lane);
                REQUIRE(got[l] == 100 + first + argument % width);
                REQUIRE(got[32 + l] == 100 + (lane - argument < first ? lane : lane - argument));
                REQUIRE(got[64 + l] == 100 + (lane + argument >= first + width ? lane : lane + argument));
                REQUIRE(got[96 + l] == 100 + (lane ^ argument));
            }
        }
    }
}

} // namespace
} // namespace refreshlab::test::simt_cases
