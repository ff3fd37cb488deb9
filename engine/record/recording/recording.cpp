#include "engine/record/recording/recording.h"

#include "engine/base/check.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace refreshlab {

namespace {

size_t bytes_of(const AttentionRows& rows) {
    return sizeof(AttentionRows) + rows.layers.size() * sizeof(int32_t) +
           rows.weights.size() * sizeof(uint16_t);
}

/// Copies the events of a boundary up to `step` from one log to another.
template <class Log, class StepOf>
size_t copy_up_to(const Log& from, Log& to, int64_t step, size_t at_most, StepOf step_of) {
    const size_t n = from.size();
    for (size_t i = 0; i < n && to.size() < at_most; ++i) {
        if (step_of(from[i]) <= step) to.append(from[i]);
    }
    return to.size();
}

} // namespace

Recording::Recording(RunInfo info, std::shared_ptr<const TokenTable> tokens)
    : m_info(std::move(info))
    , m_signals(signal_table(m_info.published_signals))
    , m_tokens(std::move(tokens)) {
    RL_ASSERT(m_tokens != nullptr);
    for (size_t id = 0; id < m_signals.size(); ++id) {
        const auto& written = m_info.written_signals;
        m_knows[id] = !written || std::ranges::find(*written, m_signals[id].name) != written->end();
    }
}

std::optional<size_t> Recording::signal_id(std::string_view name) const {
    return find_signal(m_signals, name);
}

std::span<const float> Recording::layer_values(int64_t t, size_t id) const {
    size_t low = 0, high = m_layer_rows.size();
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (m_layer_rows[middle].step < t) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < m_layer_rows.size() && m_layer_rows[low].step == t; ++low) {
        if (m_layer_rows[low].signal == id) return *m_layer_rows[low].values;
    }
    return {};
}

float Recording::signal(int64_t t, size_t id) const {
    // atomic_ref has no read-only form in C++20; the record itself is not const.
    auto& value = const_cast<float&>(m_steps[static_cast<size_t>(t - 1)].signals[id]);
    return std::atomic_ref<float>(value).load(
        std::memory_order_relaxed); // order comes from back_fills().size()
}

int64_t Recording::num_tokens() const {
    const bool ended_by_token = m_ended_by_token.load(std::memory_order_acquire);
    const int64_t n = steps();
    if (n > 0 && step(n).next_token_id < 0) return n; // the last record of a finished run chose nothing
    return ended_by_token ? n : n + 1;                // y_1 and one a step; the end token is not counted
}

int32_t Recording::token(int64_t t) const {
    RL_ASSERT(t >= 1 && t <= steps() + 1);
    return t == 1 ? m_info.first_token : step(t - 1).next_token_id;
}

std::vector<int32_t> Recording::token_ids() const {
    const int64_t n = num_tokens();
    std::vector<int32_t> ids;
    ids.reserve(static_cast<size_t>(n));
    for (int64_t t = 1; t <= n; ++t)
        ids.push_back(token(t));
    return ids;
}

std::optional<RunEnd> Recording::end() const {
    const std::scoped_lock lock(m_mutex);
    return m_end;
}

std::shared_ptr<const AttentionRows> Recording::attention(int64_t position, bool teacher) const {
    const std::scoped_lock lock(m_mutex);
    const auto found = m_attention.find({position, teacher});
    return found == m_attention.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<const AttentionRows>> Recording::attention_rows() const {
    const std::scoped_lock lock(m_mutex);
    std::vector<std::shared_ptr<const AttentionRows>> rows;
    rows.reserve(m_attention.size());
    for (const auto& [key, value] : m_attention)
        rows.push_back(value);
    return rows;
}

const RefreshEvent* Recording::refresh_at(int64_t t) const {
    size_t low = 0, high = m_refreshes.size();
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (m_refreshes[middle].step < t) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < m_refreshes.size() && m_refreshes[low].step == t ? &m_refreshes[low] : nullptr;
}

void Recording::append(const StepRecord& record, const LayerValues& layers) {
    RL_ASSERT(record.step == steps() + 1);
    RL_ASSERT(record.top_k <= max_top_k);
    for (const LayerValues::Entry& entry : layers.entries()) {
        RL_ASSERT(entry.signal < m_signals.size() && m_signals[entry.signal].layered);
        RL_ASSERT(static_cast<int64_t>(entry.count) == m_info.layers);
        const auto values = layers.values(entry);
        m_layer_rows.append({record.step, entry.signal,
                             std::make_shared<const std::vector<float>>(values.begin(), values.end())});
    }
    m_measured.append(record.signals); // before the record: who sees the record finds this
    m_steps.append(record);
}

void Recording::back_fill(size_t signal, int64_t first_step, std::span<const float> values) {
    RL_ASSERT(signal < max_signals);
    const int64_t n = static_cast<int64_t>(values.size());
    RL_ASSERT(first_step >= 1 && first_step + n - 1 <= steps());
    const int64_t known = steps() + 1;
    const auto id = static_cast<uint16_t>(signal);
    bool any = false;
    for (int64_t i = 0; i < n; ++i) {
        const float value = values[static_cast<size_t>(i)];
        if (is_absent(value)) continue;
        any = true;
        m_filled.append({first_step + i, known, value, id});
        float& slot = m_steps.writable(static_cast<size_t>(first_step + i - 1)).signals[signal];
        std::atomic_ref<float>(slot).store(value, std::memory_order_relaxed); // released by the append below
    }
    if (any) m_back_fills.append({first_step, first_step + n - 1, id});
}

void Recording::add_refresh(RefreshEvent event) {
    RL_ASSERT(m_refreshes.empty() ||
              m_refreshes[m_refreshes.size() - 1].step <= event.step); // refresh_at() searches
    m_refreshes.append(std::move(event));
}

void Recording::add_pass(PassEvent event) {
    m_passes.append(event);
}

void Recording::add_command(CommandEvent event) {
    m_commands.append(std::move(event));
}

void Recording::add_drift(std::shared_ptr<const DriftMap> drift) {
    RL_ASSERT(drift != nullptr);
    m_drifts.append(std::move(drift));
}

void Recording::add_cache_event(CacheEvent event) {
    const auto& log = m_cache_entries;
    RL_ASSERT(event.step >= std::max(m_cache_tails[0].last_step, m_cache_tails[1].last_step));
    RL_ASSERT(!event.positions.empty());
    int64_t end = 0; // of the ranges so far
    for (const PositionRange& range : event.positions) {
        RL_ASSERT(range.first >= end && range.n > 0);
        end = range.first + range.n;
    }
    RL_ASSERT(event.layer >= -1 && event.layer < m_info.layers && event.kv_head >= -1 &&
              event.kv_head < m_info.kv_heads);
    RL_ASSERT(event.bytes.size() <= 1 || static_cast<int64_t>(event.bytes.size()) == m_info.layers);
    CacheTail& tail = m_cache_tails[event.teacher ? 1 : 0];
    // A row tells its events before those that stand behind it. So it may go on only where its step has told nothing else yet.
    const bool goes_on = tail.open_row && event.step > tail.last_step &&
                         m_cache_entries.writable(*tail.open_row).extend(event);
    tail.last_step = event.step;
    if (goes_on) return;
    m_cache_entries.append(CacheEntry(std::move(event)));
    follow_cache_entry(log.size() - 1);
}

void Recording::follow_cache_entry(size_t n) {
    const CacheEntry& entry = m_cache_entries[n];
    CacheTail& tail = m_cache_tails[entry.teacher ? 1 : 0];
    tail.last_step = std::max(tail.last_step, entry.last_step());
    if (entry.change == CacheChange::appended) tail.open_row = n;
    if (entry.change == CacheChange::dropped || entry.change == CacheChange::adopted)
        tail.open_row.reset(); // positions come again
}

bool Recording::put_cache_entry(size_t n, CacheEntry entry) {
    if (n > m_cache_entries.size()) return false;
    if (n == m_cache_entries.size()) {
        m_cache_entries.append(std::move(entry));
        follow_cache_entry(n);
        return true;
    }
    const CacheEntry& old = m_cache_entries[n];
    CacheTail& tail = m_cache_tails[old.teacher ? 1 : 0];
    const bool goes_on = tail.open_row == n && old.steps() < entry.steps() &&
                         old.event(0) == entry.event(0) &&
                         (old.steps() == 1 || old.bytes_stride == entry.bytes_stride);
    if (!goes_on) return false;
    CacheEntry& grown = m_cache_entries.writable(n);
    grown.bytes_stride = entry.bytes_stride;
    grown.set_steps(entry.steps());
    tail.last_step = std::max(tail.last_step, grown.last_step());
    return true;
}

void Recording::add_attention(std::shared_ptr<const AttentionRows> rows) {
    RL_ASSERT(rows != nullptr);
    const std::pair key{rows->position, rows->teacher};
    const std::scoped_lock lock(m_mutex);
    auto& slot = m_attention[key];
    if (slot) m_attention_bytes -= bytes_of(*slot);
    m_attention_bytes += bytes_of(*rows);
    slot = std::move(rows);
    m_attention_changes.append({key.first, key.second});
    drop_over_limit(key);
}

void Recording::drop_attention(int64_t position, bool teacher) {
    const std::scoped_lock lock(m_mutex);
    const auto found = m_attention.find({position, teacher});
    if (found == m_attention.end()) return;
    m_attention_bytes -= bytes_of(*found->second);
    m_attention.erase(found);
    m_attention_changes.append({position, teacher});
}

void Recording::drop_over_limit(std::pair<int64_t, bool> newest) {
    const int64_t megabytes =
        std::clamp<int64_t>(m_info.config.capture.attention_megabytes, 0, int64_t{1} << 40);
    const size_t limit = static_cast<size_t>(megabytes) << 20U;
    while (m_attention_bytes > limit) {
        // The map is ordered by position, so the first of an owner is its oldest. The newest rows were just asked for:
        // they go only when nothing else is left.
        auto victim = m_attention.end();
        for (auto it = m_attention.begin(); it != m_attention.end(); ++it) {
            if (it->first == newest) continue;
            if (it->first.second == newest.second) {
                victim = it;
                break;
            }
            if (victim == m_attention.end()) victim = it;
        }
        if (victim == m_attention.end()) victim = m_attention.find(newest);
        m_attention_bytes -= bytes_of(*victim->second);
        m_attention_changes.append({victim->first.first, victim->first.second});
        m_attention.erase(victim);
    }
}

void Recording::set_end(RunEnd end) {
    const bool by_token = end.stop_reason == "stop_token";
    {
        const std::scoped_lock lock(m_mutex);
        m_end = std::move(end);
    }
    m_ended_by_token.store(by_token, std::memory_order_release);
    m_end_revision.fetch_add(1, std::memory_order_release);
}

std::shared_ptr<Recording> Recording::fork(int64_t step, std::string new_id) const {
    constexpr size_t all = SIZE_MAX;
    return fork(step, std::move(new_id), Inherited{all, all, all, all, all});
}

std::shared_ptr<Recording> Recording::fork(int64_t step, std::string new_id, const Inherited& at_most) const {
    RL_ASSERT(step >= 0 && step <= steps());
    RunInfo info = m_info;
    info.parent_id = std::exchange(info.id, std::move(new_id));
    info.fork_step = step;
    auto branch = std::make_shared<Recording>(std::move(info), m_tokens);

    // Records as they were measured, and between them the back-fills in the order they were made: so the branch knows
    // behind each boundary what this recording knew there, and `known` of its values comes out the same.
    size_t next_fill = 0;
    const auto fill_up_to = [&](int64_t known) {
        for (; next_fill < m_filled.size() && m_filled[next_fill].known <= known;) {
            const FilledValue& first = m_filled[next_fill];
            std::vector<float> values;
            while (next_fill < m_filled.size()) {
                const FilledValue& fill = m_filled[next_fill];
                const bool follows = fill.known == first.known && fill.signal == first.signal &&
                                     fill.step == first.step + static_cast<int64_t>(values.size());
                if (!follows) break;
                values.push_back(fill.value);
                ++next_fill;
            }
            branch->back_fill(first.signal, first.step, values);
        }
    };
    for (int64_t t = 1; t <= step; ++t) {
        fill_up_to(t); // made before record t was appended
        StepRecord record;
        const StepRecord& own = this->step(t);
        record.step = own.step;
        record.position = own.position;
        record.token_id = own.token_id;
        record.next_token_id = own.next_token_id;
        record.producer = own.producer;
        record.next_producer = own.next_producer;
        record.fed = own.fed;
        record.top_k = own.top_k;
        record.top_ids = own.top_ids;
        record.top_probs = own.top_probs;
        record.part_ms = own.part_ms;
        record.arrival_ms = own.arrival_ms;
        std::ranges::copy(measured(t), record.signals.begin());
        branch->append(record);
    }
    for (size_t i = 0; i < m_layer_rows.size() && m_layer_rows[i].step <= step; ++i)
        branch->m_layer_rows.append(m_layer_rows[i]);

    const auto own_step = [](const auto& event) { return event.step; };
    auto& inherited = branch->m_inherited;
    inherited.refreshes = copy_up_to(m_refreshes, branch->m_refreshes, step, at_most.refreshes, own_step);
    inherited.passes = copy_up_to(m_passes, branch->m_passes, step, at_most.passes, own_step);
    inherited.commands = copy_up_to(m_commands, branch->m_commands, step, at_most.commands, own_step);
    inherited.drifts = copy_up_to(m_drifts, branch->m_drifts, step, at_most.drifts,
                                  [](const auto& drift) { return drift->step; });

    for (size_t i = 0; i < m_cache_entries.size() && i < at_most.cache_entries; ++i) {
        if (m_cache_entries[i].step > step) break; // steps never fall
        CacheEntry entry = m_cache_entries[i];
        entry.set_steps(std::min(entry.steps(), step - entry.step + 1));
        branch->m_cache_entries.append(std::move(entry));
        branch->follow_cache_entry(i);
    }
    inherited.cache_entries = branch->m_cache_entries.size();

    const std::scoped_lock lock(m_mutex);
    for (const auto& [key, rows] : m_attention) {
        if (rows->step > step) continue;
        branch->m_attention.emplace(key, rows);
        branch->m_attention_bytes += bytes_of(*rows);
    }
    return branch;
}

} // namespace refreshlab
