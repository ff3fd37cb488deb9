#include "engine/text/chat_template.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "engine/text/utf8.h"
#include "tests/engine/text/text_fixture.h"

#include <nlohmann/json.hpp>

namespace chat_template_test {

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

TEST_CASE("every operation whose cost grows with its operands is paid for", "[text]") {
    // 2,000 times an operation on 20,000 bytes or items: 40 million units, of which ten million are allowed.
    const std::string before =
        "{% set x = 'a' * 20000 %}{% set y = 'a' * 19999 ~ 'b' %}{% set l = [1] * 20000 %}"
        "{% set t = ('ab',) * 19999 + ('z',) %}{% set many = ('b' * 9,) * 20000 %}"
        "{% set lines = 'a\n' * 10000 %}{% set n = '1' * 20000 %}{% set e = '' %}";
    const auto looped = [&](const std::string& operation) {
        RenderOptions options;
        options.max_work = 10'000'000;
        return ChatTemplate::parse(before + "{% for i in range(2000) %}{% set r = " + operation +
                                       " %}{% endfor %}",
                                   "<s>", "</s>")
            ->render({}, options);
    };
    for (const char* cheap :
         {"x", "x is defined", "l | length", "l[5]", "e | default(x)", "i == x", "x is string", "[1][x]"}) {
        INFO(cheap);
        CHECK(looped(cheap).empty());
    }
    for (const char* operation : {"y in x",
                                  "'b' in x",
                                  "x not in x",
                                  "1 in t",
                                  "9 in l",
                                  "x == y ~ e",
                                  "x == x[:]",
                                  "t == t[:]",
                                  "x < y",
                                  "x ~ e",
                                  "x + 'b'",
                                  "l + l",
                                  "x * 2",
                                  "l * 2",
                                  "x[1:]",
                                  "l[1:]",
                                  "x[-1]",
                                  "x[0]",
                                  "x[30000]",
                                  "x.strip()",
                                  "x.strip(x)",
                                  "e.strip(x)",
                                  "x.startswith(x)",
                                  "x.startswith(many)",
                                  "'a'.startswith(many)",
                                  "x.endswith(y)",
                                  "x.split('b')",
                                  "e.split(x)",
                                  "x.split(y)",
                                  "x.rsplit(y)",
                                  "e.rsplit(x)",
                                  "x.split()",
                                  "lines.splitlines()",
                                  "x.upper()",
                                  "x.lower()",
                                  "x.title()",
                                  "x.capitalize()",
                                  "x.replace('b', e)",
                                  "e.replace(x, 'b')",
                                  "x.replace(y, e)",
                                  "x.replace(e, 'b')",
                                  "'a'.replace('a', x)",
                                  "e.join(t)",
                                  "x.find(y)",
                                  "e.find(x)",
                                  "x.count(y)",
                                  "e.count(x)",
                                  "x.isdigit()",
                                  "n.isdigit()",
                                  "x.isspace()",
                                  "x.removeprefix(y)",
                                  "x.removesuffix(x)",
                                  "t.index('z')",
                                  "t.count('b')",
                                  "x | trim",
                                  "x | upper",
                                  "x | lower",
                                  "x | capitalize",
                                  "x | title",
                                  "x | string",
                                  "x | safe",
                                  "x | tojson",
                                  "l | tojson",
                                  "x | length",
                                  "x | count",
                                  "t | join",
                                  "['a', 'b'] | join(x)",
                                  "x | list",
                                  "l | first",
                                  "l | last",
                                  "t | map('upper')",
                                  "[1] | map(attribute=x) | list",
                                  "l | select('odd')",
                                  "l | reject('odd')",
                                  "l | sort",
                                  "t | unique",
                                  "l | min",
                                  "l | max",
                                  "l | sum",
                                  "n | int",
                                  "n | float",
                                  "x | reverse",
                                  "l | reverse",
                                  "lines | indent",
                                  "'a\n' | indent(x)",
                                  "x is lower",
                                  "x is upper",
                                  "x is eq x",
                                  "y is in x",
                                  "x is lt y",
                                  "x is sameas y",
                                  "raise_exception(x) if 0 else x ~ x"}) {
        INFO(operation);
        try {
            (void)looped(operation);
            FAIL_CHECK("it costs nothing");
        } catch (const Error& error) {
            CHECK_THAT(error.what(), ContainsSubstring("too much work"));
        }
    }
    // Names are as long as the template's author likes.
    const std::string name(20'000, 'q');
    for (const std::string& operation : {name, name + " is defined", "x." + name + " is defined",
                                         "dict(" + name + "=1)", "namespace(" + name + "=1)"}) {
        INFO(operation.substr(0, 20));
        if (operation.starts_with("x.")) {
            CHECK(looped(operation).empty()); // its length alone is looked at
        } else {
            CHECK_THAT(message_of([&] { (void)looped(operation); }), ContainsSubstring("too much work"));
        }
    }
}

TEST_CASE("looking for a text takes time in proportion to both texts", "[text]") {
    // By their product this would be 10^13 comparisons each.
    const std::pair<const char*, const char*> cases[] = {
        {"{{ ('a' * 4999999 ~ 'b') in 'a' * 9999999 }}", "False"},
        {"{{ ('a' * 9999999).find('a' * 4999999 ~ 'b') }}", "-1"},
        {"{{ ('a' * 9999999).count('a' * 4999999 ~ 'b') }}", "0"},
        {"{{ ('a' * 9999999).replace('a' * 4999999 ~ 'b', 'c') | length }}", "9999999"},
        {"{{ ('a' * 9999999).split('a' * 4999999 ~ 'b') | length }}", "1"},
        {"{{ ('a' * 9999999).rsplit('b' ~ 'a' * 4999999) | length }}", "1"}};
    for (const auto& [source, text] : cases) {
        INFO(source);
        CHECK(render(source) == text);
    }
}

TEST_CASE("texts are found where a plain search finds them", "[text]") {
    Random random(test::seed(3));
    const auto word = [&](size_t most) {
        std::string text;
        for (size_t n = random.below(most + 1); n > 0; --n)
            text += static_cast<char>('a' + random.below(2));
        return text;
    };
    int hits = 0;
    for (int round = 0; round < 1000; ++round) {
        const std::string text = word(40), wanted = word(5);
        int64_t count = 0;
        for (size_t at = text.find(wanted); !wanted.empty() && at != std::string::npos; ++count)
            at = text.find(wanted, at + wanted.size());
        const size_t first = text.find(wanted), last = text.rfind(wanted);
        const std::string after =
            wanted.empty() || last == std::string::npos ? text : text.substr(last + wanted.size());
        INFO(wanted << " in " << text);
        const std::string t = "'" + text + "'", w = "'" + wanted + "'";
        CHECK(render("{{ " + w + " in " + t + " }}") == (first == std::string::npos ? "False" : "True"));
        CHECK(render("{{ " + t + ".find(" + w + ") }}") ==
              (first == std::string::npos ? "-1" : std::to_string(first)));
        if (wanted.empty()) continue;
        CHECK(render("{{ " + t + ".count(" + w + ") }}") == std::to_string(count));
        CHECK(render("{{ " + t + ".split(" + w + ") | length }}") == std::to_string(count + 1));
        CHECK(render("{{ " + t + ".replace(" + w + ", '') | length }}") ==
              std::to_string(text.size() - static_cast<size_t>(count) * wanted.size()));
        CHECK(render("{{ " + t + ".rsplit(" + w + ", 1)[-1] }}") == after);
        hits += count > 0 ? 1 : 0;
    }
    CHECK(hits > 200);
    CHECK(hits < 950);
}

TEST_CASE("a call and a macro have at most a hundred arguments", "[text]") {
    const auto list = [](int count, const std::string& end) {
        std::string text;
        for (int i = 0; i < count; ++i)
            text += (i == 0 ? "a" : ", a") + std::to_string(i) + end;
        return text;
    };
    CHECK(render("{% macro f(" + list(100, "") + ") %}{{ a99 }}{% endmacro %}{{ f(" + list(100, "=7") +
                 ") }}") == "7");
    CHECK_THAT(refusal("{% macro f(" + list(101, "") + ") %}{% endmacro %}"),
               ContainsSubstring("more than 100 parameters"));
    CHECK_THAT(refusal("\n{{ namespace(" + list(101, "=1") + ") }}"),
               ContainsSubstring("line 2: more than 100 arguments"));
    CHECK_THAT(refusal("{{ 1 | default(" + list(101, "") + ") }}"),
               ContainsSubstring("more than 100 arguments"));
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

} // namespace chat_template_test
