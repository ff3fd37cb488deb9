#pragma once

#include <catch2/catch_get_random_seed.hpp>

#include <cstdint>

namespace refreshlab::test {

/// Start of one test's random numbers: another for every salt, the same for the same `--rng-seed`. CTest gives a fixed
/// one, so that a change and nothing else turns a suite red; `make soak` draws others, and Catch prints them.
[[nodiscard]] inline uint32_t seed(uint32_t salt) {
    uint64_t z =
        ((uint64_t{Catch::getSeed()} << 32) | salt) + 0x9E3779B97F4A7C15ULL; // one round of splitmix64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return static_cast<uint32_t>(z >> 32);
}

} // namespace refreshlab::test
