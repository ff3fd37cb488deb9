#include "engine/record/trace/trace_writer.h"

#include "engine/record/trace/trace_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace refreshlab::trace {

static_assert(std::endian::native == std::endian::little, "blobs of a trace are little-endian");
static_assert(sizeof(PositionRange) == 2 * sizeof(int64_t), "ranges of a trace are pairs");

namespace {

template <class Vector>
std::span<const std::byte> bytes(const Vector& values) {
    return std::as_bytes(std::span(values));
}

std::string insert_sql(const char* name) {
    std::string columns, values;
    for (const Column& column : table(name).columns) {
        columns += fmt::format("{}{}", columns.empty() ? "" : ", ", column.name);
        values += values.empty() ? "?" : ", ?";
    }
    return fmt::format("INSERT OR REPLACE INTO {} ({}) VALUES ({})", name, columns, values);
}

/// How many events of a log are of steps up to this one.
template <class Log>
size_t up_to(const Log& log, int64_t step) {
    size_t count = 0;
    for (size_t i = 0, n = log.size(); i < n; ++i)
        count += log[i].step <= step ? 1 : 0;
    return count;
}

/// Whether the steps of a branch up to its fork are those of its parent, so that the parent's rows can stand for them. A branch of a
/// run that was made again is no fork of this very recording: other kernels may have rounded otherwise.
bool has_steps_of(const Recording& parent, const Recording& branch) {
    const int64_t fork_step = branch.info().fork_step;
    const auto& inherited = branch.inherited();
    const bool events = inherited.refreshes <= up_to(parent.refreshes(), fork_step) &&
                        inherited.passes <= up_to(parent.passes(), fork_step) &&
                        inherited.commands <= up_to(parent.commands(), fork_step) &&
                        inherited.cache_entries <= up_to(parent.cache_entries(), fork_step) &&
                        parent.info().has_cache_events == branch.info().has_cache_events;
    if (!events || parent.steps() < fork_step || parent.signals().size() != branch.signals().size())
        return false;
    for (int64_t t = 1; t <= fork_step; ++t) {
        const auto a = parent.measured(t), b = branch.measured(t);
        const auto same_bits = [](float x, float y) {
            return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y) ||
                   (std::isnan(x) && std::isnan(y) && is_absent(x) == is_absent(y));
        };
        if (parent.step(t).next_token_id != branch.step(t).next_token_id ||
            !std::ranges::equal(a, b, same_bits))
            return false;
    }
    return true;
}

/// What the parent's clock shows at the fork beyond the branch's own: a run that was made again took other times for the steps that
/// the parent's rows stand for. 0 of a fork of this very recording, and where either time is not known.
double clock_offset(const Recording& parent, const Recording& branch) {
    const int64_t fork_step = branch.info().fork_step;
    const double ms = parent.step(fork_step).arrival_ms - branch.step(fork_step).arrival_ms;
    return std::isfinite(ms) ? ms : 0;
}

/// The same rows, whether or not they are one object: a trace that was read and a run that was made again have each their own.
bool same_rows(const std::shared_ptr<const AttentionRows>& a, const std::shared_ptr<const AttentionRows>& b) {
    if (a == b) return true;
    return a && b && a->step == b->step && a->heads == b->heads && a->layers == b->layers &&
           a->weights == b->weights;
}

} // namespace

void create_tables(sqlite::Database& db, Writing writing) {
    if (writing == Writing::once) {
        db.exec("PRAGMA journal_mode = OFF");
        db.exec("PRAGMA synchronous = OFF");
        db.exec("PRAGMA locking_mode = EXCLUSIVE");
        db.exec(
            "PRAGMA cache_size = -65536"); // 64 MiB: pages of the ordered tables are filled before they are written
    }
    // Before the switch to WAL, so that the file tells what it is even when a killed process left all else in the WAL.
    db.exec("BEGIN IMMEDIATE");
    db.exec(create_sql().c_str());
    db.exec(
        "INSERT INTO meta VALUES ('format', 'RefreshLab trace; tables and columns: docs/trace-format.md')");
    db.exec("INSERT INTO meta VALUES ('created_at', strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))");
    db.exec(fmt::format("PRAGMA application_id = {}", application_id).c_str());
    db.exec(fmt::format("PRAGMA user_version = {}", schema_version).c_str());
    db.exec("COMMIT");
    if (writing == Writing::once) return;
    db.exec(
        "PRAGMA journal_mode = WAL"); // where the file system has none, the rollback journal does, with more waiting
    db.exec("PRAGMA synchronous = NORMAL");
    (void)db.integer(
        "SELECT count(*) FROM runs"); // opens the WAL: from now on others can tell that the file is in use
}

TraceWriter::TraceWriter(sqlite::Database& db, const std::atomic<bool>* cancelled)
    : m_db(db)
    , m_cancelled(cancelled)
    , m_insert_run(db, insert_sql("runs"))
    , m_update_end(db, "UPDATE runs SET stop_reason = ?2, total_ms = ?3, teacher_ppl = ?4, tail_logprob = ?5 "
                       "WHERE run = ?1")
    , m_insert_step(db, insert_sql("steps"))
    , m_insert_signal(db, insert_sql("signals"))
    , m_insert_candidate(db, insert_sql("topk"))
    , m_insert_refresh(db, insert_sql("refreshes"))
    , m_insert_pass(db, insert_sql("passes"))
    , m_insert_command(db, insert_sql("commands"))
    , m_insert_drift(db, insert_sql("drift"))
    , m_insert_layers(db, insert_sql("layers"))
    , m_insert_cache(db, insert_sql("cache"))
    , m_insert_attention(db, insert_sql("attention"))
    , m_delete_attention(db, "DELETE FROM attention WHERE run = ? AND position = ? AND teacher = ?")
    , m_insert_token(db, insert_sql("tokens"))
    , m_insert_label(db, insert_sql("labels")) {}

void TraceWriter::add_run(std::shared_ptr<const Recording> recording, const std::string& parent_id,
                          int64_t fork_step, RunLabel label) {
    Run run;
    run.label = std::move(label);
    run.number = m_next_number++;
    m_newest_steps = -1;
    const RunInfo& info = recording->info();
    run.parent_id = parent_id.empty() ? info.parent_id : parent_id;
    run.fork_step = parent_id.empty() ? info.fork_step : fork_step;
    const auto parent = std::ranges::find_if(
        m_runs, [&](const Run& other) { return other.recording->info().id == run.parent_id; });
    if (parent != m_runs.end()) run.parent = parent->recording;
    const bool shares = run.fork_step > 0 && run.fork_step == info.fork_step &&
                        m_vocabulary_of.contains(run.parent_id) &&
                        (!run.parent || has_steps_of(*run.parent, *recording));
    // One vocabulary for a run and the branches that share its steps: a reader takes the ids of both from it.
    run.vocabulary = shares ? m_vocabulary_of.at(run.parent_id) : number_of(recording->token_table());
    if (shares) {
        leave_to_parent(run, *recording);
        if (run.parent) run.later_ms = clock_offset(*run.parent, *recording);
    } else {
        run.parent.reset();
    }
    m_vocabulary_of.emplace(info.id, run.vocabulary);
    run.recording = std::move(recording);
    m_runs.push_back(std::move(run));
}

int64_t TraceWriter::number_of(const std::shared_ptr<const TokenTable>& table) {
    const auto known = std::ranges::find(m_vocabularies, table);
    const int64_t number = known - m_vocabularies.begin();
    if (known == m_vocabularies.end()) {
        m_vocabularies.push_back(table);
        m_known_tokens.emplace_back();
    }
    return number;
}

/// What a branch has in common with its parent is not written again.
void TraceWriter::leave_to_parent(Run& run, const Recording& recording) {
    const int64_t fork_step = recording.info().fork_step;
    const auto& inherited = recording.inherited();
    run.first_step = fork_step + 1;
    run.steps = fork_step;
    // Values known after the fork step came with the parent's steps; the branch's own come after them.
    const auto& filled = recording.filled_values();
    while (run.filled < filled.size() && filled[run.filled].known <= fork_step)
        ++run.filled;
    run.refreshes = inherited.refreshes;
    run.passes = inherited.passes;
    run.commands = inherited.commands;
    run.drifts = inherited.drifts;
    while (run.layer_rows < recording.layer_rows().size() &&
           recording.layer_rows()[run.layer_rows].step <= fork_step)
        ++run.layer_rows;
    run.cache_entries = inherited.cache_entries;
    for (size_t i = 0; i < run.cache_entries; ++i) { // the branch may go on with a row of its parent's
        const CacheEntry& entry = recording.cache_entries()[i];
        if (entry.change == CacheChange::appended)
            run.open_rows[entry.teacher ? 1 : 0] = {i, std::min(entry.steps(), fork_step - entry.step + 1)};
    }
}

void TraceWriter::check_cancelled() const {
    if (m_cancelled != nullptr && m_cancelled->load()) throw Cancelled{};
}

bool TraceWriter::rows_have_grown(const Run& run) {
    return std::ranges::any_of(run.open_rows, [&](const auto& row) {
        return row && run.recording->cache_entries()[row->entry].steps() > row->steps;
    });
}

bool TraceWriter::has_news(const Run& run) const {
    const Recording& r = *run.recording;
    return !run.header_written || run.steps < r.steps() || run.filled < r.filled_values().size() ||
           run.refreshes < r.refreshes().size() || run.passes < r.passes().size() ||
           run.commands < r.commands().size() || run.drifts < r.drifts().size() ||
           run.cache_entries < r.cache_entries().size() || rows_have_grown(run) ||
           run.attention < r.attention_changes().size() || run.end_revision != r.end_revision();
}

void TraceWriter::write_new() {
    if (std::ranges::any_of(m_runs, [&](const Run& run) { return has_news(run); })) {
        m_db.exec("BEGIN IMMEDIATE");
        for (Run& run : m_runs)
            write(run);
        m_db.exec("COMMIT");
        if (m_runs.back().number + 1 == m_next_number) m_newest_steps = m_runs.back().steps;
    }
    forget_finished_runs();
}

void TraceWriter::write(Run& run) {
    const Recording& r = *run.recording;
    if (!run.header_written) write_header(run);
    // Sizes in this order: after an end, an event, or a back-fill below `filled`, the steps they speak of are written
    // too. What belongs to the step in flight may come before its record, as it does in memory; nothing beyond it does.
    const uint64_t end_revision = r.end_revision();
    const Events events{r.refreshes().size(), r.passes().size(),        r.commands().size(),
                        r.drifts().size(),    r.cache_entries().size(), r.attention_changes().size()};
    const size_t filled = r.filled_values().size();
    const int64_t steps = r.steps();
    for (; run.steps < steps; ++run.steps)
        write_step(run, run.steps + 1);
    for (; run.filled < filled; ++run.filled) {
        const auto& value = r.filled_values()[run.filled];
        write_signal(run, value.step, value.signal, value.known, value.value);
    }
    write_events(run, events);
    if (end_revision != run.end_revision) write_end(run, end_revision);
}

void TraceWriter::write_header(Run& run) {
    const Recording& r = *run.recording;
    const RunInfo& info = r.info();
    auto& s = m_insert_run;
    s.bind(0, run.number);
    s.bind(1, info.id);
    if (run.parent_id.empty()) {
        s.bind_null(2);
    } else {
        s.bind(2, run.parent_id);
    }
    s.bind(3, run.fork_step);
    s.bind(4, run.first_step);
    s.bind(5, static_cast<int64_t>(run.refreshes)); // nothing is written yet, so these are the inherited ones
    s.bind(6, static_cast<int64_t>(run.passes));
    s.bind(7, static_cast<int64_t>(run.commands));
    s.bind(8, static_cast<int64_t>(run.drifts));
    s.bind(9, run.vocabulary);
    s.bind(10, info_to_text(r));
    s.bind(15, static_cast<int64_t>(run.cache_entries));
    s.run();
    for (const int32_t id : info.prompt_ids)
        write_token(run, id);
    write_token(run, info.first_token);
    write_label(run);
    if (run.first_step == 1) { // a fork whose parent is not in this file came with rows that are no changes
        run.attention =
            r.attention_changes().size(); // before the rows are listed: a later change comes again
        for (const auto& rows : r.attention_rows())
            write_attention(run, rows->position, rows->teacher);
    } else if (run.parent) { // what the parent has dropped, replaced or gained since the fork
        const int64_t end = r.prompt_length() + run.fork_step;
        for (const auto& rows : r.attention_rows()) {
            if (rows->position < end &&
                !same_rows(run.parent->attention(rows->position, rows->teacher), rows))
                write_attention(run, rows->position, rows->teacher);
        }
        for (const auto& rows : run.parent->attention_rows()) {
            if (rows->position < end && !r.attention(rows->position, rows->teacher))
                write_attention(run, rows->position, rows->teacher);
        }
    }
    run.parent.reset();
    run.header_written = true;
}

void TraceWriter::write_step(Run& run, int64_t t) {
    check_cancelled();
    const StepRecord& record = run.recording->step(t);
    auto& s = m_insert_step;
    s.bind(0, run.number);
    s.bind(1, t);
    s.bind(2, record.position);
    s.bind(3, record.token_id);
    s.bind(4, record.next_token_id);
    s.bind(5, static_cast<int64_t>(record.producer));
    s.bind(6, static_cast<int64_t>(record.next_producer));
    s.bind(7, record.fed ? 1 : 0);
    s.bind_number(8, record.arrival_ms + run.later_ms);
    for (size_t part = 0; part < num_parts; ++part)
        s.bind_number(9 + static_cast<int>(part), record.part_ms[part]);
    s.run();
    write_token(run, record.token_id);
    write_token(run, record.next_token_id);

    for (size_t rank = 0; rank < record.top_k; ++rank) {
        auto& c = m_insert_candidate;
        c.bind(0, run.number);
        c.bind(1, t);
        c.bind(2, static_cast<int64_t>(rank));
        c.bind(3, record.top_ids[rank]);
        c.bind_real(4, static_cast<double>(record.top_probs[rank]));
        c.run();
        write_token(run, record.top_ids[rank]);
    }
    const auto measured = run.recording->measured(t); // not record.signals: a back-fill may be writing them
    for (size_t id = 0; id < run.recording->signals().size(); ++id)
        write_signal(run, t, id, t, measured[id]);
    const auto& rows = run.recording->layer_rows();
    for (; run.layer_rows < rows.size() && rows[run.layer_rows].step == t; ++run.layer_rows) {
        const Recording::LayerRow& row = rows[run.layer_rows];
        auto& l = m_insert_layers;
        l.bind(0, run.number);
        l.bind(1, t);
        l.bind(2, run.recording->signals()[row.signal].name);
        l.bind_blob(3, bytes(*row.values));
        l.run();
    }
}

void TraceWriter::write_signal(const Run& run, int64_t step, size_t signal, int64_t known, float value) {
    const auto known_signals = run.recording->signals();
    if (is_absent(value) || signal >= known_signals.size()) return;
    auto& s = m_insert_signal;
    s.bind(0, run.number);
    s.bind(1, step);
    s.bind(2, known_signals[signal].name);
    s.bind(3, known);
    s.bind_real(4, static_cast<double>(value));
    s.run();
}

void TraceWriter::write_events(Run& run, const Events& up_to) {
    const Recording& r = *run.recording;
    for (; run.refreshes < up_to.refreshes; ++run.refreshes) {
        const RefreshEvent& e = r.refreshes()[run.refreshes];
        auto& s = m_insert_refresh;
        s.bind(0, run.number);
        s.bind(1, static_cast<int64_t>(run.refreshes));
        s.bind(2, e.step);
        s.bind(3, e.id);
        s.bind(4, e.automatic ? 1 : 0);
        s.bind(5, e.delta);
        s.bind(6, e.first_pos);
        s.bind(7, e.spliced);
        s.bind(8, e.pass_tokens);
        s.bind(9, to_string(e.on_fire));
        s.bind(10, e.token_before);
        s.bind(11, e.token_after);
        s.bind_number(12, e.kl_nats);
        s.bind_number(13, e.mean_drift);
        s.bind_number(14, e.teacher_ms);
        s.bind_number(15, e.splice_ms);
        s.bind_number(16, e.redraw_ms);
        s.bind(17, hits_to_text(e.hits));
        s.bind(18, e.fired_step);
        s.run();
        write_token(run, e.token_before);
        write_token(run, e.token_after);
    }
    for (; run.passes < up_to.passes; ++run.passes) {
        const PassEvent& e = r.passes()[run.passes];
        auto& s = m_insert_pass;
        s.bind(0, run.number);
        s.bind(1, static_cast<int64_t>(run.passes));
        s.bind(2, e.step);
        s.bind(3, e.first_pos);
        s.bind(4, e.tokens);
        s.bind(5, e.probe ? 1 : 0);
        s.bind(6, e.shadow ? 1 : 0);
        s.bind_number(7, e.kl_nats);
        s.bind_number(8, e.ms);
        s.run();
    }
    for (; run.commands < up_to.commands; ++run.commands) {
        const CommandEvent& e = r.commands()[run.commands];
        auto& s = m_insert_command;
        s.bind(0, run.number);
        s.bind(1, static_cast<int64_t>(run.commands));
        s.bind(2, e.step);
        s.bind(3, e.json);
        s.run();
    }
    for (; run.drifts < up_to.drifts; ++run.drifts)
        write_drift(run, run.drifts, *r.drifts()[run.drifts]);
    for (auto& row : run.open_rows) {
        if (row) row->steps = write_cache_entry(run, row->entry);
    }
    for (; run.cache_entries < up_to.cache_entries; ++run.cache_entries) {
        const CacheEntry& entry = r.cache_entries()[run.cache_entries];
        const int64_t steps = write_cache_entry(run, run.cache_entries);
        if (entry.change == CacheChange::appended)
            run.open_rows[entry.teacher ? 1 : 0] = {run.cache_entries, steps};
    }
    for (; run.attention < up_to.attention; ++run.attention) {
        const auto change = r.attention_changes()[run.attention];
        write_attention(run, change.position, change.teacher);
    }
}

/// \return how many events of the entry's row are in the file now
int64_t TraceWriter::write_cache_entry(const Run& run, size_t n) {
    const CacheEntry& entry = run.recording->cache_entries()[n];
    // The writer of the recording may be ahead by now: beyond the step in flight nothing is told.
    const int64_t steps = std::min(entry.steps(), run.steps + 1 - entry.step + 1);
    for (const auto& row : run.open_rows) {
        if (row && row->entry == n && row->steps == steps) return steps; // as it stands there already
    }
    const auto ranges = entry.positions();
    int64_t positions = 0;
    for (const PositionRange& range : ranges)
        positions += range.n;
    const auto held = entry.bytes();
    auto& s = m_insert_cache;
    s.bind(0, run.number);
    s.bind(1, static_cast<int64_t>(n));
    s.bind(2, entry.step);
    s.bind(3, steps);
    s.bind(4, entry.teacher ? 1 : 0);
    s.bind(5, to_string(entry.change));
    s.bind(6, entry.layer);
    s.bind(7, entry.kv_head);
    s.bind(8, ranges.front().first);
    s.bind(9, positions);
    if (ranges.size() > 1) s.bind_blob(10, std::as_bytes(ranges));
    s.bind(11, origin_name(entry.origin));
    s.bind(12, entry.refresh_id);
    if (held.size() == 1) s.bind(13, held[0]);
    s.bind(14, steps > 1 ? entry.bytes_stride : 0); // that of a row of one may be on its way
    if (held.size() > 1) s.bind_blob(15, std::as_bytes(held));
    s.run();
    return steps;
}

void TraceWriter::write_label(const Run& run) {
    const std::string name = clean_run_name(run.label.name);
    if (name.empty() && !run.label.colour) return;
    auto& s = m_insert_label;
    s.bind(0, run.number);
    if (!name.empty()) s.bind(1, name);
    if (run.label.colour) s.bind(2, static_cast<int64_t>(*run.label.colour));
    s.run();
}

void TraceWriter::write_drift(const Run& run, size_t n, const DriftMap& drift) {
    auto& s = m_insert_drift;
    s.bind(0, run.number);
    s.bind(1, static_cast<int64_t>(n));
    s.bind(2, drift.step);
    s.bind(3, drift.refresh_id);
    s.bind(4, drift.first_pos);
    s.bind(5, drift.positions);
    s.bind(6, drift.layers);
    s.bind_blob(7, bytes(drift.k));
    s.bind_blob(8, bytes(drift.v));
    s.bind_blob(9, bytes(drift.k_max));
    s.bind_blob(10, bytes(drift.v_max));
    s.run();
}

void TraceWriter::write_attention(const Run& run, int64_t position, bool teacher) {
    check_cancelled();
    const auto rows = run.recording->attention(position, teacher);
    if (!rows && run.first_step == 1) { // gone from memory, gone from the file: the same limit bounds both
        m_delete_attention.bind(0, run.number);
        m_delete_attention.bind(1, position);
        m_delete_attention.bind(2, teacher ? 1 : 0);
        m_delete_attention.run();
        return;
    }
    auto& s = m_insert_attention;
    s.bind(0, run.number);
    s.bind(1, position);
    s.bind(2, teacher ? 1 : 0);
    if (rows) {
        s.bind(3, rows->step);
        s.bind(4, rows->heads);
        s.bind(5, rows->keys);
        s.bind_blob(6, bytes(rows->layers));
        s.bind_blob(7, bytes(rows->weights));
    } // else all NULL: the branch has dropped what it shared with its parent
    s.run();
}

void TraceWriter::write_end(Run& run, uint64_t revision) {
    const auto end = run.recording->end();
    auto& s = m_update_end;
    s.bind(0, run.number);
    s.bind(1, end->stop_reason);
    s.bind_number(2, end->total_ms + run.later_ms);
    s.bind_number(3, end->teacher_ppl);
    s.bind_number(4, end->tail_logprob);
    s.run();
    run.end_revision = revision;
}

void TraceWriter::write_token(const Run& run, int32_t id) {
    if (id < 0 || !m_known_tokens[static_cast<size_t>(run.vocabulary)].insert(id).second) return;
    const TokenTable& table = run.recording->tokens(); // of a branch it may know more than its parent's
    const std::string_view text = table.token_bytes(id);
    auto& s = m_insert_token;
    s.bind(0, run.vocabulary);
    s.bind(1, id);
    s.bind_blob(2, std::as_bytes(std::span(text)));
    s.bind(3, table.is_special(id) ? 1 : 0);
    s.run();
}

void TraceWriter::forget_finished_runs() {
    // Nobody else holds the recording, so nobody can extend it: its memory is free to go.
    std::erase_if(m_runs, [&](const Run& run) { return run.recording.use_count() == 1 && !has_news(run); });
}

} // namespace refreshlab::trace
