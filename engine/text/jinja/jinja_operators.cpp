#include "engine/text/jinja/jinja_builtins.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

namespace refreshlab::jinja {

namespace {

constexpr std::string_view text_methods[] = {
    "strip",      "lstrip", "rstrip",  "startswith", "endswith",     "split",       "rsplit",
    "splitlines", "upper",  "lower",   "title",      "replace",      "capitalize",  "join",
    "find",       "count",  "isdigit", "isspace",    "removeprefix", "removesuffix"};
constexpr std::string_view dict_methods[] = {"get", "items", "keys", "values"};
constexpr std::string_view list_methods[] = {"index", "count"};

template <size_t N>
bool is_one_of(const std::string_view (&names)[N], std::string_view name) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Value method(const Value& self, const std::string& name) {
    return Value(Value::Data(std::make_shared<const Function>(Function{name, self, nullptr})));
}

/// \param name  as the template wrote it, of any length
Value missing(const Value& value, std::string_view name) {
    return Value::undefined(fmt::format("{} of a {}", visible_text(name, 60), value.type_name()));
}

Value loop_field(const Value& value, const Loop& loop, const std::string& name) {
    const size_t length = loop.items->size();
    const auto number = [](size_t n) { return Value::integer(static_cast<int64_t>(n)); };
    if (name == "index0") return number(loop.index0);
    if (name == "index") return number(loop.index0 + 1);
    if (name == "revindex0") return number(length - loop.index0 - 1);
    if (name == "revindex") return number(length - loop.index0);
    if (name == "first") return Value::boolean(loop.index0 == 0);
    if (name == "last") return Value::boolean(loop.index0 + 1 == length);
    if (name == "length") return number(length);
    if (name == "depth0") return Value::integer(loop.depth0);
    if (name == "depth") return Value::integer(loop.depth0 + 1);
    if (name == "previtem")
        return loop.index0 > 0 ? (*loop.items)[loop.index0 - 1] : Value::undefined("loop.previtem");
    if (name == "nextitem") {
        return loop.index0 + 1 < length ? (*loop.items)[loop.index0 + 1] : Value::undefined("loop.nextitem");
    }
    if (name == "cycle") return method(value, name);
    return missing(value, name);
}

[[noreturn]] void overflow() {
    throw Problem("a number is too large");
}

int64_t floor_divide(int64_t a, int64_t b) {
    if (b == 0) throw Problem("division by zero");
    if (b == -1) { // the one overflow: the smallest number by -1
        if (a == std::numeric_limits<int64_t>::min()) overflow();
        return -a;
    }
    return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

int64_t integer_power(int64_t base, int64_t exponent) {
    int64_t result = 1;
    while (exponent > 0) {
        if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) overflow();
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) overflow();
    }
    return result;
}

std::optional<Value> on_integers(const std::string& symbol, int64_t a, int64_t b) {
    int64_t result = 0;
    if (symbol == "+") {
        if (__builtin_add_overflow(a, b, &result)) overflow();
    } else if (symbol == "-") {
        if (__builtin_sub_overflow(a, b, &result)) overflow();
    } else if (symbol == "*") {
        if (__builtin_mul_overflow(a, b, &result)) overflow();
    } else if (symbol == "//") {
        result = floor_divide(a, b);
    } else if (symbol == "%") {
        if (b == 0) throw Problem("division by zero");
        result = b == -1 ? 0 : a % b;
        if (result != 0 && (result < 0) != (b < 0)) result += b;
    } else if (symbol == "**" && b >= 0) {
        result = integer_power(a, b);
    } else {
        return std::nullopt;
    }
    return Value::integer(result);
}

double on_reals(const std::string& symbol, double a, double b) {
    if (symbol == "+") return a + b;
    if (symbol == "-") return a - b;
    if (symbol == "*") return a * b;
    if (symbol == "**") {
        if (a == 0 && b < 0) throw Problem("division by zero");
        return std::pow(a, b);
    }
    if (b == 0) throw Problem("division by zero");
    if (symbol == "/") return a / b;
    if (symbol == "//") return std::floor(a / b);
    const double rest = std::fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/// "ab" * 2, [1] * 2
Value repeat(const Value& what, int64_t times, Work& work) {
    const auto count = static_cast<size_t>(std::clamp<int64_t>(times, 0, int64_t{1} << 40));
    if (const std::string* text = what.as_text()) {
        if (text->empty()) return what;
        work.spend(text->size() * std::min(count, size_t{1} << 30));
        std::string out;
        for (size_t i = 0; i < count; ++i)
            out += *text;
        return Value::text(std::move(out));
    }
    const List& list = *what.as_list();
    if (list.items.empty()) return what;
    work.spend(list.items.size() * 64 * std::min(count, size_t{1} << 30));
    std::vector<Value> items;
    for (size_t i = 0; i < count; ++i)
        items.insert(items.end(), list.items.begin(), list.items.end());
    return Value::list(std::move(items), list.tuple);
}

/// Place of an index in a sequence of `length`, or nothing when outside.
std::optional<size_t> place(int64_t index, size_t length) {
    const auto size = static_cast<int64_t>(length);
    if (index < -size || index >= size) return std::nullopt;
    return static_cast<size_t>(index < 0 ? index + size : index);
}

/// The places that Python's slice(begin, end, step) of a sequence of `length` names.
std::vector<size_t> sliced_places(const Value& begin, const Value& end, const Value& step, size_t length) {
    const auto bound = [](const Value& value, const char* what) -> std::optional<int64_t> {
        if (value.is_none()) return std::nullopt;
        if (!value.is_integer())
            throw Problem(fmt::format("the {} of a slice is a {}", what, value.type_name()));
        return value.to_integer();
    };
    const auto size = static_cast<int64_t>(length);
    const int64_t by = bound(step, "step").value_or(1);
    if (by == 0) throw Problem("the step of a slice is zero");
    const int64_t low = by > 0 ? 0 : -1; // where a bound before the first item stands
    const int64_t high = by > 0 ? size : size - 1;
    const auto resolve = [&](std::optional<int64_t> at, int64_t otherwise) {
        if (!at) return otherwise;
        return std::clamp(*at < 0 ? *at + size : *at, low, high);
    };
    int64_t from = resolve(bound(begin, "begin"), by > 0 ? low : high);
    const int64_t to = resolve(bound(end, "end"), by > 0 ? high : low);
    std::vector<size_t> places;
    while (by > 0 ? from < to : from > to) {
        places.push_back(static_cast<size_t>(from));
        if (__builtin_add_overflow(from, by, &from)) break;
    }
    return places;
}

} // namespace

void require_defined(const Value& value) {
    if (const Undefined* undefined = value.as<Undefined>()) {
        throw Problem(
            fmt::format("{} is undefined", undefined->name == nullptr ? "a value" : *undefined->name));
    }
}

Value attribute(const Value& value, const std::string& name, Work& work) {
    require_defined(value);
    if (value.as_text() != nullptr && is_one_of(text_methods, name)) return method(value, name);
    if (value.as_list() != nullptr && is_one_of(list_methods, name)) return method(value, name);
    if (const Dict* dict = value.as_dict()) {
        if (is_one_of(dict_methods, name)) return method(value, name);
        work.spend(dict->items.size() + name.size());
        if (const Value* found = dict->find(name)) return *found;
    }
    if (const auto* space = value.as<Namespace*>()) {
        work.spend((*space)->fields.size() + name.size());
        for (const auto& [key, field] : (*space)->fields) {
            if (key == name) return field;
        }
    }
    if (const auto* loop = value.as<std::shared_ptr<const Loop>>()) return loop_field(value, **loop, name);
    return missing(value, name);
}

Value item(const Value& value, const Value& key, Work& work) {
    require_defined(value);
    if (const Dict* dict = value.as_dict()) {
        for (const auto& [name, entry] : dict->items) {
            if (equal(name, key, work)) return entry;
        }
    }
    if (key.is_integer()) {
        if (const List* list = value.as_list()) {
            const auto at = place(key.to_integer(), list->items.size());
            return at ? list->items[*at]
                      : Value::undefined(fmt::format("item {} of a list", key.to_integer()));
        }
        if (const std::string* text = value.as_text()) {
            const auto found = character(*text, key.to_integer(), work);
            return found ? Value::text(std::string(*found))
                         : Value::undefined(fmt::format("character {} of a str", key.to_integer()));
        }
    }
    if (key.as_text() != nullptr) {
        if (value.as_dict() == nullptr) return attribute(value, *key.as_text(), work);
        if (is_one_of(dict_methods, *key.as_text())) return method(value, *key.as_text());
        return missing(value, "'" + key.as_text()->substr(0, 60) + "'");
    }
    require_defined(key);
    return missing(value, "an item");
}

Value slice(const Value& value, const Value& begin, const Value& end, const Value& step, Work& work) {
    require_defined(value);
    if (const List* list = value.as_list()) {
        work.spend(list->items.size() * 64);
        std::vector<Value> items;
        for (const size_t at : sliced_places(begin, end, step, list->items.size()))
            items.push_back(list->items[at]);
        return Value::list(std::move(items), list->tuple);
    }
    if (const std::string* text = value.as_text()) {
        const std::vector<std::string_view> parts = characters(*text, work);
        work.spend(parts.size() * sizeof(size_t));
        std::string out;
        for (const size_t at : sliced_places(begin, end, step, parts.size()))
            out += parts[at];
        return Value::text(std::move(out));
    }
    throw Problem(fmt::format("a {} cannot be sliced", value.type_name()));
}

Value arithmetic(const std::string& symbol, const Value& left, const Value& right, Work& work) {
    require_defined(left);
    require_defined(right);
    if (left.is_integer() && right.is_integer()) {
        if (auto result = on_integers(symbol, left.to_integer(), right.to_integer())) return *result;
    }
    if (left.is_number() && right.is_number())
        return Value::real(on_reals(symbol, left.to_real(), right.to_real()));
    if (symbol == "+") {
        if (left.as_text() != nullptr && right.as_text() != nullptr) {
            work.spend(left.as_text()->size() + right.as_text()->size());
            return Value::text(*left.as_text() + *right.as_text());
        }
        const List* a = left.as_list();
        const List* b = right.as_list();
        if (a != nullptr && b != nullptr && a->tuple == b->tuple) {
            work.spend((a->items.size() + b->items.size()) * 64);
            std::vector<Value> items = a->items;
            items.insert(items.end(), b->items.begin(), b->items.end());
            return Value::list(std::move(items), a->tuple);
        }
    }
    const auto repeatable = [](const Value& value) {
        return value.as_text() != nullptr || value.as_list() != nullptr;
    };
    if (symbol == "*" && repeatable(left) && right.is_integer())
        return repeat(left, right.to_integer(), work);
    if (symbol == "*" && repeatable(right) && left.is_integer())
        return repeat(right, left.to_integer(), work);
    throw Problem(fmt::format("{} between a {} and a {} is not supported", symbol, left.type_name(),
                              right.type_name()));
}

} // namespace refreshlab::jinja
