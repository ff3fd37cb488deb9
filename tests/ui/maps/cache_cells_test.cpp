#include "tests/engine/record/random_recording.h"
#include "tests/support/seed.h"
#include "tests/ui/maps/evicting_run.h"
#include "ui/scene/attention/read_history.h"
#include "ui/scene/maps/cache_cells.h"
#include "ui/scene/text/gone_tokens.h"

#include <catch2/catch_test_macros.hpp>

#include <random>

namespace cache_cells_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;

TEST_CASE("cells say what became of an entry, row by row and head by head", "[ui][cache]") {
    const auto recording = evicting_run();
    const CacheState two = cache_state(*recording, 2, false);
    const CellPalette palette{0xFF000010U, 0xFF000020U, 0xFF000030U, 0xFF000040U, 0xFF000050U, 0U};
    const auto rgba = EntryColours().update(two, {{}, 1, palette});
    REQUIRE(rgba.size() == 2 * 6);
    CHECK(rgba[0] == 0xFF000050U);     // layer 0 has let go of position 0 in both heads
    CHECK(rgba[1] == 0xFF000040U);     // merged
    CHECK(rgba[6] == 0xFF000030U);     // one head reads it, one has evicted it: the colour between
    CHECK(rgba[6 + 2] == 0xFF000020U); // held, and not read
    const auto heads = EntryColours().update(two, {{1}, 1, palette});
    CHECK(heads[0] == 0xFF000010U);
    CHECK(heads[6] == 0xFF000050U);
    // Three positions in one: their mean.
    CHECK(EntryColours().update(two, {{0}, 3, palette})[0] ==
          (0xFF000000U | ((0x50U + 0x40U + 0x10U + 1) / 3)));
    const auto counts = count_rows(two, {});
    CHECK(counts[0].held == 4);
    CHECK(counts[1].held == 4.5);
    CHECK(counts[1].attended == 3.5);
    const auto present = cells_present(two);
    CHECK(present[static_cast<size_t>(CacheCell::merged)]);
    CHECK_FALSE(present[static_cast<size_t>(CacheCell::encoded)]);
    CHECK(cell_text(two, {}, 0, 0, {"H2O"}) == "\nLayer 0: evicted by H2O after the prompt");
    CHECK(cell_text(two, {1}, 1, 0, {"H2O"}) == "\nLayer 1, KV head 1: evicted by H2O at step 2");
    CHECK(cell_text(two, {}, 1, 2, {"H2O"}) == "\nLayer 1: held, not read since step 2");
    CHECK(cell_text(two, {}, 1, 0, {"H2O"}).find("KV head 0: attended") != std::string::npos);
}

TEST_CASE("the colours of a cache that goes on are those of the cache seen at once", "[ui][cache]") {
    std::mt19937_64 random(seed(0xCE11));
    CellPalette palette;
    for (uint32_t& colour : palette)
        colour = static_cast<uint32_t>(random());
    for (int round = 0; round < 6; ++round) {
        Grower grower(random());
        const auto recording = grower.start();
        const bool teacher = recording->info().config.mode == Mode::teacher;
        CacheState cache(*recording, teacher);
        EntryColours all, layer, wide;
        for (int64_t steps = 0; steps < 60;) {
            const auto more = static_cast<int64_t>(1 + random() % 5);
            grower.grow(*recording, more);
            steps += more;
            cache.advance(*recording,
                          steps - static_cast<int64_t>(random() % 2)); // its events may come later
            const auto check = [&](EntryColours& colours, const EntryColours::Of& of) {
                const auto goes_on = colours.update(cache, of);
                CHECK(goes_on == EntryColours().update(cache_state(*recording, cache.step(), teacher), of));
            };
            check(all, {{}, 1, palette, 0});
            check(layer, {{0}, 2, palette, 0});
            check(wide, {{}, 1 + steps / 20, palette, 0});
        }
    }
}

TEST_CASE("a cell tells the score that it was kept with, or went with", "[ui][cache]") {
    const auto recording = evicting_run();
    const CacheState two = cache_state(*recording, 2, false);
    EntryScores scores(4);
    const CacheJudge judge{"H2O", &scores};
    const std::vector<int64_t> positions{0, 3};
    scores.set(3, 2, positions, std::vector<float>{0.25F, 0.5F}); // layer 1, KV head 1
    CHECK(cell_text(two, {1}, 1, 0, judge) == "\nLayer 1, KV head 1: evicted by H2O at step 2, score 0.25");
    CHECK(cell_text(two, {1}, 1, 3, judge) == "\nLayer 1, KV head 1: attended, score 0.5 at step 2");
    CHECK(cell_text(two, {}, 0, 0, judge) == "\nLayer 0: evicted by H2O after the prompt"); // no score told
    scores.set(3, 5, positions, std::vector<float>{7, 8}); // what a later step thinks is no matter here
    CHECK(cell_text(two, {1}, 1, 0, judge).find("score") == std::string::npos);

    // Of an engine elsewhere: what has not come is no missing score.
    EntryScores far(4);
    far.come_on_demand();
    const CacheJudge judge_there{"H2O", &far};
    CHECK(cell_text(two, {1}, 1, 3, judge_there).find("Scores: not here yet") != std::string::npos);
    far.put_column(3, std::vector<EntryScores::Score>{{}, {}, {}, {0.5F, 2}});
    CHECK(cell_text(two, {1}, 1, 3, judge_there) == "\nLayer 1, KV head 1: attended, score 0.5 at step 2");
    CHECK(cell_text(two, {}, 0, 3, judge_there).find("not here") == std::string::npos); // it has come: none
}

TEST_CASE("the meter counts entries and their index against a full cache", "[ui][cache]") {
    const auto recording = evicting_run();
    const CacheMeter meter = cache_meter(*recording, cache_state(*recording, 2, false));
    CHECK(meter.entries == (4 + 4.5) / 2);
    CHECK(meter.full_bytes ==
          int64_t{6} * 2 * 2 * 2 * 8 * 4); // positions, K and V, layers, KV heads, channels, fp32
    CHECK(meter.index_bytes == 17 * 16);
    CHECK(meter_text(meter).find("of a full cache; index") != std::string::npos);
}

TEST_CASE("a token is gone when the last layer has given it up", "[ui][cache][text]") {
    const auto recording = evicting_run();
    GoneTokens gone;
    gone.update(*recording, 0);
    CHECK_FALSE(gone.any());
    gone.update(*recording, 1);
    CHECK(gone.gone_at(1) == 1);
    CHECK_FALSE(gone.gone_at(0)); // layer 1 still holds it
    gone.update(*recording, 3);
    CHECK_FALSE(gone.gone_at(0)); // so does one of its heads
    CHECK_FALSE(gone.gone_at(6));
    CHECK_FALSE(gone.gone_at(99));
    gone.update(*recording, 0); // back
    CHECK_FALSE(gone.any());
}

TEST_CASE("what was not read is known at every step, and marked where its weight is nothing",
          "[ui][attention]") {
    const auto recording = evicting_run();
    ReadHistory history;
    CHECK(history.all_read());
    history.update(*recording);
    CHECK_FALSE(history.all_read());
    CHECK(history.kv_head_of(3) == 1);
    CHECK(history.why_unread(1, 0, 2, 1).empty());
    CHECK(history.why_unread(1, 0, 2, 2) == "held, but not read");
    CHECK(history.why_unread(1, 0, 2, 3).empty());
    CHECK(history.why_unread(0, 0, 0, 1) == "evicted after the prompt");
    CHECK(history.why_unread(1, 1, 0, 3) == "evicted at step 2");
    CHECK(history.why_unread(1, 0, 0, 3).empty());
    CHECK(history.why_unread(0, 1, 1, 2) == "merged into others at step 1");
    using Spans = std::vector<ReadHistory::StepSpan>;
    Spans read;
    history.read_steps(1, 0, 2, 1, 3, read);
    CHECK(read == Spans{{1, 1}, {3, 3}});
    history.read_steps(1, 0, 2, 2, 2, read);
    CHECK(read.empty());
    for (int64_t layer = 0; layer < 2; ++layer)
        for (int64_t head = 0; head < 2; ++head)
            for (int64_t key = 0; key < 8; ++key)
                for (int64_t first = -1; first <= 4; ++first)
                    for (int64_t last = first - 1; last <= 4; ++last) {
                        history.read_steps(layer, head, key, first, last, read);
                        for (int64_t step = first; step <= last; ++step)
                            CHECK(history.is_unread(layer, head, key, step) ==
                                  std::ranges::none_of(read, [&](const auto& span) {
                                      return step >= span.first && step <= span.last;
                                  }));
                        for (const auto& span : read)
                            CHECK((span.first >= first && span.last <= last && span.first <= span.last));
                    }

    // Rows of steps 1 to 3 in layer 1: a weight of nothing on position 2 at every step.
    for (int64_t step = 1; step <= 3; ++step) {
        AttentionRows rows;
        rows.position = 3 + step;
        rows.step = step;
        rows.heads = 4;
        rows.keys = 4 + step;
        rows.layers = {0, 1};
        rows.weights.assign(static_cast<size_t>(2 * 4 * rows.keys), float_to_half(0.25F));
        for (size_t head = 0; head < 8; ++head)
            rows.weights[head * static_cast<size_t>(rows.keys) + 2] = 0;
        recording->add_attention(std::make_shared<const AttentionRows>(rows));
    }
    AttentionMap map;
    map.update(*recording, {AttentionOf::student, {4, 6}, {1}, {0}, 64, 64});
    REQUIRE(map.columns() == 7);
    std::vector<uint32_t> colours(map.cells(0, 0).size(), 1);
    mark_unread(history, map, 0, 0, 4, 7, colours);
    CHECK(colours[2] == 1);     // read, with no weight
    CHECK(colours[7 + 2] == 7); // not read
    CHECK(colours[14 + 2] == 1);
    CHECK(colours[7 + 1] == 1); // merged away at step 1, but its weight says that it was read
}

TEST_CASE("a quantised entry tells the bits of its layer's codes", "[ui][cache]") {
    const auto grown = evicting_run();
    const RunInfo info = grown->info();
    auto recording = made_run(info);
    const int64_t numbers = 2 * info.head_dim, entry = numbers * 4; // f32
    CacheEvent prompt = cache_event(0, CacheChange::appended, -1, -1, {{0, 4}});
    prompt.bytes = {4 * 2 * entry};
    recording->add_cache_event(std::move(prompt));
    constexpr int64_t codes = 8; // bytes of an entry: 2 bits a number, and as much for scales
    CacheEvent encoded = cache_event(0, CacheChange::encoded, 0, 0, {{1, 2}});
    encoded.bytes = {4 * 2 * entry - 2 * entry + 2 * codes, 4 * 2 * entry};
    recording->add_cache_event(std::move(encoded));
    append_step(*recording);
    const CacheState cache = cache_state(*recording, 1, false);
    CHECK(bits_a_number(cache, 0, numbers, entry) == 4.0);
    CHECK_FALSE(bits_a_number(cache, 1, numbers, entry)); // nothing there is encoded
    CHECK_FALSE(bits_a_number(cache, 0, 0, 0));           // nobody has said what an entry is
    const CacheJudge judge{"KIVI", nullptr, numbers, entry};
    CHECK(cell_text(cache, {0}, 0, 1, judge) ==
          "\nLayer 0, KV head 0: quantised, 4 bits a number with scales (mean of the layer)");
    CHECK(cell_text(cache, {0}, 0, 0, judge) == "\nLayer 0, KV head 0: attended");
    CHECK(cell_text(cache, {0}, 1, 1, judge) == "\nLayer 0, KV head 1: attended");
}

} // namespace cache_cells_test
