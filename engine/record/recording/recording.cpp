#include "engine/record/recording/recording.h"

#include "engine/base/check.h"
#include "engine/record/notes/run_notes.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace refreshlab {

namespace {

size_t bytes_of(const AttentionRows& rows) {
    return sizeof(AttentionRows) + rows.bytes();
}

/// Begins an empty log with the events of another one up to `step`: shares them where they stand in front, as they do when
/// steps never fall.
template <class Log, class StepOf>
size_t take_up_to(const Log& from, Log& to, int64_t step, size_t at_most, StepOf step_of) {
    const size_t n = from.size();
    size_t front = 0, all = 0;
    while (front < n && step_of(from[front]) <= step)
        ++front;
    for (size_t i = front; i < n; ++i)
        all += step_of(from[i]) <= step ? 1 : 0;
    to.begin_with(from, std::min(front, at_most));
    for (size_t i = front; i < n && all > 0 && to.size() < at_most; ++i) {
        if (step_of(from[i]) <= step) to.append(from[i]);
    }
    return to.size();
}

} // namespace

Recording::Recording(RunInfo info, std::shared_ptr<const TokenTable> tokens)
    : m_info(std::move(info))
    , m_tokens(std::move(tokens))
    , m_notes(std::make_shared<RunNotes>(m_info.id))
    , m_entry_scores(m_info.layers * m_info.kv_heads) {
    RL_ASSERT(m_tokens != nullptr);
    if (!m_info.published_signals.empty()) {
        auto table = std::make_shared<SignalTable>();
        table->published = m_info.published_signals;
        table->signals = signal_table(table->published);
        m_table = std::move(table);
    }
    for (size_t id = 0; id < signals().size(); ++id) {
        const auto& written = m_info.written_signals;
        m_knows[id] = !written || std::ranges::find(*written, signals()[id].name) != written->end();
    }
}

std::optional<size_t> Recording::signal_id(std::string_view name) const {
    return find_signal(signals(), name);
}

std::span<const float> Recording::layer_values(int64_t t, size_t id) const {
    size_t low = first_beyond(m_layer_rows, [&](const LayerRow& row) { return row.step >= t; });
    for (; low < m_layer_rows.size() && m_layer_rows[low].step == t; ++low) {
        if (m_layer_rows[low].signal == id) return *m_layer_rows[low].values;
    }
    return {};
}

LayerValues Recording::layers(int64_t t) const {
    LayerValues layers;
    size_t n = first_beyond(m_layer_rows, [&](const LayerRow& row) { return row.step >= t; });
    for (; n < m_layer_rows.size() && m_layer_rows[n].step == t; ++n)
        layers.set(m_layer_rows[n].signal, *m_layer_rows[n].values);
    return layers;
}

float Recording::signal(int64_t t, size_t id) const {
    const auto i = static_cast<size_t>(t - 1);
    if (FillChunk* fills = m_fills.find(i / steps_per_fill)) {
        const float value = std::atomic_ref<float>((*fills)[i % steps_per_fill][id])
                                .load(std::memory_order_relaxed); // order comes from back_fills().size()
        if (!is_absent(value)) return value;
    }
    return m_steps[i].signals[id];
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

Recording::AttentionBytes Recording::attention_bytes() const {
    const std::scoped_lock lock(m_mutex);
    return {m_attention_bytes, m_attention.empty() ? 0 : bytes_of(*m_attention.rbegin()->second)};
}

const RefreshEvent* Recording::refresh_at(int64_t t) const {
    const size_t found = first_beyond(m_refreshes, [&](const RefreshEvent& e) { return e.step >= t; });
    return found < m_refreshes.size() && m_refreshes[found].step == t ? &m_refreshes[found] : nullptr;
}

void Recording::append(const StepRecord& record, const LayerValues& layers) {
    RL_ASSERT(record.step == steps() + 1);
    RL_ASSERT(record.top_k <= max_top_k);
    for (const LayerValues::Entry& entry : layers.entries()) {
        RL_ASSERT(entry.signal < signals().size() && signals()[entry.signal].layered);
        RL_ASSERT(static_cast<int64_t>(entry.count) == m_info.layers);
        const auto values = layers.values(entry);
        m_layer_rows.append({record.step, entry.signal,
                             std::make_shared<const std::vector<float>>(values.begin(), values.end())});
    }
    m_steps.append(record);
}

void Recording::follow(const Recording& ahead, const StepRecord& record) {
    take_events(ahead);
    append(record, ahead.layers(record.step));
}

void Recording::take_events(const Recording& ahead) {
    const int64_t step = steps() + 1;
    const auto take = [](const auto& own, const auto& theirs, auto is_of_step, auto add) {
        for (size_t n = own.size(); n < theirs.size() && is_of_step(theirs[n]); ++n)
            add(theirs[n]);
    };
    const auto of_step = [step](const auto& event) { return event.step == step; };
    take(m_refreshes, ahead.m_refreshes, of_step, [this](const auto& event) { add_refresh(event); });
    take(m_passes, ahead.m_passes, of_step, [this](const auto& event) { add_pass(event); });
    take(m_drafts, ahead.m_drafts, of_step, [this](const auto& event) { add_draft(event); });
    take(
        m_drifts, ahead.m_drifts, [step](const auto& drift) { return drift->step == step; },
        [this](const auto& drift) { add_drift(drift); });

    // A row of appends that both have may go on; the entries after it are new ones. A row's event is the first of its step.
    const auto cache_event = [&](size_t n) {
        const CacheEntry& entry = ahead.m_cache_entries[n];
        if (entry.step <= step && step <= entry.last_step()) add_cache_event(entry.event(step - entry.step));
    };
    const size_t known = m_cache_entries.size();
    std::optional<size_t> first = m_cache_tails[0].open_row, second = m_cache_tails[1].open_row;
    if (first && second && *second < *first) std::swap(first, second);
    if (first) cache_event(*first);
    if (second) cache_event(*second);
    for (size_t n = known; n < ahead.m_cache_entries.size() && ahead.m_cache_entries[n].step <= step; ++n)
        cache_event(n);

    for (size_t n = m_back_fills.size(); n < ahead.m_back_fills.size(); ++n) {
        const BackFill& fill = ahead.m_back_fills[n];
        const size_t begin = n == 0 ? 0 : ahead.m_back_fills[n - 1].filled_values;
        if (ahead.m_filled[begin].known != step) break;
        std::vector<float> filled(static_cast<size_t>(fill.last_step - fill.first_step + 1), absent());
        for (size_t i = begin; i < fill.filled_values; ++i)
            filled[static_cast<size_t>(ahead.m_filled[i].step - fill.first_step)] = ahead.m_filled[i].value;
        back_fill(fill.signal, fill.first_step, filled);
    }

    const int64_t position = prompt_length() + step - 1;
    for (const bool teacher : {false, true})
        if (auto rows = ahead.attention(position, teacher)) add_attention(std::move(rows));
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
        const auto at = static_cast<size_t>(first_step + i - 1);
        float& slot = writable_fills(at / steps_per_fill)[at % steps_per_fill][signal];
        std::atomic_ref<float>(slot).store(value, std::memory_order_relaxed); // released by the append below
        m_last_fill[at / steps_per_fill] = known;
    }
    if (any) m_back_fills.append({first_step, first_step + n - 1, m_filled.size(), id});
}

Recording::FillChunk& Recording::writable_fills(size_t number) {
    FillChunk* chunk = m_fills.find(number);
    if (chunk == nullptr || !m_fills.owns_alone(number)) {
        std::shared_ptr<FillChunk> own;
        if (chunk != nullptr) {
            own = std::make_shared<FillChunk>(*chunk);
        } else {
            own = std::make_shared<FillChunk>();
            for (auto& step : *own)
                step.fill(absent());
        }
        chunk = own.get();
        m_fills.put(number, std::move(own), true);
        if (m_last_fill.size() <= number) m_last_fill.resize(number + 1, 0);
    }
    return *chunk;
}

void Recording::add_refresh(RefreshEvent event) {
    RL_ASSERT(m_refreshes.empty() ||
              m_refreshes[m_refreshes.size() - 1].step <= event.step); // refresh_at() searches
    m_refreshes.append(std::move(event));
}

void Recording::add_pass(PassEvent event) {
    m_passes.append(event);
}

void Recording::add_draft(DraftEvent event) {
    m_drafts.append(std::move(event));
}

void Recording::add_command(CommandEvent event) {
    m_commands.append(std::move(event));
}

void Recording::add_drift(std::shared_ptr<const DriftMap> drift) {
    RL_ASSERT(drift != nullptr);
    m_drifts.append(std::move(drift));
}

std::shared_ptr<const DriftMap> Recording::drift(size_t n) const {
    const auto& measured = m_drifts[n];
    if (measured->has_values()) return measured;
    const std::scoped_lock lock(m_mutex);
    const auto late = m_late_drifts.find(n);
    return late == m_late_drifts.end() ? measured : late->second;
}

void Recording::fill_drift(size_t n, std::shared_ptr<const DriftMap> drift) {
    RL_ASSERT(n < m_drifts.size() && !this->drift(n)->has_values() && drift->has_values());
    const DriftMap& measured = *m_drifts[n];
    RL_ASSERT(drift->step == measured.step && drift->first_pos == measured.first_pos &&
              drift->positions == measured.positions && drift->layers == measured.layers);
    const std::scoped_lock lock(m_mutex);
    m_late_drifts.emplace(n, std::move(drift));
    m_drift_fills.fetch_add(1, std::memory_order_release);
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
    // A row tells its events before those that stand after it. So it may go on only where its step has told nothing else yet.
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

namespace {
constexpr size_t all = SIZE_MAX;
constexpr Recording::Inherited all_events{all, all, all, all, all, all};
} // namespace

std::shared_ptr<Recording> Recording::fork(int64_t step, std::string new_id) const {
    return fork(step, std::move(new_id), all_events);
}

std::shared_ptr<Recording> Recording::fork(int64_t step, std::string new_id, const Inherited& at_most) const {
    RunInfo info = m_info;
    info.id = std::move(new_id);
    return fork_as(step, std::move(info), m_tokens, at_most);
}

std::shared_ptr<Recording> Recording::fork_as(int64_t step, RunInfo info,
                                              std::shared_ptr<const TokenTable> tokens) const {
    return fork_as(step, std::move(info), std::move(tokens), all_events);
}

std::shared_ptr<Recording> Recording::fork_as(int64_t step, RunInfo info,
                                              std::shared_ptr<const TokenTable> tokens,
                                              const Inherited& at_most) const {
    RL_ASSERT(step >= 0 && step <= steps() && info.prompt_ids == m_info.prompt_ids);
    info.parent_id = m_info.id;
    info.fork_step = step;
    auto branch = std::make_shared<Recording>(std::move(info), std::move(tokens));
    fork_into(*branch, step, at_most);
    return branch;
}

std::shared_ptr<Recording> Recording::with_signals(std::span<const PublishedSignal> added) const {
    RunInfo info = m_info;
    info.published_signals.insert(info.published_signals.end(), added.begin(), added.end());
    if (info.written_signals)
        for (const PublishedSignal& signal : added)
            info.written_signals->push_back(signal.name);
    auto same = std::make_shared<Recording>(std::move(info), m_tokens);
    const auto table = same->m_table;
    fork_into(*same, steps() + 1, all_events); // what the last boundary and a closing pass filled in as well
    same->m_table = table;
    same->m_notes = m_notes;
    same->m_inherited = m_inherited;
    if (auto end = this->end()) same->set_end(std::move(*end));
    return same;
}

std::shared_ptr<Recording> Recording::fork_ahead() const {
    RunInfo info = m_info;
    info.parent_id = m_info.id;
    info.fork_step = steps();
    auto ahead = std::make_shared<Recording>(std::move(info), m_tokens);
    fork_into(*ahead, steps(), all_events, Sharing::what_stays);
    return ahead;
}

void Recording::fork_into(Recording& branch, int64_t step, const Inherited& at_most, Sharing sharing) const {
    branch.m_table = m_table; // the same, once
    branch.m_notes->descend_from(m_notes, step);

    // Records as they were measured, and the values that were filled in by then: so the branch knows after each boundary what
    // this recording knew there.
    branch.m_steps.begin_with(m_steps, static_cast<size_t>(std::min(step, steps())));
    fork_fills(branch, step, sharing);
    branch.m_layer_rows.begin_with(
        m_layer_rows, first_beyond(m_layer_rows, [&](const LayerRow& row) { return row.step > step; }));

    const auto own_step = [](const auto& event) { return event.step; };
    auto& inherited = branch.m_inherited;
    inherited.refreshes = take_up_to(m_refreshes, branch.m_refreshes, step, at_most.refreshes, own_step);
    inherited.passes = take_up_to(m_passes, branch.m_passes, step, at_most.passes, own_step);
    inherited.drafts = take_up_to(m_drafts, branch.m_drafts, step, at_most.drafts, own_step);
    inherited.commands = take_up_to(m_commands, branch.m_commands, step, at_most.commands, own_step);
    inherited.drifts = take_up_to(m_drifts, branch.m_drifts, step, at_most.drifts,
                                  [](const auto& drift) { return drift->step; });
    fork_cache_entries(branch, step, at_most.cache_entries, sharing);
    m_entry_scores.copy_up_to(step, branch.m_entry_scores);

    const std::scoped_lock lock(m_mutex);
    for (const auto& [n, drift] : m_late_drifts)
        if (n < inherited.drifts) branch.m_late_drifts.emplace(n, drift);
    for (const auto& [key, rows] : m_attention) {
        if (rows->step > step) continue;
        branch.m_attention.emplace(key, rows);
        branch.m_attention_bytes += bytes_of(*rows);
    }
}

void Recording::fork_fills(Recording& branch, int64_t step, Sharing sharing) const {
    const size_t filled = first_beyond(m_filled, [&](const FilledValue& v) { return v.known > step; });
    branch.m_filled.begin_with(m_filled, filled);
    branch.m_back_fills.begin_with(m_back_fills, first_beyond(m_back_fills, [&](const BackFill& b) {
                                       return b.filled_values > filled;
                                   }));
    // A chunk that has been filled later on as well is made again from the values that it had at the fork; others are shared.
    std::vector<bool> made_again(m_fills.num_chunks(), false);
    bool any = false;
    for (size_t number = 0; number < m_fills.num_chunks(); ++number) {
        if (m_fills.find(number) == nullptr) continue;
        if (m_last_fill[number] > step) {
            made_again[number] = any = true;
            continue;
        }
        // A pass that judges a draft fills values of its steps and of few before.
        const bool copies = sharing == Sharing::what_stays &&
                            static_cast<int64_t>((number + 1) * steps_per_fill) > step - longest_draft;
        if (copies) {
            branch.m_fills.put(number, std::make_shared<FillChunk>(*m_fills.find(number)), true);
        } else {
            branch.m_fills.put(number, m_fills.shared(number), false);
        }
        branch.m_last_fill.resize(number + 1, 0);
        branch.m_last_fill[number] = m_last_fill[number];
    }
    for (size_t i = 0; i < filled && any; ++i) {
        const FilledValue& value = m_filled[i];
        const auto at = static_cast<size_t>(value.step - 1);
        const size_t number = at / steps_per_fill;
        if (!made_again[number]) continue;
        branch.writable_fills(number)[at % steps_per_fill][value.signal] = value.value;
        branch.m_last_fill[number] = value.known;
    }
}

void Recording::fork_cache_entries(Recording& branch, int64_t step, size_t at_most, Sharing sharing) const {
    const size_t up_to_step =
        first_beyond(m_cache_entries, [&](const CacheEntry& e) { return e.step > step; });
    const size_t n = std::min(up_to_step, at_most);
    std::vector<size_t> open;
    for (const CacheTail& tail : m_cache_tails)
        if (sharing == Sharing::what_stays && tail.open_row && *tail.open_row < n)
            open.push_back(*tail.open_row);
    branch.m_cache_entries.begin_with(m_cache_entries, n, open);
    for (size_t i = 0; i < n; ++i) {
        const CacheEntry& entry = m_cache_entries[i];
        if (entry.last_step() > step) branch.m_cache_entries.writable(i).set_steps(step - entry.step + 1);
        branch.follow_cache_entry(i);
    }
    branch.m_inherited.cache_entries = n;
}

size_t Recording::own_bytes() const {
    constexpr size_t map_node = 96; // of the attention rows, which are shared
    size_t bytes = sizeof(Recording) + m_info.prompt_ids.size() * sizeof(int32_t) +
                   m_info.rendered_prompt.size() + m_info.config.prompt.size() +
                   m_info.config.given_text.size() + m_info.config.given_ids.size() * sizeof(int32_t) +
                   m_info.config.task.reference.size() + m_info.note.size();
    if (m_table && m_info.fork_step == 0) bytes += m_table->signals.size() * sizeof(Signal);
    bytes += m_steps.own_bytes() + m_fills.own_bytes() + m_last_fill.capacity() * sizeof(int64_t) +
             m_refreshes.own_bytes() + m_passes.own_bytes() + m_commands.own_bytes() + m_drafts.own_bytes() +
             m_drifts.own_bytes() + m_layer_rows.own_bytes() + m_cache_entries.own_bytes() +
             m_filled.own_bytes() + m_back_fills.own_bytes() + m_attention_changes.own_bytes();
    for (size_t i = m_layer_rows.size(); i > 0 && m_layer_rows[i - 1].step > m_info.fork_step; --i)
        bytes +=
            sizeof(*m_layer_rows[i - 1].values) + m_layer_rows[i - 1].values->size() * sizeof(float) + 16;
    for (size_t i = m_commands.size(); i > m_inherited.commands; --i)
        bytes += m_commands[i - 1].json.size();
    for (size_t i = m_drafts.size(); i > m_inherited.drafts; --i)
        bytes += m_drafts[i - 1].tokens.size() * sizeof(DraftToken);
    const std::scoped_lock lock(m_mutex);
    return bytes + m_attention.size() * map_node;
}

} // namespace refreshlab
