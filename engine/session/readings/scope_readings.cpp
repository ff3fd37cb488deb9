#include "engine/session/readings/scope_readings.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/session/landscape/tail_rows.h"
#include "engine/session/readings/text_readings.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

namespace refreshlab {

namespace {

constexpr auto doing = "measuring where refreshes pay";
constexpr int64_t rows_in_a_forward = 64; ///< of a forward: more gain little, and their logits take memory

/// What is taken of one layer: the teacher's halves of some KV heads, at positions of delta (from its beginning) that are within [first, end), or
/// outside of it.
struct LayerTake {
    std::vector<uint8_t> heads; ///< [kv_heads], 1 = the teacher's
    EntryHalves halves;
    int64_t first = 0, end = 0;
    bool outside = false;
};
/// The entries of delta that are the teacher's, layer by layer.
using Take = std::vector<LayerTake>;

/// Rows of one forward that share the teacher's first columns, and go on with tails that differ from layer to layer.
class LayeredTails final : public LayerHooks {
public:
    /// \param tails  of a layer, per row
    LayeredTails(const ModelConfig& config, std::vector<RowPlace> places,
                 std::function<std::vector<std::vector<int64_t>>(int64_t layer)> tails)
        : m_config(config)
        , m_places(std::move(places))
        , m_tails(std::move(tails)) {}

    void place(std::span<RowPlace> rows) override { std::ranges::copy(m_places, rows.begin()); }
    void attend(int64_t layer, kernels::AttentionInputs& inputs) override {
        m_layer = std::make_unique<TailRows>(m_config, m_places, m_tails(layer));
        m_layer->attend(layer, inputs);
    }

private:
    const ModelConfig& m_config;
    std::vector<RowPlace> m_places;
    std::function<std::vector<std::vector<int64_t>>(int64_t)> m_tails;
    std::unique_ptr<TailRows> m_layer; ///< of the attention that runs: it keeps what the call reads
};

/// One refresh: the columns that readings of it may want, and the rows behind it.
class RefreshReadings {
public:
    using Told = std::function<bool(int64_t rows)>;

    /// \param cache  holds the teacher's columns of prompt and text, and room for scratch(); no other scratch columns
    RefreshReadings(const LlamaModel& student, const TeacherText& text, KvCache& cache, int64_t begin,
                    int64_t boundary, int64_t horizon)
        : m_student(student)
        , m_text(text)
        , m_cache(cache)
        , m_prompt(static_cast<int64_t>(text.prompt().size()))
        , m_begin(begin)
        , m_boundary(boundary)
        , m_horizon(horizon)
        , m_shared(cache.length()) {
        read_delta();
    }
    ~RefreshReadings() { m_cache.truncate(m_shared); }
    RefreshReadings(const RefreshReadings&) = delete;
    RefreshReadings& operator=(const RefreshReadings&) = delete;

    /// Sets of mixed columns that stand side by side.
    [[nodiscard]] static int64_t most_sets(const ModelConfig& config) { return config.num_layers + 32; }
    /// Columns behind the text's that readings take.
    [[nodiscard]] static int64_t scratch(const ModelConfig& config, int64_t delta, int64_t horizon) {
        return delta * (1 + most_sets(config)) + std::max(rows_in_a_forward, horizon) + horizon;
    }
    [[nodiscard]] int64_t delta() const { return m_boundary - m_begin; }

    /// Loss over the next tokens of each, nats a token. \param told  false ends it; then the result is short
    [[nodiscard]] std::vector<double> losses(std::span<const Take> takes, const Told& told) {
        std::vector<double> all;
        const auto at_once = static_cast<size_t>(std::max<int64_t>(1, rows_in_a_forward / m_horizon));
        for (size_t first = 0; first < takes.size();) {
            const size_t n = fitting(takes.subspan(first, std::min(at_once, takes.size() - first)));
            const std::vector<double> some = read(takes.subspan(first, n));
            all.insert(all.end(), some.begin(), some.end());
            first += n;
            if (!told(static_cast<int64_t>(n) * m_horizon)) break;
        }
        return all;
    }

private:
    using SetKey = std::pair<std::vector<uint8_t>, std::pair<bool, bool>>;

    [[nodiscard]] bool is_teacher(const LayerTake& take) const {
        return take.halves == EntryHalves{} && std::ranges::find(take.heads, 0) == take.heads.end();
    }
    [[nodiscard]] bool is_student(const LayerTake& take) const {
        return take.halves.count() == 0 || std::ranges::find(take.heads, 1) == take.heads.end();
    }
    [[nodiscard]] static SetKey key_of(const LayerTake& take) {
        return {take.heads, {take.halves.keys, take.halves.values}};
    }

    /// The student's own entries of delta: read on the teacher's columns up to the refresh in front.
    void read_delta() {
        std::vector<std::vector<int64_t>> tails;
        for (int64_t step = m_begin + 1; step <= m_boundary;) {
            std::vector<RowPlace> places;
            std::vector<int32_t> fed;
            tails.clear();
            for (; step <= m_boundary && std::ssize(places) < rows_in_a_forward; ++step) {
                const int64_t position = m_prompt + step - 1;
                places.push_back({position, position, m_prompt + m_begin});
                fed.push_back(m_text.text()[static_cast<size_t>(step - 1)]);
                tails.emplace_back(static_cast<size_t>(step - m_begin));
                std::iota(tails.back().begin(), tails.back().end(), m_shared);
            }
            TailRows hook(m_student.config(), std::move(places), tails);
            LayerHooks* const hooks[] = {&hook};
            StepInputs in;
            in.tokens = fed;
            in.origin = Origin::student;
            in.rows = Rows::none;
            in.hooks = hooks;
            static_cast<void>(m_student.forward().prefill(m_cache, in));
        }
    }

    /// How many of them, the first ones, can have their mixed columns side by side. What stands there and they do not want goes, if need be.
    size_t fitting(std::span<const Take> takes) {
        std::vector<SetKey> wanted;
        size_t n = 0;
        for (; n < takes.size(); ++n) {
            std::vector<SetKey> with = wanted;
            for (const LayerTake& take : takes[n])
                if (!is_teacher(take) && !is_student(take) &&
                    std::ranges::find(with, key_of(take)) == with.end())
                    with.push_back(key_of(take));
            if (std::ssize(with) > most_sets(m_student.config())) break;
            wanted = std::move(with);
        }
        RL_ASSERT(n > 0);
        const auto missing =
            std::ranges::count_if(wanted, [&](const SetKey& key) { return !m_sets.contains(key); });
        if (std::ssize(m_sets) + missing > most_sets(m_student.config())) {
            m_sets.clear();
            m_cache.truncate(m_shared + delta());
        }
        for (const SetKey& key : wanted)
            if (!m_sets.contains(key)) m_sets[key] = mix(key);
        return n;
    }

    /// Columns of delta in which some halves of some KV heads, in every layer, are the teacher's. \return the first
    int64_t mix(const SetKey& key) {
        const int64_t first = m_cache.length(), n = delta(), at = m_prompt + m_begin;
        std::vector<int64_t> heads;
        for (size_t head = 0; head < key.first.size(); ++head)
            if (key.first[head] != 0) heads.push_back(static_cast<int64_t>(head));
        for (int64_t layer = 0; layer < m_cache.num_layers(); ++layer) {
            const auto mixed = [&](const at::Tensor& storage, bool taken) {
                at::Tensor rows = storage.narrow(1, m_shared, n).clone();
                for (const int64_t head : heads)
                    if (taken) rows[head].copy_(storage[head].narrow(0, at, n));
                return rows.transpose(0, 1);
            };
            m_cache.write(layer, mixed(m_cache.keys(layer), key.second.first),
                          mixed(m_cache.values(layer), key.second.second));
        }
        m_cache.commit(n, Origin::student);
        return first;
    }

    /// Column of position i of delta in a layer.
    [[nodiscard]] int64_t column(const LayerTake& take, int64_t i) const {
        const bool within = i >= take.first && i < take.end;
        if (within == take.outside || is_student(take)) return m_shared + i;
        return is_teacher(take) ? m_prompt + m_begin + i : m_sets.at(key_of(take)) + i;
    }

    std::vector<double> read(std::span<const Take> takes) {
        const int64_t base = m_cache.length(), rows = std::ssize(takes) * m_horizon;
        std::vector<double> sums(takes.size(), 0);
        for (int64_t begin = 0; begin < rows;) {
            const int64_t n = std::min(rows_in_a_forward, rows - begin);
            std::vector<RowPlace> places;
            std::vector<int32_t> fed, next;
            for (int64_t r = begin; r < begin + n; ++r) {
                const int64_t step = m_boundary + 1 + r % m_horizon, position = m_prompt + step - 1;
                places.push_back({position, position, m_prompt + m_begin});
                fed.push_back(m_text.text()[static_cast<size_t>(step - 1)]);
                next.push_back(m_text.text()[static_cast<size_t>(step)]);
            }
            LayeredTails hook(m_student.config(), std::move(places), [&](int64_t layer) {
                std::vector<std::vector<int64_t>> tails;
                for (int64_t r = begin; r < begin + n; ++r) {
                    const LayerTake& take =
                        takes[static_cast<size_t>(r / m_horizon)][static_cast<size_t>(layer)];
                    std::vector<int64_t>& tail = tails.emplace_back();
                    for (int64_t i = 0; i < delta(); ++i)
                        tail.push_back(column(take, i));
                    for (int64_t own = r - r % m_horizon; own <= r; ++own)
                        tail.push_back(base + own);
                }
                return tails;
            });
            LayerHooks* const hooks[] = {&hook};
            StepInputs in;
            in.tokens = fed;
            in.origin = Origin::student;
            in.rows = Rows::all;
            in.logits = false;
            in.ask.emplace().tokens = next;
            in.hooks = hooks;
            const StepOutputs made = m_student.forward().prefill(m_cache, in);
            for (int64_t r = begin; r < begin + n; ++r)
                sums[static_cast<size_t>(r / m_horizon)] -= static_cast<double>(
                    static_cast<float>(made.summary[static_cast<size_t>(r - begin)].logprob));
            begin += n;
        }
        m_cache.truncate(base);
        for (double& sum : sums)
            sum /= static_cast<double>(m_horizon);
        return sums;
    }

    const LlamaModel& m_student;
    const TeacherText& m_text;
    KvCache& m_cache;
    int64_t m_prompt, m_begin, m_boundary, m_horizon;
    int64_t m_shared;                 ///< the teacher's columns; the student's of delta stand behind them
    std::map<SetKey, int64_t> m_sets; ///< first column of each
};

/// Parts and what they take of a cache of this shape, for a delta.
class Parts {
public:
    Parts(const ModelConfig& config, int64_t blocks)
        : m_layers(config.num_layers)
        , m_kv_heads(config.num_kv_heads)
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
        for (int64_t l = 0; l < m_layers; ++l)
            add(Kind::layer, l, -1, -1, ScopeParts::both);
        for (int64_t l = 0; l < m_layers; ++l)
            for (const ScopeParts half : halves)
                add(Kind::layer_half, l, -1, -1, half);
        for (int64_t l = 0; l < m_layers; ++l)
            for (int64_t h = 0; h < m_kv_heads; ++h)
                add(Kind::head, l, h, -1, ScopeParts::both);
        for (int64_t l = 0; l < m_layers; ++l)
            for (int64_t b = 0; b < m_blocks; ++b)
                add(Kind::block, l, -1, b, ScopeParts::both);
        return parts;
    }

    [[nodiscard]] Take nothing(int64_t delta) const { return every_head(0, delta); }
    [[nodiscard]] Take whole(int64_t delta) const { return every_head(1, delta); }
    [[nodiscard]] Take alone(const ScopePart& part, int64_t delta) const {
        const EntryHalves halves{part.parts != ScopeParts::values, part.parts != ScopeParts::keys};
        Take take = nothing(delta);
        for (int64_t l = 0; l < m_layers; ++l) {
            if (part.layer >= 0 && part.layer != l) continue;
            LayerTake& of_layer = take[static_cast<size_t>(l)];
            of_layer.halves = halves;
            if (part.kv_head >= 0) {
                of_layer.heads[static_cast<size_t>(part.kv_head)] = 1;
            } else {
                std::ranges::fill(of_layer.heads, uint8_t{1});
            }
            if (part.block < 0) continue;
            of_layer.first = part.block * delta / m_blocks;
            of_layer.end = (part.block + 1) * delta / m_blocks;
        }
        return take;
    }
    /// All but the part.
    [[nodiscard]] Take without(const ScopePart& part, int64_t delta) const {
        Take take = whole(delta);
        for (int64_t l = 0; l < m_layers; ++l) {
            if (part.layer >= 0 && part.layer != l) continue;
            LayerTake& of_layer = take[static_cast<size_t>(l)];
            if (part.parts != ScopeParts::both)
                of_layer.halves = {part.parts == ScopeParts::values, part.parts == ScopeParts::keys};
            if (part.kv_head >= 0) {
                of_layer.heads[static_cast<size_t>(part.kv_head)] = 0;
            } else if (part.block >= 0) {
                of_layer.first = part.block * delta / m_blocks;
                of_layer.end = (part.block + 1) * delta / m_blocks;
                of_layer.outside = true;
            } else if (part.parts == ScopeParts::both) {
                std::ranges::fill(of_layer.heads, uint8_t{0});
            }
        }
        return take;
    }

private:
    [[nodiscard]] Take every_head(uint8_t taken, int64_t delta) const {
        return Take(static_cast<size_t>(m_layers),
                    {std::vector<uint8_t>(static_cast<size_t>(m_kv_heads), taken), {}, 0, delta});
    }

    int64_t m_layers, m_kv_heads, m_blocks;
};

void check_request(const ModelPair& pair, const ScopeMapRequest& request) {
    if (!pair.teacher || !pair.student)
        throw Error(doing, {}, "it takes a teacher and a student", "give --teacher and --student");
    if (pair.geometry_difference)
        throw Error(
            doing, "of this pair",
            fmt::format("the KV geometries differ ({}): no entries are copied, so a refresh changes nothing",
                        *pair.geometry_difference),
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

/// All refreshes of a map, and what is asked of them in turn.
class MapReading {
public:
    using Progress = std::function<bool(const ScopeMapProgress&)>;

    MapReading(const ModelPair& pair, const ScopeMapRequest& request, const Progress& progress)
        : m_request(request)
        , m_student(*pair.student)
        , m_text(*pair.teacher, request.prompt_ids, request.tokens)
        , m_parts(pair.student->config(), request.blocks)
        , m_progress(progress) {
        int64_t longest = 0, begin = 0;
        for (const int64_t boundary : request.boundaries) {
            if (boundary + request.horizon > m_text.steps()) break;
            m_places.emplace_back(begin, boundary);
            longest = std::max(longest, boundary - begin);
            begin = boundary;
        }
        const int64_t shared = m_text.cache().length();
        m_cache = m_student.make_cache(
            shared + RefreshReadings::scratch(m_student.config(), longest, request.horizon));
        m_cache->adopt_prefix(m_text.cache(), shared);
        const ModelConfig& config = m_student.config();
        m_map.layers = config.num_layers;
        m_map.kv_heads = config.num_kv_heads;
        m_map.blocks = request.blocks;
        m_map.horizon = request.horizon;
        m_map.entry_bytes =
            2 * m_cache->head_dim() * static_cast<int64_t>(c10::elementSize(m_cache->dtype()));
    }

    /// \return false where it was ended
    [[nodiscard]] bool read_parts() {
        const std::vector<ScopePart> parts = m_parts.all();
        for (const ScopePart& part : parts)
            m_map.readings.push_back({part, {}, {}});
        m_now.rows = std::ssize(m_places) * m_request.horizon * 2 * (1 + std::ssize(parts));
        for (const auto& [begin, boundary] : m_places) {
            const int64_t delta = boundary - begin;
            std::vector<Take> takes{m_parts.nothing(delta), m_parts.whole(delta)};
            for (const ScopePart& part : parts) {
                takes.push_back(m_parts.alone(part, delta));
                takes.push_back(m_parts.without(part, delta));
            }
            const std::vector<double> losses = read(begin, boundary, takes);
            if (losses.size() < takes.size()) return false;
            double teacher = 0;
            for (int64_t i = 0; i < m_request.horizon; ++i) // the row of step t is number t - 1
                teacher -= static_cast<double>(m_text.numbers().logprob[static_cast<size_t>(boundary + i)]);
            m_map.refreshes.push_back(
                {boundary, delta, losses[0], losses[1], teacher / static_cast<double>(m_request.horizon)});
            for (size_t i = 0; i < parts.size(); ++i) {
                m_map.readings[i].alone.push_back(losses[2 + 2 * i]);
                m_map.readings[i].without.push_back(losses[3 + 2 * i]);
            }
        }
        return true;
    }

    /// \return false where it was ended
    [[nodiscard]] bool take_heads() {
        struct Cell {
            double gain; ///< over what was taken when it was looked at last
            int32_t layer, kv_head;
        };
        std::vector<Cell> cells;
        double whole = 0, kept = 0;
        for (const ScopeMap::Refresh& refresh : m_map.refreshes)
            whole += refresh.gain();
        if (!(whole > 0)) return true;
        for (const ScopeMap::Reading& reading : m_map.readings)
            if (reading.part.kind == ScopePart::Kind::head)
                cells.push_back({gain_of(reading.alone), reading.part.layer, reading.part.kv_head});
        while (!cells.empty() && kept < m_request.keep * whole) {
            std::ranges::stable_sort(cells, std::greater(), &Cell::gain);
            const auto n = std::min<size_t>(static_cast<size_t>(ScopeMapRequest::looked_at), cells.size());
            std::vector<std::vector<double>> losses(n); // [candidates][refreshes]
            for (const auto& [begin, boundary] : m_places) {
                std::vector<Take> takes;
                for (size_t c = 0; c < n; ++c)
                    takes.push_back(with(cells[c].layer, cells[c].kv_head, boundary - begin));
                const std::vector<double> some = read(begin, boundary, takes);
                if (some.size() < n) return false;
                for (size_t c = 0; c < n; ++c)
                    losses[c].push_back(some[c]);
            }
            for (size_t c = 0; c < n; ++c)
                cells[c].gain = gain_of(losses[c]) - kept;
            const size_t best = static_cast<size_t>(
                std::ranges::max_element(cells.begin(), cells.begin() + static_cast<int64_t>(n), {},
                                         &Cell::gain) -
                cells.begin());
            m_map.taken.push_back({cells[best].layer, cells[best].kv_head, losses[best]});
            kept += cells[best].gain;
            cells.erase(cells.begin() + static_cast<int64_t>(best));
            m_now.taken = std::ssize(m_map.taken);
            m_now.share = kept / whole;
        }
        return true;
    }

    [[nodiscard]] ScopeMap map() && { return std::move(m_map); }

private:
    std::vector<double> read(int64_t begin, int64_t boundary, std::span<const Take> takes) {
        RefreshReadings readings(m_student, m_text, *m_cache, begin, boundary, m_request.horizon);
        return readings.losses(takes, [&](int64_t rows) {
            if (m_map.taken.empty()) m_now.rows_done = std::min(m_now.rows_done + rows, m_now.rows);
            return !m_progress || m_progress(m_now);
        });
    }
    [[nodiscard]] double gain_of(const std::vector<double>& losses) const {
        double gain = 0;
        for (size_t i = 0; i < losses.size(); ++i)
            gain += m_map.refreshes[i].none - losses[i];
        return gain;
    }
    /// What was taken so far and one KV head more.
    [[nodiscard]] Take with(int32_t layer, int32_t kv_head, int64_t delta) const {
        Take take = m_parts.nothing(delta);
        for (const ScopeMap::Taken& one : m_map.taken)
            take[static_cast<size_t>(one.layer)].heads[static_cast<size_t>(one.kv_head)] = 1;
        take[static_cast<size_t>(layer)].heads[static_cast<size_t>(kv_head)] = 1;
        return take;
    }

    const ScopeMapRequest& m_request;
    const LlamaModel& m_student;
    TeacherText m_text;
    Parts m_parts;
    const Progress& m_progress;
    std::vector<std::pair<int64_t, int64_t>> m_places; ///< the boundary in front, and that of the refresh
    std::unique_ptr<KvCache> m_cache;
    ScopeMap m_map;
    ScopeMapProgress m_now;
};

} // namespace

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
    RL_ASSERT(execution != nullptr);
    check_request(pair, request);
    const kernels::ExecutionScope scope(*execution);
    const c10::InferenceMode guard;
    MapReading reading(pair, request, progress);
    if (!reading.read_parts()) return std::nullopt;
    if (request.keep > 0 && !reading.take_heads()) return std::nullopt;
    return std::move(reading).map();
}

} // namespace refreshlab
