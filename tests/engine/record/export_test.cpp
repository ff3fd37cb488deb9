#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/record/export/export.h"
#include "engine/record/export/metrics.h"
#include "engine/record/trace/trace_store.h"
#include "tests/engine/record/random_recording.h"
#include "tests/support/made_run.h"
#include "tests/support/seed.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <tuple>

namespace export_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using Row = std::vector<std::string>;

namespace {

/// A reader of RFC 4180 that knows nothing of the writer.
std::vector<Row> read_csv(const std::filesystem::path& path) {
    const std::string text = read_file(path);
    std::vector<Row> rows;
    Row row;
    std::string field;
    bool quoted = false;
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quoted) {
            if (c != '"') {
                field += c;
            } else if (i + 1 < text.size() && text[i + 1] == '"') {
                field += text[++i];
            } else {
                quoted = false;
            }
        } else if (c == '"') {
            quoted = true;
        } else if (c == ',') {
            row.push_back(std::exchange(field, {}));
        } else if (c == '\r') {
            REQUIRE(text.at(i + 1) == '\n');
            ++i;
            row.push_back(std::exchange(field, {}));
            rows.push_back(std::exchange(row, {}));
        } else {
            REQUIRE(c != '\n');
            field += c;
        }
    }
    REQUIRE(row.empty());
    REQUIRE(field.empty());
    for (const Row& r : rows)
        REQUIRE(r.size() == rows[0].size());
    return rows;
}

/// The float of a field, absent() for an empty one.
float number(const std::string& field) {
    if (field.empty()) return absent();
    char* end = nullptr;
    const float value = std::strtof(field.c_str(), &end);
    REQUIRE(*end == '\0');
    return value;
}

std::shared_ptr<Recording> with_tokens(const std::vector<int32_t>& y, const std::string& stop,
                                       TextRule rule = {}) {
    RunInfo info = Grower(1).start()->info();
    info.first_token = y.empty() ? 299 : y[0];
    info.ttft_ms = 100;
    info.text_rule = rule;
    auto recording = std::make_shared<Recording>(info, std::make_shared<ByteTokens>());
    for (size_t i = 0; i < y.size(); ++i) {
        const bool last = i + 1 == y.size();
        StepRecord record = next_record(*recording, !last ? y[i + 1] : stop == "stop_token" ? 299 : -1);
        record.arrival_ms = 100 + 10 * static_cast<double>(i + 1);
        recording->append(record);
    }
    const double total = 100 + 10 * static_cast<double>(y.empty() ? 0 : y.size() - 1);
    recording->set_end({stop, total, std::nullopt, std::nullopt});
    return recording;
}

} // namespace

TEST_CASE("the CSV files say what the recording holds", "[record]") {
    const uint64_t seed = test::seed(1);
    INFO("seed " << seed);
    TemporaryFolder folder;
    Grower grower(seed);
    const auto recording = grower.start();
    grower.grow(*recording, 60);
    const bool finished = seed % 2 == 0;
    if (finished) grower.finish(*recording);
    const Recording& r = *recording;
    export_csv(r, folder / "deep/er");

    const auto steps = read_csv(folder / "deep/er/steps.csv");
    Row header{"step", "position", "token_id", "text", "logprob"};
    for (const Signal& signal : r.signals()) {
        if (signal.name != "logprob") header.emplace_back(signal.name);
    }
    header.insert(header.end(), {"refreshed", "reason"});
    CHECK(steps[0] == header);
    REQUIRE(steps.size() == static_cast<size_t>(r.steps()) + 1);
    for (int64_t t = 1; t <= r.steps(); ++t) {
        const Row& row = steps[static_cast<size_t>(t)];
        REQUIRE(row[0] == std::to_string(t));
        REQUIRE(row[1] == std::to_string(r.prompt_length() + t - 1));
        REQUIRE(row[2] == std::to_string(r.token(t)));
        for (size_t column = 4; column + 2 < header.size(); ++column) {
            INFO("step " << t << " " << header[column] << " '" << row[column] << "'");
            REQUIRE(same_bits(number(row[column]), r.signal(t, *r.signal_id(header[column]))));
        }
        const RefreshEvent* refresh = r.refresh_at(t);
        REQUIRE(row[header.size() - 2] == (refresh != nullptr && refresh->spliced > 0 ? "1" : "0"));
        REQUIRE(row.back() == (refresh != nullptr ? reason_text(refresh->hits) : ""));
    }

    const auto candidates = read_csv(folder / "deep/er/topk.csv");
    CHECK(candidates[0] == Row{"step", "rank", "token_id", "text", "prob"});
    size_t line = 1;
    for (int64_t t = 1; t <= r.steps(); ++t) {
        for (size_t rank = 0; rank < r.step(t).top_k; ++rank, ++line) {
            const Row& row = candidates.at(line);
            REQUIRE(row[0] == std::to_string(t));
            REQUIRE(row[1] == std::to_string(rank + 1));
            REQUIRE(row[2] == std::to_string(r.step(t).top_ids[rank]));
            REQUIRE(same_bits(number(row[4]), r.step(t).top_probs[rank]));
        }
    }
    CHECK(line == candidates.size());

    const auto events = read_csv(folder / "deep/er/events.csv");
    CHECK(events[0] == Row{"step", "kind", "reason", "automatic", "delta", "first_pos", "spliced",
                           "pass_tokens", "on_fire", "token_before", "token_after", "kl_nats", "mean_drift",
                           "teacher_ms", "splice_ms", "redraw_ms", "fired_step", "bytes_sent", "detail"});
    size_t refreshes = 0, passes = 0, commands = 0;
    int64_t last_step = 0;
    for (size_t i = 1; i < events.size(); ++i) {
        const Row& row = events[i];
        REQUIRE(std::stoll(row[0]) >= last_step);
        last_step = std::stoll(row[0]);
        if (row[1] == "refresh") {
            const RefreshEvent& e = r.refreshes()[refreshes++];
            CHECK(row[0] == std::to_string(e.step));
            CHECK(row[2] == reason_text(e.hits));
            CHECK(row[3] == (e.automatic ? "1" : "0"));
            CHECK(row[4] == std::to_string(e.delta));
            CHECK(row[6] == std::to_string(e.spliced));
            CHECK(row[16] == std::to_string(e.fired_step));
            CHECK(row[8] == to_string(e.on_fire));
            CHECK(row[17] == (e.bytes_sent ? std::to_string(*e.bytes_sent) : ""));
            CHECK(same_bits(number(row[11]), e.kl_nats));
            CHECK(std::strtod(row[13].c_str(), nullptr) == e.teacher_ms);
            CHECK(nlohmann::json::parse(row[18]).at(0).at("threshold") == e.hits[0].threshold);
        } else if (row[1] == "pass") {
            const PassEvent& e = r.passes()[passes++];
            CHECK(row[5] == std::to_string(e.first_pos));
            CHECK(row[7] == std::to_string(e.tokens));
            CHECK(same_bits(number(row[11]), e.kl_nats));
            CHECK(row[4].empty());
        } else {
            CHECK(row[1] == "command");
            CHECK(row[18] == r.commands()[commands++].json);
            CHECK(row[11].empty());
        }
    }
    CHECK(refreshes == r.refreshes().size());
    CHECK(passes == r.passes().size());
    CHECK(commands == r.commands().size());

    const auto drift = read_csv(folder / "deep/er/drift.csv");
    CHECK(drift[0] ==
          Row{"refresh", "step", "layer", "position", "k_relative", "v_relative", "k_max_abs", "v_max_abs"});
    line = 1;
    for (size_t i = 0; i < r.drifts().size(); ++i) {
        const DriftMap& map = *r.drifts()[i];
        for (int64_t layer = 0; layer < map.layers; ++layer) {
            for (int64_t p = 0; p < map.positions; ++p, ++line) {
                const auto at = static_cast<size_t>(layer * map.positions + p);
                const Row& row = drift.at(line);
                REQUIRE(row[0] == std::to_string(map.refresh_id));
                REQUIRE(row[2] == std::to_string(layer));
                REQUIRE(row[3] == std::to_string(map.first_pos + p));
                REQUIRE(same_bits(number(row[4]), map.k[at]));
                REQUIRE(same_bits(number(row[7]), map.v_max[at]));
            }
        }
    }
    CHECK(line == drift.size());

    const auto drafts = read_csv(folder / "deep/er/drafts.csv");
    CHECK(drafts[0] == Row{"step", "refresh", "place", "position", "token_id", "text", "stays", "p_teacher",
                           "p_student", "expected", "instead_id", "instead_text"});
    line = 1;
    for (size_t i = 0; i < r.drafts().size(); ++i) {
        const DraftEvent& draft = r.drafts()[i];
        for (size_t place = 0; place < draft.tokens.size(); ++place, ++line) {
            const Row& row = drafts.at(line);
            const DraftToken& token = draft.tokens[place];
            const auto accepted = static_cast<size_t>(draft.accepted());
            REQUIRE(row[0] == std::to_string(draft.step));
            REQUIRE(row[2] == std::to_string(place + 1));
            REQUIRE(row[3] == std::to_string(draft.first_pos + static_cast<int64_t>(place)));
            REQUIRE(row[4] == std::to_string(token.token_id));
            REQUIRE(row[6] == (place < accepted ? "1" : "0"));
            REQUIRE(same_bits(number(row[7]), token.p_teacher));
            REQUIRE(same_bits(number(row[9]), token.expected));
            REQUIRE(row[10] == (place == accepted ? std::to_string(draft.instead) : ""));
        }
    }
    CHECK(line == drafts.size());
    CHECK(line > 5);

    const auto layers = read_csv(folder / "deep/er/layers.csv");
    CHECK(layers[0] == Row{"step", "signal", "layer", "value"});
    line = 1;
    for (int64_t t = 1; t <= r.steps(); ++t) {
        for (size_t id = 0; id < r.signals().size(); ++id) {
            const auto values = r.layer_values(t, id);
            for (size_t layer = 0; layer < values.size(); ++layer) {
                if (is_absent(values[layer])) continue;
                const Row& row = layers.at(line++);
                REQUIRE(row[0] == std::to_string(t));
                REQUIRE(row[1] == r.signals()[id].name);
                REQUIRE(row[2] == std::to_string(layer));
                REQUIRE(same_bits(number(row[3]), values[layer]));
            }
        }
    }
    CHECK(line == layers.size());
    CHECK(line > 100);

    // Read back, the rows of cache.csv are the events.
    const auto cache = read_csv(folder / "deep/er/cache.csv");
    CHECK(cache[0] == Row{"step", "cache", "change", "layer", "kv_head", "first_pos", "positions", "origin",
                          "refresh", "bytes_per_layer"});
    std::vector<Row> expected;
    for (size_t i = 0; i < r.cache_entries().size(); ++i) {
        for (int64_t k = 0; k < r.cache_entries()[i].steps(); ++k) {
            const CacheEvent e = r.cache_entries()[i].event(k);
            const auto index = [](int64_t v) { return v < 0 ? std::string() : std::to_string(v); };
            std::string bytes;
            for (const int64_t held : e.bytes)
                bytes += (bytes.empty() ? "" : ";") + std::to_string(held);
            for (const PositionRange& range : e.positions) {
                expected.push_back({std::to_string(e.step), e.teacher ? "teacher" : "student",
                                    std::string(to_string(e.change)), index(e.layer), index(e.kv_head),
                                    std::to_string(range.first), std::to_string(range.n),
                                    e.origin == Origin::none ? "" : origin_name(e.origin),
                                    index(e.refresh_id), bytes});
            }
        }
    }
    for (size_t i = 2; i < cache.size(); ++i)
        REQUIRE(std::stoll(cache[i - 1][0]) <= std::stoll(cache[i][0]));
    std::vector<Row> rows(cache.begin() + 1, cache.end());
    std::ranges::sort(rows);
    std::ranges::sort(expected);
    CHECK(rows == expected);
    CHECK(rows.size() > 60);

    const auto meta = read_json_file(folder / "deep/er/meta.json");
    CHECK(meta.at("kernel_set") == "portable");
    CHECK(meta.at("rebuild") == true);
    CHECK(meta.at("prompt") == r.info().config.prompt);
    CHECK(meta.at("prompt_token_ids") == r.info().prompt_ids);
    CHECK(meta.at("token_ids") == r.token_ids());
    CHECK(run_config_from_json(meta.at("config"), "meta") == r.info().config);
    CHECK(meta.at("commands").size() == commands);
    CHECK(meta.at("stop_reason").is_null() == !finished);
    CHECK(meta.at("text") == generated_text(r));
}

TEST_CASE("a run without layers and cache events has no tables of them, and an earlier export's go",
          "[record]") {
    TemporaryFolder folder;
    Grower grower(5);
    const auto recording = grower.start();
    grower.grow(*recording, 20);
    export_csv(*recording, folder / "out");
    CHECK(std::filesystem::exists(folder / "out/layers.csv"));
    CHECK(std::filesystem::exists(folder / "out/cache.csv"));
    export_csv(*with_tokens({1, 2, 3}, "max_tokens"), folder / "out");
    CHECK_FALSE(std::filesystem::exists(folder / "out/layers.csv"));
    CHECK_FALSE(std::filesystem::exists(folder / "out/cache.csv"));
    CHECK(std::filesystem::exists(folder / "out/steps.csv"));
    std::atomic<bool> cancelled{true};
    CHECK_FALSE(export_csv(*recording, folder / "out", &cancelled));
    CHECK_FALSE(std::filesystem::exists(folder / "out/cache.csv"));
}

TEST_CASE("a published signal can be exported as it is plotted, and has its mean in the summary",
          "[record]") {
    TemporaryFolder folder;
    Grower grower(6);
    const auto recording = grower.start();
    StepRecord record = next_record(*recording, recording->token(1));
    const size_t id = *recording->signal_id("kept_positions");
    LayerValues layers;
    StepValues(record.signals, layers).set_layers(id, std::vector<float>{1, 2, 6});
    recording->append(record, layers);
    const std::vector<PlottedSignal> plotted{{id}};
    REQUIRE(export_plotted(*recording, folder / "p.csv", 1, 1, plotted));
    const auto rows = read_csv(folder / "p.csv");
    CHECK(rows.at(0) == Row{"step", "kept_positions", "refreshed", "reason"});
    CHECK(rows.at(1).at(1) == "3");
    const auto summary = summary_json(*recording);
    CHECK(summary.at("published_means").at("kept_positions") == 3.0);
    CHECK(summary.at("published_means").at("cache_megabytes").is_null());
    CHECK(summary.at("kernel_set") == "portable");
    CHECK(summary.at("rebuild") == true);
}

TEST_CASE("what is plotted is exported as the same numbers as steps.csv has, and nothing else",
          "[record][EX4]") {
    const uint64_t seed = test::seed(7);
    INFO("seed " << seed);
    TemporaryFolder folder;
    Grower grower(seed);
    const auto recording = grower.start();
    grower.grow(*recording, 70);
    export_csv(*recording, folder / "all");
    const auto all = read_csv(folder / "all/steps.csv");
    const auto column = [&](const std::string& name) {
        return static_cast<size_t>(std::ranges::find(all[0], name) - all[0].begin());
    };
    const auto check = [&](std::vector<std::string> names, const Row& header, int64_t first, int64_t last) {
        std::vector<PlottedSignal> plotted;
        for (const auto& name : names)
            plotted.push_back({*signal_id(name)});
        REQUIRE(export_plotted(*recording, folder / "p.csv", first, last, plotted));
        const auto rows = read_csv(folder / "p.csv");
        REQUIRE(rows[0] == header);
        const int64_t from = std::max<int64_t>(first, 1), to = std::min(last, recording->steps());
        REQUIRE(rows.size() == static_cast<size_t>(std::max<int64_t>(0, to - from + 1)) + 1);
        for (size_t i = 1; i < rows.size(); ++i)
            for (size_t c = 0; c < header.size(); ++c)
                REQUIRE(rows[i][c] == all[static_cast<size_t>(from) + i - 1][column(header[c])]);
    };
    check({"kl_nats", "entropy_bits"}, {"step", "kl_nats", "entropy_bits", "refreshed", "reason"}, 11, 42);
    // The band of a mean is plotted, so it is a column, but never twice.
    check({"mc_entropy_bits"}, {"step", "mc_entropy_bits", "mc_entropy_sd_bits", "refreshed", "reason"}, -5,
          999);
    check({"mc_entropy_sd_bits", "mc_entropy_bits"},
          {"step", "mc_entropy_sd_bits", "mc_entropy_bits", "refreshed", "reason"}, 70, 70);
    check({"drift"}, {"step", "drift", "refreshed", "reason"}, 71, 80); // no step there: the header alone
}

TEST_CASE("an export of what is plotted replaces tables and nothing else", "[record][EX4]") {
    TemporaryFolder folder;
    const auto recording = with_tokens({1, 2, 3}, "max_tokens");
    const std::vector<PlottedSignal> plotted{{*signal_id("entropy_bits")}};
    REQUIRE(export_plotted(*recording, folder / "a.csv", 1, 1, plotted));
    REQUIRE(export_plotted(*recording, folder / "a.csv", 1, 3, plotted)); // its own kind
    CHECK(read_csv(folder / "a.csv").size() == 4);
    REQUIRE(save_trace(folder / "run.csv", recording)); // a trace, whatever its name
    std::ofstream(folder / "prompts.csv") << "prompt,answer\n";
    for (const char* name : {"run.csv", "prompts.csv"}) {
        const std::string before = read_file(folder / name);
        try {
            export_plotted(*recording, folder / name, 1, 3, plotted);
            FAIL("no error");
        } catch (const Error& e) {
            CHECK_THAT(e.what(), ContainsSubstring(name));
            CHECK_THAT(e.what(), ContainsSubstring("not replaced"));
        }
        CHECK(read_file(folder / name) == before);
    }
    CHECK_THROWS_AS(export_plotted(*recording, folder / "no/such/a.csv", 1, 3, plotted), Error);
    const std::atomic<bool> cancelled = true;
    CHECK_FALSE(export_plotted(*recording, folder / "b.csv", 1, 3, plotted, &cancelled));
    CHECK_FALSE(std::filesystem::exists(folder / "b.csv"));
}

TEST_CASE("text of tokens is UTF-8, other bytes are escaped, and quotes survive", "[record]") {
    TemporaryFolder folder;
    const auto recording = with_tokens({'a', 0, 0xC3, '"', ',', '\n', 256, 298, '\\'}, "max_tokens");
    export_csv(*recording, folder.path());
    const auto rows = read_csv(folder / "steps.csv");
    const Row expected{"a", "\\x00", "\\xC3", "\"", ",", "\n", " w\u00f6rd256,\"", "<|begin|>", "\\"};
    REQUIRE(rows.size() == expected.size() + 1);
    for (size_t i = 0; i < expected.size(); ++i)
        CHECK(rows[i + 1][3] == expected[i]);
}

TEST_CASE("an export that cannot be written is an error", "[record]") {
    TemporaryFolder folder;
    const auto recording = with_tokens({1, 2}, "max_tokens");
    std::ofstream(folder / "file") << "x";
    CHECK_THROWS_AS(export_csv(*recording, folder / "file"), Error);
    CHECK_THROWS_AS(export_csv(*recording, folder / "file/below"), Error);
    std::filesystem::create_directories(folder / "taken/steps.csv");
    try {
        export_csv(*recording, folder / "taken");
        FAIL("no error");
    } catch (const Error& e) {
        CHECK_THAT(e.what(), ContainsSubstring("steps.csv"));
    }
}

TEST_CASE("the characters of a summary are those of its text, whatever bytes it was decoded from",
          "[record]") {
    // The two bytes of a cut character are one U+FFFD, the two that can never start one are two.
    const auto s = summary_json(*with_tokens({'h', 0xE2, 0x82, 'x', 0xFF, 0xFF, 298}, "max_tokens"));
    CHECK(s.at("text") == "h\ufffdx\ufffd\ufffd");
    CHECK(s.at("characters") == 5);
}

TEST_CASE("the text of a summary is decoded by its tokenizer's rule, from a trace as well", "[record]") {
    const TemporaryFolder folder;
    const std::vector<int32_t> y{' ', ' ', 'a', 0xE4, 0xBD, 'b', ' '}; // two bytes of three
    const std::tuple<TextRule, const char*, int> cases[] = {{{}, "  a\ufffdb ", 6},
                                                            {{1, false}, " a\ufffdb ", 5},
                                                            {{1, true}, " a\ufffd\ufffdb ", 6},
                                                            {{7, true}, "a\ufffd\ufffdb ", 5}};
    for (const auto& [rule, text, characters] : cases) {
        CAPTURE(rule.leading_spaces, rule.byte_fallback);
        const auto recording = with_tokens(y, "max_tokens", rule);
        std::filesystem::remove(folder / "run.rlt");
        REQUIRE(save_trace(folder / "run.rlt", recording));
        const auto loaded = load_trace(folder / "run.rlt").at(0);
        CHECK(loaded->info().text_rule == rule);
        for (const auto& one :
             {std::shared_ptr<const Recording>(recording), std::shared_ptr<const Recording>(loaded)}) {
            CHECK(summary_json(*one).at("text") == text);
            CHECK(summary_json(*one).at("characters") == characters);
        }
    }
}

TEST_CASE("the summary follows its definitions", "[record]") {
    // "h\u00e9" in two tokens, a special token that is no text, then a byte that is no UTF-8.
    const std::vector<int32_t> y{'h', 0xC3, 0xA9, 298, 0xFF};
    const auto recording = with_tokens(y, "max_tokens");
    const size_t entropy = *signal_id("entropy_bits");
    const float values[] = {1.0F, absent(), std::numeric_limits<float>::quiet_NaN(), 4.0F};
    recording->back_fill(entropy, 1, values);
    for (int i = 0; i < 3; ++i) {
        RefreshEvent e;
        e.step = i + 1;
        e.spliced = i; // the first reads only
        e.delta = i + 2;
        e.hits = {{0, "entropy_bits", 7, 6, 'E'}};
        recording->add_refresh(e);
        PassEvent pass;
        pass.tokens = 10 + i;
        recording->add_pass(pass);
    }
    const auto s = summary_json(*recording);
    CHECK(s.at("tokens") == 5);
    CHECK(s.at("text") == "h\u00e9\ufffd");
    CHECK(s.at("characters") == 3);
    CHECK(s.at("mode") == "overfill");
    CHECK(s.at("policy") == "entropy");
    CHECK(s.at("stop_reason") == "max_tokens");
    CHECK(s.at("refreshes").size() == 3);
    CHECK(s.at("refreshes")[1].at("reason") == reason_text(recording->refreshes()[1].hits));
    CHECK(s.at("refreshes")[1].at("delta") == 3);
    CHECK(s.at("refreshes")[1].at("kl_nats").is_null());
    CHECK(s.at("refresh_count") == 2);
    CHECK(s.at("teacher_passes") == 3);
    CHECK(s.at("teacher_tokens") == 33);
    CHECK(s.at("ttft_ms") == 100);
    CHECK(s.at("decode_tps").get<double>() == Approx(4 / 0.040)); // t_5 - t_1 = 40 ms
    CHECK(s.at("total_s").get<double>() == Approx(0.140));
    CHECK(s.at("end_to_end_tps").get<double>() == Approx(5 / 0.140));
    CHECK(s.at("mean_entropy_bits").get<double>() == Approx(2.5));
    CHECK(s.at("teacher_ppl").is_null());
    CHECK(s.at("tail_logprob").is_null());
    CHECK(s.at("repetition3") == repetition3(y));
    CHECK(s.at("seed") == recording->info().config.seed);
    CHECK(s.at("versions").at("libtorch") == "2.11.0");
    CHECK(s.at("threads") == 2);

    const std::string table = summary_table(*recording);
    CHECK_THAT(table, ContainsSubstring("decode                   100 tokens/s"));
    CHECK_THAT(table, ContainsSubstring(reason_text(recording->refreshes()[1].hits)));
    CHECK_THAT(table, ContainsSubstring("teacher perplexity       -"));
}

TEST_CASE("the end token is in no number of the summary", "[record]") {
    const auto s = summary_json(*with_tokens({'a', 'b', 'c'}, "stop_token"));
    CHECK(s.at("tokens") == 3);
    CHECK(s.at("text") == "abc");
    CHECK(s.at("decode_tps").get<double>() == Approx(2 / 0.020));
}

TEST_CASE("numbers that do not exist are null", "[record]") {
    for (const auto& recording : {with_tokens({'a'}, "max_tokens"), with_tokens({}, "stop_token")}) {
        const auto s = summary_json(*recording);
        CHECK(s.at("decode_tps").is_null());
        CHECK(s.at("mean_entropy_bits").is_null());
        CHECK(s.at("repetition3") == 0);
        CHECK_NOTHROW(summary_table(*recording));
    }
    const auto none = summary_json(*with_tokens({}, "stop_token"));
    CHECK(none.at("tokens") == 0);
    CHECK(none.at("text") == "");
    CHECK(none.at("end_to_end_tps").is_null());
    CHECK(none.at("ttft_ms").is_null());
}

} // namespace export_test
