#include "engine/text/jinja/jinja_ast.h"
#include "engine/text/jinja/jinja_lexer.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

namespace refreshlab::jinja {

namespace {

constexpr int max_node_depth = 200;
constexpr int max_block_depth = 50;
/// Arguments of a call and parameters of a macro are looked up one by one.
constexpr size_t max_arguments = 100;

/// Recursive descent in the order of precedence of Jinja: conditional, or, and, not, compare, + -, ~, * / // %, **,
/// unary sign, postfix and filter.
class Parser {
public:
    explicit Parser(std::string_view source)
        : m_tokens(tokenize(source)) {}

    Body run() {
        Body body = statements({});
        if (peek().kind != TokenKind::end) fail(fmt::format("unexpected {}", shown(peek())));
        return body;
    }

private:
    [[noreturn]] void fail(const std::string& what) const { throw Problem(what, peek().line); }

    [[nodiscard]] const Token& peek(size_t ahead = 0) const {
        return m_tokens[std::min(m_at + ahead, m_tokens.size() - 1)];
    }
    const Token& take() {
        const Token& token = peek();
        if (m_at + 1 < m_tokens.size()) ++m_at;
        return token;
    }
    [[nodiscard]] bool at_symbol(std::string_view text) const {
        return peek().kind == TokenKind::symbol && peek().text == text;
    }
    [[nodiscard]] bool at_word(std::string_view text) const {
        return peek().kind == TokenKind::name && peek().text == text;
    }
    bool accept_symbol(std::string_view text) { return at_symbol(text) && (take(), true); }
    bool accept_word(std::string_view text) { return at_word(text) && (take(), true); }
    void expect_symbol(std::string_view text) {
        if (!accept_symbol(text)) fail(fmt::format("'{}' expected, {} found", text, shown(peek())));
    }
    void expect_word(std::string_view text) {
        if (!accept_word(text)) fail(fmt::format("'{}' expected, {} found", text, shown(peek())));
    }
    void expect(TokenKind kind) {
        if (peek().kind != kind) {
            fail(fmt::format("{} expected, {} found", kind == TokenKind::block_end ? "'%}'" : "'}}'",
                             shown(peek())));
        }
        take();
    }
    std::string identifier() {
        if (peek().kind != TokenKind::name) fail(fmt::format("a name expected, {} found", shown(peek())));
        return take().text;
    }

    [[nodiscard]] static std::string shown(const Token& token) {
        switch (token.kind) {
        case TokenKind::end:
            return "the end of the template";
        case TokenKind::block_end:
            return "'%}'";
        case TokenKind::output_end:
            return "'}}'";
        case TokenKind::string:
            return "a string";
        default:
            return fmt::format("'{}'", visible_text(token.text, 40));
        }
    }

    /// Guards the recursion of the parser itself.
    struct Deeper {
        Deeper(Parser& in, int most)
            : parser(in) {
            if (++parser.m_depth > most) parser.fail("nested too deeply");
        }
        Deeper(const Deeper&) = delete;
        Deeper& operator=(const Deeper&) = delete;
        ~Deeper() { --parser.m_depth; }
        Parser& parser;
    };

    [[nodiscard]] NodePtr node(Op op, int line) const {
        auto made = std::make_unique<Node>();
        made->op = op;
        made->line = line;
        return made;
    }

    void adopt(Node& parent, NodePtr child) {
        if (child != nullptr) note_depth(parent, *child);
        parent.children.push_back(std::move(child));
    }

    void note_depth(Node& parent, const Node& child) const {
        parent.depth = std::max(parent.depth, child.depth + 1);
        if (parent.depth > max_node_depth) fail("an expression is nested too deeply");
    }

    NodePtr binary(Op op, std::string text, NodePtr left, NodePtr right) {
        NodePtr made = node(op, left->line);
        made->text = std::move(text);
        adopt(*made, std::move(left));
        adopt(*made, std::move(right));
        return made;
    }

    // --- statements ---

    /// Statements up to a block tag that starts with one of `ends` (or the end of the template when there are none);
    /// that word has been taken then, and stands in m_ended_by.
    Body statements(std::initializer_list<std::string_view> ends) {
        const Deeper guard(*this, max_block_depth);
        Body body;
        while (true) {
            const Token& token = peek();
            if (token.kind == TokenKind::end) {
                if (ends.size() > 0) fail(fmt::format("{} missing", *(ends.end() - 1)));
                return body;
            }
            if (token.kind == TokenKind::text) {
                Statement text = statement(StatementKind::text);
                text.text = take().text;
                body.push_back(std::move(text));
            } else if (token.kind == TokenKind::output_begin) {
                Statement output = statement(StatementKind::output);
                take();
                output.expression = tuple_or_expression();
                expect(TokenKind::output_end);
                body.push_back(std::move(output));
            } else {
                take(); // block_begin
                if (peek().kind == TokenKind::name &&
                    std::find(ends.begin(), ends.end(), peek().text) != ends.end()) {
                    m_ended_by = take().text;
                    return body;
                }
                body.push_back(block());
            }
        }
    }

    [[nodiscard]] Statement statement(StatementKind kind) const {
        Statement made;
        made.kind = kind;
        made.line = peek().line;
        return made;
    }

    Statement block() {
        const std::string word = peek().kind == TokenKind::name ? peek().text : "";
        if (word == "if") return if_block();
        if (word == "for") return for_block();
        if (word == "set") return set_block();
        if (word == "macro") return macro_block();
        if (word == "generation") {
            Statement made = statement(StatementKind::block);
            take();
            expect(TokenKind::block_end);
            made.body = statements({"endgeneration"});
            expect(TokenKind::block_end);
            return made;
        }
        if (word == "break" || word == "continue") {
            if (m_loops == 0) fail(fmt::format("'{}' outside of a loop", word));
            Statement made =
                statement(word == "break" ? StatementKind::break_loop : StatementKind::next_loop);
            take();
            expect(TokenKind::block_end);
            return made;
        }
        if (word.starts_with("end") || word == "else" || word == "elif")
            fail(fmt::format("unexpected '{}'", word));
        fail(fmt::format("block {} is not supported", shown(peek())));
    }

    Statement if_block() {
        Statement made = statement(StatementKind::branches);
        take();
        m_ended_by = "elif";
        while (m_ended_by == "elif") {
            Arm arm;
            arm.condition = tuple_or_expression(false);
            expect(TokenKind::block_end);
            arm.body = statements({"elif", "else", "endif"});
            made.arms.push_back(std::move(arm));
        }
        if (m_ended_by == "else") {
            expect(TokenKind::block_end);
            made.arms.push_back({nullptr, statements({"endif"})});
        }
        expect(TokenKind::block_end);
        return made;
    }

    Statement for_block() {
        Statement made = statement(StatementKind::loop);
        take();
        const bool parenthesis = accept_symbol("(");
        do {
            made.names.push_back(identifier());
        } while (accept_symbol(",") && peek().kind == TokenKind::name && !at_word("in"));
        if (parenthesis) expect_symbol(")");
        expect_word("in");
        made.expression = tuple_or_expression(false);
        if (accept_word("if")) made.condition = expression();
        if (at_word("recursive")) fail("a recursive loop is not supported");
        expect(TokenKind::block_end);
        ++m_loops;
        made.body = statements({"else", "endfor"});
        --m_loops;
        if (m_ended_by == "else") {
            expect(TokenKind::block_end);
            made.otherwise = statements({"endfor"});
        }
        expect(TokenKind::block_end);
        return made;
    }

    Statement set_block() {
        Statement made = statement(StatementKind::assign);
        take();
        made.names.push_back(identifier());
        if (accept_symbol(".")) {
            made.text = made.names.front();
            made.names.front() = identifier();
        } else {
            while (accept_symbol(","))
                made.names.push_back(identifier());
        }
        if (accept_symbol("=")) {
            made.expression = tuple_or_expression();
            expect(TokenKind::block_end);
            return made;
        }
        if (made.names.size() != 1) fail("'=' expected");
        made.kind = StatementKind::capture;
        if (at_symbol("|")) {
            made.expression = filters(node(Op::name, peek().line));
        }
        expect(TokenKind::block_end);
        made.body = statements({"endset"});
        expect(TokenKind::block_end);
        return made;
    }

    Statement macro_block() {
        Statement made = statement(StatementKind::macro);
        take();
        made.text = identifier();
        expect_symbol("(");
        while (!at_symbol(")")) {
            if (!made.names.empty()) expect_symbol(",");
            if (made.names.size() == max_arguments)
                fail(fmt::format("more than {} parameters", max_arguments));
            made.names.push_back(identifier());
            made.defaults.push_back(accept_symbol("=") ? expression() : nullptr);
            if (made.defaults.back() == nullptr && made.defaults.size() > 1 &&
                made.defaults[made.defaults.size() - 2] != nullptr) {
                fail("a parameter without a default follows one with a default");
            }
        }
        take();
        expect(TokenKind::block_end);
        const int loops = std::exchange(m_loops, 0);
        made.body = statements({"endmacro"});
        m_loops = loops;
        expect(TokenKind::block_end);
        return made;
    }

    // --- expressions ---

    /// "a, b" makes a tuple. \param conditional  false where a following "if" belongs to a loop
    NodePtr tuple_or_expression(bool conditional = true) {
        const int line = peek().line;
        NodePtr first = conditional ? expression() : logical_or();
        if (!at_symbol(",")) return first;
        NodePtr made = node(Op::tuple, line);
        adopt(*made, std::move(first));
        while (accept_symbol(",")) {
            if (peek().kind == TokenKind::block_end || peek().kind == TokenKind::output_end || at_symbol(")"))
                break;
            adopt(*made, conditional ? expression() : logical_or());
        }
        return made;
    }

    NodePtr expression() {
        const Deeper guard(*this, max_node_depth);
        NodePtr value = logical_or();
        while (accept_word("if")) {
            NodePtr made = node(Op::conditional, value->line);
            NodePtr condition = logical_or();
            adopt(*made, std::move(condition));
            adopt(*made, std::move(value));
            adopt(*made, accept_word("else") ? expression() : nullptr);
            value = std::move(made);
        }
        return value;
    }

    NodePtr logical_or() {
        NodePtr left = logical_and();
        while (accept_word("or"))
            left = binary(Op::logical_or, "or", std::move(left), logical_and());
        return left;
    }

    NodePtr logical_and() {
        NodePtr left = negation();
        while (accept_word("and"))
            left = binary(Op::logical_and, "and", std::move(left), negation());
        return left;
    }

    NodePtr negation() {
        const Deeper guard(*this, max_node_depth);
        const int line = peek().line;
        if (!accept_word("not")) return compare();
        NodePtr made = node(Op::negation, line);
        adopt(*made, negation());
        return made;
    }

    NodePtr compare() {
        NodePtr first = sum();
        NodePtr made;
        while (true) {
            std::string word;
            if (peek().kind == TokenKind::symbol) {
                for (const char* symbol : {"==", "!=", "<", ">", "<=", ">="}) {
                    if (peek().text == symbol) word = symbol;
                }
            } else if (at_word("in")) {
                word = "in";
            } else if (at_word("not") && peek(1).kind == TokenKind::name && peek(1).text == "in") {
                take();
                word = "not in";
            }
            if (word.empty()) return made == nullptr ? std::move(first) : std::move(made);
            take();
            if (made == nullptr) {
                made = node(Op::compare, first->line);
                adopt(*made, std::move(first));
            }
            made->words.push_back(word);
            adopt(*made, sum());
        }
    }

    NodePtr sum() {
        NodePtr left = concat();
        while (at_symbol("+") || at_symbol("-")) {
            const std::string text = take().text;
            left = binary(Op::arithmetic, text, std::move(left), concat());
        }
        return left;
    }

    NodePtr concat() {
        NodePtr first = product();
        if (!at_symbol("~")) return first;
        NodePtr made = node(Op::concat, first->line);
        adopt(*made, std::move(first));
        while (accept_symbol("~"))
            adopt(*made, product());
        return made;
    }

    NodePtr product() {
        NodePtr left = power();
        while (at_symbol("*") || at_symbol("/") || at_symbol("//") || at_symbol("%")) {
            const std::string text = take().text;
            left = binary(Op::arithmetic, text, std::move(left), power());
        }
        return left;
    }

    NodePtr power() {
        NodePtr left = unary(true);
        while (accept_symbol("**"))
            left = binary(Op::arithmetic, "**", std::move(left), unary(true));
        return left;
    }

    NodePtr unary(bool with_filters) {
        const Deeper guard(*this, max_node_depth);
        const int line = peek().line;
        NodePtr value;
        if (at_symbol("-") || at_symbol("+")) {
            value = node(take().text == "-" ? Op::minus : Op::plus, line);
            adopt(*value, unary(false));
        } else {
            value = primary();
        }
        value = postfix(std::move(value));
        return with_filters ? filters(std::move(value)) : std::move(value);
    }

    NodePtr constant(Value value) {
        NodePtr made = node(Op::constant, peek().line);
        made->value = std::move(value);
        take();
        return made;
    }

    NodePtr primary() {
        const Token& token = peek();
        switch (token.kind) {
        case TokenKind::name:
            if (token.text == "true" || token.text == "True") return constant(Value::boolean(true));
            if (token.text == "false" || token.text == "False") return constant(Value::boolean(false));
            if (token.text == "none" || token.text == "None") return constant(Value::none());
            {
                NodePtr made = node(Op::name, token.line);
                made->text = take().text;
                return made;
            }
        case TokenKind::integer:
            return constant(Value::integer(token.integer));
        case TokenKind::real:
            return constant(Value::real(token.real));
        case TokenKind::string: {
            std::string text = token.text;
            while (peek(1).kind == TokenKind::string) { // neighbours are one string, as in Python
                take();
                text += peek().text;
            }
            return constant(Value::text(std::move(text)));
        }
        default:
            break;
        }
        if (accept_symbol("(")) {
            if (accept_symbol(")")) return node(Op::tuple, token.line);
            NodePtr inner = tuple_or_expression();
            expect_symbol(")");
            return inner;
        }
        if (accept_symbol("[")) {
            NodePtr made = node(Op::list, token.line);
            while (!accept_symbol("]")) {
                if (!made->children.empty()) {
                    expect_symbol(",");
                    if (accept_symbol("]")) break;
                }
                adopt(*made, expression());
            }
            return made;
        }
        if (accept_symbol("{")) {
            NodePtr made = node(Op::dict, token.line);
            while (!accept_symbol("}")) {
                if (!made->children.empty()) {
                    expect_symbol(",");
                    if (accept_symbol("}")) break;
                }
                adopt(*made, expression());
                expect_symbol(":");
                adopt(*made, expression());
            }
            return made;
        }
        fail(fmt::format("unexpected {}", shown(token)));
    }

    NodePtr postfix(NodePtr value) {
        while (true) {
            const int line = peek().line;
            if (accept_symbol(".")) {
                if (peek().kind == TokenKind::integer) {
                    value = binary(Op::item, "", std::move(value), constant(Value::integer(peek().integer)));
                    continue;
                }
                NodePtr made = node(Op::attribute, line);
                made->text = identifier();
                adopt(*made, std::move(value));
                value = std::move(made);
            } else if (accept_symbol("[")) {
                value = subscript(std::move(value), line);
            } else if (at_symbol("(")) {
                NodePtr made = node(Op::call, line);
                adopt(*made, std::move(value));
                arguments(*made);
                value = std::move(made);
            } else {
                return value;
            }
        }
    }

    NodePtr subscript(NodePtr value, int line) {
        NodePtr begin = at_symbol(":") ? nullptr : expression();
        if (accept_symbol("]")) return binary(Op::item, "", std::move(value), std::move(begin));
        NodePtr made = node(Op::slice, line);
        adopt(*made, std::move(value));
        adopt(*made, std::move(begin));
        for (int part = 0; part < 2; ++part) {
            const bool given = accept_symbol(":") && !at_symbol(":") && !at_symbol("]");
            adopt(*made, given ? expression() : nullptr);
        }
        expect_symbol("]");
        return made;
    }

    void arguments(Node& call) {
        expect_symbol("(");
        bool first = true;
        while (!accept_symbol(")")) {
            if (!first) {
                expect_symbol(",");
                if (accept_symbol(")")) break;
            }
            first = false;
            if (call.children.size() + call.named.size() > max_arguments)
                fail(fmt::format("more than {} arguments", max_arguments));
            if (at_symbol("*") || at_symbol("**")) fail("* and ** arguments are not supported");
            if (peek().kind == TokenKind::name && peek(1).kind == TokenKind::symbol && peek(1).text == "=") {
                std::string name = identifier();
                take();
                NodePtr value = expression();
                note_depth(call, *value);
                call.named.emplace_back(std::move(name), std::move(value));
            } else {
                if (!call.named.empty()) fail("an argument by place follows one by name");
                adopt(call, expression());
            }
        }
    }

    NodePtr filters(NodePtr value) {
        while (true) {
            const int line = peek().line;
            if (accept_symbol("|")) {
                NodePtr made = node(Op::filter, line);
                made->text = identifier();
                if (!is_filter(made->text))
                    fail(fmt::format("filter {} is not supported", visible_text(made->text, 40)));
                adopt(*made, std::move(value));
                if (at_symbol("(")) arguments(*made);
                value = std::move(made);
            } else if (accept_word("is")) {
                value = test(std::move(value), line);
            } else if (at_symbol("(")) {
                NodePtr made = node(Op::call, line);
                adopt(*made, std::move(value));
                arguments(*made);
                value = std::move(made);
            } else {
                return value;
            }
        }
    }

    NodePtr test(NodePtr value, int line) {
        const bool negated = accept_word("not");
        NodePtr made = node(Op::test, line);
        made->text = at_symbol("==") ? take().text : identifier();
        if (!is_test(made->text)) fail(fmt::format("test {} is not supported", visible_text(made->text, 40)));
        adopt(*made, std::move(value));
        const TokenKind kind = peek().kind;
        if (at_symbol("(")) {
            arguments(*made);
        } else if (at_symbol("[") || at_symbol("{") || kind == TokenKind::string ||
                   kind == TokenKind::integer || kind == TokenKind::real ||
                   (kind == TokenKind::name && !at_word("else") && !at_word("or") && !at_word("and") &&
                    !at_word("is") && !at_word("if"))) {
            adopt(*made, postfix(primary())); // "is divisibleby 3"
        }
        if (!negated) return made;
        NodePtr outer = node(Op::negation, line);
        adopt(*outer, std::move(made));
        return outer;
    }

    std::vector<Token> m_tokens;
    size_t m_at = 0;
    int m_depth = 0;
    int m_loops = 0; ///< how many loops are open here
    std::string m_ended_by;
};

} // namespace

Body parse_template(std::string_view source) {
    constexpr size_t most_bytes = size_t{1} << 20;
    if (source.size() > most_bytes) throw Problem(fmt::format("longer than {} bytes", most_bytes));
    return Parser(source).run();
}

} // namespace refreshlab::jinja
