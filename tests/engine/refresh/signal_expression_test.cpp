// Arithmetic over signals: what an expression is worth, against a plain second implementation, and what is refused where.
#include "engine/base/error.h"
#include "engine/refresh/own_signal.h"
#include "engine/refresh/policy.h"
#include "engine/signals/registry.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace signal_expression_test {

using namespace refreshlab;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string any_name(std::string_view) {
    return {};
}

/// Signals x and y at steps 1 .. 6; x has no value at step 3.
float sample(std::string_view name, int64_t step) {
    constexpr float x[] = {1, 4, 0, 2, -3, 5}, y[] = {2, 2, 8, 1, 0, -1};
    if (name == "x" && step == 3) return absent();
    return name == "x" ? x[step - 1] : y[step - 1];
}
float worth(const char* text, int64_t step) {
    return SignalExpression(text, any_name).value(step, sample);
}

/// What is said of a text, with its column.
std::string fault(const std::string& text) {
    try {
        static_cast<void>(read_expression(text, "gate.json", "e"));
    } catch (const Error& e) {
        return e.what();
    }
    return "accepted";
}

// --- a second implementation: each node is a function of the step ---
using Value = std::optional<double>;
using Tree = std::function<Value(int64_t)>;
struct Made {
    std::string text;
    Tree value;
};

Value both(const Value& a, const Value& b, double (*apply)(double, double)) {
    return a && b ? Value(apply(*a, *b)) : std::nullopt;
}

/// A random expression with its value, every part in parentheses.
Made random_expression(std::mt19937_64& random, int depth) {
    const auto part = [&] { return random_expression(random, depth - 1); };
    switch (depth <= 0 ? random() % 2 : random() % 12) {
    case 0: {
        const double number = 0.25 * static_cast<double>(random() % 17);
        return {fmt::format("{}", number), [number](int64_t) { return Value(number); }};
    }
    case 1: {
        const std::string name = random() % 2 == 0 ? "x" : "y";
        return {name, [name](int64_t t) {
                    const float v = sample(name, t);
                    return is_absent(v) ? Value() : Value(static_cast<double>(v));
                }};
    }
    case 2: {
        const Made a = part();
        return {"-(" + a.text + ")", [a](int64_t t) {
                    const Value v = a.value(t);
                    return v ? Value(-*v) : v;
                }};
    }
    case 3: {
        const Made a = part();
        return {"abs(" + a.text + ")", [a](int64_t t) {
                    const Value v = a.value(t);
                    return v ? Value(std::fabs(*v)) : v;
                }};
    }
    case 4: {
        const Made a = part(), b = part();
        return {"or(" + a.text + "," + b.text + ")", [a, b](int64_t t) {
                    const Value v = a.value(t);
                    return v ? v : b.value(t);
                }};
    }
    case 5: {
        const Made a = part();
        const auto n = static_cast<int64_t>(1 + random() % 4);
        return {fmt::format("lag({}, {})", a.text, n),
                [a, n](int64_t t) { return t - n >= 1 ? a.value(t - n) : Value(); }};
    }
    case 6:
    case 7: {
        const Made a = part();
        const auto n = static_cast<int64_t>(1 + random() % 4);
        const int which = static_cast<int>(random() % 3);
        constexpr const char* names[] = {"mean", "highest", "lowest"};
        return {fmt::format("{}({}, {})", names[which], a.text, n), [a, n, which](int64_t t) {
                    std::vector<double> seen;
                    for (int64_t s = 1; s <= t; ++s)
                        if (s > t - n)
                            if (const Value v = a.value(s)) seen.push_back(*v);
                    if (seen.empty()) return Value();
                    if (which == 1) return Value(*std::ranges::max_element(seen));
                    if (which == 2) return Value(*std::ranges::min_element(seen));
                    double sum = 0;
                    for (const double v : seen)
                        sum += v;
                    return Value(sum / static_cast<double>(seen.size()));
                }};
    }
    case 8: {
        const Made a = part(), b = part();
        return {"max(" + a.text + ", " + b.text + ")", [a, b](int64_t t) {
                    return both(a.value(t), b.value(t), [](double p, double q) { return p > q ? p : q; });
                }};
    }
    case 9: {
        const Made a = part(), b = part();
        return {"(" + a.text + ") * (" + b.text + ")", [a, b](int64_t t) {
                    return both(a.value(t), b.value(t), [](double p, double q) { return p * q; });
                }};
    }
    case 10: {
        const Made a = part(), b = part();
        return {"(" + a.text + ") - (" + b.text + ")", [a, b](int64_t t) {
                    return both(a.value(t), b.value(t), [](double p, double q) { return p - q; });
                }};
    }
    default: {
        const Made a = part(), b = part();
        return {"(" + a.text + ")+(" + b.text + ")", [a, b](int64_t t) {
                    return both(a.value(t), b.value(t), [](double p, double q) { return p + q; });
                }};
    }
    }
}

} // namespace

TEST_CASE("an expression is worth what one works out by hand", "[refresh][expression]") {
    CHECK(worth("x + y * 2", 1) == 5);
    CHECK(worth("(x + y) * 2", 1) == 6);
    CHECK(worth("10 - 4 - 3 + 0*x", 1) == 3); // from the left
    CHECK(worth("8 / 4 / 2 + 0*x", 1) == 1);
    CHECK(worth("-x - -y", 2) == -2);
    CHECK(worth("--x", 2) == 4);
    CHECK(worth("abs(x)", 5) == 3);
    CHECK(worth("sqrt(x) + 1e1", 2) == 12);
    CHECK(worth("log(exp(y))", 2) == 2);
    CHECK(worth("min(x, y, 3)", 2) == 2);
    CHECK(worth("max(x, y, 3)", 2) == 4);
    CHECK(worth("mean(y, 3)", 3) == 4); // 2, 2, 8
    CHECK(worth("mean(y, 3)", 2) == 2); // there are two
    CHECK(worth("highest(y, 4)", 5) == 8);
    CHECK(worth("lowest(y, 2)", 5) == 0);
    CHECK(worth("lag(y, 2)", 5) == 8);
    CHECK(worth("y - mean(y, 16)", 4) == -2.25F);
    CHECK(worth("mean(lag(y, 1), 2)", 4) == 5); // of steps 2 and 3
    CHECK(worth("lag(mean(y, 2), 3)", 6) == 5); // of steps 2 and 3
    // What has no value.
    CHECK(is_absent(worth("x", 3)));
    CHECK(is_absent(worth("x + y", 3)));
    CHECK(is_absent(worth("min(x, y)", 3)));
    CHECK(worth("or(x, 7)", 3) == 7);
    CHECK(worth("or(x, 7)", 4) == 2);
    CHECK(worth("or(x, y)", 3) == 8);
    CHECK(worth("mean(x, 2)", 3) == 4); // step 2 alone
    CHECK(is_absent(worth("mean(x, 1)", 3)));
    CHECK(is_absent(worth("lag(y, 3)", 3)));
    CHECK(is_absent(worth("lag(x, 1)", 4)));
    // No number is one, and goes on.
    for (const char* text : {"y / y", "mean(y / y, 2)", "highest(y / y, 3)", "max(1, y / y)", "max(y / y, 1)",
                             "log(-abs(y) - 1)"}) {
        INFO(text);
        const float value = worth(text, 5); // y is 0
        CHECK(std::isnan(value));
        CHECK(!is_absent(value));
    }
    CHECK(worth("1 / y", 5) == std::numeric_limits<float>::infinity());
    CHECK(SignalExpression(" x +\ty ", any_name).text() == "x +\ty");
    CHECK(SignalExpression("x + y + x", any_name).signals() == std::vector<std::string>{"x", "y"});
    CHECK(SignalExpression("x", any_name).reach() == 0);
    CHECK(SignalExpression("lag(x, 3)", any_name).reach() == 3);
    CHECK(SignalExpression("y + mean(lag(x, 3), 4)", any_name).reach() == 6);
}

TEST_CASE("expressions agree with functions that were put together beside them", "[refresh][expression]") {
    std::mt19937_64 random(test::seed(20261126));
    size_t there = 0, none = 0;
    for (int i = 0; i < 3000; ++i) {
        const Made made = random_expression(random, 1 + i % 4);
        if (made.text.find_first_of("xy") == std::string::npos ||
            made.text.size() > SignalExpression::longest_text)
            continue;
        INFO(made.text);
        std::optional<SignalExpression> expression;
        try {
            expression.emplace(made.text, any_name);
        } catch (const ExpressionError& e) {
            CHECK(std::string(e.what()).find("names no signal") != std::string::npos); // "x" of "max"
            continue;
        }
        for (int64_t t = 1; t <= 6; ++t) {
            INFO(t);
            int64_t furthest = 0;
            const float value = expression->value(t, [&](std::string_view name, int64_t step) {
                CHECK(step >= 1);
                CHECK(step <= t);
                furthest = std::max(furthest, t - step);
                return sample(name, step);
            });
            CHECK(furthest <= expression->reach());
            const Value expected = made.value(t);
            REQUIRE(is_absent(value) == !expected.has_value());
            if (expected) CHECK(value == static_cast<float>(*expected));
            ++(expected ? there : none);
        }
    }
    CHECK(there > 5000);
    CHECK(none > 500);
}

TEST_CASE("what is wrong with an expression is said with its column", "[refresh][expression][bad-input]") {
    CHECK(fault("entropy_bits - 0.5 * last_kl_nats") == "accepted");
    const auto says = [](const char* text, int column, const char* words) {
        INFO(text);
        CHECK_THAT(fault(text), ContainsSubstring(fmt::format("e: column {}: ", column)));
        CHECK_THAT(fault(text), ContainsSubstring(words));
    };
    says("", 1, "there is no expression");
    says("  ", 1, "there is no expression");
    says("1 + 2", 1, "names no signal");
    says("entropy_bits +", 15, "ends where a value is expected");
    says("entropy_bits + * 2", 16, "\"*\" is not expected here");
    says("entropy_bits 2", 14, "\"2\" is not expected here");
    says("(entropy_bits", 14, "is not closed, the end stands here");
    says("entropy_bits)", 13, "\")\" is not expected here");
    says("entropy_bit + 1", 1, "there is no signal \"entropy_bit\"");
    CHECK_THAT(fault("entropy_bit + 1"), ContainsSubstring("did you mean entropy_bits"));
    says("2 * kl_nats", 5, "kl_nats cannot stand here: it is known only after a teacher pass");
    says("2 * logprob", 5, "it describes a token");
    says("maen(entropy_bits, 4)", 1, "\"maen\" is no function");
    CHECK_THAT(fault("maen(entropy_bits, 4)"), ContainsSubstring("did you mean mean"));
    says("mean(entropy_bits)", 1, "mean takes 2, not 1");
    says("mean(entropy_bits, 0)", 20, "a whole number of steps from 1 to 1024");
    says("mean(entropy_bits, 2.5)", 20, "a whole number");
    says("mean(entropy_bits, 1025)", 20, "a whole number");
    says("mean(entropy_bits, top1_prob)", 20, "a whole number");
    says("mean(entropy_bits, -1)", 20, "a whole number");
    says("mean(entropy_bits, 2, 3)", 21, "mean( is not closed, \",\" stands here");
    says("abs(entropy_bits, 2)", 17, "abs( is not closed");
    says("max(entropy_bits)", 1, "max takes 2 or more, not 1");
    says("entropy_bits + 1e400", 16, "no number");
    says("entropy_bits + .", 16, "no number");
    says("\u00e4\u00e4 + entropy_bits", 1, "\"\u00e4\" is not expected here");
    says("entropy_bits + \u00e4", 16, "is not expected here");
    says("mean(mean(entropy_bits, 1000), 1000)", 1,
         "would look at 1000000 values at each step, 8192 at most");
    says("mean(mean(1, 1000), 1000) + entropy_bits", 1, "would look at");
    says((std::string(400, '(') + "entropy_bits").c_str(), 101, "within each other");
    CHECK_THAT(fault(std::string(1001, ' ')), ContainsSubstring("too long"));
    // No text, however odd, does anything but say so.
    std::mt19937_64 random(test::seed(7));
    const std::string letters = "()+-*/,. 019exy_entropy_bits\xC3\xA4\"\n";
    size_t accepted = 0;
    for (int i = 0; i < 20000; ++i) {
        std::string text;
        for (size_t n = random() % 24; n > 0; --n)
            text += letters[random() % letters.size()];
        try {
            static_cast<void>(SignalExpression(text, any_name));
            ++accepted;
        } catch (const ExpressionError& e) {
            CHECK(e.column() >= 1);
            CHECK(e.column() <= text.size() + 1);
        }
    }
    CHECK(accepted > 100);
}

TEST_CASE("a policy brings an expression along as a signal, from JSON or from a line",
          "[refresh][expression]") {
    const char* text =
        R"json({"signals": [{"name": "rise", "expression": "entropy_bits - mean(entropy_bits, 4)"}],
                               "when": {"any": [{"signal": "rise", "above": -0.5, "cooldown": 4}]}})json";
    const RefreshPolicy policy = policy_from_json(nlohmann::json::parse(text), "gate.json");
    REQUIRE(policy.signals.size() == 1);
    CHECK(policy.triggers.at(0).published);
    CHECK(policy.signals[0].reach() == 3);
    CHECK(policy.signals[0].reads() == std::vector<std::string_view>{"entropy_bits"});
    CHECK(policy_from_json(policy_to_json(policy), "again") == policy);
    CHECK(published_form(policy.signals[0], 0).description.find("entropy_bits - mean(entropy_bits, 4)") !=
          std::string::npos);
    CHECK(own_signal_from_text("rise=entropy_bits - mean(entropy_bits, 4)", "--signal") == policy.signals[0]);
    CHECK(trigger_from_text("rise > -0.5 cooldown 4", "--trigger", policy.signals) == policy.triggers[0]);
    CHECK(trigger_from_text("top1_prob<=0.25 every 8", "--trigger", {}) ==
          Trigger{"top1_prob", Comparison::at_most, 0.25, 8, 0});
    const auto refused = [](auto&& work) -> std::string {
        try {
            work();
        } catch (const Error& e) {
            return e.what();
        }
        return "accepted";
    };
    const auto json = [&](const char* signal) {
        return refused(
            [&] { static_cast<void>(own_signals_from_json(nlohmann::json::parse(signal), "gate.json")); });
    };
    CHECK_THAT(json(R"([{"name": "a", "expression": "entropy_bits", "offset": 1}])"),
               ContainsSubstring("stands in place of offset and weights"));
    CHECK_THAT(json(R"([{"name": "a", "expression": "entropy_bits +"}])"),
               ContainsSubstring("signals[0].expression: column 15: "));
    CHECK_THAT(json(R"([{"name": "a"}])"), ContainsSubstring("weights"));
    const auto line = [&](const char* typed) {
        return refused([&] { static_cast<void>(own_signal_from_text(typed, "--signal")); });
    };
    CHECK_THAT(line("entropy_bits + 1"), ContainsSubstring("has no \"=\""));
    CHECK_THAT(line("a = entropy_bits +"), ContainsSubstring("column 19: ")); // of the whole line
    CHECK_THAT(line("entropy_bits = top1_prob"), ContainsSubstring("is a signal of the program"));
    CHECK_THAT(line("Not a name = top1_prob"), ContainsSubstring("is not the name of a signal"));
    const auto trigger = [&](const char* typed) {
        return refused([&] { static_cast<void>(trigger_from_text(typed, "--trigger", {})); });
    };
    CHECK_THAT(trigger("entropy_bits"), ContainsSubstring("no signal, sign and number"));
    CHECK_THAT(trigger("entropy_bits == 4"), ContainsSubstring("\"==\" compares nothing"));
    CHECK_THAT(trigger("entropy_bits > x"), ContainsSubstring("\"x\" is no number"));
    CHECK_THAT(trigger("entropy_bits > 4 after 3"), ContainsSubstring("neither every nor cooldown"));
    CHECK_THAT(trigger("entropy_bit > 4"), ContainsSubstring("entropy_bits"));
    CHECK_THAT(trigger("entropy_bits > -4"), ContainsSubstring("must not be negative"));
    CHECK_THAT(trigger("entropy_bits > 4 every 0"), ContainsSubstring("every"));
}

} // namespace signal_expression_test
