// EpiCache, for conversations: what stays of a long history is judged by the episode that the question belongs to.
//   windows   of the prompt, counted from its end: the last one is the question, those before it are the history
//   episodes  the history's windows by k-means over their embeddings; the question has the episode whose centre is nearest
//   probe     of that episode the windows nearest its centre, which are read again behind the prompt
//   score[h][j] = maximum over probe rows and group of the softmax over the entries that are held
// The history goes through in blocks. After each, the best entries of a KV head stay, or as many over all heads of the layer: `budget` of them, or
// by_profile a layer's share of `budget` times the layers.
//   share     in proportion to (1 - s)^1.1, s the layer's similarity in the profile between its keys of whole texts and of blocks read alone, scaled to
//             0 .. 1 over the layers; a quarter of `budget` at least, the whole history at most
// The question and what is generated stay.
// Ours: a window is so many tokens, as not every prompt has utterances, and is embedded as the mean of its tokens' embeddings. The prompt is read
// whole (rule 7), so a probe's rows are those over all entries, divided by what they give the held ones; layers that have the least keep it, and the
// others share the rest, so that the sum is exact (the released code exceeds it); the other episodes' caches, which this question does not
// read, are not made.
// Source: reference/cache-definitions.md, section 5; Kim et al. 2025 (EpiCache).
#include "engine/base/check.h"
#include "engine/policies/cache_profile.h"
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"
#include "engine/policies/methods/prompt/k_means.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace refreshlab {

namespace {

constexpr double sharpness = 1.1, least_share = 0.25;

/// Numbers with this sum in proportion to weights, but each `least` at least and `most` at most.
/// \param weights  0 to 1, not all 0
std::vector<double> in_proportion(const std::vector<double>& weights, double sum, double least, double most) {
    constexpr double smallest = 1e-6; // takes what others have no room for
    const auto scaled = [&](double by) {
        std::vector<double> numbers;
        for (const double weight : weights)
            numbers.push_back(std::clamp(by * std::max(weight, smallest), least, most));
        return numbers;
    };
    double low = 0, high = most / smallest;
    for (int i = 0; i < 100; ++i) {
        const double middle = (low + high) / 2;
        const std::vector<double> numbers = scaled(middle);
        (std::accumulate(numbers.begin(), numbers.end(), 0.0) < sum ? low : high) = middle;
    }
    return scaled(high);
}

/// Whole numbers with this sum, which is that of `numbers`: the largest remainders are rounded up, of equal ones those that come first.
std::vector<int64_t> rounded(const std::vector<double>& numbers, int64_t sum) {
    constexpr double rounding = 1e-6;
    std::vector<int64_t> whole;
    for (const double number : numbers)
        whole.push_back(static_cast<int64_t>(std::floor(number + rounding)));
    std::vector<size_t> order(numbers.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) {
        return std::round((numbers[i] - static_cast<double>(whole[i])) / rounding);
    });
    int64_t left = sum - std::accumulate(whole.begin(), whole.end(), int64_t{0});
    for (const size_t i : order)
        if (left-- > 0) ++whole[i];
    return whole;
}

/// Entries of a KV head in each layer.
std::vector<int64_t> layer_budgets(const CacheProfile& profile, int64_t budget, int64_t history) {
    std::vector<double> weights;
    for (size_t layer = 0; layer < profile.layers.size(); ++layer)
        weights.push_back(profile.of(layer, "similarity").front());
    const auto [least, most] = std::ranges::minmax(weights);
    if (least == most || history <= budget) return std::vector(weights.size(), budget);
    for (double& weight : weights)
        weight = std::pow(1 - (weight - least) / (most - least), sharpness);
    const int64_t sum = budget * std::ssize(weights);
    return rounded(in_proportion(weights, static_cast<double>(sum), least_share * static_cast<double>(budget),
                                 static_cast<double>(history)),
                   sum);
}

class EpiCache final : public CacheMethodBase<EpiCache> {
public:
    EpiCache(const CacheValues& values, const PolicyContext& context)
        : m_budget(values.whole("budget"))
        , m_window(values.whole("episode_window"))
        , m_episodes(values.whole("episodes"))
        , m_probes(values.whole("probes"))
        , m_block(values.whole("block"))
        , m_pooled(values.flag("across_heads"))
        , m_history(std::max<int64_t>(context.prompt_length - m_window, 0))
        , m_context(context)
        , m_layers(static_cast<size_t>(context.layers)) {
        RL_ASSERT(!values.flag("by_profile") || context.profile != nullptr);
        m_budgets = values.flag("by_profile") ? layer_budgets(*context.profile, m_budget, m_history)
                                              : std::vector(static_cast<size_t>(context.layers), m_budget);
    }

    [[nodiscard]] PolicyNeeds needs() const override {
        return {.window_embeddings = m_history > m_budget ? m_window : 0};
    }

    std::vector<int64_t> read_again(const Cube& windows) override {
        const int64_t history = windows.n1 - 1; // the last is the question
        std::vector<std::span<const float>> points;
        for (int64_t w = 0; w < history; ++w)
            points.push_back(windows.row(0, w));
        const KMeans found = k_means(points, m_episodes, m_context.seed);
        const size_t episode = nearest_centre(found, windows.row(0, history));
        std::vector<size_t> members;
        for (size_t w = 0; w < points.size(); ++w)
            if (found.cluster[w] == episode) members.push_back(w);
        std::ranges::stable_sort(members, {}, [&](size_t w) { return found.distance[w]; });
        members.resize(std::min(members.size(), static_cast<size_t>(m_probes)));
        std::ranges::sort(members);
        std::vector<int64_t> positions;
        const int64_t first =
            m_history - history * m_window; // of the first window, which may begin before the prompt
        for (const size_t w : members) {
            const int64_t begin = first + static_cast<int64_t>(w) * m_window;
            for (int64_t p = std::max<int64_t>(begin, 0); p < begin + m_window; ++p)
                positions.push_back(p);
        }
        return positions;
    }

    void read_future(const FutureView& view) override {
        Layer& layer = m_layers[static_cast<size_t>(view.layer)];
        RL_ASSERT(layer.heads.empty()); // a probe is one part
        layer.heads.resize(static_cast<size_t>(m_context.kv_heads));
        for (int64_t begin = 0; begin < m_history; begin += m_block) {
            const int64_t end = std::min(begin + m_block, m_history);
            for (int64_t head = 0; head < m_context.kv_heads; ++head) {
                Head& of = layer.heads[static_cast<size_t>(head)];
                for (int64_t p = begin; p < end; ++p)
                    of.held.push_back(p);
                of.scores = scores(view.rows, head, of.held);
                of.told.resize(static_cast<size_t>(end));
                for (size_t i = 0; i < of.held.size(); ++i)
                    of.told[static_cast<size_t>(of.held[i])] = of.scores[i];
            }
            evict(layer, m_budgets[static_cast<size_t>(view.layer)]);
        }
    }

    void finish_prompt(CacheEditor& cache) override {
        for (size_t l = 0; l < m_layers.size(); ++l) {
            for (size_t h = 0; h < m_layers[l].heads.size(); ++h) {
                Head& head = m_layers[l].heads[h];
                const auto layer = static_cast<int64_t>(l), kv_head = static_cast<int64_t>(h);
                cache.score(layer, kv_head, cache.held(layer, kv_head).first(head.told.size()), head.told);
                for (int64_t p = m_history; p < m_context.prompt_length; ++p)
                    head.held.push_back(p);
                cache.keep(layer, kv_head, head.held);
            }
        }
        m_layers.clear();
    }

private:
    struct Head {
        std::vector<int64_t> held;
        std::vector<float> scores; ///< of those that were held before the last eviction
        std::vector<float> told;   ///< of every position so far, the last that it had
    };
    struct Layer {
        std::vector<Head> heads; ///< empty: nothing was read here
    };

    [[nodiscard]] std::vector<float> scores(const Cube& rows, int64_t head,
                                            const std::vector<int64_t>& held) const {
        std::vector<float> most(held.size(), 0);
        for (int64_t row = 0; row < rows.n0; ++row) {
            for (int64_t g = 0; g < m_context.group(); ++g) {
                const auto attention = rows.row(row, head * m_context.group() + g);
                float sum = 0;
                for (const int64_t p : held)
                    sum += attention[static_cast<size_t>(p)];
                if (sum == 0) continue; // a sliding window hides them all
                for (size_t i = 0; i < held.size(); ++i)
                    most[i] = std::max(most[i], attention[static_cast<size_t>(held[i])] / sum);
            }
        }
        return most;
    }

    void evict(Layer& layer, int64_t budget) const {
        if (!m_pooled) {
            for (Head& head : layer.heads)
                keep(head, cache_scores::top(head.scores, budget));
            return;
        }
        std::vector<float> all; // head after head
        for (const Head& head : layer.heads)
            all.insert(all.end(), head.scores.begin(), head.scores.end());
        const auto best = cache_scores::top(all, budget * m_context.kv_heads);
        int64_t first = 0;
        for (Head& head : layer.heads) {
            const int64_t n = std::ssize(head.scores);
            std::vector<int64_t> own;
            for (const int64_t i : best)
                if (i >= first && i < first + n) own.push_back(i - first);
            keep(head, own);
            first += n;
        }
    }
    static void keep(Head& head, const std::vector<int64_t>& indices) {
        std::vector<int64_t> held;
        for (const int64_t i : indices)
            held.push_back(head.held[static_cast<size_t>(i)]);
        head.held = std::move(held);
    }

    int64_t m_budget, m_window, m_episodes, m_probes, m_block;
    bool m_pooled;
    int64_t m_history; ///< tokens before the question
    PolicyContext m_context;
    std::vector<int64_t> m_budgets; ///< [layers]
    std::vector<Layer> m_layers;    ///< until the prompt is read
};

} // namespace

CacheMethod cache_method_list::epicache() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "epicache";
    method.label = "EpiCache";
    method.summary =
        "Of a conversation, what parts of it attend to that are like the question stays, and the "
        "question; all that is generated stays.";
    method.cost = "stores and reads `budget` + `episode_window` entries (mean of the layers) and the "
                  "generated ones; a pass over "
                  "`probes` windows, once";
    method.source = "Kim et al. 2025 (EpiCache)";
    method.prompt_only = true;
    method.parameters = {
        budget(),
        whole("episode_window", "Window", "tokens",
              "The prompt is divided into windows of so many tokens; the last one is the question.", 1, 64,
              64),
        whole("episodes", "Episodes", "", "Groups of windows that are alike.", 1, 64, 4),
        whole("probes", "Probes", "windows", "Windows of the question's episode that are read again.", 1, 8,
              8),
        whole("block", "Block", "tokens", "The history's entries are chosen block by block.", 1, most_entries,
              2048),
        flag("across_heads", "Across heads", "The KV heads of a layer share one budget.", false),
        flag("by_profile", "By profile",
             "Layers whose keys change more without distant tokens hold more, as a profile says; off: all "
             "hold as many.",
             false)};
    method.files = {profile_file()};
    method.profile = [](const PolicyContext&) { return std::vector<ProfilePart>{{"similarity", 1, 1}}; };
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<EpiCache>(values, context);
    };
    return method;
}

} // namespace refreshlab
