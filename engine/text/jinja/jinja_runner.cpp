#include "engine/text/jinja/jinja_runner.h"

#include "engine/text/jinja/jinja_builtins.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace refreshlab::jinja {

namespace {

constexpr int max_run_depth = 800;
constexpr int64_t max_range = 100'000; // as Jinja's sandbox
constexpr size_t node_cost = 40;

constexpr std::string_view globals[] = {"range", "namespace", "dict", "raise_exception", "strftime_now"};

/// Undoes a change to the runner when a scope, a loop or a level of recursion ends.
template <typename T>
class Restore {
public:
    Restore(T& place, T value)
        : m_place(place)
        , m_before(place) {
        place = value;
    }
    Restore(const Restore&) = delete;
    Restore& operator=(const Restore&) = delete;
    ~Restore() { m_place = m_before; }

private:
    T& m_place;
    T m_before;
};

Value make_range(const Arguments& arguments, Work& work) {
    std::vector<int64_t> numbers;
    for (const Value& value : arguments.positional) {
        if (!value.is_integer())
            throw Problem(fmt::format("range: an int expected, a {} found", value.type_name()));
        numbers.push_back(value.to_integer());
    }
    if (numbers.empty() || numbers.size() > 3) throw Problem("range: one to three numbers expected");
    int64_t at = numbers.size() > 1 ? numbers[0] : 0;
    const int64_t end = numbers.size() > 1 ? numbers[1] : numbers[0];
    const int64_t step = numbers.size() > 2 ? numbers[2] : 1;
    if (step == 0) throw Problem("range: the step is zero");
    std::vector<Value> items;
    while (step > 0 ? at < end : at > end) {
        if (static_cast<int64_t>(items.size()) == max_range)
            throw Problem(fmt::format("range: more than {}", max_range));
        items.push_back(Value::integer(at));
        if (__builtin_add_overflow(at, step, &at)) break;
    }
    work.spend(items.size() * 64);
    return Value::list(std::move(items));
}

std::string time_as(const std::string& format, const std::tm& time) {
    if (format.empty() || format.size() > 200) return {};
    std::array<char, 4096> text{};
    const size_t size = std::strftime(text.data(), text.size(), format.c_str(), &time);
    return std::string(text.data(), size);
}

} // namespace

Runner::Runner(std::vector<std::pair<std::string, Value>> context, const std::tm& now, Work work)
    : m_global{nullptr, std::move(context), nullptr}
    , m_now(now)
    , m_work(work) {}

std::string Runner::run(const Body& body) {
    std::string out;
    execute(body, out);
    return out;
}

// --- statements ---

Runner::Flow Runner::execute(const Body& body, std::string& out) {
    for (const Statement& statement : body) {
        try {
            const Flow flow = execute(statement, out);
            if (flow != Flow::on) return flow;
        } catch (Problem& problem) {
            if (problem.line == 0) problem.line = statement.line;
            throw;
        }
    }
    return Flow::on;
}

Runner::Flow Runner::execute(const Statement& statement, std::string& out) {
    m_work.spend(node_cost);
    switch (statement.kind) {
    case StatementKind::text:
        m_work.spend(statement.text.size());
        out += statement.text;
        break;
    case StatementKind::output:
        out += to_text(evaluate(*statement.expression), m_work);
        break;
    case StatementKind::branches:
        for (const Arm& arm : statement.arms) {
            if (arm.condition == nullptr || evaluate(*arm.condition).truthy()) return execute(arm.body, out);
        }
        break;
    case StatementKind::loop:
        return execute_loop(statement, out);
    case StatementKind::assign:
        assign(statement);
        break;
    case StatementKind::capture:
        capture(statement);
        break;
    case StatementKind::macro:
        m_macros.push_back(std::make_unique<Macro>(Macro{&statement}));
        set(statement.text, Value(Value::Data(std::make_shared<const Function>(
                                Function{statement.text, Value(), m_macros.back().get()}))));
        break;
    case StatementKind::block: {
        Scope scope{m_scope, {}, nullptr};
        const Restore inner(m_scope, &scope);
        return execute(statement.body, out);
    }
    case StatementKind::break_loop:
        return Flow::break_loop;
    case StatementKind::next_loop:
        return Flow::next_loop;
    }
    return Flow::on;
}

Runner::Flow Runner::execute_loop(const Statement& statement, std::string& out) {
    std::vector<Value> items = iterate(evaluate(*statement.expression), m_work);
    if (statement.condition != nullptr) {
        std::vector<Value> kept;
        for (const Value& item : items) {
            Scope scope{m_scope, {}, nullptr};
            const Restore inner(m_scope, &scope);
            bind(statement.names, item);
            if (evaluate(*statement.condition).truthy()) kept.push_back(item);
        }
        items = std::move(kept);
    }
    if (items.empty()) {
        Scope scope{m_scope, {}, nullptr};
        const Restore inner(m_scope, &scope);
        return execute(statement.otherwise, out);
    }
    const auto shared = std::make_shared<const std::vector<Value>>(std::move(items));
    const Restore deeper(m_loops, m_loops + 1);
    for (size_t i = 0; i < shared->size(); ++i) {
        m_work.spend(node_cost);
        // A scope for each iteration: what is set inside is gone in the next one.
        Scope scope{m_scope, {}, std::make_shared<const Loop>(Loop{shared, i, m_loops - 1})};
        const Restore inner(m_scope, &scope);
        bind(statement.names, (*shared)[i]);
        if (execute(statement.body, out) == Flow::break_loop) break;
    }
    return Flow::on;
}

void Runner::bind(const std::vector<std::string>& names, const Value& value) {
    if (names.size() == 1) {
        set(names.front(), value);
        return;
    }
    std::vector<Value> parts = iterate(value, m_work);
    if (parts.size() != names.size()) {
        throw Problem(fmt::format("{} names for {} values", names.size(), parts.size()));
    }
    for (size_t i = 0; i < names.size(); ++i)
        set(names[i], std::move(parts[i]));
}

void Runner::assign(const Statement& statement) {
    const Value value = evaluate(*statement.expression);
    if (statement.text.empty()) {
        bind(statement.names, value);
        return;
    }
    const Value target = look_up(statement.text);
    const auto* space = target.as<Namespace*>();
    if (space == nullptr)
        throw Problem(fmt::format("{} is not a namespace", visible_text(statement.text, 40)));
    auto& fields = (*space)->fields;
    m_work.spend(fields.size());
    const auto at = std::find_if(fields.begin(), fields.end(),
                                 [&](const auto& field) { return field.first == statement.names.front(); });
    if (at != fields.end()) {
        at->second = value;
    } else {
        fields.emplace_back(statement.names.front(), value);
    }
}

void Runner::capture(const Statement& statement) {
    std::string text;
    {
        Scope scope{m_scope, {}, nullptr};
        const Restore inner(m_scope, &scope);
        if (execute(statement.body, text) != Flow::on) throw Problem("break or continue inside a set block");
    }
    Value value = Value::text(std::move(text));
    if (statement.expression != nullptr) {
        Scope scope{m_scope, {{"", value}}, nullptr}; // the name that the filters of a set block start from
        const Restore inner(m_scope, &scope);
        value = evaluate(*statement.expression);
    }
    set(statement.names.front(), std::move(value));
}

void Runner::set(const std::string& name, Value value) {
    m_work.spend(m_scope->variables.size() + name.size());
    for (auto& [known, place] : m_scope->variables) {
        if (known == name) {
            place = std::move(value);
            return;
        }
    }
    m_scope->variables.emplace_back(name, std::move(value));
}

// --- expressions ---

Value Runner::evaluate(const Node& node) {
    m_work.spend(node_cost);
    const Restore deeper(m_depth, m_depth + 1);
    if (m_depth > max_run_depth) throw Problem("nested too deeply", node.line);
    try {
        return evaluate_inner(node);
    } catch (Problem& problem) {
        if (problem.line == 0) problem.line = node.line;
        throw;
    }
}

Value Runner::evaluate_inner(const Node& node) {
    switch (node.op) {
    case Op::constant:
        return node.value;
    case Op::name:
        return look_up(node.text);
    case Op::list:
    case Op::tuple:
    case Op::dict:
        return evaluate_container(node);
    case Op::attribute:
        return attribute(evaluate(*node.children[0]), node.text, m_work);
    case Op::call:
        return evaluate_call(node);
    case Op::filter: {
        const Value value = evaluate(*node.children[0]);
        return apply_filter(node.text, value, evaluate_arguments(node), m_work);
    }
    case Op::test: {
        const Value value = evaluate(*node.children[0]);
        return Value::boolean(apply_test(node.text, value, evaluate_arguments(node), m_work));
    }
    case Op::compare:
        return evaluate_compare(node);
    case Op::logical_and: {
        Value left = evaluate(*node.children[0]);
        return left.truthy() ? evaluate(*node.children[1]) : left;
    }
    case Op::logical_or: {
        Value left = evaluate(*node.children[0]);
        return left.truthy() ? left : evaluate(*node.children[1]);
    }
    case Op::conditional:
        if (evaluate(*node.children[0]).truthy()) return evaluate(*node.children[1]);
        return node.children[2] == nullptr ? Value::undefined("the missing else")
                                           : evaluate(*node.children[2]);
    default:
        return evaluate_operator(node);
    }
}

Value Runner::evaluate_operator(const Node& node) {
    const Value first = evaluate(*node.children[0]);
    switch (node.op) {
    case Op::item:
        return item(first, evaluate(*node.children[1]), m_work);
    case Op::slice: {
        const Value begin = evaluate_or_none(node.children[1]);
        const Value end = evaluate_or_none(node.children[2]);
        return slice(first, begin, end, evaluate_or_none(node.children[3]), m_work);
    }
    case Op::negation:
        return Value::boolean(!first.truthy());
    case Op::minus:
        return arithmetic("-", Value::integer(0), first, m_work);
    case Op::plus:
        return arithmetic("+", Value::integer(0), first, m_work);
    case Op::arithmetic:
        return arithmetic(node.text, first, evaluate(*node.children[1]), m_work);
    default: { // concat
        std::string text = to_text(first, m_work);
        for (size_t i = 1; i < node.children.size(); ++i)
            text += to_text(evaluate(*node.children[i]), m_work);
        return Value::text(std::move(text));
    }
    }
}

Value Runner::evaluate_or_none(const NodePtr& node) {
    return node == nullptr ? Value::none() : evaluate(*node);
}

Value Runner::evaluate_compare(const Node& node) {
    Value left = evaluate(*node.children[0]);
    for (size_t i = 0; i < node.words.size(); ++i) {
        const std::string& word = node.words[i];
        Value right = evaluate(*node.children[i + 1]);
        bool holds = false;
        if (word == "==" || word == "!=") {
            holds = equal(left, right, m_work) == (word == "==");
        } else if (word == "in" || word == "not in") {
            holds = contains(right, left, m_work) == (word == "in");
        } else {
            require_defined(left);
            require_defined(right);
            if (word == "<") holds = less(left, right, m_work);
            if (word == ">") holds = less(right, left, m_work);
            if (word == "<=") holds = less(left, right, m_work) || equal(left, right, m_work);
            if (word == ">=") holds = less(right, left, m_work) || equal(left, right, m_work);
        }
        if (!holds) return Value::boolean(false);
        left = std::move(right);
    }
    return Value::boolean(true);
}

Value Runner::evaluate_container(const Node& node) {
    m_work.spend(node.children.size() * 64);
    std::vector<Value> items;
    for (const NodePtr& child : node.children)
        items.push_back(evaluate(*child));
    if (node.op != Op::dict) return Value::list(std::move(items), node.op == Op::tuple);
    std::vector<std::pair<Value, Value>> entries;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
        const auto same = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) {
            return equal(entry.first, items[i], m_work);
        });
        if (same != entries.end()) {
            same->second = items[i + 1];
        } else {
            entries.emplace_back(items[i], items[i + 1]);
        }
    }
    return Value::dict(std::move(entries));
}

Arguments Runner::evaluate_arguments(const Node& node) {
    Arguments arguments;
    for (size_t i = 1; i < node.children.size(); ++i)
        arguments.positional.push_back(evaluate(*node.children[i]));
    for (const auto& [name, value] : node.named) {
        m_work.spend(name.size());
        arguments.named.emplace_back(name, evaluate(*value));
    }
    return arguments;
}

Value Runner::evaluate_call(const Node& node) {
    const Value callee = evaluate(*node.children[0]);
    require_defined(callee);
    const auto* function = callee.as<std::shared_ptr<const Function>>();
    if (function == nullptr) throw Problem(fmt::format("a {} is not a function", callee.type_name()));
    const Arguments arguments = evaluate_arguments(node);
    if ((*function)->macro != nullptr) return call_macro(*(*function)->macro, arguments);
    if ((*function)->self.is_undefined()) return call_global((*function)->name, arguments);
    return call_method((*function)->self, (*function)->name, arguments, m_work);
}

Value Runner::look_up(const std::string& name) {
    m_work.spend(name.size());
    for (const Scope* scope = m_scope; scope != nullptr; scope = scope->outer) {
        m_work.spend(scope->variables.size() + 1);
        for (const auto& [known, value] : scope->variables) {
            if (known == name) return value;
        }
        if (scope->loop != nullptr && name == "loop") return Value(Value::Data(scope->loop));
    }
    if (std::find(std::begin(globals), std::end(globals), name) != std::end(globals)) {
        return Value(Value::Data(std::make_shared<const Function>(Function{name, Value(), nullptr})));
    }
    return Value::undefined("'" + name + "'");
}

Value Runner::call_macro(const Macro& macro, const Arguments& arguments) {
    const Statement& definition = *macro.definition;
    if (arguments.positional.size() > definition.names.size()) {
        throw Problem(
            fmt::format("macro {}: more than {} arguments", definition.text, definition.names.size()));
    }
    for (const auto& [name, unused] : arguments.named) {
        if (std::find(definition.names.begin(), definition.names.end(), name) == definition.names.end()) {
            throw Problem(fmt::format("macro {}: no parameter {}", definition.text, visible_text(name, 40)));
        }
    }
    // A macro sees the template's own variables, not those of the place that calls it.
    Scope scope{&m_global, {}, nullptr};
    const Restore inner(m_scope, &scope);
    // One call costs far more stack than one level of an expression.
    const Restore deeper(m_depth, m_depth + 20);
    if (m_depth > max_run_depth)
        throw Problem(fmt::format("macro {} calls itself too deeply", definition.text));
    for (size_t i = 0; i < definition.names.size(); ++i) {
        m_work.spend(definition.names[i].size() + arguments.named.size());
        const Value* given = arguments.find(i, definition.names[i]);
        Value value = Value::undefined("'" + definition.names[i] + "'");
        if (given != nullptr) {
            value = *given;
        } else if (definition.defaults[i] != nullptr) {
            value = evaluate(*definition.defaults[i]);
        }
        set(definition.names[i], std::move(value));
    }
    std::string text;
    execute(definition.body, text);
    return Value::text(std::move(text));
}

Value Runner::call_global(const std::string& name, const Arguments& arguments) {
    if (name == "range") return make_range(arguments, m_work);
    if (name == "namespace" || name == "dict") {
        if (!arguments.positional.empty()) {
            throw Problem(fmt::format("{}: only name=value arguments are supported", name));
        }
        if (name == "namespace") {
            m_work.spend(500); // it lives until the end of the rendering
            m_namespaces.push_back(std::make_unique<Namespace>(Namespace{arguments.named}));
            return Value(Value::Data(m_namespaces.back().get()));
        }
        std::vector<std::pair<Value, Value>> entries;
        for (const auto& [key, value] : arguments.named)
            entries.emplace_back(Value::text(key), value);
        return Value::dict(std::move(entries));
    }
    const Value* text = arguments.find(0, name == "raise_exception" ? "message" : "format");
    if (text == nullptr) throw Problem(fmt::format("{}: an argument is missing", name));
    if (name == "raise_exception") throw Problem(to_text(*text, m_work));
    return Value::text(time_as(to_text(*text, m_work), m_now));
}

} // namespace refreshlab::jinja
