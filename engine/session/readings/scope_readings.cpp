#include "engine/session/readings/scope_readings.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/session/readings/refresh_readings.h"
#include "engine/session/readings/text_readings.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace refreshlab {

namespace {

constexpr auto doing = "measuring where refreshes pay";

/// Parts of a map, and what they take of a delta.
class Parts {
public:
    Parts(const ModelConfig& config, int64_t blocks)
        : m_config(config)
        , m_blocks(blocks) {}

    [[nodiscard]] std::vector<ScopePart> all() const {
        using Kind = ScopePart::Kind;
        constexpr ScopeParts halves[] = {ScopeParts::keys, ScopeParts::values};
        std::vector<ScopePart> parts;
        const auto add = [&](Kind kind, int64_t layer, int64_t kv_head, int64_t block, ScopeParts of) {
            parts.push_back({kind, static_cast<int32_t>(layer), static_cast<int32_t>(kv_head),
                             static_cast<int32_t>(block), of});
        };
        for (const ScopeParts half : halves)
            add(Kind::half, -1, -1, -1, half);
        for (int64_t l = 0; l < m_config.num_layers; ++l)
            add(Kind::layer, l, -1, -1, ScopeParts::both);
        for (int64_t l = 0; l < m_config.num_layers; ++l)
            for (const ScopeParts half : halves)
                add(Kind::layer_half, l, -1, -1, half);
        for (int64_t l = 0; l < m_config.num_layers; ++l)
            for (int64_t h = 0; h < m_config.num_kv_heads; ++h)
                add(Kind::head, l, h, -1, ScopeParts::both);
        for (int64_t l = 0; l < m_config.num_layers; ++l)
            for (int64_t b = 0; b < m_blocks; ++b)
                add(Kind::block, l, -1, b, ScopeParts::both);
        return parts;
    }

    [[nodiscard]] Take nothing(int64_t delta) const { return take_nothing(m_config, delta); }
    [[nodiscard]] Take whole(int64_t delta) const { return take_everything(m_config, delta); }
    [[nodiscard]] Take alone(const ScopePart& part, int64_t delta) const {
        const EntryHalves halves{part.parts != ScopeParts::values, part.parts != ScopeParts::keys};
        Take take = nothing(delta);
        for (int64_t l = 0; l < m_config.num_layers; ++l) {
            if (part.layer >= 0 && part.layer != l) continue;
            LayerTake& of_layer = take[static_cast<size_t>(l)];
            of_layer.halves = halves;
            if (part.kv_head >= 0) {
                of_layer.heads[static_cast<size_t>(part.kv_head)] = 1;
            } else {
                std::ranges::fill(of_layer.heads, uint8_t{1});
            }
            if (part.block >= 0) keep_block(of_layer, part.block, true);
        }
        return take;
    }
    /// All but the part.
    [[nodiscard]] Take without(const ScopePart& part, int64_t delta) const {
        Take take = whole(delta);
        for (int64_t l = 0; l < m_config.num_layers; ++l) {
            if (part.layer >= 0 && part.layer != l) continue;
            LayerTake& of_layer = take[static_cast<size_t>(l)];
            if (part.parts != ScopeParts::both)
                of_layer.halves = {part.parts == ScopeParts::values, part.parts == ScopeParts::keys};
            if (part.kv_head >= 0) {
                of_layer.heads[static_cast<size_t>(part.kv_head)] = 0;
            } else if (part.block >= 0) {
                keep_block(of_layer, part.block, false);
            } else if (part.parts == ScopeParts::both) {
                std::ranges::fill(of_layer.heads, uint8_t{0});
            }
        }
        return take;
    }

private:
    /// Positions of a block of delta, or all others.
    void keep_block(LayerTake& take, int64_t block, bool inside) const {
        const auto delta = std::ssize(take.positions);
        for (int64_t i = 0; i < delta; ++i) {
            const bool within = i >= block * delta / m_blocks && i < (block + 1) * delta / m_blocks;
            take.positions[static_cast<size_t>(i)] = within == inside ? 1 : 0;
        }
    }

    const ModelConfig& m_config;
    int64_t m_blocks;
};

void check_request(const ModelPair& pair, const ScopeMapRequest& request) {
    if (!pair.teacher || !pair.student)
        throw Error(doing, {}, "it takes a teacher and a student", "give --teacher and --student");
    if (const auto difference = pair.rebuild_reason())
        throw Error(
            doing, "of this pair",
            fmt::format("the KV geometries differ ({}): no entries are copied, so a refresh changes nothing",
                        *difference),
            "take a student with the teacher's KV geometry");
    RL_ASSERT(request.horizon >= 1 && request.blocks >= 1 && std::ranges::is_sorted(request.boundaries));
    const int64_t steps = std::ssize(request.tokens) - 1;
    const auto fits = [&](int64_t boundary) { return boundary >= 1 && boundary + request.horizon <= steps; };
    if (!std::ranges::any_of(request.boundaries, fits)) {
        throw Error(doing, "of a text",
                    fmt::format("no refresh has {} tokens behind it: the text has {} tokens and {} refreshes",
                                request.horizon, request.tokens.size(), request.boundaries.size()),
                    "give --every or --at, a shorter --horizon, or a longer text");
    }
}

} // namespace

/// Refreshes in turn, all parts of each; then rounds of the greedy order, refreshes in turn again.
struct ScopeMapComputation::Impl {
    Impl(std::shared_ptr<const ModelPair> models, ScopeMapRequest asked, Execution how)
        : pair(std::move(models))
        , execution(std::move(how))
        , request(std::move(asked)) {
        RL_ASSERT(execution != nullptr);
        check_request(*pair, request);
    }

    /// The teacher's reading, and what the map is of.
    void begin() {
        const ModelConfig& config = pair->student->config();
        text.emplace(*pair, request.prompt_ids, request.tokens);
        parts.emplace(config, request.blocks);
        int64_t longest = 0, front = 0;
        for (const int64_t boundary : request.boundaries) {
            if (boundary + request.horizon > text->steps()) break;
            places.emplace_back(front, boundary);
            longest = std::max(longest, boundary - front);
            front = boundary;
        }
        cache = RefreshReadings::make_cache(*pair->student, *text, longest, request.horizon);
        map.layers = config.num_layers;
        map.kv_heads = config.num_kv_heads;
        map.blocks = request.blocks;
        map.horizon = request.horizon;
        map.entry_bytes = 2 * cache->head_dim() * static_cast<int64_t>(c10::elementSize(cache->dtype()));
        for (const ScopePart& part : parts->all())
            map.readings.push_back({part, {}, {}});
        now.rows = std::ssize(places) * request.horizon * 2 * (1 + std::ssize(map.readings));
    }

    /// \return false when the map is whole
    bool step() {
        if (!text) {
            begin();
            return true;
        }
        if (place == places.size()) {
            if (!end_round()) return false;
            place = 0;
        }
        if (!readings) open();
        const std::vector<double> some =
            readings->some_losses(std::span<const Take>(takes).subspan(losses.size()));
        losses.insert(losses.end(), some.begin(), some.end());
        if (!in_order) now.rows_done += std::ssize(some) * request.horizon;
        if (losses.size() == takes.size()) close();
        return true;
    }

    /// What is asked of the refresh at this place.
    void open() {
        const auto [front, boundary] = places[place];
        const int64_t delta = boundary - front;
        takes.clear();
        losses.clear();
        if (in_order) {
            for (const Cell& cell : looked_at())
                takes.push_back(with(cell, delta));
        } else {
            takes = {parts->nothing(delta), parts->whole(delta)};
            for (const ScopeMap::Reading& reading : map.readings) {
                takes.push_back(parts->alone(reading.part, delta));
                takes.push_back(parts->without(reading.part, delta));
            }
        }
        readings.emplace(*pair->student, *text, *cache, front, boundary, request.horizon);
    }

    void close() {
        readings.reset();
        if (in_order) {
            for (size_t c = 0; c < losses.size(); ++c)
                candidates[c].push_back(losses[c]);
        } else {
            const auto [front, boundary] = places[place];
            double teacher = 0;
            for (int64_t i = 0; i < request.horizon; ++i) // the row of step t is number t - 1
                teacher -= static_cast<double>(text->numbers().logprob[static_cast<size_t>(boundary + i)]);
            map.refreshes.push_back({boundary, boundary - front, losses[0], losses[1],
                                     teacher / static_cast<double>(request.horizon)});
            for (size_t i = 0; i < map.readings.size(); ++i) {
                map.readings[i].alone.push_back(losses[2 + 2 * i]);
                map.readings[i].without.push_back(losses[3 + 2 * i]);
            }
        }
        ++place;
    }

    /// All refreshes were read. \return whether they are read again, for the greedy order
    bool end_round() {
        if (!in_order) {
            in_order = true;
            for (const ScopeMap::Refresh& refresh : map.refreshes)
                whole += refresh.gain();
            for (const ScopeMap::Reading& reading : map.readings)
                if (reading.part.kind == ScopePart::Kind::head)
                    cells.push_back({gain_of(reading.alone), reading.part.layer, reading.part.kv_head});
            if (!(whole > 0)) cells.clear();
        } else {
            take_best();
        }
        if (cells.empty() || !(kept < request.keep * whole)) return false;
        std::ranges::stable_sort(cells, std::greater(), &Cell::gain);
        candidates.assign(looked_at().size(), {});
        return true;
    }

    void take_best() {
        for (size_t c = 0; c < candidates.size(); ++c)
            cells[c].gain = gain_of(candidates[c]) - kept;
        const auto best = std::ranges::max_element(looked_at(), {}, &Cell::gain) - looked_at().begin();
        const Cell cell = cells[static_cast<size_t>(best)];
        map.taken.push_back({cell.layer, cell.kv_head, candidates[static_cast<size_t>(best)]});
        kept += cell.gain;
        cells.erase(cells.begin() + best);
        now.taken = std::ssize(map.taken);
        now.share = kept / whole;
    }

    struct Cell {
        double gain; ///< over what was taken when it was looked at last
        int32_t layer, kv_head;
    };
    /// The first ones; a round of the greedy order sorts them.
    [[nodiscard]] std::span<const Cell> looked_at() const {
        return std::span(cells).first(
            std::min<size_t>(static_cast<size_t>(ScopeMapRequest::looked_at), cells.size()));
    }
    [[nodiscard]] double gain_of(const std::vector<double>& of) const {
        double gain = 0;
        for (size_t i = 0; i < of.size(); ++i)
            gain += map.refreshes[i].none - of[i];
        return gain;
    }
    /// What was taken so far and one KV head more.
    [[nodiscard]] Take with(const Cell& cell, int64_t delta) const {
        Take take = parts->nothing(delta);
        for (const ScopeMap::Taken& one : map.taken)
            take[static_cast<size_t>(one.layer)].heads[static_cast<size_t>(one.kv_head)] = 1;
        take[static_cast<size_t>(cell.layer)].heads[static_cast<size_t>(cell.kv_head)] = 1;
        return take;
    }

    std::shared_ptr<const ModelPair> pair;
    Execution execution;
    ScopeMapRequest request;
    ScopeMapProgress now;
    ScopeMap map;

    std::optional<TeacherText> text; ///< nothing: before the first step
    std::optional<Parts> parts;
    std::unique_ptr<KvCache> cache;
    std::vector<std::pair<int64_t, int64_t>> places; ///< the boundary in front, and that of the refresh
    size_t place = 0;                                ///< of the refresh that is read
    std::optional<RefreshReadings> readings;         ///< of it; nothing: between two of them
    std::vector<Take> takes;                         ///< what is asked of it
    std::vector<double> losses;                      ///< of the first takes, as far as they were read

    bool in_order = false; ///< the parts are done
    std::vector<Cell> cells;
    std::vector<std::vector<double>> candidates; ///< [looked at][refreshes so far]
    double whole = 0, kept = 0;                  ///< gains, summed over refreshes
};

ScopeMapComputation::ScopeMapComputation(std::shared_ptr<const ModelPair> pair, ScopeMapRequest request,
                                         Execution execution)
    : m_impl(std::make_unique<Impl>(std::move(pair), std::move(request), std::move(execution))) {}

ScopeMapComputation::~ScopeMapComputation() = default;

bool ScopeMapComputation::step() {
    const kernels::ExecutionScope scope(*m_impl->execution);
    const c10::InferenceMode guard;
    return m_impl->step();
}

const ScopeMapProgress& ScopeMapComputation::progress() const {
    return m_impl->now;
}
const ScopeMapRequest& ScopeMapComputation::request() const {
    return m_impl->request;
}

ScopeMap ScopeMapComputation::take_map() {
    RL_ASSERT(m_impl->in_order && m_impl->place == m_impl->places.size());
    return std::move(m_impl->map);
}

std::vector<int64_t> scope_boundaries(const Recording& run, int64_t every) {
    std::vector<int64_t> boundaries;
    for (size_t i = 0; every == 0 && i < run.refreshes().size(); ++i)
        if (run.refreshes()[i].spliced > 0) boundaries.push_back(run.refreshes()[i].fired_step);
    if (!boundaries.empty()) return boundaries;
    constexpr int64_t usual = 16;
    const int64_t stride = every > 0 ? every : usual;
    for (int64_t step = stride; step < run.num_tokens(); step += stride)
        boundaries.push_back(step);
    return boundaries;
}

std::optional<ScopeMap> compute_scope_map(const ModelPair& pair, const ScopeMapRequest& request,
                                          const Execution& execution,
                                          const std::function<bool(const ScopeMapProgress&)>& progress) {
    const std::shared_ptr<const ModelPair> kept(std::shared_ptr<void>(), &pair); // the caller's
    ScopeMapComputation computation(kept, request, execution);
    while (computation.step())
        if (progress && !progress(computation.progress())) return std::nullopt;
    return computation.take_map();
}

} // namespace refreshlab
