#include "tests/engine/session/plain_policies.h"

#include "engine/model/forward/rope_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

namespace refreshlab::test {

namespace {

PositionSet all_of(int64_t n) {
    PositionSet all;
    for (int64_t p = 0; p < n; ++p)
        all.insert(all.end(), p);
    return all;
}

double number(const at::Tensor& x) {
    return x.item<double>();
}

/// Of one dimension.
std::vector<double> numbers(const at::Tensor& x) {
    const at::Tensor dense = x.contiguous();
    return {dense.const_data_ptr<double>(), dense.const_data_ptr<double>() + dense.numel()};
}

class PlainH2o final : public PlainPolicy {
public:
    explicit PlainH2o(int64_t budget)
        : m_budget(budget) {}

    void prompt(const PlainLayer& view) override {
        for (int64_t head = 0; head < view.kv_heads; ++head) {
            m_held[{view.layer, head}] = all_of(view.n());
            thin(view, head);
        }
    }
    PositionSet attended(const PlainLayer& view, int64_t kv_head, int64_t) override {
        PositionSet all = m_held.at({view.layer, kv_head});
        all.insert(view.n() - 1);
        return all;
    }
    void after(const PlainLayer& view) override {
        for (int64_t head = 0; head < view.kv_heads; ++head) {
            m_held[{view.layer, head}].insert(view.n() - 1);
            thin(view, head);
        }
    }
    PositionSet held(int64_t layer, int64_t kv_head, int64_t) const override {
        return m_held.at({layer, kv_head});
    }

private:
    /// acc[j]: what every query so far gave to j, the mean of the group's sums.
    void thin(const PlainLayer& view, int64_t head) {
        PositionSet& held = m_held[{view.layer, head}];
        if (std::ssize(held) <= m_budget) return;
        const std::vector<double> acc =
            numbers(view.probabilities.narrow(0, head * view.group(), view.group()).sum(1).mean(0)); // [n]
        const int64_t heavy = m_budget / 2, recent = m_budget - heavy;
        std::vector<int64_t> order(held.begin(), held.end());
        PositionSet kept(order.end() - recent, order.end());
        order.resize(order.size() - static_cast<size_t>(recent));
        std::ranges::sort(order, [&](int64_t a, int64_t b) {
            const double x = acc[static_cast<size_t>(a)], y = acc[static_cast<size_t>(b)];
            return x != y ? x > y : a > b;
        });
        const auto last = static_cast<size_t>(order[static_cast<size_t>(heavy) - 1]),
                   next = static_cast<size_t>(order[static_cast<size_t>(heavy)]);
        compared(acc[last] - acc[next]);
        kept.insert(order.begin(), order.begin() + heavy);
        held = kept;
    }

    int64_t m_budget;
    std::map<std::pair<int64_t, int64_t>, PositionSet> m_held;
};

class PlainCake final : public PlainPolicy {
public:
    PlainCake(int64_t budget, int64_t window)
        : m_budget(budget)
        , m_window(window) {}

    void prompt(const PlainLayer& view) override {
        m_length = view.n();
        const int64_t columns = m_length - m_window;
        const at::Tensor rows =
            view.probabilities.slice(1, columns).slice(2, 0, columns); // [heads, w, columns]
        const at::Tensor variance = rows.var(at::IntArrayRef{1}, true);
        m_preferences.push_back(std::pow(number(-(rows * (rows + 1e-10).log()).sum()), 1 / 1.6) *
                                std::pow(number(variance.sum()), 1 / 0.4));
        const at::Tensor pooled = at::avg_pool1d(rows.mean(1) + 200 * variance, 5, 1, 2);
        m_scores.push_back(pooled.view({view.kv_heads, view.group(), columns}).mean(1));
    }
    PositionSet attended(const PlainLayer& view, int64_t kv_head, int64_t) override {
        if (m_kept.empty()) share();
        return held(view.layer, kv_head, view.n());
    }
    void after(const PlainLayer&) override {}
    PositionSet held(int64_t layer, int64_t kv_head, int64_t n) const override {
        PositionSet all = m_kept.at({layer, kv_head});
        for (int64_t p = m_length - m_window; p < n; ++p)
            all.insert(p);
        return all;
    }

private:
    void share() {
        const auto layers = static_cast<int64_t>(m_preferences.size());
        const int64_t columns = m_length - m_window, total = (m_budget - m_window) * layers;
        double sum = 0;
        for (const double preference : m_preferences)
            sum += preference;
        std::vector<int64_t> counts;
        int64_t left = total;
        for (const double preference : m_preferences) {
            const double exact = preference / sum * static_cast<double>(total);
            compared(std::ceil(exact) - exact);
            compared(exact - std::floor(exact));
            counts.push_back(std::min(static_cast<int64_t>(exact), columns));
            left -= counts.back();
        }
        for (; left > 0;) // one by one in turns is "evenly, the rest to the lowest"
            for (int64_t& count : counts)
                if (left > 0 && count < columns) {
                    ++count;
                    --left;
                }
        for (int64_t layer = 0; layer < layers; ++layer) {
            const at::Tensor scores = m_scores[static_cast<size_t>(layer)];
            for (int64_t head = 0; head < scores.size(0); ++head) {
                const auto [values, order] = scores[head].sort(0, true);
                const int64_t count = counts[static_cast<size_t>(layer)];
                if (count > 0 && count < columns) compared(number(values[count - 1] - values[count]));
                PositionSet& kept = m_kept[{layer, head}];
                for (int64_t i = 0; i < count; ++i)
                    kept.insert(order[i].item<int64_t>());
            }
        }
    }

    int64_t m_budget, m_window, m_length = 0;
    std::vector<double> m_preferences;
    std::vector<at::Tensor> m_scores; ///< of each layer, [kv_heads, columns]
    std::map<std::pair<int64_t, int64_t>, PositionSet> m_kept;
};

/// What stays of a prompt, and everything behind it.
class PlainOnce : public PlainPolicy {
public:
    PositionSet attended(const PlainLayer& view, int64_t kv_head, int64_t) override {
        if (m_kept.empty()) choose();
        return held(view.layer, kv_head, view.n());
    }
    void after(const PlainLayer&) override {}
    PositionSet held(int64_t layer, int64_t kv_head, int64_t n) const override {
        PositionSet all = m_kept.at({layer, kv_head});
        for (int64_t p = m_length; p < n; ++p)
            all.insert(p);
        return all;
    }

protected:
    /// Fills m_kept, once all layers have read the prompt.
    virtual void choose() = 0;
    int64_t m_length = 0;
    std::map<std::pair<int64_t, int64_t>, PositionSet> m_kept;
};

class PlainCompressKv final : public PlainOnce {
public:
    PlainCompressKv(int64_t budget, int64_t window, int64_t floor, std::vector<std::vector<int64_t>> heads,
                    std::vector<double> errors)
        : m_budget(budget)
        , m_window(window)
        , m_floor(floor)
        , m_heads(std::move(heads))
        , m_errors(std::move(errors)) {}

    void prompt(const PlainLayer& view) override {
        m_length = view.n();
        const int64_t columns = m_length - m_window;
        const at::Tensor of_heads =
            view.probabilities.slice(1, columns)
                .slice(2, 0, columns)
                .index_select(0, at::tensor(m_heads[static_cast<size_t>(view.layer)], at::kLong));
        const at::Tensor scores = at::avg_pool1d(of_heads.mean(1), 5, 1, 2).mean(0); // [columns]
        const auto [values, order] = scores.sort(0, true);
        const int64_t count = shares()[static_cast<size_t>(view.layer)] - m_window;
        if (count < columns) compared(number(values[count - 1] - values[count]));
        for (int64_t head = 0; head < view.kv_heads; ++head) {
            PositionSet& kept = m_kept[{view.layer, head}];
            for (int64_t i = 0; i < std::min(count, columns); ++i)
                kept.insert(order[i].item<int64_t>());
            for (int64_t p = columns; p < m_length; ++p)
                kept.insert(p);
        }
    }

private:
    void choose() override {}
    [[nodiscard]] std::vector<int64_t> shares() const {
        const auto layers = static_cast<double>(m_errors.size());
        double sum = 0;
        for (const double error : m_errors)
            sum += error;
        std::vector<int64_t> counts;
        int64_t total = 0;
        for (const double error : m_errors) {
            const double exact = static_cast<double>(m_floor) +
                                 std::round(error / sum * static_cast<double>(m_budget - m_floor) * layers);
            counts.push_back(static_cast<int64_t>(
                std::clamp(exact, static_cast<double>(m_floor), static_cast<double>(3 * m_budget))));
            total += counts.back();
        }
        // One at a time: to the largest error that had fewest corrections, or from the smallest.
        std::vector<int64_t> corrections(m_errors.size(), 0);
        for (const int64_t wanted = m_budget * std::ssize(m_errors); total != wanted;) {
            const int64_t one = total < wanted ? 1 : -1;
            size_t best = m_errors.size();
            for (size_t i = 0; i < m_errors.size(); ++i) {
                if (counts[i] == (one > 0 ? 3 * m_budget : m_floor)) continue;
                const bool better = best == m_errors.size() || corrections[i] < corrections[best] ||
                                    (corrections[i] == corrections[best] &&
                                     (one > 0 ? m_errors[i] > m_errors[best] : m_errors[i] < m_errors[best]));
                if (better) best = i;
            }
            counts[best] += one;
            ++corrections[best];
            total += one;
        }
        return counts;
    }

    int64_t m_budget, m_window, m_floor;
    std::vector<std::vector<int64_t>> m_heads;
    std::vector<double> m_errors;
};

class PlainDefensive final : public PlainOnce {
public:
    PlainDefensive(int64_t budget, int64_t window, bool all_layers)
        : m_budget(budget)
        , m_window(window)
        , m_all_layers(all_layers) {}

    void prompt(const PlainLayer& view) override {
        m_length = view.n();
        const int64_t columns = m_length - m_window, group = view.group();
        const at::Tensor rows = view.probabilities.slice(1, columns); // [heads, w, n]
        const at::Tensor seen = rows.slice(2, 0, columns);
        const at::Tensor wide = at::avg_pool1d(seen, 5, 1, 2);
        const at::Tensor scaled = wide / wide.sum(-1, true) * seen.sum(-1, true);
        const at::Tensor most = scaled.reshape({view.kv_heads, group * m_window, columns}).amax(1);
        const at::Tensor risk = at::maximum(most, most.mean(-1, true));
        std::vector<at::Tensor> norms; // of each query head
        for (int64_t h = 0; h < view.heads; ++h)
            norms.push_back(at::matmul(view.v.slice(0, 0, columns).select(1, h / group),
                                       view.output.narrow(1, h * view.v.size(2), view.v.size(2)).t())
                                .abs()
                                .sum(-1));
        const at::Tensor sizes = at::stack(norms).view({view.kv_heads, group, columns}).mean(1);
        at::Tensor scores = risk * sizes / sizes.sum(0, true);
        const double least = 0.9 - number(rows.slice(2, columns).sum(-1).mean());
        const at::Tensor mean = seen.reshape({view.kv_heads, group * m_window, columns}).mean(1);
        for (int64_t head = 0; head < view.kv_heads; ++head) {
            const auto [sorted, order] = (mean[head] / mean[head].sum()).sort(0, true);
            const at::Tensor running = sorted.cumsum(0);
            for (int64_t i = 0; i < std::min(columns, m_budget - m_window); ++i) {
                compared(std::abs(number(running[i]) - least));
                if (number(running[i]) >= least) break;
                scores[head][order[i].item<int64_t>()] = 1e6;
            }
        }
        m_scores.push_back(scores);
    }

private:
    void choose() override {
        const int64_t columns = m_length - m_window, kv_heads = m_scores[0].size(0),
                      layers = std::ssize(m_scores);
        const int64_t at_once = m_all_layers ? layers : 1;
        for (int64_t first = 0; first < layers; first += at_once) {
            std::vector<at::Tensor> some(m_scores.begin() + first, m_scores.begin() + first + at_once);
            const at::Tensor all = at::cat(some).flatten();
            const auto [values, order] = all.sort(/*stable=*/true, 0, true);
            const int64_t total = at_once * kv_heads * (m_budget - m_window);
            if (total < all.size(0)) compared(number(values[total - 1] - values[total]));
            for (int64_t head = 0; head < at_once * kv_heads; ++head) {
                PositionSet& kept = m_kept[{first + head / kv_heads, head % kv_heads}];
                for (int64_t p = columns; p < m_length; ++p)
                    kept.insert(p);
            }
            for (int64_t i = 0; i < total; ++i) {
                const auto place = order[i].item<int64_t>();
                m_kept[{first + place / columns / kv_heads, place / columns % kv_heads}].insert(place %
                                                                                                columns);
            }
        }
    }

    int64_t m_budget, m_window;
    bool m_all_layers;
    std::vector<at::Tensor> m_scores; ///< of each layer, [kv_heads, columns]
};

class PlainArkv final : public PlainPolicy {
public:
    PlainArkv(int64_t budget, int64_t window)
        : m_budget(budget)
        , m_window(window) {}

    void prompt(const PlainLayer& view) override {
        const int64_t columns = view.n() - m_window;
        const at::Tensor rows = view.probabilities.slice(1, columns).slice(2, 0, columns);
        const at::Tensor wide =
            at::avg_pool1d(rows.mean(1) + 264 * rows.var(at::IntArrayRef{1}, true), 5, 1, 2);
        const at::Tensor scores = wide.view({view.kv_heads, view.group(), columns}).mean(1);
        for (int64_t head = 0; head < view.kv_heads; ++head) {
            PositionSet& held = m_held[{view.layer, head}] = all_of(view.n());
            thin(held, scores[head], m_budget - m_window);
        }
    }
    PositionSet attended(const PlainLayer& view, int64_t kv_head, int64_t) override {
        PositionSet all = m_held.at({view.layer, kv_head});
        all.insert(view.n() - 1);
        return all;
    }
    void after(const PlainLayer& view) override {
        for (int64_t head = 0; head < view.kv_heads; ++head) {
            PositionSet& held = m_held[{view.layer, head}];
            held.insert(view.n() - 1);
            const int64_t past = std::ssize(held) - m_window;
            if (past + m_window <= m_budget) continue;
            const std::vector<int64_t> positions(held.begin(), held.end());
            const at::Tensor row = view.probabilities.narrow(0, head * view.group(), view.group())
                                       .select(1, view.n() - 1)
                                       .mean(0)
                                       .index_select(0, at::tensor(positions, at::kLong).slice(0, 0, past));
            thin(held, at::avg_pool1d(row.view({1, 1, past}), 5, 1, 2).view({past}), 3 * past / 4);
        }
    }
    PositionSet held(int64_t layer, int64_t kv_head, int64_t) const override {
        return m_held.at({layer, kv_head});
    }

private:
    /// \param scores  of the first entries that are held
    void thin(PositionSet& held, const at::Tensor& scores, int64_t count) {
        const std::vector<int64_t> positions(held.begin(), held.end());
        const auto [values, order] = scores.sort(0, true);
        compared(number(values[count - 1] - values[count]));
        for (int64_t i = count; i < scores.size(0); ++i)
            held.erase(positions[static_cast<size_t>(order[i].item<int64_t>())]);
    }

    int64_t m_budget, m_window;
    std::map<std::pair<int64_t, int64_t>, PositionSet> m_held;
};

/// The last rows of a whole text, of each layer.
class LastRows final : public PlainPolicy {
public:
    void prompt(const PlainLayer& view) override { rows.push_back(view.probabilities); }
    PositionSet attended(const PlainLayer&, int64_t, int64_t) override { return {}; }
    void after(const PlainLayer&) override {}
    PositionSet held(int64_t, int64_t, int64_t) const override { return {}; }
    std::vector<at::Tensor> rows;
};

/// The entries of a prompt stay that rows behind it attend to the most.
class PlainBehind : public PlainOnce {
public:
    PlainBehind(int64_t budget, bool mean_group, const ModelConfig& config,
                const std::map<std::string, at::Tensor>& weights)
        : m_budget(budget)
        , m_mean_group(mean_group)
        , m_config(config)
        , m_weights(weights) {}

    void text(std::span<const int32_t> prompt) override {
        m_length = std::ssize(prompt);
        PlainDecoder decoder(m_config, m_weights, m_rows);
        read(prompt, decoder);
    }
    void prompt(const PlainLayer&) override {}

protected:
    /// Reads prompt and what is behind it.
    virtual void read(std::span<const int32_t> prompt, PlainDecoder& decoder) = 0;

private:
    void choose() override {
        const int64_t kv_heads = m_config.num_kv_heads;
        for (int64_t layer = 0; layer < std::ssize(m_rows.rows); ++layer) {
            const at::Tensor sums =
                m_rows.rows[static_cast<size_t>(layer)].slice(1, m_length).sum(1).slice(1, 0, m_length);
            const at::Tensor groups = sums.view({kv_heads, -1, m_length}),
                             scores = m_mean_group ? groups.mean(1) : groups.amax(1);
            for (int64_t head = 0; head < kv_heads; ++head) {
                const auto [values, order] = scores[head].sort(0, true);
                compared(number(values[m_budget - 1] - values[m_budget]));
                for (int64_t i = 0; i < m_budget; ++i)
                    m_kept[{layer, head}].insert(order[i].item<int64_t>());
            }
        }
    }

    int64_t m_budget;
    bool m_mean_group;
    ModelConfig m_config;
    std::map<std::string, at::Tensor> m_weights;
    LastRows m_rows;
};

class PlainDapQ final : public PlainBehind {
public:
    PlainDapQ(int64_t budget, int64_t pseudo_tokens, const ModelConfig& config,
              const std::map<std::string, at::Tensor>& weights)
        : PlainBehind(budget, false, config, weights)
        , m_pseudo_tokens(pseudo_tokens) {}

private:
    void read(std::span<const int32_t> prompt, PlainDecoder& decoder) override {
        const int64_t length = std::ssize(prompt), again = std::min(m_pseudo_tokens, length);
        std::vector<int32_t> longer(prompt.begin(), prompt.end());
        for (int64_t i = 0; i < m_pseudo_tokens; ++i)
            longer.push_back(prompt[static_cast<size_t>(length - again + i % again)]);
        static_cast<void>(decoder.prompt(longer));
    }

    int64_t m_pseudo_tokens;
};

class PlainLookaheadKv final : public PlainBehind {
public:
    PlainLookaheadKv(int64_t budget, GateWeights gate, const ModelConfig& config,
                     const std::map<std::string, at::Tensor>& weights)
        : PlainBehind(budget, true, config, weights)
        , m_gate(std::move(gate)) {}

private:
    void read(std::span<const int32_t> prompt, PlainDecoder& decoder) override {
        static_cast<void>(decoder.prompt(prompt, &m_gate));
    }

    GateWeights m_gate;
};

class PlainQuest final : public PlainPolicy {
public:
    PlainQuest(int64_t budget, int64_t page, int64_t dense_layers)
        : m_budget(budget)
        , m_page(page)
        , m_dense_layers(dense_layers) {}

    void prompt(const PlainLayer&) override {}
    void after(const PlainLayer&) override {}
    PositionSet held(int64_t, int64_t, int64_t n) const override { return all_of(n); }

    PositionSet attended(const PlainLayer& view, int64_t kv_head, int64_t) override {
        if (view.layer < m_dense_layers) return all_of(view.n());
        std::vector<std::pair<double, int64_t>> older; // score, page
        const int64_t newest = (view.n() - 1) / m_page;
        for (int64_t page = 0; page < newest; ++page)
            older.emplace_back(score(view, kv_head, page), page);
        std::ranges::sort(older, std::greater<>());
        const auto pages = static_cast<size_t>(std::max<int64_t>(3, m_budget / m_page) - 1);
        if (older.size() > pages) compared(older[pages - 1].first - older[pages].first);
        older.resize(std::min(older.size(), pages));
        older.emplace_back(0, newest);
        PositionSet chosen;
        for (const auto& [ignored, page] : older) {
            for (int64_t p = page * m_page; p < std::min((page + 1) * m_page, view.n()); ++p)
                chosen.insert(p);
        }
        return chosen;
    }

private:
    /// The largest over the group of sum_c max(q_c m_c, q_c M_c).
    [[nodiscard]] double score(const PlainLayer& view, int64_t kv_head, int64_t page) const {
        const at::Tensor keys =
            view.k.select(1, kv_head).slice(0, page * m_page, std::min((page + 1) * m_page, view.n()));
        const at::Tensor low = std::get<0>(keys.min(0)), high = std::get<0>(keys.max(0));
        const at::Tensor q = view.q[view.n() - 1].narrow(0, kv_head * view.group(), view.group());
        return number(at::maximum(q * low, q * high).sum(1).max());
    }

    int64_t m_budget, m_page, m_dense_layers;
};

class PlainFasa final : public PlainPolicy {
public:
    PlainFasa(int64_t budget, int64_t pairs, int64_t queries, int64_t dense_layers)
        : m_budget(budget)
        , m_pairs(pairs)
        , m_queries(queries)
        , m_dense_layers(dense_layers) {}

    void prompt(const PlainLayer& view) override {
        for (int64_t h = 0; h < view.heads; ++h) {
            const at::Tensor keys = view.k.select(1, h / view.group());
            at::Tensor overlap = at::zeros({keys.size(1) / 2}, at::kDouble);
            for (int64_t t = view.n() - m_queries; t < view.n(); ++t) {
                const at::Tensor parts = products(view.q[t][h], keys.slice(0, 0, t + 1)); // [t + 1, pairs]
                const int64_t k = std::min(m_budget, (view.n() - m_queries + 1) / 2);
                const PositionSet best = largest(parts.sum(1), k);
                for (int64_t i = 0; i < parts.size(1); ++i)
                    for (const int64_t p : largest(parts.select(1, i), k))
                        if (best.contains(p)) overlap[i] += 1;
            }
            // Of equal ones the later, as everywhere.
            overlap = overlap + 1e-9 * at::arange(overlap.size(0), at::kDouble);
            m_chosen[{view.layer, h}] = at::topk(overlap, std::min(m_pairs, overlap.size(0)));
        }
    }
    PositionSet attended(const PlainLayer& view, int64_t kv_head, int64_t) override {
        if (view.layer < m_dense_layers || view.n() <= m_budget) return all_of(view.n());
        std::vector<at::Tensor> scores;
        for (int64_t h = kv_head * view.group(); h < (kv_head + 1) * view.group(); ++h)
            scores.push_back(products(view.q[view.n() - 1][h], view.k.select(1, kv_head))
                                 .index_select(1, std::get<1>(m_chosen.at({view.layer, h})))
                                 .sum(1));
        PositionSet read = largest(at::stack(scores).amax(0).slice(0, 0, view.n() - 1), m_budget - 1);
        read.insert(view.n() - 1);
        return read;
    }
    void after(const PlainLayer&) override {}
    PositionSet held(int64_t, int64_t, int64_t n) const override { return all_of(n); }

private:
    /// [keys, pairs]
    [[nodiscard]] static at::Tensor products(const at::Tensor& q, const at::Tensor& keys) {
        const int64_t half = q.size(0) / 2;
        const at::Tensor each = keys * q;
        return each.slice(1, 0, half) + each.slice(1, half);
    }
    [[nodiscard]] PositionSet largest(const at::Tensor& scores, int64_t k) {
        const auto [values, order] = scores.sort(0, true);
        if (k < scores.size(0)) compared(number(values[k - 1] - values[k]));
        PositionSet best;
        for (int64_t i = 0; i < k; ++i)
            best.insert(order[i].item<int64_t>());
        return best;
    }

    int64_t m_budget, m_pairs, m_queries, m_dense_layers;
    std::map<std::pair<int64_t, int64_t>, std::tuple<at::Tensor, at::Tensor>> m_chosen;
};

class GuessingPolicy final : public PlainPolicy {
public:
    GuessingPolicy(const PlainInfiniGen& settings, const ModelConfig& config,
                   const std::map<std::string, at::Tensor>& weights)
        : m_settings(settings)
        , m_frequencies(at::tensor(rope_frequencies(config), at::kFloat).to(at::kDouble)) {
        for (int64_t layer = 0; layer < config.num_layers; ++layer)
            for (const auto& [name, into] :
                 {std::pair("self_attn.q_proj", &m_projections), std::pair("input_layernorm", &m_norms)})
                into->push_back(weights.at("model.layers." + std::to_string(layer) + "." + name + ".weight")
                                    .to(at::kDouble));
    }

    void prompt(const PlainLayer& view) override {
        for (int64_t h = 0; h < view.heads; ++h) {
            const at::Tensor queries = view.q.slice(0, view.n() - m_settings.queries).select(1, h); // [n, d]
            const at::Tensor axes = m_settings.turned
                                        ? std::get<2>(at::linalg_svd(queries, true))
                                        : at::eye(queries.size(1), at::kDouble); // [d, d], a row each
            const at::Tensor sums = at::matmul(queries, axes.t()).abs().sum(0);
            std::vector<int64_t> chosen;
            for (const int64_t axis : largest(sums, m_settings.channels))
                chosen.push_back(axis);
            m_axes[{view.layer, h}] = axes.index_select(0, at::tensor(chosen, at::kLong));
        }
    }
    PositionSet attended(const PlainLayer& view, int64_t kv_head, int64_t) override {
        const int64_t n = view.n();
        if (kv_head == 0) {
            m_counts.clear();
            m_scores.clear();
            if (view.layer > 0)
                for (int64_t head = 0; head < view.kv_heads; ++head)
                    score(view, head);
            m_below = view.input[n - 1];
        }
        if (view.layer == 0) return all_of(n);
        int64_t above = 0;
        for (const int64_t count : m_counts)
            above += count;
        const int64_t most = static_cast<int64_t>(m_settings.limit * static_cast<double>(n - 1));
        const int64_t count = std::clamp<int64_t>(above / view.kv_heads, 1, std::max<int64_t>(most, 1));
        PositionSet read = largest(m_scores[static_cast<size_t>(kv_head)], count);
        read.insert(n - 1);
        return read;
    }
    void after(const PlainLayer&) override {}
    PositionSet held(int64_t, int64_t, int64_t n) const override { return all_of(n); }

private:
    void score(const PlainLayer& view, int64_t kv_head) {
        const int64_t n = view.n(), d = view.k.size(2);
        const auto layer = static_cast<size_t>(view.layer);
        const at::Tensor input =
            m_settings.own_norm ? m_below / m_norms[layer - 1] * m_norms[layer] : m_below;
        const at::Tensor raw = at::matmul(m_projections[layer], input).view({view.heads, d});
        const at::Tensor angle = m_frequencies * static_cast<double>(n - 1);
        const auto halves = raw.chunk(2, 1);
        const at::Tensor q = at::cat({halves[0] * angle.cos() - halves[1] * angle.sin(),
                                      halves[1] * angle.cos() + halves[0] * angle.sin()},
                                     1);
        const at::Tensor keys = view.k.select(1, kv_head).slice(0, 0, n - 1);
        std::vector<at::Tensor> all;
        for (int64_t h = kv_head * view.group(); h < (kv_head + 1) * view.group(); ++h) {
            const at::Tensor axes = m_axes.at({view.layer, h});
            all.push_back(at::matmul(at::matmul(keys, axes.t()), at::matmul(axes, q[h])) /
                          std::sqrt(static_cast<double>(d)));
        }
        const at::Tensor scores = at::stack(all).amax(0);
        const double least = number(scores.max()) - m_settings.alpha;
        for (const double s : numbers(scores))
            compared(std::abs(s - least));
        m_counts.push_back(scores.ge(least).sum().item<int64_t>());
        m_scores.push_back(scores);
    }
    [[nodiscard]] PositionSet largest(const at::Tensor& scores, int64_t k) {
        const auto [values, order] = scores.sort(0, true);
        if (k < scores.size(0)) compared(number(values[k - 1] - values[k]));
        PositionSet best;
        for (int64_t i = 0; i < k; ++i)
            best.insert(order[i].item<int64_t>());
        return best;
    }

    PlainInfiniGen m_settings;
    at::Tensor m_frequencies;
    std::vector<at::Tensor> m_projections; ///< of each layer, [heads * d, hidden]
    std::vector<at::Tensor> m_norms;       ///< of each layer, [hidden]
    std::map<std::pair<int64_t, int64_t>, at::Tensor> m_axes;
    at::Tensor m_below;
    std::vector<int64_t> m_counts; ///< of the KV heads of this layer
    std::vector<at::Tensor> m_scores;
};

class PlainMpCache final : public PlainPolicy {
public:
    PlainMpCache(double theta, int64_t cluster, double coarse_share, double fine_share)
        : m_theta(theta)
        , m_cluster(cluster)
        , m_coarse_share(coarse_share)
        , m_fine_share(fine_share) {}

    void prompt(const PlainLayer& view) override {
        const int64_t rows = view.n() / 5;
        const std::vector<double> most =
            numbers(view.probabilities.slice(1, view.n() - rows).mean(0).amax(0));
        PositionSet& held = m_held[view.layer];
        for (int64_t p = 0; p < view.n(); ++p) {
            if (m_theta > 0) compared(std::abs(most[static_cast<size_t>(p)] - m_theta));
            if (most[static_cast<size_t>(p)] >= m_theta || p == view.n() - 1) held.insert(p);
        }
    }
    PositionSet attended(const PlainLayer& view, int64_t kv_head, int64_t) override {
        PositionSet& held = m_held.at(view.layer);
        held.insert(view.n() - 1);
        const std::vector<int64_t> positions(held.begin(), held.end());
        const at::Tensor keys = view.k.select(1, kv_head).index_select(0, at::tensor(positions, at::kLong)),
                         q = view.q[view.n() - 1].narrow(0, kv_head * view.group(), view.group());
        const auto similarity = [&](int64_t first, int64_t n) {
            const at::Tensor part = keys.slice(0, first, std::min(first + n, keys.size(0)));
            return number(at::matmul(q, 0.6 * part.amax(0) + 0.4 * part.amin(0)).max());
        };
        const int64_t n = std::ssize(positions), large = (n + 2 * m_cluster - 1) / (2 * m_cluster),
                      small = (n + m_cluster - 1) / m_cluster;
        std::vector<std::pair<double, int64_t>> coarse, fine;
        for (int64_t i = 0; i < large; ++i)
            coarse.emplace_back(similarity(i * 2 * m_cluster, 2 * m_cluster), i);
        for (const int64_t i : best_and_ends(coarse, static_cast<double>(large) * m_coarse_share))
            for (int64_t k = 2 * i; k < std::min(2 * i + 2, small); ++k)
                fine.emplace_back(similarity(k * m_cluster, m_cluster), k);
        PositionSet chosen;
        for (const int64_t k : best_and_ends(fine, static_cast<double>(small) * m_fine_share))
            for (int64_t i = k * m_cluster; i < std::min((k + 1) * m_cluster, n); ++i)
                chosen.insert(positions[static_cast<size_t>(i)]);
        return chosen;
    }
    void after(const PlainLayer&) override {}
    PositionSet held(int64_t layer, int64_t, int64_t) const override { return m_held.at(layer); }

private:
    [[nodiscard]] std::set<int64_t> best_and_ends(std::vector<std::pair<double, int64_t>> scored,
                                                  double share) {
        std::set<int64_t> chosen{scored.front().second, scored.back().second};
        std::ranges::sort(scored, std::greater<>());
        const auto count = static_cast<size_t>(std::floor(share + 1e-9));
        if (count > 0 && count < scored.size()) compared(scored[count - 1].first - scored[count].first);
        for (size_t i = 0; i < std::min(count, scored.size()); ++i)
            chosen.insert(scored[i].second);
        return chosen;
    }

    double m_theta;
    int64_t m_cluster;
    double m_coarse_share, m_fine_share;
    std::map<int64_t, PositionSet> m_held; ///< of each layer: the same in all heads
};

/// Section 7 word for word: Cf, Cp, pend and qref of every layer.
class PlainRefresh final : public PlainPolicy {
public:
    explicit PlainRefresh(const PlainRefreshKv& settings)
        : m_s(settings) {}

    void prompt(const PlainLayer& view) override {
        Layer& layer = m_layers[view.layer];
        layer.committed = all_of(view.n());
        layer.reference = mean_query(view);
        for (int64_t head = 0; head < view.kv_heads; ++head)
            layer.partial.push_back(rebuilt(view, head));
    }

    PositionSet attended(const PlainLayer& view, int64_t kv_head, int64_t step) override {
        Layer& layer = m_layers.at(view.layer);
        const int64_t self = view.n() - 1;
        if (kv_head == 0) {
            const at::Tensor query = mean_query(view);
            layer.full = false;
            if (step % m_s.check_every == 0) {
                const double cosine =
                    number((query * layer.reference).sum() / query.norm() / layer.reference.norm());
                layer.full = m_s.fixed || cosine <= m_s.similarity;
                if (!m_s.fixed) compared(std::abs(cosine - m_s.similarity));
            }
            if (layer.full) {
                layer.committed.insert(layer.pending.begin(), layer.pending.end());
                layer.pending.clear();
                layer.reference = query;
            }
        }
        const auto& partial = layer.partial[static_cast<size_t>(kv_head)];
        PositionSet chosen = layer.full ? layer.committed : PositionSet(partial.begin(), partial.end());
        chosen.insert(self);
        return chosen;
    }

    void after(const PlainLayer& view) override {
        Layer& layer = m_layers.at(view.layer);
        const int64_t self = view.n() - 1;
        (layer.full ? layer.committed : layer.pending).insert(self);
        for (int64_t head = 0; head < view.kv_heads; ++head) {
            auto& partial = layer.partial[static_cast<size_t>(head)];
            if (layer.full && m_s.rebuild) {
                partial = rebuilt(view, head);
            } else {
                partial.push_back(self);
                if (std::ssize(partial) > m_s.size) partial.erase(partial.begin());
            }
        }
    }

    PositionSet held(int64_t layer, int64_t, int64_t) const override {
        PositionSet all = m_layers.at(layer).committed;
        all.insert(m_layers.at(layer).pending.begin(), m_layers.at(layer).pending.end());
        return all;
    }

private:
    struct Layer {
        PositionSet committed, pending;
        std::vector<std::vector<int64_t>> partial; ///< of each KV head, the least important first
        at::Tensor reference;
        bool full = false;
    };

    [[nodiscard]] static at::Tensor mean_query(const PlainLayer& view) {
        return view.raw_q[view.n() - 1].mean(0);
    }

    [[nodiscard]] std::vector<int64_t> rebuilt(const PlainLayer& view, int64_t head) {
        const at::Tensor rows =
            view.probabilities.narrow(0, head * view.group(), view.group()).select(1, view.n() - 1);
        const std::vector<double> one = numbers(m_s.mean_group ? rows.mean(0) : std::get<0>(rows.max(0)));
        std::vector<std::pair<double, int64_t>> scores;
        for (int64_t j = 0; j < view.n(); ++j) {
            const int64_t first = std::max<int64_t>(j - m_s.kernel / 2, 0),
                          end = std::min(j + m_s.kernel / 2 + 1, view.n());
            scores.emplace_back(*std::max_element(one.begin() + first, one.begin() + end), j);
        }
        std::ranges::sort(scores); // ties: lower position first
        const auto left_out = static_cast<size_t>(std::max<int64_t>(view.n() - m_s.size, 0));
        if (left_out > 0 && scores[left_out].first != scores[left_out - 1].first)
            compared(scores[left_out].first - scores[left_out - 1].first);
        std::vector<int64_t> best;
        for (size_t i = left_out; i < scores.size(); ++i)
            best.push_back(scores[i].second);
        return best;
    }

    PlainRefreshKv m_s;
    std::map<int64_t, Layer> m_layers;
};

/// W2 silu(W1 x), [n, kv_heads].
at::Tensor gate_of(const at::Tensor& x, const std::vector<at::Tensor>& weights) {
    const at::Tensor inner = at::matmul(x, weights[0].to(at::kDouble).narrow(1, 0, x.size(1)).t());
    return at::matmul(inner * at::sigmoid(inner), weights[1].to(at::kDouble).t());
}

/// Everything is read; what is held is thinned after each layer.
class PlainHeld : public PlainPolicy {
public:
    void prompt(const PlainLayer& view) override {
        for (int64_t head = 0; head < view.kv_heads; ++head)
            m_held[{view.layer, head}] = all_of(view.n());
        thin(view);
    }
    PositionSet attended(const PlainLayer& view, int64_t kv_head, int64_t) override {
        PositionSet all = m_held.at({view.layer, kv_head});
        all.insert(view.n() - 1);
        return all;
    }
    void after(const PlainLayer& view) override {
        for (int64_t head = 0; head < view.kv_heads; ++head)
            m_held[{view.layer, head}].insert(view.n() - 1);
        thin(view);
    }
    PositionSet held(int64_t layer, int64_t kv_head, int64_t) const override {
        return m_held.at({layer, kv_head});
    }

protected:
    /// Of the layer that was read.
    virtual void thin(const PlainLayer& view) = 0;

    std::map<std::pair<int64_t, int64_t>, PositionSet> m_held; ///< by layer and KV head
};

class PlainTrimKv final : public PlainHeld {
public:
    PlainTrimKv(int64_t budget, int64_t buffer, const GateWeights& gate, bool residual)
        : m_budget(budget)
        , m_buffer(buffer)
        , m_gate(gate)
        , m_residual(residual) {}

private:
    /// Every token's beta anew, from the text so far.
    void thin(const PlainLayer& view) override {
        const auto& weights = m_gate[static_cast<size_t>(view.layer)];
        const at::Tensor ln_beta = at::log_sigmoid(gate_of(m_residual ? view.residual : view.input, weights) +
                                                   weights[2].to(at::kDouble));
        for (int64_t head = 0; head < view.kv_heads; ++head) {
            PositionSet& held = m_held[{view.layer, head}];
            if (std::ssize(held) < m_budget + m_buffer) continue;
            std::vector<std::pair<double, int64_t>> order;
            for (const int64_t p : held)
                order.emplace_back(static_cast<double>(view.n() + 1 - p) * number(ln_beta[p][head]), p);
            std::ranges::sort(order, std::greater<>());
            const auto count = static_cast<size_t>(m_budget);
            compared(order[count - 1].first - order[count].first);
            for (size_t i = count; i < order.size(); ++i)
                held.erase(order[i].second);
        }
    }

    int64_t m_budget, m_buffer;
    GateWeights m_gate;
    bool m_residual;
};

/// One budget for all layers and heads.
class PlainMakeEachTokenCount final : public PlainHeld {
public:
    PlainMakeEachTokenCount(int64_t budget, int64_t buffer, const GateWeights& gate)
        : m_budget(budget)
        , m_buffer(buffer)
        , m_gate(gate) {}

private:
    void thin(const PlainLayer& view) override {
        const auto& weights = m_gate[static_cast<size_t>(view.layer)];
        m_ln_beta[view.layer] = at::log_sigmoid(gate_of(view.input, weights) + weights[2].to(at::kDouble));
        if (view.layer + 1 < std::ssize(m_gate)) return;
        const int64_t planes = std::ssize(m_held), n = view.n();
        int64_t entries = 0;
        for (const auto& [plane, held] : m_held)
            entries += std::ssize(held);
        if (entries < planes * (m_budget + m_buffer)) return;
        std::vector<std::tuple<double, int64_t, std::pair<int64_t, int64_t>>> order;
        for (const auto& [plane, held] : m_held)
            for (const int64_t p : held)
                if (p < n - 1) // the newest of each stays
                    order.emplace_back(static_cast<double>(n + 1 - p) *
                                           number(m_ln_beta.at(plane.first)[p][plane.second]),
                                       p, plane);
        std::ranges::sort(order, std::greater<>());
        const auto count = static_cast<size_t>(planes * (m_budget - 1));
        compared(std::get<0>(order[count - 1]) - std::get<0>(order[count]));
        for (size_t i = count; i < order.size(); ++i)
            m_held.at(std::get<2>(order[i])).erase(std::get<1>(order[i]));
    }

    int64_t m_budget, m_buffer;
    GateWeights m_gate;
    std::map<int64_t, at::Tensor> m_ln_beta;
};

class PlainAttentionGate final : public PlainOnce {
public:
    PlainAttentionGate(int64_t budget, const GateWeights& gate, bool causal)
        : m_budget(budget)
        , m_gate(gate)
        , m_causal(causal) {}

    void prompt(const PlainLayer& view) override {
        m_length = view.n();
        const auto& weights = m_gate[static_cast<size_t>(view.layer)];
        const auto of = [&](size_t i) {
            return at::matmul(view.input, weights[i].to(at::kDouble).narrow(1, 0, view.input.size(1)).t());
        };
        at::Tensor logits = at::matmul(of(0), of(1).t()) / std::sqrt(static_cast<double>(weights[0].size(0)));
        if (m_causal)
            logits =
                logits +
                at::full({m_length, m_length}, -std::numeric_limits<double>::infinity(), at::kDouble).triu(1);
        const at::Tensor block = at::matmul(at::softmax(logits, -1), of(2));
        const at::Tensor score =
            at::sigmoid(at::matmul(block, weights[3].to(at::kDouble).t()) + weights[4].to(at::kDouble));
        for (int64_t head = 0; head < view.kv_heads; ++head) {
            std::vector<std::pair<double, int64_t>> order;
            for (int64_t p = 0; p < m_length - 1; ++p)
                order.emplace_back(number(score[p][head]), p);
            std::ranges::sort(order, std::greater<>());
            auto& kept = m_kept[{view.layer, head}];
            kept.insert(m_length - 1);
            size_t stay = static_cast<size_t>(m_budget - 1);
            if (m_budget == 0) {
                stay = 0;
                for (const auto& [value, p] : order) {
                    compared(std::abs(value - 0.5));
                    if (value > 0.5) ++stay;
                }
            } else {
                compared(order[stay - 1].first - order[stay].first);
            }
            for (size_t i = 0; i < stay; ++i)
                kept.insert(order[i].second);
        }
    }

private:
    void choose() override {}
    int64_t m_budget;
    GateWeights m_gate;
    bool m_causal;
};

class PlainLocretPolicy final : public PlainOnce {
public:
    PlainLocretPolicy(const PlainLocret& settings, const GateWeights& gate, bool rotated)
        : m_s(settings)
        , m_gate(gate)
        , m_rotated(rotated) {}

    void prompt(const PlainLayer& view) override {
        m_length = view.n();
        const at::Tensor all = at::cat({(m_rotated ? view.q : view.raw_q).flatten(1),
                                        (m_rotated ? view.k : view.raw_k).flatten(1), view.v.flatten(1)},
                                       1);
        const at::Tensor scores = gate_of(all, m_gate[static_cast<size_t>(view.layer)]);
        for (int64_t head = 0; head < view.kv_heads; ++head) {
            PositionSet& kept = m_kept[{view.layer, head}];
            const int64_t pruned = m_length - m_s.last_tokens;
            for (int64_t p = 0; p < m_length; ++p) {
                kept.insert(p);
                const bool last = p + 1 == pruned;
                if (p < pruned && (last || (p + 1) % m_s.chunk == 0))
                    drop(kept, scores.select(1, head), last ? 0 : m_s.stabilizers);
            }
        }
    }

private:
    void choose() override {}
    /// The lowest one after the other, but none of the newest.
    void drop(PositionSet& kept, const at::Tensor& scores, int64_t safe) {
        while (std::ssize(kept) > m_s.budget) {
            std::vector<std::pair<double, int64_t>> open;
            const auto end = std::prev(kept.end(), std::min(safe, std::ssize(kept) - 1));
            for (auto p = kept.begin(); p != end; ++p)
                open.emplace_back(number(scores[*p]), *p);
            std::ranges::sort(open);
            if (open.size() > 1) compared(open[1].first - open[0].first);
            kept.erase(open[0].second);
        }
    }

    PlainLocret m_s;
    GateWeights m_gate;
    bool m_rotated;
};

} // namespace

void PlainPolicy::compared(double difference) {
    m_closest = std::min(m_closest, difference);
}

std::unique_ptr<PlainPolicy> plain_h2o(int64_t budget) {
    return std::make_unique<PlainH2o>(budget);
}
std::unique_ptr<PlainPolicy> plain_cake(int64_t budget, int64_t window) {
    return std::make_unique<PlainCake>(budget, window);
}
std::unique_ptr<PlainPolicy> plain_defensivekv(int64_t budget, int64_t window, bool all_layers) {
    return std::make_unique<PlainDefensive>(budget, window, all_layers);
}
std::unique_ptr<PlainPolicy> plain_arkv(int64_t budget, int64_t window) {
    return std::make_unique<PlainArkv>(budget, window);
}
std::unique_ptr<PlainPolicy> plain_lookahead_kv(int64_t budget, const GateWeights& gate,
                                                const ModelConfig& config,
                                                const std::map<std::string, at::Tensor>& weights) {
    return std::make_unique<PlainLookaheadKv>(budget, gate, config, weights);
}
std::unique_ptr<PlainPolicy> plain_dapq(int64_t budget, int64_t pseudo_tokens, const ModelConfig& config,
                                        const std::map<std::string, at::Tensor>& weights) {
    return std::make_unique<PlainDapQ>(budget, pseudo_tokens, config, weights);
}
std::unique_ptr<PlainPolicy> plain_compress_kv(int64_t budget, int64_t window, int64_t floor,
                                               std::vector<std::vector<int64_t>> heads,
                                               std::vector<double> errors) {
    return std::make_unique<PlainCompressKv>(budget, window, floor, std::move(heads), std::move(errors));
}
std::unique_ptr<PlainPolicy> plain_quest(int64_t budget, int64_t page, int64_t dense_layers) {
    return std::make_unique<PlainQuest>(budget, page, dense_layers);
}
std::unique_ptr<PlainPolicy> plain_fasa(int64_t budget, int64_t pairs, int64_t queries,
                                        int64_t dense_layers) {
    return std::make_unique<PlainFasa>(budget, pairs, queries, dense_layers);
}
std::unique_ptr<PlainPolicy> plain_infinigen(const PlainInfiniGen& settings, const ModelConfig& config,
                                             const std::map<std::string, at::Tensor>& weights) {
    return std::make_unique<GuessingPolicy>(settings, config, weights);
}
std::unique_ptr<PlainPolicy> plain_mpcache(double theta, int64_t cluster, double coarse_share,
                                           double fine_share) {
    return std::make_unique<PlainMpCache>(theta, cluster, coarse_share, fine_share);
}
std::unique_ptr<PlainPolicy> plain_trim_kv(int64_t budget, int64_t buffer, const GateWeights& gate,
                                           bool residual) {
    return std::make_unique<PlainTrimKv>(budget, buffer, gate, residual);
}
std::unique_ptr<PlainPolicy> plain_make_each_token_count(int64_t budget, int64_t buffer,
                                                         const GateWeights& gate) {
    return std::make_unique<PlainMakeEachTokenCount>(budget, buffer, gate);
}
std::unique_ptr<PlainPolicy> plain_attention_gate(int64_t budget, const GateWeights& gate, bool causal) {
    return std::make_unique<PlainAttentionGate>(budget, gate, causal);
}
std::unique_ptr<PlainPolicy> plain_locret(const PlainLocret& settings, const GateWeights& gate,
                                          bool rotated) {
    return std::make_unique<PlainLocretPolicy>(settings, gate, rotated);
}
std::unique_ptr<PlainPolicy> plain_refreshkv(const PlainRefreshKv& settings) {
    return std::make_unique<PlainRefresh>(settings);
}

PlainDecoder::PlainDecoder(ModelConfig config, std::map<std::string, at::Tensor> weights, PlainPolicy& policy)
    : m_config(std::move(config))
    , m_weights(std::move(weights))
    , m_policy(policy)
    , m_reads(static_cast<size_t>(m_config.num_layers * m_config.num_kv_heads))
    , m_rows(static_cast<size_t>(m_config.num_layers)) {
    for (auto& [name, weight] : m_weights)
        weight = weight.to(at::kDouble);
}

at::Tensor PlainDecoder::prompt(std::span<const int32_t> tokens, const GateWeights* soft) {
    m_tokens.assign(tokens.begin(), tokens.end());
    m_soft = soft;
    m_soft_rows = soft != nullptr ? soft->front().front().size(0) : 0;
    m_tokens.insert(m_tokens.end(), static_cast<size_t>(m_soft_rows), 0); // any ids stand for them
    m_prompt = length();
    m_policy.text(tokens);
    return recompute();
}

at::Tensor PlainDecoder::step(int32_t token) {
    m_tokens.push_back(token);
    return recompute();
}

at::Tensor PlainDecoder::norm(const at::Tensor& x, const std::string& name) const {
    return x / at::sqrt(x.pow(2).mean(-1, true) + m_config.rms_norm_eps) * weight(name);
}

at::Tensor PlainDecoder::rotated(const at::Tensor& x) const {
    const std::vector<float> frequencies = rope_frequencies(m_config);
    const at::Tensor angle = at::arange(x.size(0), at::kDouble).unsqueeze(1) *
                             at::tensor(frequencies, at::kFloat).to(at::kDouble).unsqueeze(0);
    const at::Tensor cosine = angle.cos().unsqueeze(1), sine = angle.sin().unsqueeze(1);
    const auto halves = x.chunk(2, 2);
    return at::cat({halves[0] * cosine - halves[1] * sine, halves[1] * cosine + halves[0] * sine}, 2);
}

at::Tensor PlainDecoder::recompute() {
    at::Tensor x = weight("model.embed_tokens.weight").index_select(0, at::tensor(m_tokens, at::kLong));
    const int64_t hard = length() - m_soft_rows;
    if (m_soft_rows > 0) x.slice(0, hard).copy_((*m_soft)[0][0].slice(1, 0, x.size(1)));
    const auto linear = [&](const at::Tensor& rows, const std::string& name) {
        at::Tensor made = at::matmul(rows, weight(name + ".weight").t());
        if (m_soft_rows == 0 || rows.dim() == 1) return made;
        constexpr std::array<std::string_view, 7> places{"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                         "gate_proj", "up_proj", "down_proj"};
        const auto at =
            std::ranges::find_if(places, [&](std::string_view place) { return name.ends_with(place); });
        const int64_t layer = std::stoll(name.substr(std::string("model.layers.").size()));
        const auto& gate = (*m_soft)[static_cast<size_t>(layer)];
        const size_t first = 1 + 2 * static_cast<size_t>(at - places.begin());
        const at::Tensor low = gate[first].to(at::kDouble).slice(1, 0, rows.size(1)),
                         high = gate[first + 1].to(at::kDouble).slice(0, 0, made.size(1));
        made.slice(0, hard) +=
            32.0 / static_cast<double>(low.size(0)) * rows.slice(0, hard).mm(low.t()).mm(high.t());
        return made;
    };
    for (int64_t layer = 0; layer < m_config.num_layers; ++layer) {
        const std::string prefix = "model.layers." + std::to_string(layer) + ".";
        const at::Tensor h = norm(x, prefix + "input_layernorm.weight");
        const auto heads = [&](const char* name) {
            return linear(h, prefix + "self_attn." + name + "_proj").view({length(), -1, m_config.head_dim});
        };
        PlainLayer view{
            layer, m_config.num_heads, m_config.num_kv_heads, heads("q"), {}, {}, {}, heads("k"), h, x, {},
            {}};
        view.q = rotated(view.raw_q);
        view.k = rotated(view.raw_k);
        view.v = heads("v");
        view.output = weight(prefix + "self_attn.o_proj.weight");
        x = x + linear(attend(view, view.v), prefix + "self_attn.o_proj");
        const at::Tensor g = norm(x, prefix + "post_attention_layernorm.weight");
        const at::Tensor gate = linear(g, prefix + "mlp.gate_proj");
        x = x +
            linear(gate * at::sigmoid(gate) * linear(g, prefix + "mlp.up_proj"), prefix + "mlp.down_proj");
    }
    return linear(norm(x[length() - 1], "model.norm.weight"), "lm_head");
}

at::Tensor PlainDecoder::attend(PlainLayer& view, const at::Tensor& v) {
    const int64_t n = length(), group = view.group();
    at::Tensor visible = at::ones({view.heads, n, n}, at::kBool).tril().contiguous();
    bool* const flags = visible.mutable_data_ptr<bool>();
    for (int64_t head = 0; head < view.kv_heads; ++head) {
        auto& reads = m_reads[static_cast<size_t>(view.layer * view.kv_heads + head)];
        if (n > m_prompt) reads.push_back(m_policy.attended(view, head, n - m_prompt));
        for (size_t i = 0; i < reads.size(); ++i) {
            for (int64_t h = head * group; h < (head + 1) * group; ++h) {
                bool* const row = flags + (h * n + m_prompt + static_cast<int64_t>(i)) * n;
                std::fill_n(row, n, false);
                for (const int64_t p : reads[i])
                    row[p] = true;
            }
        }
    }
    const at::Tensor keys = view.k.permute({1, 2, 0}).repeat_interleave(group, 0),
                     values = v.transpose(0, 1).repeat_interleave(group, 0);
    const at::Tensor scores =
        at::matmul(view.q.transpose(0, 1), keys) / std::sqrt(static_cast<double>(m_config.head_dim));
    view.probabilities =
        at::softmax(scores.masked_fill(~visible, -std::numeric_limits<double>::infinity()), -1);
    if (n == m_prompt) {
        m_policy.prompt(view);
    } else {
        m_policy.after(view);
    }
    m_rows[static_cast<size_t>(view.layer)] = view.probabilities.select(1, n - 1).clone();
    return at::matmul(view.probabilities, values).transpose(0, 1).reshape({n, -1});
}

} // namespace refreshlab::test
