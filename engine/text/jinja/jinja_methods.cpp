#include "engine/text/jinja/jinja_builtins.h"
#include "engine/text/jinja/jinja_lexer.h"
#include "engine/text/jinja/jinja_search.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <optional>

namespace refreshlab::jinja {

namespace {

const std::string& text_argument(const Value& value, const std::string& method) {
    if (value.as_text() == nullptr) {
        throw Problem(fmt::format("{}: a str expected, a {} found", method, value.type_name()));
    }
    return *value.as_text();
}

int64_t integer_argument(const Value& value, const std::string& method) {
    if (!value.is_integer())
        throw Problem(fmt::format("{}: an int expected, a {} found", method, value.type_name()));
    return value.to_integer();
}

void at_most(const Arguments& arguments, size_t most, const std::string& method) {
    if (arguments.positional.size() + arguments.named.size() > most) {
        throw Problem(fmt::format("{}: at most {} arguments", method, most));
    }
}

const Value& required(const Arguments& arguments, size_t place, std::string_view name,
                      const std::string& method) {
    const Value* found = arguments.find(place, name);
    if (found == nullptr) throw Problem(fmt::format("{}: argument {} missing", method, place + 1));
    return *found;
}

template <typename Convert>
std::string convert_characters(std::string_view text, const Convert& convert) {
    std::string out;
    out.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
        const Utf8Step step = utf8_step(text, at);
        if (step.kind == Utf8Step::Kind::character) {
            convert(out, step.code_point);
        } else {
            out += text.substr(at, step.length);
        }
        at += step.length;
    }
    return out;
}

void append_upper(std::string& out, char32_t c) {
    if (c == 0xDF) { // the one special casing that is met: sharp s
        out += "SS";
        return;
    }
    append_utf8(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}

void append_lower(std::string& out, char32_t c) {
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

/// str.title(): a letter is upper after anything but a letter.
std::string title_case(std::string_view text) {
    bool after_letter = false;
    return convert_characters(text, [&](std::string& out, char32_t c) {
        const utf8proc_category_t kind = utf8proc_category(static_cast<utf8proc_int32_t>(c));
        const bool cased =
            kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL || kind == UTF8PROC_CATEGORY_LT;
        if (after_letter) {
            append_lower(out, c);
        } else {
            append_utf8(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
        }
        after_letter = cased;
    });
}

/// strip, lstrip, rstrip; `chars` None: white space.
std::string stripped(std::string_view text, bool left, bool right, const Value* chars,
                     const std::string& method, Work& work) {
    if (chars == nullptr || chars->is_none()) {
        if (left) text = strip_left(text);
        if (right) text = strip_right(text);
        return std::string(text);
    }
    std::vector<std::string_view> set = characters(text_argument(*chars, method), work);
    std::sort(set.begin(), set.end());
    set.erase(std::unique(set.begin(), set.end()), set.end());
    const auto in_set = [&](std::string_view c) { return std::binary_search(set.begin(), set.end(), c); };
    const std::vector<std::string_view> parts = characters(text, work);
    size_t begin = 0, end = parts.size();
    while (left && begin < end && in_set(parts[begin]))
        ++begin;
    while (right && end > begin && in_set(parts[end - 1]))
        --end;
    if (begin == end) return {};
    const char* last = parts[end - 1].data() + parts[end - 1].size();
    return std::string(parts[begin].data(), static_cast<size_t>(last - parts[begin].data()));
}

Value texts(const std::vector<std::string_view>& parts, Work& work) {
    work.spend(parts.size() * 64);
    std::vector<Value> items;
    for (const std::string_view part : parts)
        items.push_back(Value::text(std::string(part)));
    return Value::list(std::move(items));
}

Value split(std::string_view text, const Arguments& arguments, bool from_right, const std::string& method,
            Work& work) {
    const Value* separator = arguments.find(0, "sep");
    const Value* limit = arguments.find(1, "maxsplit");
    const int64_t most_cuts = limit == nullptr ? -1 : integer_argument(*limit, method);
    auto cuts = most_cuts < 0 ? static_cast<int64_t>(text.size()) + 1 : most_cuts;
    std::vector<std::string_view> parts;
    if (separator != nullptr && !separator->is_none()) {
        const std::string& sep = text_argument(*separator, method);
        if (sep.empty()) throw Problem(fmt::format("{}: empty separator", method));
        const TextSearch search(sep, from_right ? TextSearch::From::right : TextSearch::From::left, work);
        for (; cuts > 0; --cuts) {
            const size_t at = search.find(text);
            if (at == std::string_view::npos) break;
            if (from_right) {
                parts.push_back(text.substr(at + sep.size()));
                text = text.substr(0, at);
            } else {
                parts.push_back(text.substr(0, at));
                text = text.substr(at + sep.size());
            }
        }
        parts.push_back(text);
    } else { // runs of white space
        text = from_right ? strip_right(text) : strip_left(text);
        while (!text.empty()) {
            if (cuts-- == 0) {
                parts.push_back(text); // the rest as it is, but for the white space at the cut
                break;
            }
            size_t cut = from_right ? text.size() : 0;
            if (from_right) {
                while (cut > 0) {
                    size_t begin = cut - 1;
                    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80)
                        --begin;
                    if (is_python_space(utf8_step(text, begin).code_point)) break;
                    cut = begin;
                }
                parts.push_back(text.substr(cut));
                text = strip_right(text.substr(0, cut));
            } else {
                while (cut < text.size()) {
                    const Utf8Step step = utf8_step(text, cut);
                    if (is_python_space(step.code_point)) break;
                    cut += step.length;
                }
                parts.push_back(text.substr(0, cut));
                text = strip_left(text.substr(cut));
            }
        }
    }
    if (from_right) std::reverse(parts.begin(), parts.end());
    return texts(parts, work);
}

Value split_lines(std::string_view text, Work& work) {
    std::vector<std::string_view> lines;
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
        const Utf8Step step = utf8_step(text, at);
        const char32_t c = step.code_point;
        const bool ends =
            (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
        size_t next = at + step.length;
        if (ends) {
            lines.push_back(text.substr(begin, at - begin));
            if (c == '\r' && next < text.size() && text[next] == '\n') ++next;
            begin = next;
        }
        at = next;
    }
    if (begin < text.size()) lines.push_back(text.substr(begin));
    return texts(lines, work);
}

std::string replaced(const std::string& text, const std::string& from, const std::string& to, int64_t count,
                     Work& work) {
    uint64_t left = count < 0 ? UINT64_MAX : static_cast<uint64_t>(count);
    std::string out;
    if (from.empty()) { // between all characters, and around them
        const std::vector<std::string_view> parts = characters(text, work);
        work.spend((parts.size() + 1) * (to.size() + 1));
        for (const std::string_view part : parts) {
            if (left > 0) {
                out += to;
                --left;
            }
            out += part;
        }
        if (left > 0) out += to;
        return out;
    }
    const TextSearch search(from, TextSearch::From::left, work);
    size_t done = 0;
    for (; left > 0; --left) {
        const size_t found = search.find(std::string_view(text).substr(done));
        if (found == std::string_view::npos) break;
        const size_t at = done + found;
        work.spend(at - done + to.size() + 1);
        out.append(text, done, at - done);
        out += to;
        done = at + from.size();
    }
    work.spend(text.size() - done);
    return out.append(text, done);
}

bool has_affix(const std::string& text, const Value& affix, bool at_start, const std::string& method,
               Work& work) {
    if (const List* list = affix.as_list(); list != nullptr && list->tuple) {
        return std::any_of(list->items.begin(), list->items.end(),
                           [&](const Value& one) { return has_affix(text, one, at_start, method, work); });
    }
    const std::string& wanted = text_argument(affix, method);
    work.spend(1 + std::min(text.size(), wanted.size()));
    return at_start ? text.starts_with(wanted) : text.ends_with(wanted);
}

Value call_text_method(const std::string& text, const std::string& name, const Arguments& arguments,
                       Work& work) {
    work.spend(text.size() * 4);
    at_most(arguments, 3, name);
    if (name == "strip" || name == "lstrip" || name == "rstrip") {
        return Value::text(
            stripped(text, name != "rstrip", name != "lstrip", arguments.find(0, "chars"), name, work));
    }
    if (name == "startswith" || name == "endswith") {
        return Value::boolean(
            has_affix(text, required(arguments, 0, "prefix", name), name == "startswith", name, work));
    }
    if (name == "split" || name == "rsplit") return split(text, arguments, name == "rsplit", name, work);
    if (name == "splitlines") return split_lines(text, work);
    if (name == "upper") return Value::text(upper_case(text));
    if (name == "lower") return Value::text(lower_case(text));
    if (name == "capitalize") return Value::text(capital_case(text));
    if (name == "title") return Value::text(title_case(text));
    if (name == "replace") {
        const std::string& from = text_argument(required(arguments, 0, "old", name), name);
        const std::string& to = text_argument(required(arguments, 1, "new", name), name);
        const Value* count = arguments.find(2, "count");
        return Value::text(
            replaced(text, from, to,
                     count == nullptr || count->is_none() ? -1 : integer_argument(*count, name), work));
    }
    if (name == "removeprefix" || name == "removesuffix") {
        const std::string& affix = text_argument(required(arguments, 0, "prefix", name), name);
        if (name == "removeprefix")
            return Value::text(text.starts_with(affix) ? text.substr(affix.size()) : text);
        return Value::text(text.ends_with(affix) ? text.substr(0, text.size() - affix.size()) : text);
    }
    if (name == "join") {
        std::string out;
        bool first = true;
        for (const Value& part : iterate(required(arguments, 0, "iterable", name), work)) {
            if (!first) out += text;
            first = false;
            work.spend(text_argument(part, name).size() + text.size());
            out += *part.as_text();
        }
        return Value::text(std::move(out));
    }
    if (name == "find") {
        const std::string& wanted = text_argument(required(arguments, 0, "sub", name), name);
        if (wanted.empty()) return Value::integer(0);
        const size_t at = TextSearch(wanted, TextSearch::From::left, work).find(text);
        return Value::integer(
            at == std::string::npos ? -1 : count_code_points(std::string_view(text).substr(0, at)));
    }
    if (name == "count") {
        const std::string& wanted = text_argument(required(arguments, 0, "sub", name), name);
        if (wanted.empty()) return Value::integer(count_code_points(text) + 1);
        const TextSearch search(wanted, TextSearch::From::left, work);
        int64_t count = 0;
        std::string_view rest = text;
        for (size_t at = search.find(rest); at != std::string_view::npos; at = search.find(rest)) {
            rest.remove_prefix(at + wanted.size());
            ++count;
        }
        return Value::integer(count);
    }
    const std::vector<std::string_view> parts = characters(text, work); // isdigit, isspace
    return Value::boolean(
        !parts.empty() && std::all_of(parts.begin(), parts.end(), [&](std::string_view part) {
            const char32_t c = utf8_step(part, 0).code_point;
            if (name == "isspace") return is_python_space(c);
            return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_ND;
        }));
}

Value call_dict_method(const Value& self, const std::string& name, const Arguments& arguments, Work& work) {
    const Dict& dict = *self.as_dict();
    at_most(arguments, name == "get" ? 2 : 0, name);
    if (name == "get") {
        const Value& key = required(arguments, 0, "key", name);
        for (const auto& [entry, value] : dict.items) {
            if (equal(entry, key, work)) return value;
        }
        const Value* otherwise = arguments.find(1, "default");
        return otherwise == nullptr ? Value::none() : *otherwise;
    }
    work.spend(dict.items.size() * 128);
    std::vector<Value> items;
    for (const auto& [key, value] : dict.items) {
        items.push_back(name == "keys" ? key : name == "values" ? value : Value::list({key, value}, true));
    }
    return Value::list(std::move(items));
}

Value call_list_method(const List& list, const std::string& name, const Arguments& arguments, Work& work) {
    at_most(arguments, 1, name);
    const Value& wanted = required(arguments, 0, "value", name);
    int64_t count = 0;
    for (size_t i = 0; i < list.items.size(); ++i) {
        if (!equal(list.items[i], wanted, work)) continue;
        if (name == "index") return Value::integer(static_cast<int64_t>(i));
        ++count;
    }
    if (name == "index") throw Problem("index: no such item in the list");
    return Value::integer(count);
}

} // namespace

std::string upper_case(std::string_view text) {
    return convert_characters(text, append_upper);
}
std::string lower_case(std::string_view text) {
    return convert_characters(text, append_lower);
}

std::string capital_case(std::string_view text) {
    bool first = true;
    return convert_characters(text, [&](std::string& out, char32_t c) {
        if (first) {
            append_utf8(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
        } else {
            append_lower(out, c);
        }
        first = false;
    });
}

Value call_method(const Value& value, const std::string& name, const Arguments& arguments, Work& work) {
    if (value.as_text() != nullptr) return call_text_method(*value.as_text(), name, arguments, work);
    if (value.as_dict() != nullptr) return call_dict_method(value, name, arguments, work);
    if (value.as_list() != nullptr) return call_list_method(*value.as_list(), name, arguments, work);
    if (const auto* loop = value.as<std::shared_ptr<const Loop>>()) { // cycle
        if (arguments.positional.empty()) throw Problem("cycle: nothing to choose from");
        return arguments.positional[(*loop)->index0 % arguments.positional.size()];
    }
    throw Problem(fmt::format("a {} cannot be called", value.type_name()));
}

} // namespace refreshlab::jinja
