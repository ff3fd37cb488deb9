#include "engine/base/error.h"
#include "engine/control/derive/derive_spec.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

using namespace refreshlab;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string error_of(const std::string& text) {
    try {
        static_cast<void>(parse_derive(text));
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::bad_input);
        const std::string what = error.what();
        CHECK(what.find('\n') == std::string::npos);
        return what;
    }
    FAIL("accepted: " << text);
    return {};
}

DeriveSpec random_spec(std::mt19937_64& random) {
    const auto one_in = [&](uint64_t n) { return random() % n == 0; };
    const auto layers = [&] {
        std::vector<int32_t> list;
        for (int32_t layer = 0; layer < 12; ++layer) {
            if (one_in(3)) list.push_back(layer);
        }
        return list;
    };
    DeriveSpec spec;
    if (!one_in(3)) {
        spec.bits = static_cast<int32_t>(2 + random() % 7);
        spec.group = static_cast<int32_t>(1 + random() % 300);
        spec.symmetric = one_in(2);
    }
    if (one_in(2)) {
        spec.noise = static_cast<double>(1 + random() % 1000) / 300.0;
        spec.seed = random();
    }
    if (spec.bits > 0 || spec.noise > 0) spec.only = static_cast<DeriveSpec::Only>(random() % 3);
    if (one_in(2)) spec.ffn = static_cast<double>(1 + random() % 999) / 1000.0;
    if (one_in(2)) spec.skip_attention = layers();
    if (one_in(2)) spec.skip_mlp = layers();
    if (one_in(3)) spec.skip_auto = static_cast<int32_t>(random() % 5);
    if (spec.measures() && one_in(2)) spec.text = one_in(2) ? "/texts/a.txt" : "/odd, \"dir\"\\x=y/a.txt";
    return spec;
}

constexpr ModelShape tiny{
    .layers = 4, .hidden = 64, .intermediate = 96, .heads = 4, .kv_heads = 2, .head_dim = 16, .vocab = 100};

} // namespace

TEST_CASE("a derivation comes back from its short form and from its JSON", "[control][derive]") {
    std::mt19937_64 random(refreshlab::test::seed(71));
    for (int i = 0; i < 2000; ++i) {
        const DeriveSpec spec = random_spec(random);
        INFO(derive_text(spec));
        REQUIRE_FALSE(derive_fault(spec));
        REQUIRE(parse_derive(derive_text(spec)) == spec);
        REQUIRE(derive_from_json(derive_to_json(spec), "x") == spec);
        REQUIRE(derivation_of(derivation_path(spec)) == spec);
        REQUIRE_FALSE(describe(spec).empty());
        REQUIRE_FALSE(derive_name(spec).empty());
    }
    CHECK(derive_text(parse_derive("group=32,bits=3")) == "bits=3,group=32");
    CHECK(derive_text(parse_derive("bits=3")) == "bits=3,group=32");
    CHECK(derive_text(parse_derive("skip_mlp=7+3+4+5+9")) == "skip_mlp=3-5+7+9");
    CHECK(derive_text(parse_derive("symmetric,bits=4,group=16,only=mlp")) ==
          "bits=4,group=16,symmetric,only=mlp");
    CHECK(parse_derive("") == DeriveSpec{});
    CHECK(derive_text({}).empty());
}

TEST_CASE("a derivation that makes no sense is refused by its part", "[control][derive]") {
    const std::pair<const char*, std::vector<const char*>> cases[] = {
        {"bits=1", {"bits", "from 2 to 8", "not 1"}},
        {"bits=9", {"bits", "from 2 to 8", "not 9"}},
        {"bits=three", {"bits", "three"}},
        {"bits=3.5", {"bits", "whole"}},
        {"bits", {"bits", "no value"}},
        {"bits=3,bits=4", {"bits", "twice"}},
        {"bits=3,,group=8", {"empty"}},
        {"bits=3,grup=8", {"grup", "unknown", "group"}},
        {"bits=3,group=0", {"group", "not 0"}},
        {"group=64", {"group", "without bits"}},
        {"symmetric", {"symmetric", "without bits"}},
        {"only=mlp", {"only", "bits or noise"}},
        {"bits=3,only=head", {"only", "mlp"}},
        {"ffn=0", {"ffn", "larger than 0", "not 0"}},
        {"ffn=1.5", {"ffn", "at most 1"}},
        {"ffn=-1", {"ffn"}},
        {"ffn=nan", {"ffn"}},
        {"noise=-1", {"noise"}},
        {"noise=11", {"noise", "10"}},
        {"seed=3", {"seed", "without noise"}},
        {"text=a.txt", {"text", "without ffn"}},
        {"skip_mlp=3-1", {"skip_mlp", "3-1"}},
        {"skip_mlp=a", {"skip_mlp", "joined by +"}},
        {"skip_mlp=3++4", {"skip_mlp"}},
        {"skip_mlp=3+2-5", {"skip_mlp", "layer 3", "twice"}},
        {"skip_mlp=99999999999", {"skip_mlp"}},
        {"skip_attention=-1", {"skip_attention"}},
        {"skip=4", {"skip", "auto:N", "skip_mlp=LIST"}},
        {"skip=auto:x", {"skip_auto", "whole"}},
        {"skip=auto:-1", {"skip_auto"}},
        {"text=\"a", {"quote"}},
    };
    for (const auto& [text, parts] : cases) {
        const std::string what = error_of(text);
        INFO(what);
        for (const char* part : parts)
            CHECK_THAT(what, ContainsSubstring(part));
        CHECK_THAT(what, ContainsSubstring(std::string("derive:") + text));
    }
}

TEST_CASE("a derivation is held against its teacher, field by field", "[control][derive]") {
    const auto fault = [](const std::string& text) {
        const auto found = derive_fault(parse_derive(text), &tiny);
        return found ? found->field + ": " + found->problem : std::string();
    };
    CHECK(fault("bits=3,group=32").empty());
    CHECK_THAT(fault("bits=3,group=24"),
               ContainsSubstring("group: 24 does not divide the 64 inputs of q_proj"));
    CHECK_THAT(fault("bits=3,group=64,only=mlp"), ContainsSubstring("the 96 inputs of down_proj"));
    CHECK(fault("bits=3,group=64,only=attention").empty());
    CHECK_THAT(fault("bits=3,group=128"), ContainsSubstring("128 does not divide"));
    CHECK_THAT(fault("skip_attention=4"),
               ContainsSubstring("skip_attention: layer 4 is outside the teacher's layers 0 to 3"));
    CHECK_THAT(fault("skip_mlp=0+17"), ContainsSubstring("skip_mlp: layer 17"));
    CHECK(fault("skip_mlp=0-3,skip=auto:4").empty());
    CHECK_THAT(fault("skip_mlp=0-3,skip=auto:5"),
               ContainsSubstring("skip_auto: 5 sublayers are more than the 4"));
    CHECK_THROWS_AS(check_derive(parse_derive("bits=3,group=24"), &tiny), Error);
    // What a control may set and no text can say is refused as well.
    DeriveSpec odd;
    odd.bits = 1;
    CHECK(derive_fault(odd)->field == "bits");
    odd = {};
    odd.ffn = 0;
    CHECK(derive_fault(odd)->field == "ffn");
}

TEST_CASE("names and sentences of a derivation", "[control][derive]") {
    CHECK(derive_name(parse_derive("bits=3,group=32")) == "3-bit g32");
    CHECK(derive_name(parse_derive("bits=4,group=192,only=mlp,symmetric")) == "4-bit g192 symmetric MLP");
    CHECK(derive_name(parse_derive("ffn=0.5,noise=0.02")) == "FFN 50 % + noise 0.02");
    CHECK(derive_name(parse_derive("skip_attention=1+2,skip_mlp=3")) == "without 2 attention, 1 MLP");
    CHECK(derive_name({}) == "the teacher itself");
    CHECK(pair_name("/m/SmolLM2-135M-Instruct.Q4_1.gguf", "derive:bits=3,group=32") ==
          "SmolLM2-135M-Instruct Q4_1 > 3-bit g32");
    CHECK(pair_name("/m/teacher", "/m/student/") == "teacher > student");
    CHECK(pair_name("", "/m/student") == "student");
    CHECK(shown_model("/m/llama-3.2.gguf") == "llama-3.2");
    CHECK(shown_model("/m/x.IQ3_S.gguf") == "x IQ3_S");
    CHECK(shown_model("derive:frogs=3") == "derive:frogs=3"); // of a later program
    CHECK_THAT(describe(parse_derive("bits=3,group=32")),
               ContainsSubstring("rounded to 3 bits in groups of 32"));
    CHECK_THAT(describe(parse_derive("skip=auto:2,text=/a.txt")), ContainsSubstring("/a.txt"));
}

TEST_CASE("the cost of a derivation is counted weight by weight", "[control][derive]") {
    // By hand: q and o 64 * 64, k and v 32 * 64, gate, up and down 96 * 64; 4 layers; head 100 * 64.
    constexpr int64_t qo = 2 * 64 * 64, kv = 2 * 32 * 64, mlp = 3 * 96 * 64, norms = 2 * 64;
    constexpr int64_t outside = 2 * (100 * 64 + 2 * 64);
    constexpr int64_t teacher = outside + 4 * 2 * (qo + kv + mlp + norms);
    const auto cost = [](const char* text) { return derive_cost(parse_derive(text), tiny, 4); };
    CHECK(cost("").teacher_token_bytes == teacher);
    CHECK(cost("").token_bytes == teacher);
    CHECK(cost("").own_bytes == 0);
    // 3 bits, and 2 + 2 bytes for each 32.
    constexpr int64_t rounded = (qo + kv + mlp) * 3 / 8 + (qo + kv + mlp) / 32 * 4;
    CHECK(cost("bits=3").token_bytes == outside + 4 * (rounded + 2 * norms));
    CHECK(cost("bits=3").own_bytes == 4 * 4 * (qo + kv + mlp));
    CHECK(cost("bits=3,symmetric").token_bytes ==
          outside + 4 * (rounded - (qo + kv + mlp) / 32 * 2 + 2 * norms));
    CHECK(cost("ffn=0.5").token_bytes == teacher - 4 * 2 * mlp / 2);
    CHECK(cost("ffn=0.5").own_bytes == 4 * 4 * mlp / 2);
    CHECK(cost("skip_attention=1").token_bytes == teacher - 2 * qo);
    CHECK(cost("skip_mlp=1").token_bytes == teacher - 2 * (mlp + 64));
    CHECK(cost("skip_mlp=1").own_bytes == 0);
    CHECK(kept_channels(parse_derive("ffn=0.5"), 96) == 48);
    CHECK(kept_channels(parse_derive("ffn=0.5,bits=3"), 96) == 64); // whole groups of 32: 1.5 of 3 round up
    CHECK(kept_channels(parse_derive("ffn=0.001"), 96) == 1);
    CHECK(kept_channels(parse_derive("ffn=0.001,bits=3"), 96) == 32);
    CHECK(kept_channels(parse_derive("ffn=0.999,bits=3,only=attention"), 1000) == 999);
}

TEST_CASE("a derivation that was typed is kept with absolute paths", "[control][derive]") {
    const std::filesystem::path folder = std::filesystem::path(RL_BUILD_DIR) / "scratch" / "derive-typed";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "spec.json") << R"({"ffn": 0.5, "text": "words.txt", "bits": 3})";
    const std::string wanted =
        "derive:bits=3,group=32,ffn=0.5,text=" + (folder / "words.txt").lexically_normal().string();
    CHECK(settled_model("derive:" + (folder / "spec.json").string()) == wanted);
    CHECK(settled_model("derive:spec.json",
                        [&](const std::string& file) { return (folder / file).string(); }) == wanted);
    CHECK(settled_model("derive:ffn=0.5,text=words.txt,bits=3",
                        [&](const std::string& file) { return (folder / file).string(); }) == wanted);
    CHECK(settled_model("/some/folder") == "/some/folder");
    CHECK(std::filesystem::path(derivation_of(settled_model("derive:ffn=0.5,text=words.txt")).text)
              .is_absolute());
    CHECK_THROWS_AS(settled_model("derive:nowhere.json"), Error);
    std::filesystem::remove_all(folder);
}

TEST_CASE("what came of a derivation comes back from its JSON", "[control][derive]") {
    DerivedFacts facts;
    facts.spec = parse_derive("bits=3,skip=auto:2");
    facts.skip_attention = {1};
    facts.skip_mlp = {0, 3};
    facts.own_bytes = 5;
    facts.shared_bytes = 6;
    facts.token_bytes = 7;
    facts.teacher_token_bytes = 8;
    facts.changed_tensors = 9;
    CHECK(derived_facts_from_json(to_json(facts), "x") == facts);
    CHECK_FALSE(facts.is_teacher());
    CHECK(DerivedFacts{}.is_teacher());
    nlohmann::json wrong = to_json(facts);
    wrong["own_bytes"] = -1;
    CHECK_THROWS_AS(derived_facts_from_json(wrong, "x"), Error);
}
