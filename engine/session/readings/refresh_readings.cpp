#include "engine/session/readings/refresh_readings.h"

#include "engine/base/check.h"
#include "engine/cache/kv_cache.h"
#include "engine/session/landscape/tail_rows.h"
#include "engine/session/readings/text_readings.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace refreshlab {

namespace {

constexpr int64_t rows_in_a_forward = 64; ///< of a forward: more gain little, and their logits take memory

bool is_teacher(const LayerTake& take) {
    return take.halves == EntryHalves{} && std::ranges::find(take.heads, 0) == take.heads.end();
}
bool is_student(const LayerTake& take) {
    return take.halves.count() == 0 || std::ranges::find(take.heads, 1) == take.heads.end();
}

Take every_head(const ModelConfig& config, int64_t delta, uint8_t taken) {
    return Take(static_cast<size_t>(config.num_layers),
                {std::vector<uint8_t>(static_cast<size_t>(config.num_kv_heads), taken),
                 {},
                 std::vector<uint8_t>(static_cast<size_t>(delta), 1)});
}

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

} // namespace

Take take_nothing(const ModelConfig& config, int64_t delta) {
    return every_head(config, delta, 0);
}
Take take_everything(const ModelConfig& config, int64_t delta) {
    return every_head(config, delta, 1);
}

RefreshReadings::RefreshReadings(const LlamaModel& student, const TeacherText& text, KvCache& cache,
                                 int64_t begin, int64_t boundary, int64_t horizon)
    : m_student(student)
    , m_text(text)
    , m_cache(cache)
    , m_prompt(static_cast<int64_t>(text.prompt().size()))
    , m_begin(begin)
    , m_boundary(boundary)
    , m_horizon(horizon)
    , m_shared(cache.length()) {
    RL_ASSERT(begin >= 0 && begin < boundary && boundary + horizon <= text.steps());
    read_delta();
}

RefreshReadings::~RefreshReadings() {
    m_cache.truncate(m_shared);
}

std::unique_ptr<KvCache> RefreshReadings::make_cache(const LlamaModel& student, const TeacherText& text,
                                                     int64_t longest, int64_t horizon) {
    const int64_t shared = text.cache().length();
    const int64_t scratch =
        longest * (1 + most_sets(student.config())) + std::max(rows_in_a_forward, horizon) + horizon;
    auto cache = student.make_cache(shared + scratch);
    cache->adopt_prefix(text.cache(), shared);
    return cache;
}

std::vector<double> RefreshReadings::some_losses(std::span<const Take> takes) {
    const auto at_once = static_cast<size_t>(std::max<int64_t>(1, rows_in_a_forward / m_horizon));
    return read(takes.first(fitting(takes.first(std::min(at_once, takes.size())))));
}

std::vector<double> RefreshReadings::losses(std::span<const Take> takes) {
    std::vector<double> all;
    while (all.size() < takes.size()) {
        const std::vector<double> some = some_losses(takes.subspan(all.size()));
        all.insert(all.end(), some.begin(), some.end());
    }
    return all;
}

RefreshReadings::SetKey RefreshReadings::key_of(const LayerTake& take) {
    return {take.heads, {take.halves.keys, take.halves.values}};
}

/// The student's own entries of delta: read on the teacher's columns up to the refresh in front.
void RefreshReadings::read_delta() {
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
size_t RefreshReadings::fitting(std::span<const Take> takes) {
    std::vector<SetKey> wanted;
    size_t n = 0;
    for (; n < takes.size(); ++n) {
        std::vector<SetKey> with = wanted;
        for (const LayerTake& take : takes[n])
            if (!is_teacher(take) && !is_student(take) && std::ranges::find(with, key_of(take)) == with.end())
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
int64_t RefreshReadings::mix(const SetKey& key) {
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
int64_t RefreshReadings::column(const LayerTake& take, int64_t i) const {
    if (take.positions[static_cast<size_t>(i)] == 0 || is_student(take)) return m_shared + i;
    return is_teacher(take) ? m_prompt + m_begin + i : m_sets.at(key_of(take)) + i;
}

std::vector<double> RefreshReadings::read(std::span<const Take> takes) {
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
                const LayerTake& take = takes[static_cast<size_t>(r / m_horizon)][static_cast<size_t>(layer)];
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
            sums[static_cast<size_t>(r / m_horizon)] -=
                static_cast<double>(static_cast<float>(made.summary[static_cast<size_t>(r - begin)].logprob));
        begin += n;
    }
    m_cache.truncate(base);
    for (double& sum : sums)
        sum /= static_cast<double>(m_horizon);
    return sums;
}

} // namespace refreshlab
