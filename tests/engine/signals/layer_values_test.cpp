#include "engine/base/error.h"
#include "engine/signals/layer_values.h"
#include "engine/signals/published.h"
#include "engine/signals/registry.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace refreshlab;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr float infinite = std::numeric_limits<float>::infinity();

bool is_measured_nan(float v) {
    return std::isnan(v) && !is_absent(v);
}

PublishedSignal kept_positions() {
    PublishedSignal signal;
    signal.name = "kept_positions";
    signal.label = "Kept positions";
    signal.unit = "tokens";
    signal.description = "Positions that the cache policy keeps.";
    signal.layered = true;
    signal.letter = 'Q';
    return signal;
}

std::string publish_error(std::vector<PublishedSignal> list) {
    try {
        (void)signal_table(list);
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::bad_input);
        CHECK(std::string(error.what()).find('\n') == std::string::npos);
        return error.what();
    }
    return {};
}

} // namespace

TEST_CASE("layer values are reduced over the layers that were measured", "[signals]") {
    const std::vector<float> values = {2, 5, absent(), 1, 4};
    CHECK(reduce_layers(values, Reduction::mean) == 3.0F);
    CHECK(reduce_layers(values, Reduction::max) == 5.0F);
    CHECK(reduce_layers(values, Reduction::min) == 1.0F);
    CHECK(reduce_layers(values, Reduction::layer, 0) == 2.0F);
    CHECK(reduce_layers(values, Reduction::layer, 4) == 4.0F);
    CHECK(is_absent(reduce_layers(values, Reduction::layer, 2)));
    CHECK(is_absent(reduce_layers(values, Reduction::layer, 5)));
    CHECK(is_absent(reduce_layers(values, Reduction::layer, -1)));
    const std::vector<float> one = {-3}, none = {absent(), absent()};
    for (const Reduction r : {Reduction::mean, Reduction::max, Reduction::min}) {
        CHECK(reduce_layers(one, r) == -3.0F);
        CHECK(is_absent(reduce_layers(none, r)));
        CHECK(is_absent(reduce_layers({}, r)));
        // A NaN anywhere is a measured NaN of the whole, wherever it stands.
        CHECK(is_measured_nan(reduce_layers(std::vector<float>{not_a_number, 1, 2}, r)));
        CHECK(is_measured_nan(reduce_layers(std::vector<float>{1, 2, not_a_number}, r)));
    }
    CHECK(reduce_layers(std::vector<float>{1, infinite, 3}, Reduction::max) == infinite);
    CHECK(reduce_layers(std::vector<float>{1, infinite, 3}, Reduction::min) == 1.0F);
    // Sums that fp32 would lose.
    CHECK(layer_mean(std::vector<float>{16777216.0F, 1, 1, 1, 1}) == 16777220.0F / 5.0F);
}

TEST_CASE("a signal is named with its reduction", "[signals]") {
    CHECK(reduced_name("kept", Reduction::mean) == "kept");
    CHECK(reduced_name("kept", Reduction::max) == "kept.max");
    CHECK(reduced_name("kept", Reduction::min) == "kept.min");
    CHECK(reduced_name("kept", Reduction::layer, 12) == "kept.layer12");
}

TEST_CASE("a step's layer values are found by signal, and setting them again replaces them", "[signals]") {
    LayerValues values;
    CHECK(values.empty());
    CHECK(values.find(3).empty());
    values.set(3, std::vector<float>{1, 2});
    values.set(7, std::vector<float>{5, 6});
    values.set(3, std::vector<float>{8, 9});
    CHECK(std::ranges::equal(values.find(3), std::vector<float>{8, 9}));
    CHECK(std::ranges::equal(values.find(7), std::vector<float>{5, 6}));
    values.set(3, std::vector<float>{1, 2, 3});
    CHECK(std::ranges::equal(values.find(3), std::vector<float>{1, 2, 3}));
    CHECK(std::ranges::equal(values.find(7), std::vector<float>{5, 6}));
    REQUIRE(values.entries().size() == 2);
    values.set(7, {});
    CHECK(values.find(7).empty());
    CHECK(values.entries().size() == 1);
    values.clear();
    CHECK(values.empty());
    CHECK(values.find(3).empty());
}

TEST_CASE("varentropy and margin come from the row, and are absent where it does not give them",
          "[signals]") {
    const size_t varentropy = *signal_id("varentropy_bits2"), margin = *signal_id("top2_margin");
    SignalInputs in;
    in.row = {.log_z = 3, .entropy_bits = 4.5, .top1_prob = 0.75, .finite = true};
    std::vector<float> out(signals().size(), absent());
    evaluate_signals(in, out);
    CHECK(is_absent(out[varentropy]));
    CHECK(is_absent(out[margin]));
    in.row->varentropy_bits2 = 2.25;
    in.row->top2_prob = 0.125;
    evaluate_signals(in, out);
    CHECK(out[varentropy] == 2.25F);
    CHECK(out[margin] == 0.625F);
    in.row->varentropy_bits2 = 0; // all possible tokens equally likely: measured, and 0
    in.row->top2_prob = 0.75;
    evaluate_signals(in, out);
    CHECK(out[varentropy] == 0.0F);
    CHECK(out[margin] == 0.0F);
    in.row->finite = false;
    evaluate_signals(in, out);
    CHECK(is_measured_nan(out[varentropy]));
    CHECK(is_measured_nan(out[margin]));
}

TEST_CASE("a layered signal has its layers apart and their mean in its slot", "[signals]") {
    const size_t id = *signal_id("attention_entropy_bits");
    REQUIRE(signals()[id].layered);
    REQUIRE(signals()[id].attention);
    SignalInputs in;
    std::vector<float> out(signals().size(), absent());
    LayerValues layers;
    evaluate_signals(in, out, &layers);
    CHECK(is_absent(out[id]));
    CHECK(layers.empty());
    const std::vector<float> entropies = {1.5F, absent(), 2.5F};
    in.attention_entropy_bits = entropies;
    evaluate_signals(in, out, &layers);
    CHECK(out[id] == 2.0F);
    CHECK(std::ranges::equal(layers.find(id), entropies,
                             [](float a, float b) { return a == b || (is_absent(a) && is_absent(b)); }));
    std::vector<float> means(signals().size(), absent());
    evaluate_signals(in, means); // without a place for the layers
    CHECK(means[id] == 2.0F);
    const std::vector<float> broken = {1, not_a_number};
    in.attention_entropy_bits = broken;
    evaluate_signals(in, out, &layers);
    CHECK(is_measured_nan(out[id]));
}

TEST_CASE("every layered signal of the registry gives its mean as its value", "[signals]") {
    const std::vector<float> values = {1, 2, 6};
    SignalInputs in;
    in.attention_entropy_bits = values;
    size_t layered = 0;
    for (size_t id = 0; id < signals().size(); ++id) {
        const Signal& signal = signals()[id];
        INFO(signal.name);
        CHECK(signal.layered == (signal.layer_values != nullptr));
        if (!signal.layered) continue;
        ++layered;
        std::vector<float> layers;
        signal.layer_values(in, layers);
        CHECK_FALSE(layers.empty());
        CHECK(static_cast<float>(*signal.value(in)) == layer_mean(layers));
    }
    CHECK(layered >= 1);
}

TEST_CASE("published signals stand after those of the registry", "[signals]") {
    PublishedSignal plain = kept_positions();
    plain.name = "kept_bytes";
    plain.layered = false;
    plain.letter = 0;
    const std::vector<PublishedSignal> published = {kept_positions(), plain};
    const std::vector<Signal> table = signal_table(published);
    REQUIRE(table.size() == signals().size() + 2);
    CHECK(published_id(0) == signals().size());
    CHECK(table[published_id(0)].name == "kept_positions");
    CHECK(table[published_id(0)].layered);
    CHECK(table[published_id(0)].unit == "tokens");
    CHECK(table[published_id(1)].name == "kept_bytes");
    CHECK(find_signal(table, "kept_bytes") == published_id(1));
    CHECK(find_signal(table, "entropy_bits") == signal_id("entropy_bits"));
    CHECK_FALSE(signal_id("kept_bytes"));
    CHECK(require_signal(table, "kept_bytes", "here") == published_id(1));
    CHECK_THROWS_AS(require_signal(table, "kept_byte", "here"), Error);

    std::vector<float> slots(max_signals, absent());
    LayerValues layers;
    const StepValues values(slots, layers);
    values.set_layers(published_id(0), std::vector<float>{10, 20, 60});
    values.set(published_id(1), 512);
    CHECK(slots[published_id(0)] == 30.0F);
    CHECK(slots[published_id(1)] == 512.0F);
    CHECK(layers.find(published_id(0)).size() == 3);
    values.set(published_id(1), static_cast<double>(absent())); // arithmetic may have made such a NaN
    CHECK(is_measured_nan(slots[published_id(1)]));
}

TEST_CASE("what cannot be published is refused by name", "[signals]") {
    CHECK(publish_error({}).empty());
    CHECK(publish_error({kept_positions()}).empty());
    const auto with = [](const auto& change) {
        PublishedSignal signal = kept_positions();
        change(signal);
        return publish_error({signal});
    };
    CHECK_THAT(with([](auto& s) { s.name = "entropy_bits"; }),
               ContainsSubstring("entropy_bits") && ContainsSubstring("exists already"));
    CHECK_THAT(publish_error({kept_positions(), kept_positions()}),
               ContainsSubstring("kept_positions") && ContainsSubstring("exists already"));
    for (const char* name : {"", "Kept", "kept-positions", "1kept", "kept positions", "kept.layer1"})
        CHECK_THAT(with([&](auto& s) { s.name = name; }), ContainsSubstring("lower-case letters"));
    CHECK_THAT(with([](auto& s) { s.name = std::string(49, 'k'); }), ContainsSubstring("at most 48"));
    CHECK_THAT(with([](auto& s) { s.label.clear(); }), ContainsSubstring("label"));
    CHECK_THAT(with([](auto& s) { s.description = "two\nlines"; }), ContainsSubstring("one line"));
    CHECK_THAT(with([](auto& s) { s.min = s.max = 5; }), ContainsSubstring("range is empty"));
    CHECK_THAT(with([](auto& s) { s.max = std::numeric_limits<double>::infinity(); }),
               ContainsSubstring("range is empty"));
    for (const char letter : {'E', 'H', '+', ' ', '\x7F'})
        CHECK_THAT(with([&](auto& s) { s.letter = letter; }), ContainsSubstring("letter"));
    CHECK_THAT(with([](auto& s) { s.cost = SignalCost::mc_rows; }), ContainsSubstring("MC rows"));

    std::vector<PublishedSignal> many;
    for (size_t i = 0; i <= max_signals - signals().size(); ++i) {
        PublishedSignal signal = kept_positions();
        signal.name += std::to_string(i);
        signal.letter = 0;
        many.push_back(signal);
    }
    CHECK_THAT(publish_error(many), ContainsSubstring("room for 32"));
    many.pop_back();
    CHECK(publish_error(many).empty());
}
