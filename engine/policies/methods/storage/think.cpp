// ThinK: of the prompt's keys, the channels go that weigh least; values stay whole.
//   score[c] = mean over the last w queries and the group of q_c^2, times mean over the prompt's keys of k_c^2, after RoPE
//   the lowest int(dropped * head_dim) channels leave the keys of all prompt entries but the newest w (of these as well with
//   `keep_window` off)
// Scores of the others are as if queries had lost these channels as well. Entries that are generated later keep all channels.
// Source: reference/cache-definitions.md, section 9; Xu et al. 2024 (ThinK).
#include "engine/base/check.h"
#include "engine/policies/cache_scores.h"
#include "engine/policies/common_parameters.h"
#include "engine/policies/entry_codec.h"
#include "engine/policies/methods/method_list.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace refreshlab {

namespace {

/// Keeps some channels of each row as they are; the others are read as 0. Metadata: one bit a channel.
class ChannelCodec final : public EntryCodec {
public:
    explicit ChannelCodec(std::vector<int64_t> kept) ///< ascending
        : m_kept(std::move(kept)) {}
    [[nodiscard]] EncodedBlock encode(std::span<const float> rows, const BlockShape& shape) const override {
        EncodedBlock block;
        block.metadata.resize(static_cast<size_t>((shape.head_dim + 7) / 8), 0);
        for (const int64_t c : m_kept)
            block.metadata[static_cast<size_t>(c / 8)] |= static_cast<uint8_t>(1U << (c % 8));
        for (int64_t i = 0; i < shape.n; ++i)
            for (const int64_t c : m_kept)
                put_number(block.payload, rows[static_cast<size_t>(i * shape.head_dim + c)], shape.stored_as);
        return block;
    }
    void decode(const EncodedBlock& block, const BlockShape& shape, const BlockPart& part,
                float* to) const override {
        std::fill(to, to + std::ssize(part.rows) * part.channels, 0.0F);
        const auto place = [this](int64_t channel) {
            return std::ranges::lower_bound(m_kept, channel) - m_kept.begin();
        };
        const int64_t first = place(part.first_channel), last = place(part.first_channel + part.channels);
        std::vector<float> kept(static_cast<size_t>(last - first));
        for (const int64_t row : part.rows) {
            numbers_at(block.payload, row * std::ssize(m_kept) + first, shape.stored_as, kept);
            for (int64_t k = first; k < last; ++k)
                to[m_kept[static_cast<size_t>(k)] - part.first_channel] =
                    kept[static_cast<size_t>(k - first)];
            to += part.channels;
        }
    }
    // Turned, a query has lost these channels as well, and rows are read where they stand.
    [[nodiscard]] int64_t turned_width(int64_t) const override { return std::ssize(m_kept); }
    void turn(std::span<const float> query, float* to) const override {
        for (const int64_t c : m_kept)
            *to++ = query[static_cast<size_t>(c)];
    }
    [[nodiscard]] TurnedRows turned_rows(const EncodedBlock& block) const override {
        return {block.payload.data(), std::ssize(m_kept)};
    }
    void read_turned(const EncodedBlock& block, const BlockShape& shape, std::span<const int64_t> rows,
                     float* to) const override {
        numbers_of_rows(block.payload, rows, shape.stored_as, {to, rows.size() * m_kept.size()});
    }

private:
    std::vector<int64_t> m_kept;
};

class Think final : public CacheMethodBase<Think> {
public:
    Think(const CacheValues& values, const PolicyContext& context)
        : m_window(values.whole("window"))
        , m_whole(values.flag("keep_window") ? m_window : 0)
        // A share such as 0.3 of 10 channels is 3 of them, whatever its last bit.
        , m_dropped(static_cast<int64_t>(
              std::floor(values.real("dropped") * static_cast<double>(context.head_dim) + 1e-9)))
        , m_context(context) {}

    [[nodiscard]] PolicyNeeds needs() const override { return {.prompt_queries = m_window, .encodes = true}; }

    void read_prompt(const PromptView& view, CacheEditor& cache) override {
        if (view.length <= m_whole || m_dropped == 0) return;
        std::vector<int64_t> every(static_cast<size_t>(view.length));
        std::iota(every.begin(), every.end(), 0);
        const std::span older = std::span(every).first(static_cast<size_t>(view.length - m_whole));
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            std::vector<float> scores = squares_of_queries(view, head);
            const std::vector<float> of_keys = mean_squares(cache.keys(view.layer, head, every));
            for (size_t c = 0; c < scores.size(); ++c)
                scores[c] *= of_keys[c];
            auto codec =
                std::make_shared<ChannelCodec>(cache_scores::top(scores, m_context.head_dim - m_dropped));
            cache.encode(view.layer, head, KvHalf::keys, older, std::move(codec));
        }
    }

private:
    /// [head_dim], over rows [n, head_dim].
    [[nodiscard]] std::vector<float> mean_squares(std::span<const float> rows) const {
        const auto d = static_cast<size_t>(m_context.head_dim);
        std::vector<float> mean(d, 0.0F);
        for (size_t i = 0; i < rows.size(); ++i)
            mean[i % d] += rows[i] * rows[i];
        for (float& value : mean)
            value /= static_cast<float>(rows.size() / d);
        return mean;
    }
    [[nodiscard]] std::vector<float> squares_of_queries(const PromptView& view, int64_t head) const {
        std::vector<float> rows;
        for (int64_t i = 0; i < view.queries.n0; ++i) {
            for (int64_t g = 0; g < m_context.group(); ++g) {
                const auto q = view.queries.row(i, head * m_context.group() + g);
                rows.insert(rows.end(), q.begin(), q.end());
            }
        }
        return mean_squares(rows);
    }

    int64_t m_window, m_whole, m_dropped; ///< m_whole: the newest entries that keep all channels
    PolicyContext m_context;
};

} // namespace

CacheMethod cache_method_list::think() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "think";
    method.label = "ThinK";
    method.summary = "Everything stays and is read; keys of the prompt lose the channels that weigh least.";
    method.cost =
        "stores the prompt's keys without `dropped` of their channels; decoded where attention reads";
    method.source = "Xu et al. 2024 (ThinK)";
    method.parameters = {
        real("dropped", "Dropped channels", "", "Share of the key channels that go.", 0, 1, 0.4), window(),
        flag("keep_window", "Keep the window",
             "Keys of the window stay whole; off: they lose channels as well (as in kvpress).", true)};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<Think>(values, context);
    };
    return method;
}

} // namespace refreshlab
