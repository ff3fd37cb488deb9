#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// What is wrong with an expression, and where.
class ExpressionError : public std::runtime_error {
public:
    ExpressionError(size_t column, const std::string& problem, std::string hint = {})
        : std::runtime_error(problem)
        , m_column(column)
        , m_hint(std::move(hint)) {}
    [[nodiscard]] size_t column() const {
        return m_column;
    } ///< of the first character that does not fit, from 1
    [[nodiscard]] const std::string& hint() const { return m_hint; }

private:
    size_t m_column;
    std::string m_hint;
};

/// Arithmetic over the signals of a run: "entropy_bits - 0.5 * last_kl_nats", "mean(entropy_bits, 16) / lag(entropy_bits, 16)".
///
///   sum      = product { ("+" | "-") product }
///   product  = factor { ("*" | "/") factor }
///   factor   = "-" factor | number | signal | function "(" sum { "," sum } ")" | "(" sum ")"
///   of one step        abs(x) sqrt(x) exp(x) log(x), the natural one; min(x, y, ...) max(x, y, ...); or(x, y): y where x has no value
///   of the last n      mean(x, n) highest(x, n) lowest(x, n): of the steps t - n + 1 .. t those at which x has a value; a whole number n, 1 to
///                      longest_window
///   of an earlier one  lag(x, n): x of step t - n
///
/// What has no value makes none: a sum without one of its parts, a window without any, a step before the first. A number that is no
/// number (0 / 0) is one, and stays so.
/// Cost of a value: at most most_reads signals and numbers.
class SignalExpression {
public:
    static constexpr size_t longest_text = 1000; ///< bytes
    static constexpr int64_t longest_window = 1024;
    static constexpr int64_t most_reads = 8192;

    /// \param why_no_term  why a name is no signal that may stand here, empty where it may; its hint behind a line break
    /// Throws ExpressionError.
    SignalExpression(std::string_view text,
                     const std::function<std::string(std::string_view name)>& why_no_term);

    [[nodiscard]] const std::string& text() const { return m_text; } ///< without spaces around it
    [[nodiscard]] const std::vector<std::string>& signals() const {
        return m_signals;
    }                                    ///< that it names, each once
    [[nodiscard]] int64_t reach() const; ///< how many steps before its own it looks back at

    /// Its value at a step, rounded as a record holds it; absent() where it has none. \param step  from 1
    /// \param read  a signal at a step from 1 to this one; absent() where it has no value
    [[nodiscard]] float value(int64_t step,
                              const std::function<float(std::string_view signal, int64_t step)>& read) const;

    friend bool operator==(const SignalExpression& a, const SignalExpression& b) {
        return a.m_text == b.m_text;
    }

private:
    friend class ExpressionParser;
    enum class Kind : uint8_t {
        number,
        signal,
        negate,
        add,
        subtract,
        multiply,
        divide,
        abs,
        sqrt,
        exp,
        log,
        min,
        max,
        otherwise,
        mean,
        highest,
        lowest,
        lag
    };
    /// A node of the tree; its parts stand before it in m_nodes.
    struct Node {
        Kind kind = Kind::number;
        double number = 0; ///< of a number; the n of a window or a lag
        size_t signal = 0; ///< in m_signals
        std::vector<size_t> parts;
    };
    using Read = std::function<float(std::string_view, int64_t)>;
    [[nodiscard]] std::optional<double> value_of(const Node& node, int64_t step, const Read& read) const;
    [[nodiscard]] std::optional<double> of_window(const Node& node, int64_t step, const Read& read) const;
    [[nodiscard]] int64_t reach_of(const Node& node) const;
    [[nodiscard]] int64_t reads_of(const Node& node) const;

    std::string m_text;
    std::vector<std::string> m_signals;
    std::vector<Node> m_nodes; ///< the last one is the whole
};

} // namespace refreshlab
