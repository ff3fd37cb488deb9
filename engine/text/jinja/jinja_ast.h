#pragma once

#include "engine/text/jinja/jinja_value.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refreshlab::jinja {

struct Node;
using NodePtr = std::unique_ptr<Node>;

enum class Op {
    constant,    ///< value
    name,        ///< text
    list,        ///< children
    tuple,       ///< children
    dict,        ///< children: key, value, key, value, ...
    attribute,   ///< children[0].text
    item,        ///< children[0][children[1]]
    slice,       ///< children[0][children[1]:children[2]:children[3]]; null where left out
    call,        ///< children[0](children[1...], named...)
    filter,      ///< children[0] | text(children[1...], named...)
    test,        ///< children[0] is text(children[1...], named...)
    negation,    ///< not children[0]
    minus,       ///< -children[0]
    plus,        ///< +children[0]
    arithmetic,  ///< children[0] text children[1]; text: + - * / // % **
    concat,      ///< children joined by ~
    compare,     ///< children[0] words[0] children[1] words[1] children[2] ...
    logical_and, ///< children[0] and children[1]
    logical_or,  ///< children[0] or children[1]
    conditional, ///< children[1] if children[0] else children[2]; children[2] may be null
};

struct Node {
    Op op;
    int line;
    int depth =
        1; ///< levels of nodes, this one included; bounded by the parser, because everything here is recursive
    std::string text;
    Value value;
    std::vector<std::string> words;
    std::vector<NodePtr> children;
    std::vector<std::pair<std::string, NodePtr>> named;
};

struct Statement;
using Body = std::vector<Statement>;

enum class StatementKind {
    text,     ///< text
    output,   ///< {{ expression }}
    branches, ///< if, elif, else: the first arm whose condition holds; a null condition always does
    loop,     ///< for names in expression if condition: body; otherwise
    assign,   ///< set names = expression; text: the namespace when names[0] is a field of one
    capture, ///< set names[0]: body; expression: null, or a filter chain over the name "" (the captured text)
    macro,   ///< text(names[i] = defaults[i]): body
    block,   ///< body in a scope of its own (generation)
    break_loop, ///< break
    next_loop,  ///< continue
};

struct Arm {
    NodePtr condition;
    Body body;
};

struct Statement {
    StatementKind kind;
    int line;
    std::string text;
    std::vector<std::string> names;
    NodePtr expression;
    NodePtr condition;
    std::vector<NodePtr> defaults; ///< as many as names; null: no default
    std::vector<Arm> arms;
    Body body;
    Body otherwise;
};

struct Macro {
    const Statement* definition;
};

/// Throws Problem with the line of what is wrong or not supported.
[[nodiscard]] Body parse_template(std::string_view source);

/// Is there such a filter or test? Used while parsing, so that a template fails when it is read and not when it is run.
[[nodiscard]] bool is_filter(std::string_view name);
[[nodiscard]] bool is_test(std::string_view name);

} // namespace refreshlab::jinja
