#include "engine/remote/row_sender.h"

#include "engine/landscape/landscape_rows.h"
#include "engine/remote/byte_digest.h"
#include "engine/remote/json_fields.h"

#include <algorithm>

namespace refreshlab::remote {

namespace {

using nlohmann::json;
using trace::WrittenUpTo;

/// Keys of `upto`. One list for both directions.
template <class UpTo, class Visit>
void each_count(UpTo& upto, const Visit& visit) {
    visit("steps", upto.steps);
    visit("filled", upto.filled);
    visit("refreshes", upto.refreshes);
    visit("passes", upto.passes);
    visit("commands", upto.commands);
    visit("drifts", upto.drifts);
    visit("layer_rows", upto.layer_rows);
    visit("cache_entries", upto.cache_entries);
    visit("drafts", upto.drafts);
    visit("end_revision", upto.end_revision);
}

constexpr std::array open_rows{"open_student", "open_teacher"};

json upto_json(const WrittenUpTo& upto) {
    json object = json::object();
    each_count(upto, into(object));
    for (size_t i = 0; i < open_rows.size(); ++i)
        if (const auto& row = upto.open_rows[i]) object[open_rows[i]] = json::array({row->entry, row->steps});
    return object;
}

WrittenUpTo upto_of(const json& object) {
    WrittenUpTo upto;
    each_count(upto, out_of(object));
    for (size_t i = 0; i < open_rows.size(); ++i)
        if (const auto row = object.find(open_rows[i]); row != object.end())
            upto.open_rows[i] = {row->at(0).get<size_t>(), row->at(1).get<int64_t>()};
    return upto;
}

/// Of a run that a client has whole, which is left. Its end may have come, or have been completed, since then.
WrittenUpTo all_but_the_end(const Recording& run) {
    WrittenUpTo upto;
    upto.steps = run.steps();
    upto.filled = run.filled_values().size();
    upto.refreshes = run.refreshes().size();
    upto.passes = run.passes().size();
    upto.commands = run.commands().size();
    upto.drifts = run.drifts().size();
    upto.attention = run.attention_changes().size();
    upto.layer_rows = run.layer_rows().size();
    upto.cache_entries = run.cache_entries().size();
    upto.drafts = run.drafts().size();
    return upto;
}

int64_t drift_bytes(const DriftMap& drift) {
    return 4 * drift.layers * drift.positions * static_cast<int64_t>(sizeof(float));
}

/// Places in a run's log of drift maps, as a client says them.
std::set<size_t> drifts_of(const json& places, const Recording& run) {
    auto drifts = places.get<std::set<size_t>>();
    std::erase_if(drifts, [count = run.drifts().size()](size_t n) { return n >= count; });
    return drifts;
}

bool same(const std::weak_ptr<const AttentionRows>& a, const std::shared_ptr<const AttentionRows>& b) {
    return !a.owner_before(b) && !b.owner_before(a);
}

} // namespace

uint64_t fingerprint(const AttentionRows& rows) {
    ByteDigest digest;
    const auto add = [&](const auto& values) {
        const auto bytes = std::as_bytes(std::span(values));
        digest.add({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
    };
    add(rows.layers);
    add(rows.edges);
    add(rows.exact_keys);
    add(rows.weights);
    return digest.value();
}

RowSender::RowSender()
    : m_writer(m_tables.db(), nullptr, {.heavy = false, .notes = false, .steps_at_once = steps_at_once})
    , m_rows(m_tables.db()) {}

void RowSender::tell(const std::shared_ptr<const Recording>& recording) {
    if (!recording || (!m_next.empty() && m_next.back() == recording)) return;
    if (recording == m_recording)
        m_next.clear(); // a start that was given up again
    else
        m_next.push_back(recording);
}

json RowSender::resume(std::span<const std::shared_ptr<const Recording>> runs, const json& state) {
    const json& told = state.at("upto");
    const auto found =
        std::ranges::find_if(runs, [&](const auto& run) { return told.at("run") == run->info().id; });
    if (found == runs.end()) return nullptr;
    const std::shared_ptr<const Recording>& recording = *found;
    const WrittenUpTo upto = upto_of(told);
    if (!has_written(*recording, upto)) return nullptr;
    json others = json::array();
    for (const json& run : state.at("runs")) {
        const auto id = run.at(0).get<std::string>();
        if (id == recording->info().id) continue;
        m_told.push_back(id);
        const auto there = std::ranges::find_if(runs, [&](const auto& r) { return r->info().id == id; });
        // One that came again after the client's run is told again.
        if (there >= found || !run.at(1).get<bool>()) continue;
        others.push_back(go_on_with(*there, all_but_the_end(**there)));
        m_had[id].no_drift = drifts_of(run.at(2), **there);
    }
    json resumed = go_on_with(recording, upto);
    resumed["others"] = std::move(others);
    m_told.push_back(recording->info().id);
    m_recording = recording;
    m_drifts = upto.drifts;
    for (const json& key : state.at("attention")) {
        const Key has{key.at(0).get<int64_t>(), key.at(1).get<bool>()};
        const Rows rows = recording->attention(has.first, has.second);
        // What this recording has not any more is told as dropped, what it has otherwise once more.
        m_has.rows[has] = rows && fingerprint(*rows) == key.at(2) ? rows : nullptr;
    }
    m_has.no_drift = drifts_of(state.at("drifts"), *recording);
    m_next.assign(found + 1, runs.end());
    return resumed;
}

void RowSender::heavy_has_come() {
    m_on_the_way.clear();
    m_drifts_on_the_way.clear();
    m_going = {};
}

json RowSender::go_on_with(const std::shared_ptr<const Recording>& recording, const WrittenUpTo& upto) {
    m_writer.go_on_with(recording, upto);
    const auto written = m_writer.run(recording->info().id);
    trace::RunRow row; // the run's end is an update of it
    row.id = recording->info().id;
    m_rows.run(written->number, row);
    return {{"run", row.id}, {"number", written->number}, {"vocabulary", written->vocabulary}};
}

/// The client's own branch begins with the attention rows that it has of the steps before the fork.
void RowSender::begin(const std::shared_ptr<const Recording>& recording) {
    const RunInfo& info = recording->info();
    m_writer.add_run(recording);
    const auto written = m_writer.run(info.id);
    const bool shares = written->first_step > 1;
    const int64_t end = recording->prompt_length() + info.fork_step;
    for (const Key& key : m_on_the_way)
        m_has.rows.erase(key);
    m_has.no_drift.insert(m_drifts_on_the_way.begin(), m_drifts_on_the_way.end());
    heavy_has_come();
    if (m_recording) m_had[m_recording->info().id] = std::move(m_has);
    std::erase_if(m_had,
                  [&](const auto& had) { return !m_writer.run(had.first); }); // nobody branches from it
    m_has = shares ? m_had[info.parent_id] : Has();
    std::erase_if(m_has.rows, [&](const auto& has) { return has.first.first >= end; });
    std::erase_if(m_has.no_drift, [&](size_t n) { return n >= recording->inherited().drifts; });
    m_drifts = shares ? recording->inherited().drifts : 0;
    m_recording = recording;
    m_seen_changes = SIZE_MAX;
}

json RowSender::next() {
    std::vector<int64_t> numbers;
    const auto take_numbers = [&] {
        for (const auto& run : m_writer.runs())
            if (!run.complete && std::ranges::find(numbers, run.number) == numbers.end())
                numbers.push_back(run.number);
    };
    while (true) {
        take_numbers();
        m_writer.write_new();
        if (m_recording) {
            const auto written = m_writer.run(m_recording->info().id);
            if (written->begun && (m_told.empty() || m_told.back() != m_recording->info().id))
                m_told.push_back(m_recording->info().id);
            const auto& drifts = m_recording->drifts();
            for (const size_t count = drifts.size();
                 m_drifts < count && drifts[m_drifts]->step <= written->up_to.steps + 1; ++m_drifts) {
                m_rows.drift_shape(written->number, m_drifts, *drifts[m_drifts]);
                if (drift_bytes(*drifts[m_drifts]) > 0) m_has.no_drift.insert(m_drifts);
                if (std::ranges::find(numbers, written->number) == numbers.end())
                    numbers.push_back(written->number);
            }
            if (!m_next.empty() && !written->complete) break; // a branch comes after the steps that it shares
        }
        if (m_next.empty()) break;
        begin(m_next.front());
        m_next.pop_front();
    }
    if (numbers.empty()) return nullptr;
    json tables = m_tables.take();
    if (tables.empty()) return nullptr; // a branch waits for the steps that it shares
    std::ranges::sort(numbers);
    json message = {{"runs", numbers}, {"tables", std::move(tables)}};
    message["upto"] = position_json();
    return message;
}

json RowSender::position_json() const {
    WrittenUpTo upto = m_writer.run(m_recording->info().id)->up_to;
    upto.drifts = m_drifts;
    json position = upto_json(upto);
    position["run"] = m_recording->info().id;
    return position;
}

void RowSender::look_for_attention() {
    if (!m_recording) return;
    const size_t changes = m_recording->attention_changes().size();
    const int64_t steps = m_writer.run(m_recording->info().id)->up_to.steps;
    if (changes == m_seen_changes && steps == m_seen_steps) return;
    m_seen_changes = changes;
    m_seen_steps = steps;
    const auto there = m_recording->attention_rows();
    m_missing.clear();
    m_dropped.clear();
    auto has = m_has.rows.begin();
    const auto end = m_has.rows.end();
    for (const Rows& rows : there) {
        const Key key{rows->position, rows->teacher};
        for (; has != end && has->first < key; ++has)
            m_dropped.push_back(has->first);
        const bool known = has != end && has->first == key;
        // Of the step in flight at most.
        if ((!known || !same(has->second, rows)) && rows->position <= m_recording->prompt_length() + steps)
            m_missing.push_back(rows);
        if (known) ++has;
    }
    for (; has != end; ++has)
        m_dropped.push_back(has->first);
}

RowSender::ToCome RowSender::heavy_to_come() {
    look_for_attention();
    ToCome to_come = m_going;
    for (const Rows& rows : m_missing) {
        ++to_come.rows;
        to_come.bytes += static_cast<int64_t>(rows->bytes());
    }
    for (const size_t n : m_has.no_drift) {
        ++to_come.rows;
        to_come.bytes += drift_bytes(*m_recording->drifts()[n]);
    }
    return to_come;
}

json RowSender::next_heavy(int64_t bytes) {
    if (!m_recording) return nullptr;
    const auto written = m_writer.run(m_recording->info().id);
    if (!written->begun) return nullptr;
    look_for_attention();
    if (m_missing.empty() && m_dropped.empty() && m_has.no_drift.empty()) return nullptr;
    const int64_t number = written->number;
    // What has gone comes first: then what the client has fits its limit.
    for (const Key& key : m_dropped) {
        m_rows.attention(number, key.first, key.second, nullptr);
        m_has.rows.erase(key);
    }
    m_dropped.clear();
    const auto went = [&](int64_t size) {
        ++m_going.rows;
        m_going.bytes += size;
        bytes -= size;
    };
    const auto send = [&](size_t i) {
        const Rows rows = m_missing[i];
        m_missing.erase(m_missing.begin() + static_cast<std::ptrdiff_t>(i));
        m_rows.attention(number, rows->position, rows->teacher, rows.get());
        m_has.rows[{rows->position, rows->teacher}] = rows;
        m_on_the_way.emplace_back(rows->position, rows->teacher);
        went(static_cast<int64_t>(rows->bytes()));
    };
    const auto send_drift = [&](size_t n) {
        const auto& drift = *m_recording->drifts()[n];
        m_has.no_drift.erase(n);
        m_rows.drift(number, n, drift);
        m_drifts_on_the_way.push_back(n);
        went(drift_bytes(drift));
    };
    if (m_looked_at) {
        for (size_t i = m_missing.size(); i-- > 0;)
            if (m_missing[i]->position == *m_looked_at) send(i);
        // The step of that position shows the maps up to it.
        const int64_t step = *m_looked_at - m_recording->prompt_length() + 1;
        const auto later = std::ranges::find_if(
            m_has.no_drift, [&](size_t n) { return m_recording->drifts()[n]->step > step; });
        if (later != m_has.no_drift.begin() && bytes > 0) send_drift(*std::prev(later));
    }
    while (!m_has.no_drift.empty() && bytes > 0)
        send_drift(*m_has.no_drift.rbegin());
    while (!m_missing.empty() && bytes > 0)
        send(m_missing.size() - 1);
    return {{"runs", json::array({number})}, {"tables", m_tables.take()}};
}

json RowSender::next_landscape(const LandscapeState& state, int64_t bytes) {
    if (!state.landscape) return nullptr;
    const bool goes_on = m_landscape && m_landscape_run == state.run_id &&
                         (m_landscape == state.landscape || m_landscape->info() == state.landscape->info());
    if (goes_on && m_landscape == state.landscape &&
        m_landscape_rows.size() == state.landscape->rows().size())
        return nullptr;
    constexpr int64_t run = 0; // the message says which
    if (!goes_on) {
        m_landscape_rows.clear();
        m_landscape_run = state.run_id;
        trace::begin_landscape(m_tables.db(), run, state.landscape->info());
    }
    m_landscape = state.landscape;
    for (const int64_t j : state.landscape->rows()) {
        if (bytes <= 0) break;
        if (!m_landscape_rows.insert(j).second) continue;
        const LandscapeRow& row = *state.landscape->row(j);
        trace::put_landscape_row(m_tables.db(), run, row);
        for (const auto& plane : row.planes)
            bytes -= static_cast<int64_t>(plane.size() * sizeof(float));
    }
    json tables = m_tables.take();
    if (tables.empty()) return nullptr;
    return {{"landscape", state.run_id}, {"tables", std::move(tables)}};
}

} // namespace refreshlab::remote
