#include "engine/text/jinja/jinja_value.h"

#include "engine/text/jinja/jinja_search.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::jinja {

namespace {

constexpr int max_container_depth = 100;
constexpr size_t container_cost = 64;

template <typename T>
constexpr bool always_false = false;

int depth_of(const Value& value) {
    if (const List* list = value.as_list()) return list->depth;
    if (const Dict* dict = value.as_dict()) return dict->depth;
    return 0;
}

int depth_above(int inner) {
    if (inner >= max_container_depth)
        throw Problem(fmt::format("containers nested deeper than {}", max_container_depth));
    return inner + 1;
}

std::string real_text(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    std::string text = fmt::format("{}", value);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
}

/// Python's repr() of a str.
void append_quoted(std::string& out, std::string_view text) {
    const bool double_quoted =
        text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
    const char quote = double_quoted ? '"' : '\'';
    out += quote;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == quote || c == '\\') {
            out += '\\';
            out += c;
        } else if (c == '\n') {
            out += "\\n";
        } else if (c == '\r') {
            out += "\\r";
        } else if (c == '\t') {
            out += "\\t";
        } else if (byte < 0x20 || byte == 0x7F) {
            out += fmt::format("\\x{:02x}", byte);
        } else {
            out += c;
        }
    }
    out += quote;
}

void append_json_text(std::string& out, std::string_view text) {
    out += '"';
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        switch (c) {
        case '"':
            out += "\\\"";
            break;
        case '\\':
            out += "\\\\";
            break;
        case '\n':
            out += "\\n";
            break;
        case '\r':
            out += "\\r";
            break;
        case '\t':
            out += "\\t";
            break;
        case '\b':
            out += "\\b";
            break;
        case '\f':
            out += "\\f";
            break;
        default:
            if (byte < 0x20) {
                out += fmt::format("\\u{:04x}", byte);
            } else {
                out += c;
            }
        }
    }
    out += '"';
}

/// str() at the top, repr() inside containers. Shared parts are written again each time, so every piece is paid for.
void append_text(std::string& out, const Value& value, bool inside, Work& work) {
    const size_t before = out.size();
    std::visit(
        [&](const auto& data) {
            using T = std::decay_t<decltype(data)>;
            if constexpr (std::is_same_v<T, Undefined>) {
                if (inside) out += "Undefined";
            } else if constexpr (std::is_same_v<T, None>) {
                out += "None";
            } else if constexpr (std::is_same_v<T, bool>) {
                out += data ? "True" : "False";
            } else if constexpr (std::is_same_v<T, int64_t>) {
                out += fmt::format("{}", data);
            } else if constexpr (std::is_same_v<T, double>) {
                out += real_text(data);
            } else if constexpr (std::is_same_v<T, std::shared_ptr<const std::string>>) {
                work.spend(data->size());
                if (inside) {
                    append_quoted(out, *data);
                } else {
                    out += *data;
                }
            } else if constexpr (std::is_same_v<T, std::shared_ptr<const List>>) {
                out += data->tuple ? '(' : '[';
                for (size_t i = 0; i < data->items.size(); ++i) {
                    if (i > 0) out += ", ";
                    append_text(out, data->items[i], true, work);
                }
                if (data->tuple && data->items.size() == 1) out += ',';
                out += data->tuple ? ')' : ']';
            } else if constexpr (std::is_same_v<T, std::shared_ptr<const Dict>>) {
                out += '{';
                for (size_t i = 0; i < data->items.size(); ++i) {
                    if (i > 0) out += ", ";
                    append_text(out, data->items[i].first, true, work);
                    out += ": ";
                    append_text(out, data->items[i].second, true, work);
                }
                out += '}';
            } else if constexpr (std::is_same_v<T, Namespace*>) {
                out += "<Namespace>";
            } else if constexpr (std::is_same_v<T, std::shared_ptr<const Loop>>) {
                out += fmt::format("<LoopContext {}/{}>", data->index0 + 1, data->items->size());
            } else if constexpr (std::is_same_v<T, std::shared_ptr<const Function>>) {
                throw Problem(
                    fmt::format("{} is a function; it cannot be printed (parentheses missing?)", data->name));
            } else {
                static_assert(always_false<T>);
            }
        },
        value.data());
    work.spend(out.size() - before + 1);
}

void append_json(std::string& out, const Value& value, int indent, int level, Work& work) {
    const size_t before = out.size();
    const auto break_line = [&](int at) {
        if (indent < 0) return;
        work.spend(static_cast<size_t>(indent * at) + 1);
        out += "\n" + std::string(static_cast<size_t>(indent * at), ' ');
    };
    const char* comma = indent >= 0 ? "," : ", ";
    if (const List* list = value.as_list()) {
        out += '[';
        for (size_t i = 0; i < list->items.size(); ++i) {
            if (i > 0) out += comma;
            break_line(level + 1);
            append_json(out, list->items[i], indent, level + 1, work);
        }
        if (!list->items.empty()) break_line(level);
        out += ']';
    } else if (const Dict* dict = value.as_dict()) {
        out += '{';
        for (size_t i = 0; i < dict->items.size(); ++i) {
            if (i > 0) out += comma;
            break_line(level + 1);
            const Value& key = dict->items[i].first;
            std::string name;
            if (key.is_none() || key.is_number()) {
                append_json(name, key, -1, 0, work); // json.dumps writes such keys as texts
            } else if (key.as_text() != nullptr) {
                name = *key.as_text();
            } else {
                throw Problem(fmt::format("tojson: a key cannot be a {}", key.type_name()));
            }
            work.spend(name.size());
            append_json_text(out, name);
            out += ": ";
            append_json(out, dict->items[i].second, indent, level + 1, work);
        }
        if (!dict->items.empty()) break_line(level);
        out += '}';
    } else if (value.as_text() != nullptr) {
        work.spend(value.as_text()->size());
        append_json_text(out, *value.as_text());
    } else if (value.is_none()) {
        out += "null";
    } else if (const bool* flag = value.as<bool>()) {
        out += *flag ? "true" : "false";
    } else if (const double* real = value.as<double>()) {
        out += std::isnan(*real)   ? "NaN"
               : std::isinf(*real) ? (*real < 0 ? "-Infinity" : "Infinity")
                                   : real_text(*real);
    } else if (value.is_integer()) {
        out += fmt::format("{}", value.to_integer());
    } else {
        throw Problem(fmt::format("tojson: a {} has no JSON form", value.type_name()));
    }
    work.spend(out.size() - before + 1);
}

} // namespace

Value Value::undefined(std::string name) {
    return Value(Data(Undefined{std::make_shared<const std::string>(std::move(name))}));
}

Value Value::text(std::string value) {
    return Value(Data(std::make_shared<const std::string>(std::move(value))));
}

Value Value::list(std::vector<Value> items, bool tuple) {
    int inner = 0;
    for (const Value& item : items)
        inner = std::max(inner, depth_of(item));
    return Value(Data(std::make_shared<const List>(List{std::move(items), tuple, depth_above(inner)})));
}

Value Value::dict(std::vector<std::pair<Value, Value>> items) {
    int inner = 0;
    for (const auto& [key, value] : items)
        inner = std::max({inner, depth_of(key), depth_of(value)});
    return Value(Data(std::make_shared<const Dict>(Dict{std::move(items), depth_above(inner)})));
}

const std::string* Value::as_text() const {
    const auto* data = as<std::shared_ptr<const std::string>>();
    return data == nullptr ? nullptr : data->get();
}

const List* Value::as_list() const {
    const auto* data = as<std::shared_ptr<const List>>();
    return data == nullptr ? nullptr : data->get();
}

const Dict* Value::as_dict() const {
    const auto* data = as<std::shared_ptr<const Dict>>();
    return data == nullptr ? nullptr : data->get();
}

int64_t Value::to_integer() const {
    if (const bool* flag = as<bool>()) return *flag ? 1 : 0;
    return std::get<int64_t>(m_data);
}

double Value::to_real() const {
    if (const double* real = as<double>()) return *real;
    return static_cast<double>(to_integer());
}

bool Value::truthy() const {
    if (is_undefined() || is_none()) return false;
    if (is_number()) return to_real() != 0;
    if (const std::string* value = as_text()) return !value->empty();
    if (const List* value = as_list()) return !value->items.empty();
    if (const Dict* value = as_dict()) return !value->items.empty();
    return true;
}

const char* Value::type_name() const {
    if (const List* value = as_list()) return value->tuple ? "tuple" : "list";
    constexpr const char* names[] = {"undefined value", "NoneType", "bool",    "int",
                                     "float",           "str",      "list",    "dict",
                                     "namespace",       "loop",     "function"};
    static_assert(std::size(names) == std::variant_size_v<Data>);
    return names[m_data.index()];
}

const Value* Dict::find(std::string_view key) const {
    for (const auto& [name, value] : items) {
        if (name.as_text() != nullptr && *name.as_text() == key) return &value;
    }
    return nullptr;
}

const Value* Arguments::find(size_t place, std::string_view name) const {
    if (place < positional.size()) return &positional[place];
    for (const auto& [key, value] : named) {
        if (key == name) return &value;
    }
    return nullptr;
}

bool equal(const Value& a, const Value& b, Work& work) {
    work.spend(1);
    if (a.is_number() && b.is_number()) {
        if (a.is_integer() && b.is_integer()) return a.to_integer() == b.to_integer();
        return a.to_real() == b.to_real();
    }
    if (a.data().index() != b.data().index()) return false;
    if (a.as_text() != nullptr) {
        work.spend(std::min(a.as_text()->size(), b.as_text()->size()));
        return *a.as_text() == *b.as_text();
    }
    if (const List* left = a.as_list()) {
        const List* right = b.as_list();
        return left->tuple == right->tuple &&
               std::equal(left->items.begin(), left->items.end(), right->items.begin(), right->items.end(),
                          [&](const Value& x, const Value& y) { return equal(x, y, work); });
    }
    if (const Dict* left = a.as_dict()) {
        const Dict* right = b.as_dict();
        return left->items.size() == right->items.size() &&
               std::all_of(left->items.begin(), left->items.end(), [&](const auto& entry) {
                   return std::any_of(right->items.begin(), right->items.end(), [&](const auto& other) {
                       return equal(entry.first, other.first, work) &&
                              equal(entry.second, other.second, work);
                   });
               });
    }
    if (const auto* left = a.as<Namespace*>()) return *left == *b.as<Namespace*>();
    if (const auto* left = a.as<std::shared_ptr<const Loop>>())
        return *left == *b.as<std::shared_ptr<const Loop>>();
    if (const auto* left = a.as<std::shared_ptr<const Function>>()) {
        return *left == *b.as<std::shared_ptr<const Function>>();
    }
    return true; // both undefined, or both None
}

bool less(const Value& a, const Value& b, Work& work) {
    work.spend(1);
    if (a.is_integer() && b.is_integer()) return a.to_integer() < b.to_integer();
    if (a.is_number() && b.is_number()) return a.to_real() < b.to_real();
    if (a.as_text() != nullptr && b.as_text() != nullptr) {
        work.spend(std::min(a.as_text()->size(), b.as_text()->size()));
        return *a.as_text() < *b.as_text(); // bytes of UTF-8 are in the order of code points
    }
    const List* left = a.as_list();
    const List* right = b.as_list();
    if (left != nullptr && right != nullptr && left->tuple == right->tuple) {
        for (size_t i = 0; i < std::min(left->items.size(), right->items.size()); ++i) {
            if (!equal(left->items[i], right->items[i], work))
                return less(left->items[i], right->items[i], work);
        }
        return left->items.size() < right->items.size();
    }
    throw Problem(fmt::format("a {} and a {} have no order", a.type_name(), b.type_name()));
}

bool contains(const Value& container, const Value& item, Work& work) {
    if (const std::string* text = container.as_text()) {
        if (item.as_text() == nullptr) throw Problem(fmt::format("a {} in a str", item.type_name()));
        work.spend(1);
        return item.as_text()->empty() ||
               TextSearch(*item.as_text(), TextSearch::From::left, work).find(*text) != std::string::npos;
    }
    const std::vector<Value> items = iterate(container, work);
    return std::any_of(items.begin(), items.end(),
                       [&](const Value& value) { return equal(value, item, work); });
}

std::string to_text(const Value& value, Work& work) {
    std::string out;
    append_text(out, value, false, work);
    return out;
}

std::string to_json(const Value& value, int indent, Work& work) {
    std::string out;
    append_json(out, value, indent, 0, work);
    return out;
}

std::vector<Value> iterate(const Value& value, Work& work) {
    std::vector<Value> items;
    if (value.is_undefined()) return items;
    if (const List* list = value.as_list()) {
        work.spend(list->items.size() * container_cost);
        return list->items;
    }
    if (const Dict* dict = value.as_dict()) {
        work.spend(dict->items.size() * container_cost);
        for (const auto& [key, entry] : dict->items)
            items.push_back(key);
        return items;
    }
    if (const std::string* text = value.as_text()) {
        work.spend(text->size() * container_cost);
        for (const std::string_view part : characters(*text, work))
            items.push_back(Value::text(std::string(part)));
        return items;
    }
    throw Problem(fmt::format("a {} cannot be iterated over", value.type_name()));
}

std::optional<std::string_view> character(std::string_view text, int64_t index, Work& work) {
    work.spend(text.size());
    int64_t left = index < 0 ? index + count_code_points(text) : index;
    if (left < 0) return std::nullopt;
    for (size_t at = 0; at < text.size(); --left) {
        const Utf8Step step = utf8_step(text, at);
        const size_t length = step.kind == Utf8Step::Kind::character ? step.length : 1;
        if (left == 0) return text.substr(at, length);
        at += length;
    }
    return std::nullopt;
}

std::vector<std::string_view> characters(std::string_view text, Work& work) {
    work.spend(text.size() * sizeof(std::string_view));
    std::vector<std::string_view> out;
    for (size_t at = 0; at < text.size();) {
        const Utf8Step step = utf8_step(text, at);
        const size_t length = step.kind == Utf8Step::Kind::character ? step.length : 1;
        out.push_back(text.substr(at, length));
        at += length;
    }
    return out;
}

} // namespace refreshlab::jinja
