#include "engine/text/chat_template.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/text/jinja/jinja_ast.h"
#include "engine/text/jinja/jinja_runner.h"
#include "engine/text/tokenizer/json_fields.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace refreshlab {

namespace {

using Variables = std::vector<std::pair<std::string, jinja::Value>>;

constexpr size_t max_file_bytes = size_t{64} << 20;

[[noreturn]] void fail(const std::string& doing, const std::string& object, const jinja::Problem& problem) {
    const std::string what = visible_text(problem.what(), 500);
    throw Error(doing, object, problem.line > 0 ? fmt::format("line {}: {}", problem.line, what) : what);
}

/// The special tokens that templates name: bos_token, eos_token, ... Each is a text or {"content": text}.
Variables special_tokens(const FileFields& config) {
    Variables found;
    for (const auto& [key, value] : config.json().items()) {
        if (!key.ends_with("_token") || key.starts_with("add_")) continue;
        if (value.is_string()) {
            found.emplace_back(key, jinja::Value::text(value.get<std::string>()));
        } else if (value.is_object()) {
            found.emplace_back(key, jinja::Value::text(config.object(key.c_str()).text("content")));
        }
    }
    return found;
}

/// The template in a JSON file: a text, or several with names, of which "default" counts.
std::optional<std::string> template_in(const FileFields& config) {
    const nlohmann::json* entry = config.find("chat_template");
    if (entry == nullptr) return std::nullopt;
    if (!entry->is_array()) return config.text("chat_template");
    for (size_t i = 0; i < entry->size(); ++i) {
        const FileFields named = config.element("chat_template", i);
        if (named.text("name") == "default") return named.text("template");
    }
    config.fail("chat_template", "several templates, and none is named default");
}

struct Source {
    std::string text;
    std::string object; ///< the file, for messages
};

std::optional<Source> source_in_json(const std::filesystem::path& file) {
    const nlohmann::json json = read_json_file(file, max_file_bytes);
    auto text = template_in(FileFields(json, "reading", file.string(), ""));
    if (!text) return std::nullopt;
    return Source{std::move(*text), file.string()};
}

std::optional<Source> find_source(const std::filesystem::path& folder) {
    std::error_code ignored;
    for (const char* name : {"chat_template.jinja", "additional_chat_templates/default.jinja"}) {
        const std::filesystem::path file = folder / name;
        if (std::filesystem::exists(file, ignored))
            return Source{read_file(file, max_file_bytes), file.string()};
    }
    for (const char* name : {"tokenizer_config.json", "chat_template.json"}) {
        const std::filesystem::path file = folder / name;
        if (!std::filesystem::exists(file, ignored)) continue;
        if (auto found = source_in_json(file)) return found;
    }
    return std::nullopt;
}

jinja::Value to_value(const std::variant<bool, int64_t, double, std::string>& variable) {
    using jinja::Value;
    if (const auto* flag = std::get_if<bool>(&variable)) return Value::boolean(*flag);
    if (const auto* whole = std::get_if<int64_t>(&variable)) return Value::integer(*whole);
    if (const auto* real = std::get_if<double>(&variable)) return Value::real(*real);
    return Value::text(std::get<std::string>(variable));
}

std::tm local_time() {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local); // as the reference takes it
    return local;
}

} // namespace

struct ChatTemplate::Impl {
    std::string object; ///< for messages
    Variables tokens;
    jinja::Body body;

    Impl(std::string_view source, std::string name, Variables special)
        : object(std::move(name))
        , tokens(std::move(special)) {
        if (const auto offset = first_invalid_utf8(source)) {
            throw Error("reading the chat template", object, fmt::format("not UTF-8 at byte {}", *offset));
        }
        try {
            body = jinja::parse_template(source);
        } catch (const jinja::Problem& problem) {
            fail("reading the chat template", object, problem);
        }
    }
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl)
    : m_impl(std::move(impl)) {}

ChatTemplate::~ChatTemplate() = default;

std::shared_ptr<const ChatTemplate> ChatTemplate::load(const std::filesystem::path& folder) {
    std::error_code ignored;
    Variables tokens; // the first of a name counts
    bool complete = false;
    for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
        const std::filesystem::path file = folder / name;
        if (complete || !std::filesystem::exists(file, ignored)) continue;
        const nlohmann::json json = read_json_file(file, max_file_bytes);
        const FileFields fields(json, "reading", file.string(), "");
        const Variables found = special_tokens(fields);
        tokens.insert(tokens.begin(), found.begin(), found.end());
        complete = fields.find("added_tokens_decoder") != nullptr; // then the older file does not count
    }
    std::optional<Source> source = find_source(folder);
    if (!source) return nullptr;
    return std::shared_ptr<const ChatTemplate>(
        new ChatTemplate(std::make_unique<Impl>(source->text, std::move(source->object), std::move(tokens))));
}

std::shared_ptr<const ChatTemplate> ChatTemplate::parse(std::string_view source, std::string bos_token,
                                                        std::string eos_token, std::string what) {
    Variables tokens = {{"bos_token", jinja::Value::text(std::move(bos_token))},
                        {"eos_token", jinja::Value::text(std::move(eos_token))}};
    return std::shared_ptr<const ChatTemplate>(
        new ChatTemplate(std::make_unique<Impl>(source, std::move(what), std::move(tokens))));
}

std::string ChatTemplate::render(const std::vector<ChatMessage>& messages, bool add_generation_prompt) const {
    RenderOptions options;
    options.add_generation_prompt = add_generation_prompt;
    return render(messages, options);
}

std::string ChatTemplate::render(const std::vector<ChatMessage>& messages,
                                 const RenderOptions& options) const {
    using jinja::Value;
    std::vector<Value> list;
    list.reserve(messages.size());
    for (const ChatMessage& message : messages) {
        list.push_back(Value::dict({{Value::text("role"), Value::text(message.role)},
                                    {Value::text("content"), Value::text(message.content)}}));
    }
    Variables context; // the first of a name counts
    for (const auto& [name, value] : options.variables)
        context.emplace_back(name, to_value(value));
    context.insert(context.end(), m_impl->tokens.begin(), m_impl->tokens.end());
    context.emplace_back("messages", Value::list(std::move(list)));
    context.emplace_back("add_generation_prompt", Value::boolean(options.add_generation_prompt));
    // The reference defines these two even when nobody gives them.
    context.emplace_back("tools", Value::none());
    context.emplace_back("documents", Value::none());
    try {
        const std::tm now = options.now ? *options.now : local_time();
        return jinja::Runner(std::move(context), now, jinja::Work(options.max_work)).run(m_impl->body);
    } catch (const jinja::Problem& problem) {
        fail("running the chat template", m_impl->object, problem);
    }
}

} // namespace refreshlab
