#include "engine/refresh/signal_expression.h"

#include "engine/base/check.h"
#include "engine/signals/nearest_name.h"
#include "engine/signals/registry.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace refreshlab {

namespace {

constexpr int deepest = 100; // parentheses, signs and functions within each other
constexpr double largest_number = 1e9;

bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
bool begins_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && is_space(text.front()))
        text.remove_prefix(1);
    while (!text.empty() && is_space(text.back()))
        text.remove_suffix(1);
    return text;
}

} // namespace

/// Descends through the grammar of the header, a function a line.
class ExpressionParser {
public:
    using Kind = SignalExpression::Kind;
    using Node = SignalExpression::Node;
    using WhyNoTerm = std::function<std::string(std::string_view)>;

    ExpressionParser(SignalExpression& expression, std::string_view text, const WhyNoTerm& why_no_term)
        : m_expression(expression)
        , m_text(text)
        , m_why_no_term(why_no_term) {}

    void parse() {
        if (trimmed(m_text).empty()) fail(0, "there is no expression");
        const size_t whole = sum();
        if (more()) fail(m_at, fmt::format("{} is not expected here", here()), "an operator: + - * /");
        RL_ASSERT(whole + 1 == m_expression.m_nodes.size());
        if (m_expression.m_signals.empty()) fail(0, "it names no signal");
        if (const int64_t reads = m_expression.reads_of(m_expression.m_nodes.back());
            reads > SignalExpression::most_reads)
            fail(0,
                 fmt::format("it would look at {} values at each step, {} at most", reads,
                             SignalExpression::most_reads),
                 "shorter windows, or fewer within each other");
    }

private:
    struct Function {
        std::string_view name;
        Kind kind;
        size_t least, most; ///< arguments
    };
    static constexpr size_t many = 32;
    static constexpr std::array functions = {
        Function{"abs", Kind::abs, 1, 1},         Function{"sqrt", Kind::sqrt, 1, 1},
        Function{"exp", Kind::exp, 1, 1},         Function{"log", Kind::log, 1, 1},
        Function{"min", Kind::min, 2, many},      Function{"max", Kind::max, 2, many},
        Function{"or", Kind::otherwise, 2, 2},    Function{"mean", Kind::mean, 2, 2},
        Function{"highest", Kind::highest, 2, 2}, Function{"lowest", Kind::lowest, 2, 2},
        Function{"lag", Kind::lag, 2, 2}};

    [[noreturn]] void fail(size_t at, const std::string& problem, const std::string& hint = {}) const {
        // Columns are characters: a person counts these.
        throw ExpressionError(static_cast<size_t>(count_code_points(m_text.substr(0, at))) + 1, problem,
                              hint);
    }

    bool more() {
        while (m_at < m_text.size() && is_space(m_text[m_at]))
            ++m_at;
        return m_at < m_text.size();
    }
    bool take(char c) {
        if (!more() || m_text[m_at] != c) return false;
        ++m_at;
        return true;
    }
    /// What stands at the place, for a message.
    std::string here() const {
        if (m_at >= m_text.size()) return "the end";
        return fmt::format("\"{}\"", visible_text(m_text.substr(m_at, utf8_step(m_text, m_at).length), 8));
    }

    size_t put(Node node) {
        m_expression.m_nodes.push_back(std::move(node));
        return m_expression.m_nodes.size() - 1;
    }

    size_t sum() {
        size_t left = product();
        while (more() && (m_text[m_at] == '+' || m_text[m_at] == '-')) {
            const Kind kind = m_text[m_at++] == '+' ? Kind::add : Kind::subtract;
            const size_t right = product();
            left = put({kind, 0, 0, {left, right}});
        }
        return left;
    }

    size_t product() {
        size_t left = factor();
        while (more() && (m_text[m_at] == '*' || m_text[m_at] == '/')) {
            const Kind kind = m_text[m_at++] == '*' ? Kind::multiply : Kind::divide;
            const size_t right = factor();
            left = put({kind, 0, 0, {left, right}});
        }
        return left;
    }

    size_t factor() {
        if (++m_depth > deepest) fail(m_at, "too many parentheses, signs and functions within each other");
        const size_t node = factor_within();
        --m_depth;
        return node;
    }

    size_t factor_within() {
        if (take('-')) return put({Kind::negate, 0, 0, {factor()}});
        if (take('(')) {
            const size_t inner = sum();
            close("the parenthesis");
            return inner;
        }
        if (!more()) fail(m_at, "the expression ends where a value is expected");
        if (is_digit(m_text[m_at]) || m_text[m_at] == '.') return put({Kind::number, number(), 0, {}});
        if (!begins_name(m_text[m_at]))
            fail(m_at, fmt::format("{} is not expected here", here()),
                 "a number, a signal, a function or \"(\"");
        const size_t at = m_at;
        const std::string_view name = take_name();
        return take('(') ? call(name, at) : signal(name, at);
    }

    void close(const std::string& what) {
        if (!take(')')) fail(m_at, fmt::format("{} is not closed, {} stands here", what, here()));
    }

    double number() {
        double value = 0;
        const char* const begin = m_text.data() + m_at;
        const auto [end, fault] = std::from_chars(begin, m_text.data() + m_text.size(), value);
        if (fault != std::errc{} || !std::isfinite(value) || std::abs(value) > largest_number)
            fail(m_at, fmt::format("no number from {} to {}", -largest_number, largest_number));
        m_at += static_cast<size_t>(end - begin);
        return value;
    }

    std::string_view take_name() {
        const size_t begin = m_at;
        while (m_at < m_text.size() && (begins_name(m_text[m_at]) || is_digit(m_text[m_at])))
            ++m_at;
        return m_text.substr(begin, m_at - begin);
    }

    size_t signal(std::string_view name, size_t at) {
        if (const std::string why = m_why_no_term(name); !why.empty()) {
            const size_t line = why.find('\n');
            fail(at, why.substr(0, line), line == std::string::npos ? std::string() : why.substr(line + 1));
        }
        auto& names = m_expression.m_signals;
        auto found = std::ranges::find(names, name);
        if (found == names.end()) found = names.insert(names.end(), std::string(name));
        return put({Kind::signal, 0, static_cast<size_t>(found - names.begin()), {}});
    }

    size_t call(std::string_view name, size_t at) {
        const auto function = std::ranges::find(functions, name, &Function::name);
        if (function == functions.end()) {
            std::vector<std::string_view> known;
            for (const Function& one : functions)
                known.push_back(one.name);
            fail(at, fmt::format("\"{}\" is no function", visible_text(name, 40)),
                 name_hint(name, known, "functions"));
        }
        const bool windowed = function->kind >= Kind::mean;
        Node node{function->kind, 0, 0, {}};
        size_t given = 0;
        do {
            if (windowed && given == 1)
                node.number = window(name);
            else
                node.parts.push_back(sum());
        } while (++given < function->most && take(','));
        close(fmt::format("{}(", name));
        if (given < function->least)
            fail(at,
                 fmt::format("{} takes {}, not {}", name,
                             function->least == function->most ? fmt::format("{}", function->least)
                                                               : fmt::format("{} or more", function->least),
                             given));
        return put(std::move(node));
    }

    double window(std::string_view name) {
        if (!more()) fail(m_at, "the expression ends where a number of steps is expected");
        const size_t at = m_at;
        const bool digit = is_digit(m_text[m_at]);
        const double steps = digit ? number() : 0;
        if (!digit || steps != std::floor(steps) || steps < 1 ||
            steps > static_cast<double>(SignalExpression::longest_window))
            fail(at, fmt::format("{} takes a whole number of steps from 1 to {} here", name,
                                 SignalExpression::longest_window));
        return steps;
    }

    SignalExpression& m_expression;
    std::string_view m_text;
    const WhyNoTerm& m_why_no_term;
    size_t m_at = 0;
    int m_depth = 0;
};

SignalExpression::SignalExpression(std::string_view text,
                                   const std::function<std::string(std::string_view)>& why_no_term)
    : m_text(trimmed(text)) {
    if (text.size() > longest_text)
        throw ExpressionError(1, fmt::format("{} bytes are too long, {} at most", text.size(), longest_text));
    // Of the text as it was given: the columns are those that a person sees.
    ExpressionParser(*this, text, why_no_term).parse();
}

int64_t SignalExpression::reach_of(const Node& node) const {
    int64_t most = 0;
    for (const size_t part : node.parts)
        most = std::max(most, reach_of(m_nodes[part]));
    const auto steps = static_cast<int64_t>(node.number);
    if (node.kind == Kind::lag) return most + steps;
    return node.kind >= Kind::mean ? most + steps - 1 : most;
}

int64_t SignalExpression::reach() const {
    return reach_of(m_nodes.back());
}

/// Capped: a product of windows does not overflow.
int64_t SignalExpression::reads_of(const Node& node) const {
    if (node.parts.empty()) return 1;
    int64_t sum = 0;
    for (const size_t part : node.parts)
        sum += reads_of(m_nodes[part]);
    if (node.kind >= Kind::mean && node.kind != Kind::lag) sum *= static_cast<int64_t>(node.number);
    return std::min<int64_t>(sum, 1'000'000'000);
}

std::optional<double> SignalExpression::of_window(const Node& node, int64_t step, const Read& read) const {
    const Node& of = m_nodes[node.parts[0]];
    const auto steps = static_cast<int64_t>(node.number);
    std::optional<double> result;
    int64_t count = 0;
    for (int64_t t = std::max<int64_t>(1, step - steps + 1); t <= step; ++t) {
        const auto value = value_of(of, t, read);
        if (!value) continue;
        ++count;
        if (!result || std::isnan(*value))
            result = value;
        else if (std::isnan(*result))
            continue;
        else if (node.kind == Kind::mean)
            *result += *value;
        else
            result = node.kind == Kind::highest ? std::max(*result, *value) : std::min(*result, *value);
    }
    if (result && node.kind == Kind::mean) *result /= static_cast<double>(count);
    return result;
}

std::optional<double> SignalExpression::value_of(const Node& node, int64_t step, const Read& read) const {
    switch (node.kind) {
    case Kind::number:
        return node.number;
    case Kind::signal: {
        const float value = read(m_signals[node.signal], step);
        return is_absent(value) ? std::nullopt : std::optional(static_cast<double>(value));
    }
    case Kind::otherwise: {
        const auto first = value_of(m_nodes[node.parts[0]], step, read);
        return first ? first : value_of(m_nodes[node.parts[1]], step, read);
    }
    case Kind::lag: {
        const int64_t before = step - static_cast<int64_t>(node.number);
        return before < 1 ? std::nullopt : value_of(m_nodes[node.parts[0]], before, read);
    }
    case Kind::mean:
    case Kind::highest:
    case Kind::lowest:
        return of_window(node, step, read);
    default:
        break;
    }
    // The others need a value of each part.
    const auto first = value_of(m_nodes[node.parts[0]], step, read);
    if (!first) return std::nullopt;
    double result = *first;
    switch (node.kind) {
    case Kind::negate:
        return -result;
    case Kind::abs:
        return std::abs(result);
    case Kind::sqrt:
        return std::sqrt(result);
    case Kind::exp:
        return std::exp(result);
    case Kind::log:
        return std::log(result);
    default:
        break;
    }
    for (size_t i = 1; i < node.parts.size(); ++i) {
        const auto next = value_of(m_nodes[node.parts[i]], step, read);
        if (!next) return std::nullopt;
        switch (node.kind) {
        case Kind::add:
            result += *next;
            break;
        case Kind::subtract:
            result -= *next;
            break;
        case Kind::multiply:
            result *= *next;
            break;
        case Kind::divide:
            result /= *next;
            break;
        case Kind::min:
            result = std::isnan(*next) || *next < result ? *next : result;
            break;
        default: // max
            result = std::isnan(*next) || *next > result ? *next : result;
            break;
        }
    }
    return result;
}

float SignalExpression::value(int64_t step, const Read& read) const {
    const auto value = value_of(m_nodes.back(), step, read);
    if (!value) return absent();
    // A record tells what was not measured from what is no number by the bits of a NaN.
    return std::isnan(*value) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(*value);
}

} // namespace refreshlab
