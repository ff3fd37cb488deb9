#include "engine/text/chat_template.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "engine/text/utf8.h"
#include "tests/engine/text/text_fixture.h"

#include <nlohmann/json.hpp>

using namespace refreshlab;
using namespace refreshlab::text_test;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::filesystem::path bundled =
    std::filesystem::path(RL_SOURCE_DIR) / "assets/models/llama-tales-teacher";

/// What jinja2 makes of the templates.
const nlohmann::json& rendered() {
    static const nlohmann::json cases = read_json_file(references() / "templates.json");
    return cases;
}

/// The time of the references: 6 July 2024, a Saturday, 09:05:03.
std::tm fixed_time() {
    std::tm time{};
    time.tm_year = 124;
    time.tm_mon = 6;
    time.tm_mday = 6;
    time.tm_hour = 9;
    time.tm_min = 5;
    time.tm_sec = 3;
    time.tm_wday = 6;
    time.tm_yday = 187;
    return time;
}

RenderOptions options_of(const nlohmann::json& one) {
    RenderOptions options;
    options.add_generation_prompt = one["generate"].get<bool>();
    options.now = fixed_time();
    for (const auto& [name, value] : one["variables"].items()) {
        if (value.is_boolean())
            options.variables[name] = value.get<bool>();
        else if (value.is_number_integer())
            options.variables[name] = value.get<int64_t>();
        else if (value.is_number())
            options.variables[name] = value.get<double>();
        else
            options.variables[name] = value.get<std::string>();
    }
    return options;
}

std::string render(const std::string& source) {
    return ChatTemplate::parse(source, "<s>", "</s>")->render({});
}
std::string refusal(const std::string& source) {
    return message_of([&] { (void)render(source); });
}

} // namespace

TEST_CASE("templates render as jinja2 renders them, and fail where it fails", "[text][parity]") {
    size_t failing = 0;
    REQUIRE(rendered().size() > 200);
    for (const nlohmann::json& one : rendered()) {
        const auto source = one["template"].get<std::string>();
        INFO(one["name"].get<std::string>() << ": " << visible_text(source, 400));
        std::vector<ChatMessage> messages;
        for (const nlohmann::json& message : one["messages"])
            messages.push_back({message["role"], message["content"]});
        const auto run = [&] {
            return ChatTemplate::parse(source, "<s>", "</s>")->render(messages, options_of(one));
        };
        if (one["text"].is_null()) {
            CHECK_THAT(message_of(run), ContainsSubstring("line "));
            ++failing;
        } else {
            CHECK(run() == one["text"].get<std::string>());
        }
    }
    CHECK(failing > 20);
}

TEST_CASE("the bundled pair's template is loaded, and its text has the special ids", "[text]") {
    const auto chat = ChatTemplate::load(bundled);
    REQUIRE(chat);
    const std::string text = chat->render({{"user", "Hi"}, {"assistant", "Yo"}, {"user", "Bye"}});
    CHECK(text == "<|begin|><|user|>Hi<|assistant|>Yo<|end|><|user|>Bye<|assistant|>");
    const auto ids = Tokenizer::load(bundled)->encode(text);
    CHECK(ids.front() == 0);
    CHECK(ids.back() == 3);
    CHECK(chat->render({{"user", "Hi"}}, false) == "<|begin|><|user|>Hi");
}

TEST_CASE("templates are found in each place where models keep them", "[text]") {
    const auto folder = fresh_folder("places");
    CHECK(ChatTemplate::load(folder) == nullptr);
    write_file(folder / "tokenizer_config.json", R"({"bos_token": "B"})");
    CHECK(ChatTemplate::load(folder) == nullptr);
    write_file(
        folder / "tokenizer_config.json",
        R"({"bos_token": {"content": "B", "lstrip": false}, "pad_token": null, "chat_template": "one{{ bos_token }}{{ pad_token is defined }}"})");
    CHECK(ChatTemplate::load(folder)->render({}) == "oneBFalse");
    write_file(
        folder / "tokenizer_config.json",
        R"({"chat_template": [{"name": "rag", "template": "r"}, {"name": "default", "template": "two"}]})");
    CHECK(ChatTemplate::load(folder)->render({}) == "two");
    std::filesystem::create_directories(folder / "additional_chat_templates");
    write_file(folder / "additional_chat_templates/rag.jinja", "not this one");
    CHECK(ChatTemplate::load(folder)->render({}) == "two");
    write_file(folder / "additional_chat_templates/default.jinja", "between");
    CHECK(ChatTemplate::load(folder)->render({}) == "between");
    std::filesystem::remove_all(folder / "additional_chat_templates");
    write_file(folder / "chat_template.json", R"({"chat_template": "processor"})");
    CHECK(ChatTemplate::load(folder)->render({}) == "two");
    write_file(folder / "tokenizer_config.json", "{}");
    CHECK(ChatTemplate::load(folder)->render({}) == "processor");
    write_file(folder / "special_tokens_map.json", R"({"bos_token": {"content": "B"}, "eos_token": "E"})");
    write_file(folder / "tokenizer_config.json",
               R"({"eos_token": "X", "chat_template": "{{ bos_token }}{{ eos_token }}"})");
    CHECK(ChatTemplate::load(folder)->render({}) == "BE");
    write_file(
        folder / "tokenizer_config.json",
        R"({"eos_token": "X", "added_tokens_decoder": {}, "chat_template": "{{ bos_token }}{{ eos_token }}"})");
    CHECK(ChatTemplate::load(folder)->render({}) == "X"); // the older file does not count then
    write_file(folder / "chat_template.jinja", "three {{ messages | length }}\n");
    CHECK(ChatTemplate::load(folder)->render({{"user", "x"}}) == "three 1");
    write_file(folder / "chat_template.jinja", "a\n{% if %}");
    CHECK_THAT(message_of([&] { (void)ChatTemplate::load(folder); }),
               ContainsSubstring("chat_template.jinja: line 2"));
    std::filesystem::remove(folder / "chat_template.jinja");
    for (const char* config :
         {R"({"chat_template": 5})", R"({"chat_template": [{"name": "a", "template": "x"}]})", "[]",
          R"({"chat_template": [7]})", R"({"bos_token": {}, "chat_template": "x"})"}) {
        write_file(folder / "tokenizer_config.json", config);
        CHECK_THAT(message_of([&] { (void)ChatTemplate::load(folder); }),
                   ContainsSubstring("tokenizer_config.json"));
    }
}

TEST_CASE("what a template asks for and cannot have is said with its line", "[text]") {
    CHECK_THAT(refusal("a\n{{ raise_exception('roles must alternate') }}"),
               ContainsSubstring("line 2: roles must alternate"));
    CHECK_THAT(refusal("\n\n{{ x | nosuch }}"), ContainsSubstring("line 3: filter nosuch is not supported"));
    CHECK_THAT(refusal("{% include 'x' %}"), ContainsSubstring("block 'include' is not supported"));
    CHECK_THAT(refusal("{% for a in b recursive %}{% endfor %}"), ContainsSubstring("recursive"));
    CHECK_THAT(refusal("{{ x.y }}"), ContainsSubstring("'x' is undefined"));
    CHECK_THAT(refusal("{{ 9223372036854775807 + 1 }}"), ContainsSubstring("too large"));
    CHECK_THAT(refusal("{{ -9223372036854775807 - 2 }}"), ContainsSubstring("too large"));
    CHECK_THAT(refusal("{{ 10 ** 30 }}"), ContainsSubstring("too large"));
    CHECK_THAT(refusal("{{ 99999999999999999999 }}"), ContainsSubstring("out of range"));
}

TEST_CASE("no template can hang, fill the memory or exhaust the stack", "[text]") {
    const char* const greedy[] = {
        "{{ 'x' * 99999999999 }}",
        "{{ [1] * 99999999999 }}",
        "{{ range(999999999) | list }}",
        "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
        "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ "
        "ns.x }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ "
        "ns.x == [ns.x] or ns.x | tojson }}",
        "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ ('a' * 20000).replace('a', 'b' * 100000) }}",
        "{{ range(90000) | list | join('y' * 90000) }}",
    };
    for (const char* source : greedy) {
        INFO(source);
        CHECK_THAT(refusal(source), ContainsSubstring("line 1"));
    }
    const auto repeated = [](const std::string& piece, size_t times) {
        std::string out;
        while (times-- > 0)
            out += piece;
        return out;
    };
    for (const std::string& source :
         {"{{ " + repeated("(", 50'000) + "1" + repeated(")", 50'000) + " }}",
          "{{ " + repeated("not ", 50'000) + "1 }}", "{{ " + repeated("-", 50'000) + "1 }}",
          "{{ 1" + repeated(" + 1", 50'000) + " }}", "{{ x" + repeated(".a", 50'000) + " }}",
          "{{ x" + repeated("|trim", 50'000) + " }}", repeated("{% if 1 %}", 50'000),
          "{{ " + repeated("1 if 1 else ", 50'000) + "1 }}",
          "{{ " + repeated("[", 50'000) + repeated("]", 50'000) + " }}"}) {
        INFO(source.substr(0, 40));
        CHECK_THAT(refusal(source), ContainsSubstring("deep"));
    }
    // Long but flat is fine.
    CHECK(render(repeated("{% if 1 %}x{% endif %}", 20'000)).size() == 20'000);
    CHECK(render("{% if 0 %}" + repeated("{% elif 0 %}a", 20'000) + "{% else %}b{% endif %}") == "b");
}

TEST_CASE("a namespace that holds itself is neither walked forever nor leaked", "[text]") {
    CHECK(render("{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns.x | length }}{{ ns.x == ns.x }}") ==
          "1True");
    CHECK(render("{% set ns = namespace() %}{% for i in [1] %}{% set ns.l = loop %}{% endfor %}{{ ns.l.index "
                 "}}") == "1");
}

TEST_CASE("messages may hold any bytes", "[text]") {
    const auto chat = ChatTemplate::parse(
        "{% for m in messages %}{{ m.content | trim }}{{ m.content[::-1] | upper | length }}{% endfor %}", "",
        "");
    CHECK(chat->render({{"user", " a\xFF\xE2\x82 "}}) == "a\xFF\xE2\x82"
                                                         "6");
}

TEST_CASE("damaged templates render or are refused", "[text][mutation]") {
    Random random(test::seed(1));
    std::vector<std::string> sources;
    for (const nlohmann::json& one : rendered()) {
        auto source = one["template"].get<std::string>();
        if (sources.empty() || sources.back() != source) sources.push_back(std::move(source));
    }
    const std::vector<ChatMessage> messages = {
        {"system", "S"}, {"user", "u </think> v"}, {"assistant", "a"}, {"user", "b"}};
    int rendered = 0, refused = 0;
    for (int round = 0; round < 6000; ++round) {
        const std::string source = mutated(sources[random.below(sources.size())], random);
        INFO("round " << round << ": " << visible_text(source, 500));
        try {
            (void)ChatTemplate::parse(source, "<s>", "</s>")->render(messages);
            ++rendered;
        } catch (const Error&) { // anything else fails the test
            ++refused;
        }
    }
    CHECK(rendered > 500);
    CHECK(refused > 500);
}
