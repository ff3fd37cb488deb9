#include "engine/text/jinja/jinja_ast.h"
#include "engine/text/jinja/jinja_builtins.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <iterator>
#include <utility>

namespace refreshlab::jinja {

namespace {

const std::string& text_of(const Value& value, const std::string& filter) {
    if (value.as_text() == nullptr)
        throw Problem(fmt::format("{}: a str expected, a {} found", filter, value.type_name()));
    return *value.as_text();
}

bool flag(const Arguments& arguments, size_t place, std::string_view name) {
    const Value* value = arguments.find(place, name);
    return value != nullptr && value->truthy();
}

/// A method with the same meaning as the filter, on the value as a text.
Value as_method(const std::string& method, const Value& value, const Arguments& arguments, Work& work) {
    return call_method(Value::text(to_text(value, work)), method, arguments, work);
}

/// "a.b.0": items first, as Jinja's attribute= looks them up.
Value path(Value value, const Value& dotted, Work& work) {
    if (dotted.is_integer()) return item(value, dotted, work);
    const std::string& text = text_of(dotted, "attribute");
    work.spend(text.size());
    for (size_t begin = 0; begin <= text.size();) {
        const size_t dot = std::min(text.find('.', begin), text.size());
        const std::string part = text.substr(begin, dot - begin);
        int64_t index = 0;
        const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
        const bool is_index =
            !part.empty() && parsed.ec == std::errc{} && parsed.ptr == part.data() + part.size();
        value = item(value, is_index ? Value::integer(index) : Value::text(part), work);
        begin = dot + 1;
    }
    return value;
}

/// The arguments after the first `skip` ones.
Arguments rest(const Arguments& arguments, size_t skip) {
    Arguments out = arguments;
    const auto count = static_cast<std::ptrdiff_t>(std::min(skip, out.positional.size()));
    out.positional.erase(out.positional.begin(), out.positional.begin() + count);
    return out;
}

Value filter_map(const Value& value, const Arguments& arguments, Work& work) {
    std::vector<Value> out;
    const Value* attribute_name = arguments.positional.empty() ? arguments.find(0, "attribute") : nullptr;
    const Value* otherwise = arguments.find(1, "default");
    if (attribute_name == nullptr && arguments.positional.empty())
        throw Problem("map: a filter or attribute= missing");
    const Arguments behind = rest(arguments, 1);
    for (const Value& one : iterate(value, work)) {
        if (attribute_name != nullptr) {
            Value found = path(one, *attribute_name, work);
            out.push_back(found.is_undefined() && otherwise != nullptr ? *otherwise : std::move(found));
        } else {
            const std::string& filter = text_of(arguments.positional.front(), "map");
            if (!is_filter(filter) || filter == "map")
                throw Problem(fmt::format("map: filter {} is not supported", visible_text(filter, 40)));
            out.push_back(apply_filter(filter, one, behind, work));
        }
    }
    return Value::list(std::move(out));
}

/// select, reject, selectattr, rejectattr
Value filter_select(const std::string& name, const Value& value, const Arguments& arguments, Work& work) {
    const bool wanted = name.starts_with("select");
    const bool by_attribute = name.ends_with("attr");
    if (by_attribute && arguments.positional.empty()) throw Problem(name + ": the attribute is missing");
    const Arguments behind = rest(arguments, by_attribute ? 1 : 0);
    const Arguments of_test = rest(behind, 1);
    std::vector<Value> out;
    for (const Value& one : iterate(value, work)) {
        const Value subject = by_attribute ? path(one, arguments.positional.front(), work) : one;
        bool holds = subject.truthy();
        if (!behind.positional.empty()) {
            const std::string& test = text_of(behind.positional.front(), name);
            if (!is_test(test))
                throw Problem(fmt::format("{}: test {} is not supported", name, visible_text(test, 40)));
            holds = apply_test(test, subject, of_test, work);
        }
        if (holds == wanted) out.push_back(one);
    }
    return Value::list(std::move(out));
}

Value filter_join(const Value& value, const Arguments& arguments, Work& work) {
    const Value* separator = arguments.find(0, "d");
    const Value* attribute_name = arguments.find(1, "attribute");
    const std::string between = separator == nullptr ? "" : to_text(*separator, work);
    std::string out;
    bool first = true;
    for (const Value& one : iterate(value, work)) {
        work.spend(between.size());
        if (!first) out += between;
        first = false;
        out += to_text(attribute_name == nullptr ? one : path(one, *attribute_name, work), work);
    }
    return Value::text(std::move(out));
}

/// What sort, unique, min and max compare: texts without regard to case unless asked.
Value sort_key(const Value& value, const Value* attribute_name, bool case_sensitive, Work& work) {
    Value key =
        attribute_name == nullptr || attribute_name->is_none() ? value : path(value, *attribute_name, work);
    if (key.as_text() != nullptr && !case_sensitive) {
        work.spend(key.as_text()->size());
        return Value::text(lower_case(*key.as_text()));
    }
    return key;
}

Value filter_sort(const Value& value, const Arguments& arguments, Work& work) {
    const bool reverse = flag(arguments, 0, "reverse");
    std::vector<std::pair<Value, Value>> keyed;
    for (const Value& one : iterate(value, work)) {
        keyed.emplace_back(
            sort_key(one, arguments.find(2, "attribute"), flag(arguments, 1, "case_sensitive"), work), one);
    }
    std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
        return reverse ? less(b.first, a.first, work) : less(a.first, b.first, work);
    });
    std::vector<Value> out;
    for (auto& [key, one] : keyed)
        out.push_back(std::move(one));
    return Value::list(std::move(out));
}

Value filter_unique(const Value& value, const Arguments& arguments, Work& work) {
    std::vector<Value> keys, out;
    for (const Value& one : iterate(value, work)) {
        Value key = sort_key(one, arguments.find(1, "attribute"), flag(arguments, 0, "case_sensitive"), work);
        const auto same = [&](const Value& seen) { return equal(seen, key, work); };
        if (std::any_of(keys.begin(), keys.end(), same)) continue;
        keys.push_back(std::move(key));
        out.push_back(one);
    }
    return Value::list(std::move(out));
}

Value filter_extreme(const std::string& name, const Value& value, const Arguments& arguments, Work& work) {
    const std::vector<Value> items = iterate(value, work);
    if (items.empty()) return Value::undefined(name + " of nothing");
    const auto key = [&](const Value& one) {
        return sort_key(one, arguments.find(1, "attribute"), flag(arguments, 0, "case_sensitive"), work);
    };
    const Value* best = &items.front();
    for (const Value& one : items) {
        if (name == "min" ? less(key(one), key(*best), work) : less(key(*best), key(one), work)) best = &one;
    }
    return *best;
}

Value filter_length(const Value& value, Work& work) {
    if (value.is_undefined()) return Value::integer(0);
    if (const std::string* text = value.as_text()) {
        work.spend(text->size());
        return Value::integer(count_code_points(*text));
    }
    if (const List* list = value.as_list()) return Value::integer(static_cast<int64_t>(list->items.size()));
    if (const Dict* dict = value.as_dict()) return Value::integer(static_cast<int64_t>(dict->items.size()));
    throw Problem(fmt::format("a {} has no length", value.type_name()));
}

Value filter_number(const std::string& name, const Value& value, const Arguments& arguments, Work& work) {
    const Value* otherwise = arguments.find(0, "default");
    const Value fallback = otherwise != nullptr ? *otherwise
                           : name == "int"      ? Value::integer(0)
                                                : Value::real(0);
    double real = 0;
    if (const std::string* text = value.as_text()) {
        work.spend(text->size());
        const char* end = text->data() + text->size();
        int64_t whole = 0;
        if (const auto done = std::from_chars(text->data(), end, whole);
            done.ec == std::errc{} && done.ptr == end) {
            return name == "int" ? Value::integer(whole) : Value::real(static_cast<double>(whole));
        }
        if (const auto done = std::from_chars(text->data(), end, real);
            done.ec != std::errc{} || done.ptr != end) {
            return fallback;
        }
    } else if (value.is_integer()) {
        return name == "int" ? Value::integer(value.to_integer()) : Value::real(value.to_real());
    } else if (value.is_number()) {
        real = value.to_real();
    } else {
        return fallback;
    }
    if (name == "float") return Value::real(real);
    if (!(std::fabs(real) < 9e18)) return fallback; // also what is not a number
    return Value::integer(static_cast<int64_t>(real));
}

Value filter_reverse(const Value& value, Work& work) {
    if (const std::string* text = value.as_text()) {
        std::string out;
        const std::vector<std::string_view> parts = characters(*text, work);
        for (auto part = parts.rbegin(); part != parts.rend(); ++part)
            out += *part;
        return Value::text(std::move(out));
    }
    std::vector<Value> items = iterate(value, work);
    std::reverse(items.begin(), items.end());
    return Value::list(std::move(items));
}

Value filter_items(const Value& value, Work& work) {
    if (value.is_undefined()) return Value::list({});
    if (value.as_dict() == nullptr)
        throw Problem(fmt::format("items: a dict expected, a {} found", value.type_name()));
    return call_method(value, "items", {}, work);
}

Value filter_dictsort(const Value& value, Work& work) {
    Arguments by_key;
    by_key.named.emplace_back("attribute", Value::integer(0));
    return filter_sort(filter_items(value, work), by_key, work);
}

/// The filter title: upper after white space and opening brackets only, unlike the method.
Value filter_title(const Value& value, Work& work) {
    const std::string text = to_text(value, work);
    std::string out, word;
    const auto flush = [&] {
        if (const auto first = character(word, 0, work)) {
            out += upper_case(*first);
            out += lower_case(std::string_view(word).substr(first->size()));
        }
        word.clear();
    };
    for (const char c : text) {
        if (std::string_view("- \t\n\r\f\v({[<").find(c) != std::string_view::npos) {
            flush();
            out += c;
        } else {
            word += c;
        }
    }
    flush();
    return Value::text(std::move(out));
}

Value filter_indent(const Value& value, const Arguments& arguments, Work& work) {
    const Value* width = arguments.find(0, "width");
    std::string indent(4, ' ');
    if (width != nullptr && width->is_integer()) {
        indent = std::string(static_cast<size_t>(std::clamp<int64_t>(width->to_integer(), 0, 1000)), ' ');
    } else if (width != nullptr) {
        work.spend(text_of(*width, "indent").size());
        indent = text_of(*width, "indent");
    }
    const bool blank = flag(arguments, 2, "blank");
    std::string out = flag(arguments, 1, "first") ? indent : "";
    const std::string text = to_text(value, work);
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        if (begin > 0) {
            out += '\n';
            if (blank || end > begin) out += indent;
            work.spend(indent.size() + 1);
        }
        out.append(text, begin, end - begin);
        begin = end + 1;
    }
    return Value::text(std::move(out));
}

using Filter = std::function<Value(const std::string&, const Value&, const Arguments&, Work&)>;

Value default_value(const Value& value, const Arguments& arguments) {
    const Value* otherwise = arguments.find(0, "default_value");
    const bool replace = value.is_undefined() || (flag(arguments, 1, "boolean") && !value.truthy());
    if (!replace) return value;
    return otherwise == nullptr ? Value::text("") : *otherwise;
}

Value filter_json(const Value& value, const Arguments& arguments, Work& work) {
    const Value* indent = arguments.find(1, "indent");
    if (arguments.positional.size() == 1 && indent == nullptr) indent = &arguments.positional.front();
    for (const auto& [name, unused] : arguments.named) {
        if (name != "indent" && name != "ensure_ascii")
            throw Problem(fmt::format("tojson: {}= is not supported", name));
    }
    if (indent == nullptr || indent->is_none()) return Value::text(to_json(value, -1, work));
    if (!indent->is_integer()) throw Problem("tojson: indent must be a number");
    return Value::text(
        to_json(value, static_cast<int>(std::clamp<int64_t>(indent->to_integer(), 0, 32)), work));
}

struct Named {
    std::string_view name;
    Filter filter;
};

const std::vector<Named>& filters() {
    using S = const std::string&;
    using V = const Value&;
    using A = const Arguments&;
    static const std::vector<Named> all = {
        {"trim", [](S, V v, A a, Work& w) { return as_method("strip", v, a, w); }},
        {"replace", [](S, V v, A a, Work& w) { return as_method("replace", v, a, w); }},
        {"upper", [](S, V v, A, Work& w) { return as_method("upper", v, {}, w); }},
        {"lower", [](S, V v, A, Work& w) { return as_method("lower", v, {}, w); }},
        {"capitalize", [](S, V v, A, Work& w) { return as_method("capitalize", v, {}, w); }},
        {"title", [](S, V v, A, Work& w) { return filter_title(v, w); }},
        {"string", [](S, V v, A, Work& w) { return Value::text(to_text(v, w)); }},
        {"safe", [](S, V v, A, Work& w) { return Value::text(to_text(v, w)); }},
        {"tojson", [](S, V v, A a, Work& w) { return filter_json(v, a, w); }},
        {"length", [](S, V v, A, Work& w) { return filter_length(v, w); }},
        {"count", [](S, V v, A, Work& w) { return filter_length(v, w); }},
        {"join", [](S, V v, A a, Work& w) { return filter_join(v, a, w); }},
        {"list", [](S, V v, A, Work& w) { return Value::list(iterate(v, w)); }},
        {"first",
         [](S, V v, A, Work& w) {
             const std::vector<Value> items = iterate(v, w);
             return items.empty() ? Value::undefined("the first of nothing") : items.front();
         }},
        {"last",
         [](S, V v, A, Work& w) {
             const std::vector<Value> items = iterate(v, w);
             return items.empty() ? Value::undefined("the last of nothing") : items.back();
         }},
        {"default", [](S, V v, A a, Work&) { return default_value(v, a); }},
        {"d", [](S, V v, A a, Work&) { return default_value(v, a); }},
        {"map", [](S, V v, A a, Work& w) { return filter_map(v, a, w); }},
        {"select", filter_select},
        {"reject", filter_select},
        {"selectattr", filter_select},
        {"rejectattr", filter_select},
        {"sort", [](S, V v, A a, Work& w) { return filter_sort(v, a, w); }},
        {"unique", [](S, V v, A a, Work& w) { return filter_unique(v, a, w); }},
        {"min", filter_extreme},
        {"max", filter_extreme},
        {"sum",
         [](S, V v, A a, Work& w) {
             const Value* by = a.find(0, "attribute");
             Value total = Value::integer(0);
             for (const Value& one : iterate(v, w)) {
                 total = arithmetic("+", total, by == nullptr ? one : path(one, *by, w), w);
             }
             return total;
         }},
        {"abs",
         [](S, V v, A, Work& w) {
             const bool negative = v.is_number() && v.to_real() < 0;
             return arithmetic("*", v, Value::integer(negative ? -1 : 1), w);
         }},
        {"int", filter_number},
        {"float", filter_number},
        {"reverse", [](S, V v, A, Work& w) { return filter_reverse(v, w); }},
        {"items", [](S, V v, A, Work& w) { return filter_items(v, w); }},
        {"dictsort", [](S, V v, A, Work& w) { return filter_dictsort(v, w); }},
        {"indent", [](S, V v, A a, Work& w) { return filter_indent(v, a, w); }},
    };
    return all;
}

const Named* find_filter(std::string_view name) {
    const auto found = std::find_if(filters().begin(), filters().end(),
                                    [&](const Named& known) { return known.name == name; });
    return found == filters().end() ? nullptr : &*found;
}

constexpr std::string_view plain_tests[] = {"defined",  "undefined", "none", "string", "number",  "integer",
                                            "float",    "boolean",   "true", "false",  "mapping", "iterable",
                                            "sequence", "callable",  "odd",  "even",   "lower",   "upper"};
constexpr std::string_view binary_tests[] = {"eq",       "equalto", "==",          "ne", "lt",
                                             "lessthan", "gt",      "greaterthan", "le", "ge",
                                             "in",       "sameas",  "divisibleby"};

bool plain_test(const std::string& name, const Value& value, Work& work) {
    if (name == "defined") return !value.is_undefined();
    if (name == "undefined") return value.is_undefined();
    if (name == "none") return value.is_none();
    if (name == "string") return value.as_text() != nullptr;
    if (name == "number") return value.is_number();
    if (name == "integer") return value.as<int64_t>() != nullptr;
    if (name == "float") return value.as<double>() != nullptr;
    if (name == "boolean") return value.as<bool>() != nullptr;
    if (name == "true" || name == "false") {
        return value.as<bool>() != nullptr && *value.as<bool>() == (name == "true");
    }
    if (name == "mapping") return value.as_dict() != nullptr;
    const bool sequence =
        value.as_text() != nullptr || value.as_list() != nullptr || value.as_dict() != nullptr;
    if (name == "sequence" || name == "iterable") return sequence || value.is_undefined();
    if (name == "callable") return value.as<std::shared_ptr<const Function>>() != nullptr;
    if (name == "odd" || name == "even") {
        if (!value.is_integer())
            throw Problem(fmt::format("{}: an int expected, a {} found", name, value.type_name()));
        return (value.to_integer() % 2 != 0) == (name == "odd");
    }
    const std::string text = to_text(value, work); // lower, upper: cased, and all of that case
    return (name == "lower" ? lower_case(text) : upper_case(text)) == text &&
           lower_case(text) != upper_case(text);
}

bool same_object(const Value& a, const Value& b, Work& work) {
    const bool simple = a.is_none() || a.as<bool>() != nullptr || b.is_none() || b.as<bool>() != nullptr;
    if (simple && a.data().index() != b.data().index()) return false; // True is not 1
    return equal(a, b, work);
}

} // namespace

bool is_filter(std::string_view name) {
    return find_filter(name) != nullptr;
}

bool is_test(std::string_view name) {
    return std::find(std::begin(plain_tests), std::end(plain_tests), name) != std::end(plain_tests) ||
           std::find(std::begin(binary_tests), std::end(binary_tests), name) != std::end(binary_tests);
}

Value apply_filter(const std::string& name, const Value& value, const Arguments& arguments, Work& work) {
    const Named* found = find_filter(name);
    if (found == nullptr) throw Problem(fmt::format("filter {} is not supported", name));
    work.spend(8);
    return found->filter(name, value, arguments, work);
}

bool apply_test(const std::string& name, const Value& value, const Arguments& arguments, Work& work) {
    work.spend(8);
    if (std::find(std::begin(plain_tests), std::end(plain_tests), name) != std::end(plain_tests)) {
        return plain_test(name, value, work);
    }
    if (arguments.positional.size() != 1) throw Problem(fmt::format("test {}: one argument expected", name));
    const Value& other = arguments.positional.front();
    if (name == "eq" || name == "equalto" || name == "==") return equal(value, other, work);
    if (name == "ne") return !equal(value, other, work);
    if (name == "lt" || name == "lessthan") return less(value, other, work);
    if (name == "gt" || name == "greaterthan") return less(other, value, work);
    if (name == "le") return !less(other, value, work);
    if (name == "ge") return !less(value, other, work);
    if (name == "in") return contains(other, value, work);
    if (name == "sameas") return same_object(value, other, work);
    const Value remainder = arithmetic("%", value, other, work); // divisibleby
    return remainder.is_number() && remainder.to_real() == 0;
}

} // namespace refreshlab::jinja
