#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// The Jinja subset of chat templates. Private to engine/text; chat_template.h is its face.
namespace refreshlab::jinja {

/// What a template did wrong. The runner adds the line; chat_template.cpp makes the Error.
class Problem : public std::runtime_error {
public:
    explicit Problem(const std::string& what, int at_line = 0)
        : std::runtime_error(what)
        , line(at_line) {}
    int line;
};

/// Bounds what one rendering may cost, so that no template hangs or fills the memory: about one unit for each byte that is
/// made, compared, searched or copied. Every operation that takes longer for larger operands must spend.
class Work {
public:
    explicit Work(size_t most)
        : m_left(most) {}
    void spend(size_t units) {
        if (units > m_left) throw Problem("too much work: more than any chat template needs");
        m_left -= units;
    }

private:
    size_t m_left;
};

class Value;
struct List;
struct Dict;
struct Namespace;
struct Loop;
struct Function;
struct Macro;

struct Undefined {
    std::shared_ptr<const std::string> name; ///< what was looked up, for messages
};
struct None {};

/// A Python value, as far as templates see it. Immutable and cheap to copy; only a Namespace can be assigned to.
class Value {
public:
    using Data = std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const std::string>,
                              std::shared_ptr<const List>, std::shared_ptr<const Dict>, Namespace*,
                              std::shared_ptr<const Loop>, std::shared_ptr<const Function>>;

    Value()
        : m_data(Undefined{}) {}
    explicit Value(Data data)
        : m_data(std::move(data)) {}
    [[nodiscard]] static Value undefined(std::string name);
    [[nodiscard]] static Value none() { return Value(Data(None{})); }
    [[nodiscard]] static Value boolean(bool value) { return Value(Data(value)); }
    [[nodiscard]] static Value integer(int64_t value) { return Value(Data(value)); }
    [[nodiscard]] static Value real(double value) { return Value(Data(value)); }
    [[nodiscard]] static Value text(std::string value);
    /// Throws Problem when nested deeper than 100.
    [[nodiscard]] static Value list(std::vector<Value> items, bool tuple = false);
    [[nodiscard]] static Value dict(std::vector<std::pair<Value, Value>> items);

    template <typename T>
    [[nodiscard]] const T* as() const {
        return std::get_if<T>(&m_data);
    }
    [[nodiscard]] const std::string* as_text() const;
    [[nodiscard]] const List* as_list() const;
    [[nodiscard]] const Dict* as_dict() const;
    [[nodiscard]] bool is_undefined() const { return as<Undefined>() != nullptr; }
    [[nodiscard]] bool is_none() const { return as<None>() != nullptr; }
    /// Integers and booleans, as Python's int.
    [[nodiscard]] bool is_integer() const { return as<int64_t>() != nullptr || as<bool>() != nullptr; }
    [[nodiscard]] bool is_number() const { return is_integer() || as<double>() != nullptr; }
    [[nodiscard]] int64_t to_integer() const;    ///< of is_integer()
    [[nodiscard]] double to_real() const;        ///< of is_number()
    [[nodiscard]] bool truthy() const;           ///< as Python's bool()
    [[nodiscard]] const char* type_name() const; ///< as Python names it

    [[nodiscard]] const Data& data() const { return m_data; }

private:
    Data m_data;
};

struct List {
    std::vector<Value> items;
    bool tuple = false;
    int depth = 1; ///< levels of containers, this one included
};

struct Dict {
    std::vector<std::pair<Value, Value>> items; ///< in the order of insertion; few
    int depth = 1;
    [[nodiscard]] const Value* find(std::string_view key) const;
};

/// `namespace(...)`. Owned by the runner, because assignments could close a circle of references.
struct Namespace {
    std::vector<std::pair<std::string, Value>> fields;
};

/// The `loop` of one iteration.
struct Loop {
    std::shared_ptr<const std::vector<Value>> items;
    size_t index0;
    int64_t depth0;
};

/// Something to call: a global ("range"), a method ("strip" of self), or a macro.
struct Function {
    std::string name;
    Value self;
    const Macro* macro = nullptr;
};

/// Arguments of a call, a filter or a test.
struct Arguments {
    std::vector<Value> positional;
    std::vector<std::pair<std::string, Value>> named;
    /// By place or by name; null when not given.
    [[nodiscard]] const Value* find(size_t place, std::string_view name) const;
};

[[nodiscard]] bool equal(const Value& a, const Value& b, Work& work);
/// a < b. Throws Problem for values without an order.
[[nodiscard]] bool less(const Value& a, const Value& b, Work& work);
[[nodiscard]] bool contains(const Value& container, const Value& item, Work& work);

/// Python's str(): what {{ }} prints.
[[nodiscard]] std::string to_text(const Value& value, Work& work);
/// json.dumps(value, ensure_ascii=False, indent=indent); indent < 0: one line.
[[nodiscard]] std::string to_json(const Value& value, int indent, Work& work);

/// What a loop or a filter walks over: items of a list, keys of a dict, characters of a text, nothing of an undefined.
/// Throws Problem for anything else.
[[nodiscard]] std::vector<Value> iterate(const Value& value, Work& work);

/// Code points of a text as texts of their own; an ill-formed byte is one too.
[[nodiscard]] std::vector<std::string_view> characters(std::string_view text, Work& work);
/// One of them by its place; a negative place counts from the end. Nothing outside the text.
[[nodiscard]] std::optional<std::string_view> character(std::string_view text, int64_t index, Work& work);

} // namespace refreshlab::jinja
