// Slots of rows: who has one reads what was written there, and nobody's reads as NaN.
#include "engine/cache/row_store.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <map>
#include <random>

namespace row_store_test {

using namespace refreshlab;

TEST_CASE("rows stay what they were while others come and go and the store is copied", "[cache][pool]") {
    constexpr int64_t width = 3;
    const uint32_t seed = test::seed(76);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    RowStore store(width, at::TensorOptions().dtype(at::kBFloat16));
    std::map<int64_t, float> held; ///< by slot: the number that fills its row
    const auto matches = [&](const RowStore& of) {
        std::vector<int64_t> slots;
        std::vector<float> numbers;
        for (const auto& [slot, number] : held) {
            slots.push_back(slot);
            numbers.push_back(number);
        }
        const at::Tensor expected = at::tensor(numbers, at::kFloat).to(at::kBFloat16).unsqueeze(1);
        return at::equal(of.read(slots), expected.expand({std::ssize(slots), width}));
    };
    bool was_roomy = false;
    for (int round = 0; round < 40; ++round) {
        const auto n = static_cast<int64_t>(random() % 200);
        const std::vector<int64_t> taken = store.take(n);
        std::vector<float> numbers;
        for (const int64_t slot : taken) {
            CHECK(!held.contains(slot)); // nobody else has it
            numbers.push_back(held[slot] = static_cast<float>(random() % 1000));
        }
        CHECK(at::isnan(store.read(taken)).all().item<bool>());
        store.write(taken, at::tensor(numbers, at::kFloat).unsqueeze(1).expand({n, width}));
        std::vector<int64_t> gone;
        for (const auto& [slot, number] : held)
            if (random() % 8 < (round % 20 < 10 ? 1U : 6U)) gone.push_back(slot); // it grows, then shrinks
        const RowStore copy = store.clone();
        CHECK(matches(copy));
        store.give_back(gone);
        if (!gone.empty()) CHECK(at::isnan(store.read(gone)).all().item<bool>());
        CHECK(matches(copy)); // which has them still
        for (const int64_t slot : gone)
            held.erase(slot);
        CHECK(matches(store));
        if (!store.is_roomy()) continue;
        was_roomy = true;
        std::vector<int64_t> order;
        std::map<int64_t, float> moved;
        for (const auto& [slot, number] : held) {
            moved[std::ssize(order)] = number;
            order.push_back(slot);
        }
        store.keep(order);
        held = std::move(moved);
        CHECK(store.bytes() == std::ssize(held) * store.row_bytes());
        CHECK(matches(store));
    }
    CHECK(was_roomy);
}

} // namespace row_store_test
