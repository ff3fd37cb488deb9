#include "engine/control/derive/derive_spec.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/refresh/json_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>

namespace refreshlab {

namespace {

using json = nlohmann::json;

constexpr std::string_view prefix = "derive:";
constexpr std::string_view only_names[] = {"all", "mlp", "attention"};

[[noreturn]] void refuse(const std::string& what, std::string_view part, const std::string& problem,
                         const std::string& hint = {}) {
    throw Error("reading", what, fmt::format("{}: {}", part, problem), hint);
}

/// One part of the short form. Quotes are taken off a value.
struct Part {
    std::string key, value;
    bool has_value = false;
};

/// Cuts at the commas that stand outside double quotes; \" and \\ are taken as they are meant inside.
std::vector<Part> parts_of(std::string_view text, const std::string& what) {
    std::vector<Part> parts(1);
    bool quoted = false;
    for (size_t i = 0; i < text.size(); ++i) {
        Part& part = parts.back();
        std::string& to = part.has_value ? part.value : part.key;
        const char c = text[i];
        if (quoted && c == '\\' && i + 1 < text.size()) {
            to += text[++i];
        } else if (c == '"' && part.has_value) {
            quoted = !quoted;
        } else if (c == ',' && !quoted) {
            parts.emplace_back();
        } else if (c == '=' && !part.has_value) {
            part.has_value = true;
        } else {
            to += c;
        }
    }
    if (quoted) refuse(what, parts.back().key, "a double quote is not closed");
    return parts;
}

/// A whole number, or nothing.
std::optional<int64_t> whole(std::string_view text) {
    int64_t number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    return code == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// "3+5+8-11" as a list of layers.
json layers_of(std::string_view text, std::string_view key, const std::string& what) {
    json list = json::array();
    for (size_t at = 0; at <= text.size();) {
        const size_t end = std::min(text.find('+', at), text.size());
        const std::string_view item = text.substr(at, end - at);
        const size_t dash = item.find('-');
        const auto first = whole(item.substr(0, dash));
        const auto last = dash == std::string_view::npos ? first : whole(item.substr(dash + 1));
        if (!first || !last || *first < 0 || *last < *first || *last > DeriveSpec::max_layer)
            refuse(what, key,
                   fmt::format("must be layers and ranges of layers joined by +, not {}",
                               shown(json(std::string(item)))),
                   "for example " + std::string(key) + "=3+5+8-11");
        for (int64_t layer = *first; layer <= *last; ++layer) {
            list.push_back(layer);
            if (list.size() > static_cast<size_t>(DeriveSpec::max_skips))
                refuse(what, key, fmt::format("names more than {} layers", DeriveSpec::max_skips));
        }
        at = end + 1;
    }
    return list;
}

/// A value as JSON would have it: a number where it is one, else a text.
json value_of(const std::string& text) {
    json number = json::parse(text, nullptr, false);
    return number.is_number() ? number : json(text);
}

/// The short form as the JSON form, so that there is one place which knows the ranges.
json json_of_parts(std::string_view text, const std::string& what) {
    json object = json::object();
    for (const Part& part : parts_of(text, what)) {
        std::string key = part.key;
        json value;
        if (key.empty())
            refuse(what, "\"\"", "a part is empty",
                   "parts look like bits=3,group=32 and are joined by commas");
        if (key == "symmetric" && !part.has_value) {
            value = true;
        } else if (!part.has_value) {
            refuse(what, key, "has no value", "parts look like bits=3,group=32");
        } else if (key == "skip") {
            if (!part.value.starts_with("auto:"))
                refuse(what, key, "must be auto:N",
                       "sublayers of your choice are named by skip_attention=LIST and skip_mlp=LIST");
            key = "skip_auto";
            value = value_of(part.value.substr(5));
        } else if (key == "skip_attention" || key == "skip_mlp") {
            value = layers_of(part.value, key, what);
        } else if (key == "symmetric") {
            value = part.value == "true"    ? json(true)
                    : part.value == "false" ? json(false)
                                            : json(part.value);
        } else {
            value = key == "text" ? json(part.value) : value_of(part.value);
        }
        if (object.contains(key)) refuse(what, key, "stands twice");
        object[key] = std::move(value);
    }
    return object;
}

void read_layers(JsonFields& fields, std::string_view key, std::vector<int32_t>& layers) {
    const json* list = fields.find(key);
    if (list == nullptr) return;
    if (!list->is_array()) fields.fail(key, "must be a list of layers [...], not " + shown(*list));
    if (list->size() > static_cast<size_t>(DeriveSpec::max_skips))
        fields.fail(key, fmt::format("names more than {} layers", DeriveSpec::max_skips));
    for (const json& layer : *list) {
        const bool good = layer.is_number_integer() && layer >= 0 && layer <= DeriveSpec::max_layer;
        if (!good)
            fields.fail(key, fmt::format("must hold layers from 0 to {}, not {}", DeriveSpec::max_layer,
                                         shown(layer)));
        layers.push_back(layer.get<int32_t>());
    }
    std::ranges::sort(layers);
    const auto twice = std::ranges::adjacent_find(layers);
    if (twice != layers.end()) fields.fail(key, fmt::format("layer {} stands twice", *twice));
}

/// "3+5+8-11"
std::string list_text(const std::vector<int32_t>& layers) {
    std::string text;
    for (size_t i = 0; i < layers.size();) {
        size_t last = i;
        while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1)
            ++last;
        text += fmt::format("{}{}", text.empty() ? "" : "+", layers[i]);
        if (last > i) text += fmt::format("-{}", layers[last]);
        i = last + 1;
    }
    return text;
}

std::string quoted_if_needed(const std::string& file) {
    if (file.find_first_of(",\"\\=") == std::string::npos) return file;
    std::string text = "\"";
    for (const char c : file) {
        if (c == '"' || c == '\\') text += '\\';
        text += c;
    }
    return text + '"';
}

} // namespace

bool is_derivation(std::string_view model) {
    return model.starts_with(prefix);
}

DeriveSpec derivation_of(std::string_view model) {
    RL_ASSERT(is_derivation(model));
    return parse_derive(model.substr(prefix.size()));
}

std::string derivation_path(const DeriveSpec& spec) {
    return std::string(prefix) + derive_text(spec);
}

std::string settled_model(const std::string& model,
                          const std::function<std::string(const std::string& file)>& find) {
    if (!is_derivation(model)) return model;
    const std::string text = model.substr(prefix.size());
    const bool is_file = text.ends_with(".json") && text.find('=') == std::string::npos;
    const std::filesystem::path file = is_file ? (find ? find(text) : text) : "";
    DeriveSpec spec = is_file ? derive_from_json(read_json_file(file), file.string()) : parse_derive(text);
    if (!spec.text.empty()) {
        std::filesystem::path path = spec.text;
        if (is_file && path.is_relative()) {
            path = file.parent_path() / path;
        } else if (find) {
            path = find(spec.text);
        }
        spec.text = std::filesystem::absolute(path).lexically_normal().string();
    }
    return derivation_path(spec);
}

DeriveSpec parse_derive(std::string_view text) {
    const std::string what = std::string(prefix) + std::string(text);
    if (text.empty()) return {};
    return derive_from_json(json_of_parts(text, what), what);
}

DeriveSpec derive_from_json(const json& object, const std::string& what) {
    DeriveSpec spec;
    JsonFields fields(object, what);
    fields.integer("bits", spec.bits, DeriveSpec::min_bits, DeriveSpec::max_bits);
    fields.integer("group", spec.group, 1, DeriveSpec::max_group);
    fields.boolean("symmetric", spec.symmetric);
    if (const auto only = fields.choice("only", {std::begin(only_names), std::end(only_names)}))
        spec.only = static_cast<DeriveSpec::Only>(*only);
    if (const json* share = fields.find("ffn")) {
        if (!share->is_number() || !(share->get<double>() > 0) || share->get<double>() > 1)
            fields.fail("ffn", "must be larger than 0 and at most 1, not " + shown(*share));
        spec.ffn = share->get<double>();
    }
    read_layers(fields, "skip_attention", spec.skip_attention);
    read_layers(fields, "skip_mlp", spec.skip_mlp);
    fields.integer("skip_auto", spec.skip_auto, 0, DeriveSpec::max_skips);
    fields.real("noise", spec.noise, 0, DeriveSpec::max_noise);
    fields.unsigned_integer("seed", spec.seed);
    fields.text("text", spec.text);
    fields.finish();
    if (const auto fault = derive_fault(spec)) refuse(what, fault->field, fault->problem);
    return spec;
}

std::string derive_text(const DeriveSpec& spec) {
    std::vector<std::string> parts;
    if (spec.bits > 0) {
        parts.push_back(fmt::format("bits={},group={}", spec.bits, spec.group));
        if (spec.symmetric) parts.emplace_back("symmetric");
    }
    if (spec.only != DeriveSpec::Only::all)
        parts.push_back(fmt::format("only={}", only_names[static_cast<size_t>(spec.only)]));
    if (spec.ffn < 1) parts.push_back(fmt::format("ffn={}", spec.ffn));
    if (!spec.skip_attention.empty()) parts.push_back("skip_attention=" + list_text(spec.skip_attention));
    if (!spec.skip_mlp.empty()) parts.push_back("skip_mlp=" + list_text(spec.skip_mlp));
    if (spec.skip_auto > 0) parts.push_back(fmt::format("skip=auto:{}", spec.skip_auto));
    if (spec.noise > 0) parts.push_back(fmt::format("noise={},seed={}", spec.noise, spec.seed));
    if (!spec.text.empty()) parts.push_back("text=" + quoted_if_needed(spec.text));
    return fmt::format("{}", fmt::join(parts, ","));
}

json derive_to_json(const DeriveSpec& spec) {
    json object = json::object();
    if (spec.bits > 0) {
        object["bits"] = spec.bits;
        object["group"] = spec.group;
        if (spec.symmetric) object["symmetric"] = true;
    }
    if (spec.only != DeriveSpec::Only::all) object["only"] = only_names[static_cast<size_t>(spec.only)];
    if (spec.ffn < 1) object["ffn"] = spec.ffn;
    if (!spec.skip_attention.empty()) object["skip_attention"] = spec.skip_attention;
    if (!spec.skip_mlp.empty()) object["skip_mlp"] = spec.skip_mlp;
    if (spec.skip_auto > 0) object["skip_auto"] = spec.skip_auto;
    if (spec.noise > 0) {
        object["noise"] = spec.noise;
        object["seed"] = spec.seed;
    }
    if (!spec.text.empty()) object["text"] = spec.text;
    return object;
}

json to_json(const DerivedFacts& facts) {
    return {{"spec", derive_text(facts.spec)},
            {"description", describe(facts.spec)},
            {"skip_attention", facts.skip_attention},
            {"skip_mlp", facts.skip_mlp},
            {"own_bytes", facts.own_bytes},
            {"shared_bytes", facts.shared_bytes},
            {"token_bytes", facts.token_bytes},
            {"teacher_token_bytes", facts.teacher_token_bytes},
            {"changed_tensors", facts.changed_tensors}};
}

DerivedFacts derived_facts_from_json(const json& object, const std::string& what) {
    DerivedFacts facts;
    JsonFields fields(object, what, "derived");
    std::string spec, ignored;
    fields.text("spec", spec);
    facts.spec = parse_derive(spec);
    fields.text("description", ignored);
    read_layers(fields, "skip_attention", facts.skip_attention);
    read_layers(fields, "skip_mlp", facts.skip_mlp);
    constexpr int64_t most = int64_t{1} << 60;
    fields.integer("own_bytes", facts.own_bytes, 0, most);
    fields.integer("shared_bytes", facts.shared_bytes, 0, most);
    fields.integer("token_bytes", facts.token_bytes, 0, most);
    fields.integer("teacher_token_bytes", facts.teacher_token_bytes, 0, most);
    fields.integer("changed_tensors", facts.changed_tensors, 0, most);
    fields.finish();
    return facts;
}

} // namespace refreshlab
