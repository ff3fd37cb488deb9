#include "engine/record/recording/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace refreshlab {

namespace {

/// Bit equality, except that a measured NaN equals any other: the payload of a NaN is the processor's affair, and a
/// trace does not keep it.
bool same(float a, float b) {
    if (std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b)) return true;
    return std::isnan(a) && std::isnan(b) && !is_absent(a) && !is_absent(b);
}

bool same(double a, double b) {
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}

std::string shown(float v) {
    return is_absent(v) ? "absent" : fmt::format("{}", v);
}
std::string shown(double v) {
    return fmt::format("{}", v);
}
std::string shown(const std::optional<double>& v) {
    return v ? shown(*v) : "none";
}

/// Collects the first difference; once there is one, everything else is skipped.
class Differ {
public:
    /// As first_difference().
    Differ(double tolerance, Deviation* largest)
        : m_tolerance(tolerance)
        , m_largest(largest) {}
    [[nodiscard]] bool exact() const { return m_tolerance == 0; }

    template <class T>
    Differ& check(const std::string& where, const char* field, const T& a, const T& b) {
        if (!m_difference && !(a == b)) m_difference = fmt::format("{}: {} {} / {}", where, field, a, b);
        return *this;
    }
    Differ& number(const std::string& where, const char* field, float a, float b) {
        if (!m_difference && !close(where, field, a, b))
            m_difference = fmt::format("{}: {} {} / {}", where, field, shown(a), shown(b));
        return *this;
    }
    Differ& number(const std::string& where, const char* field, double a, double b) {
        if (!m_difference && !close(where, field, a, b))
            m_difference = fmt::format("{}: {} {} / {}", where, field, shown(a), shown(b));
        return *this;
    }
    Differ& number(const std::string& where, const char* field, const std::optional<double>& a,
                   const std::optional<double>& b) {
        const bool equal = a && b ? close(where, field, *a, *b) : a.has_value() == b.has_value();
        if (!m_difference && !equal)
            m_difference = fmt::format("{}: {} {} / {}", where, field, shown(a), shown(b));
        return *this;
    }
    Differ& numbers(const std::string& where, const char* field, const std::vector<float>& a,
                    const std::vector<float>& b) {
        check(where, (std::string("size of ") + field).c_str(), a.size(), b.size());
        for (size_t i = 0; i < a.size() && !m_difference; ++i) {
            if (!close(where, field, a[i], b[i]))
                m_difference = fmt::format("{}: {}[{}] {} / {}", where, field, i, shown(a[i]), shown(b[i]));
        }
        return *this;
    }
    template <class Vector>
    Differ& sequence(const std::string& where, const char* field, const Vector& a, const Vector& b) {
        check(where, (std::string("size of ") + field).c_str(), a.size(), b.size());
        if (m_difference) return *this;
        const auto [at_a, at_b] = std::ranges::mismatch(a, b);
        if (at_a == a.end()) return *this;
        m_difference = fmt::format("{}: {}[{}] {} / {}", where, field, at_a - a.begin(), *at_a, *at_b);
        return *this;
    }
    [[nodiscard]] bool found() const { return m_difference.has_value(); }
    [[nodiscard]] std::optional<std::string> take() { return std::move(m_difference); }

private:
    /// The same bits, or within the tolerance. What was not measured, and what is not finite, must be the same.
    template <class T>
    bool close(const std::string& where, const char* field, T a, T b) {
        if (same(a, b)) return true;
        if (exact() || !std::isfinite(a) || !std::isfinite(b)) return false;
        const auto x = static_cast<double>(a), y = static_cast<double>(b);
        const double size = std::abs(x - y) / std::max({1.0, std::abs(x), std::abs(y)});
        if (size > m_tolerance) return false;
        if (m_largest != nullptr && size > m_largest->size)
            *m_largest = {size, fmt::format("{}: {}", where, field)};
        return true;
    }

    double m_tolerance;
    Deviation* m_largest; ///< may be null
    std::optional<std::string> m_difference;
};

void compare_info(Differ& c, const RunInfo& a, const RunInfo& b) {
    c.check("prompt", "same text", true,
            a.rendered_prompt == b.rendered_prompt); // not shown: it may have many lines
    c.sequence("prompt", "token", a.prompt_ids, b.prompt_ids);
    c.check("run", "y_1", a.first_token, b.first_token);
    c.check("run", "producer of y_1", static_cast<int>(a.first_producer), static_cast<int>(b.first_producer));
    c.number("run", "logprob of y_1", a.first_logprob, b.first_logprob);
    c.check("run", "vocab_size", a.vocab_size, b.vocab_size).check("run", "layers", a.layers, b.layers);
    c.check("run", "heads", a.heads, b.heads).check("run", "kv_heads", a.kv_heads, b.kv_heads);
    c.check("run", "head_dim", a.head_dim, b.head_dim);
    c.check("run", "cache_bytes_per_token", a.cache_bytes_per_token, b.cache_bytes_per_token);
}

/// Where numbers may differ, neighbours may change places, and the last one kept may be another.
void compare_candidates(Differ& c, const std::string& where, const StepRecord& x, const StepRecord& y) {
    if (c.exact()) {
        for (size_t i = 0; i < x.top_k; ++i) {
            c.check(where, "candidate", x.top_ids[i], y.top_ids[i]);
            c.number(where, "candidate's probability", x.top_probs[i], y.top_probs[i]);
        }
        return;
    }
    for (const auto& [one, other] : {std::pair(&x, &y), std::pair(&y, &x)}) {
        for (size_t i = 0; i < one->top_k; ++i) {
            const auto begin = other->top_ids.begin(), end = begin + other->top_k;
            const bool in_place = other->top_ids[i] == one->top_ids[i];
            const auto found =
                in_place ? i : static_cast<size_t>(std::find(begin, end, one->top_ids[i]) - begin);
            const size_t at = std::min<size_t>(found, other->top_k - 1U);
            c.number(where, "candidate's probability", one->top_probs[i], other->top_probs[at]);
        }
    }
}

/// Ids of the signals that both recordings can have values of, in a and in b. By name: a component may publish in another
/// order, and an old program had fewer.
using SharedSignals = std::vector<std::pair<size_t, size_t>>;
SharedSignals shared_signals(const Recording& a, const Recording& b) {
    SharedSignals shared;
    for (size_t id = 0; id < a.signals().size(); ++id) {
        const auto other = b.signal_id(a.signals()[id].name);
        if (other && a.knows_signal(id) && b.knows_signal(*other)) shared.emplace_back(id, *other);
    }
    return shared;
}

void compare_step(Differ& c, const Recording& a, const Recording& b, const SharedSignals& shared, int64_t t) {
    const StepRecord& x = a.step(t);
    const StepRecord& y = b.step(t);
    const std::string where = fmt::format("step {}", t);
    c.check(where, "position", x.position, y.position).check(where, "token", x.token_id, y.token_id);
    c.check(where, "next token", x.next_token_id, y.next_token_id);
    c.check(where, "producer", static_cast<int>(x.producer), static_cast<int>(y.producer));
    c.check(where, "next producer", static_cast<int>(x.next_producer), static_cast<int>(y.next_producer));
    c.check(where, "fed", x.fed, y.fed).check(where, "top_k", x.top_k, y.top_k);
    if (c.found()) return;
    compare_candidates(c, where, x, y);
    for (const auto& [in_a, in_b] : shared) {
        const std::string name(a.signals()[in_a].name);
        c.number(where, name.c_str(), a.signal(t, in_a), b.signal(t, in_b));
        if (!a.signals()[in_a].layered) continue;
        const auto of_a = a.layer_values(t, in_a), of_b = b.layer_values(t, in_b);
        c.check(where, ("layers of " + name).c_str(), of_a.size(), of_b.size());
        for (size_t layer = 0; layer < of_a.size() && !c.found(); ++layer)
            c.number(where, fmt::format("{} of layer {}", name, layer).c_str(), of_a[layer], of_b[layer]);
        if (c.found()) return;
    }
}

void compare_refresh(Differ& c, const std::string& where, const RefreshEvent& x, const RefreshEvent& y) {
    c.check(where, "step", x.step, y.step)
        .check(where, "fired_step", x.fired_step, y.fired_step)
        .check(where, "id", x.id, y.id)
        .check(where, "automatic", x.automatic, y.automatic);
    c.check(where, "delta", x.delta, y.delta).check(where, "first_pos", x.first_pos, y.first_pos);
    c.check(where, "spliced", x.spliced, y.spliced).check(where, "pass_tokens", x.pass_tokens, y.pass_tokens);
    if (x.bytes_sent && y.bytes_sent) c.check(where, "bytes_sent", *x.bytes_sent, *y.bytes_sent);
    c.check(where, "on_fire", static_cast<int>(x.on_fire), static_cast<int>(y.on_fire));
    c.check(where, "token_before", x.token_before, y.token_before)
        .check(where, "token_after", x.token_after, y.token_after);
    c.number(where, "kl_nats", x.kl_nats, y.kl_nats).number(where, "mean_drift", x.mean_drift, y.mean_drift);
    c.check(where, "number of hits", x.hits.size(), y.hits.size());
    if (c.found()) return;
    for (size_t i = 0; i < x.hits.size(); ++i) {
        const TriggerHit& h = x.hits[i];
        const TriggerHit& k = y.hits[i];
        c.check(where, "hit's trigger", h.trigger, k.trigger)
            .check(where, "hit's signal", h.signal, k.signal);
        c.number(where, "hit's value", h.value, k.value)
            .number(where, "hit's threshold", h.threshold, k.threshold);
        c.check(where, "hit's letter", h.letter, k.letter);
        c.check(where, "hit's reduction", to_string(h.reduce), to_string(k.reduce))
            .check(where, "hit's layer", h.layer, k.layer);
    }
}

void compare_pass(Differ& c, const std::string& where, const PassEvent& x, const PassEvent& y) {
    c.check(where, "step", x.step, y.step).check(where, "first_pos", x.first_pos, y.first_pos);
    c.check(where, "tokens", x.tokens, y.tokens).check(where, "probe", x.probe, y.probe);
    c.check(where, "shadow", x.shadow, y.shadow).number(where, "kl_nats", x.kl_nats, y.kl_nats);
}

void compare_draft(Differ& c, const std::string& where, const DraftEvent& x, const DraftEvent& y) {
    c.check(where, "step", x.step, y.step).check(where, "refresh_id", x.refresh_id, y.refresh_id);
    c.check(where, "first_pos", x.first_pos, y.first_pos).check(where, "instead", x.instead, y.instead);
    c.check(where, "rejected_read", x.rejected_read, y.rejected_read)
        .check(where, "tokens", x.tokens.size(), y.tokens.size());
    for (size_t i = 0; i < x.tokens.size() && !c.found(); ++i) {
        const DraftToken &a = x.tokens[i], &b = y.tokens[i];
        c.check(where, "token", a.token_id, b.token_id).check(where, "stays", a.stays, b.stays);
        c.number(where, "p_teacher", a.p_teacher, b.p_teacher)
            .number(where, "p_student", a.p_student, b.p_student);
        c.number(where, "expected", a.expected, b.expected);
    }
}

void compare_command(Differ& c, const std::string& where, const CommandEvent& x, const CommandEvent& y) {
    c.check(where, "step", x.step, y.step).check(where, "json", x.json, y.json);
}

void compare_drift(Differ& c, const std::string& where, const DriftMap& x, const DriftMap& y) {
    c.check(where, "step", x.step, y.step).check(where, "refresh_id", x.refresh_id, y.refresh_id);
    c.check(where, "first_pos", x.first_pos, y.first_pos).check(where, "positions", x.positions, y.positions);
    c.check(where, "layers", x.layers, y.layers).check(where, "values", x.has_values(), y.has_values());
    c.numbers(where, "k", x.k, y.k).numbers(where, "v", x.v, y.v);
    c.numbers(where, "k_max", x.k_max, y.k_max).numbers(where, "v_max", x.v_max, y.v_max);
}

/// Entries as they are stored: which events become one does not depend on forks.
void compare_cache_entry(Differ& c, const std::string& where, const CacheEntry& x, const CacheEntry& y) {
    c.check(where, "step", x.step, y.step).check(where, "steps", x.steps(), y.steps());
    c.check(where, "teacher", x.teacher, y.teacher)
        .check(where, "change", to_string(x.change), to_string(y.change));
    c.check(where, "layer", x.layer, y.layer).check(where, "kv_head", x.kv_head, y.kv_head);
    c.check(where, "origin", origin_name(x.origin), origin_name(y.origin))
        .check(where, "refresh_id", x.refresh_id, y.refresh_id)
        .check(where, "bytes_stride", x.bytes_stride, y.bytes_stride);
    const auto text = [](const CacheEntry& entry) {
        std::string ranges;
        for (const PositionRange& range : entry.positions())
            ranges += fmt::format("{}+{} ", range.first, range.n);
        return ranges;
    };
    c.check(where, "positions", text(x), text(y));
    c.check(where, "bytes", fmt::format("{}", fmt::join(x.bytes(), ",")),
            fmt::format("{}", fmt::join(y.bytes(), ",")));
}

template <class Log, class Compare>
void compare_logs(Differ& c, const char* what, const Log& a, const Log& b, Compare compare) {
    const size_t n = a.size(), m = b.size();
    for (size_t i = 0; i < std::min(n, m) && !c.found(); ++i)
        compare(c, fmt::format("{} {}", what, i), a[i], b[i]);
    c.check(what, "count", n, m);
}

std::vector<float> floats(std::span<const uint16_t> halves) {
    std::vector<float> values(halves.size());
    std::ranges::transform(halves, values.begin(), half_to_float);
    return values;
}

void compare_attention(Differ& c, const Recording& a, const Recording& b) {
    const auto of_a = a.attention_rows();
    const auto of_b = b.attention_rows();
    for (size_t i = 0; i < std::min(of_a.size(), of_b.size()) && !c.found(); ++i) {
        const AttentionRows& x = *of_a[i];
        const AttentionRows& y = *of_b[i];
        const std::string where = fmt::format("attention of position {}", x.position);
        c.check(where, "position", x.position, y.position).check(where, "teacher", x.teacher, y.teacher);
        c.check(where, "step", x.step, y.step)
            .check(where, "heads", x.heads, y.heads)
            .check(where, "keys", x.keys, y.keys)
            .check(where, "keys told apart", x.exact, y.exact);
        c.sequence(where, "layer", x.layers, y.layers);
        c.sequence(where, "edge of a bin", x.edges, y.edges);
        // Within a tolerance two keys of about one weight may stand in each other's place.
        if (c.exact()) c.sequence(where, "key told apart", x.exact_keys, y.exact_keys);
        if (c.exact()) {
            c.sequence(where, "weight", x.weights, y.weights);
        } else {
            c.numbers(where, "weight", floats(x.weights), floats(y.weights));
        }
    }
    c.check("attention", "rows", of_a.size(), of_b.size());
}

} // namespace

std::optional<std::string> first_difference(const Recording& a, const Recording& b, double tolerance,
                                            Deviation* largest) {
    Differ c(tolerance, largest);
    compare_info(c, a.info(), b.info());
    const SharedSignals shared = shared_signals(a, b);
    const int64_t n = std::min(a.steps(), b.steps());
    for (int64_t t = 1; t <= n && !c.found(); ++t)
        compare_step(c, a, b, shared, t);
    if (!c.found()) c.check("run", "steps", a.steps(), b.steps());
    compare_logs(c, "refresh", a.refreshes(), b.refreshes(), compare_refresh);
    compare_logs(c, "pass", a.passes(), b.passes(), compare_pass);
    compare_logs(c, "draft", a.drafts(), b.drafts(), compare_draft);
    compare_logs(c, "command", a.commands(), b.commands(), compare_command);
    for (size_t i = 0; i < std::min(a.drifts().size(), b.drifts().size()) && !c.found(); ++i)
        compare_drift(c, fmt::format("drift map {}", i), *a.drift(i), *b.drift(i));
    c.check("drift map", "count", a.drifts().size(), b.drifts().size());
    if (a.info().has_cache_events && b.info().has_cache_events)
        compare_logs(c, "cache event", a.cache_entries(), b.cache_entries(), compare_cache_entry);
    compare_attention(c, a, b);
    const auto end_a = a.end();
    const auto end_b = b.end();
    c.check("end", "present", end_a.has_value(), end_b.has_value());
    if (end_a && end_b) {
        c.check("end", "stop_reason", end_a->stop_reason, end_b->stop_reason);
        c.number("end", "teacher_ppl", end_a->teacher_ppl, end_b->teacher_ppl);
        c.number("end", "tail_logprob", end_a->tail_logprob, end_b->tail_logprob);
    }
    return c.take();
}

} // namespace refreshlab
