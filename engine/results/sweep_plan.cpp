#include "engine/results/sweep_plan.h"

#include "engine/base/error.h"
#include "engine/text/digest.h"

#include <bit>
#include <charconv>
#include <unordered_set>

namespace refreshlab {

std::string SweepPlan::digest(bool ids) const {
    Digest digest;
    digest.add("refreshlab sweep plan 1");
    digest.add(name);
    digest.add(models.teacher);
    digest.add(models.student);
    digest.add(models.device);
    for (const Row& row : rows) {
        digest.add(row.label);
        digest.add(row.mode);
        digest.add(row.policy ? 1U : 0U);
        digest.add(row.none_row ? *row.none_row + 1 : 0);
    }
    for (const Prompt& prompt : prompts) {
        digest.add(prompt.group);
        digest.add(prompt.text);
    }
    if (!ids) digest.add(runs);
    for (const SweepCell& cell : cells) {
        if (ids) digest.add(cell.id);
        digest.add(cell.row);
        digest.add(cell.prompt);
        digest.add(cell.seed);
    }
    digest.add(static_cast<uint64_t>(timing.pairs));
    digest.add(timing.prompts);
    digest.add(static_cast<uint64_t>(bootstrap.resamples));
    digest.add(bootstrap.seed);
    digest.add(std::bit_cast<uint64_t>(bootstrap.level));
    return digest.hex();
}

SweepShard sweep_shard(const std::string& text) {
    SweepShard shard;
    const char* const end = text.data() + text.size();
    const auto [slash, first] = std::from_chars(text.data(), end, shard.index);
    bool good = first == std::errc() && slash != end && *slash == '/';
    if (good) {
        const auto [stop, second] = std::from_chars(slash + 1, end, shard.count);
        good = second == std::errc() && stop == end && shard.index >= 1 && shard.index <= shard.count &&
               shard.count <= 100'000;
    }
    if (!good) throw Error("reading --shard", text, "must be i/n with 1 <= i <= n", "for example 3/8");
    return shard;
}

std::vector<size_t> cells_of(const SweepPlan& plan, const SweepShard& shard) {
    std::vector<size_t> mine;
    std::unordered_set<std::string_view> seen;
    int64_t number = 0;
    for (size_t i = 0; i < plan.cells.size(); ++i) {
        if (!seen.insert(plan.cells[i].id).second) continue;
        if (number++ % shard.count == shard.index - 1) mine.push_back(i);
    }
    return mine;
}

} // namespace refreshlab
