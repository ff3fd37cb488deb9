#include "engine/record/trace/write/trace_rows.h"

#include "engine/record/trace/schema/trace_json.h"
#include "engine/record/trace/schema/trace_schema.h"

#include <fmt/format.h>

#include <bit>
#include <vector>

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

} // namespace

TraceRows::TraceRows(sqlite::Database& db)
    : m_run(db, insert_sql("runs"))
    , m_end(db, "UPDATE runs SET stop_reason = ?2, total_ms = ?3, teacher_ppl = ?4, tail_logprob = ?5 WHERE "
                "run = ?1")
    , m_label(db, insert_sql("labels"))
    , m_step(db, insert_sql("steps"))
    , m_candidate(db, insert_sql("topk"))
    , m_signal(db, insert_sql("signals"))
    , m_layers(db, insert_sql("layers"))
    , m_refresh(db, insert_sql("refreshes"))
    , m_pass(db, insert_sql("passes"))
    , m_draft(db, insert_sql("drafts"))
    , m_command(db, insert_sql("commands"))
    , m_cache(db, insert_sql("cache"))
    , m_drift(db, insert_sql("drift"))
    , m_attention(db, insert_sql("attention"))
    , m_delete_attention(db, "DELETE FROM attention WHERE run = ? AND position = ? AND teacher = ?")
    , m_token(db, insert_sql("tokens")) {}

void TraceRows::run(int64_t run, const RunRow& row) {
    auto& s = m_run;
    s.bind(0, run);
    s.bind(1, row.id);
    if (row.parent_id.empty()) {
        s.bind_null(2);
    } else {
        s.bind(2, row.parent_id);
    }
    s.bind(3, row.fork_step);
    s.bind(4, row.first_step);
    s.bind(5, static_cast<int64_t>(row.refreshes));
    s.bind(6, static_cast<int64_t>(row.passes));
    s.bind(7, static_cast<int64_t>(row.commands));
    s.bind(8, static_cast<int64_t>(row.drifts));
    s.bind(9, row.vocabulary);
    s.bind(10, row.info);
    s.bind(15, static_cast<int64_t>(row.cache_entries));
    s.run();
}

void TraceRows::end(int64_t run, const RunEnd& end, double later_ms) {
    auto& s = m_end;
    s.bind(0, run);
    s.bind(1, end.stop_reason);
    s.bind_number(2, end.total_ms + later_ms);
    s.bind_number(3, end.teacher_ppl);
    s.bind_number(4, end.tail_logprob);
    s.run();
}

void TraceRows::label(int64_t run, const RunLabel& label) {
    const std::string name = clean_run_name(label.name);
    if (name.empty() && !label.colour) return;
    auto& s = m_label;
    s.bind(0, run);
    if (!name.empty()) s.bind(1, name);
    if (label.colour) s.bind(2, static_cast<int64_t>(*label.colour));
    s.run();
}

void TraceRows::step(int64_t run, const StepRecord& record, double later_ms) {
    auto& s = m_step;
    s.bind(0, run);
    s.bind(1, record.step);
    s.bind(2, record.position);
    s.bind(3, record.token_id);
    s.bind(4, record.next_token_id);
    s.bind(5, static_cast<int64_t>(record.producer));
    s.bind(6, static_cast<int64_t>(record.next_producer));
    s.bind(7, record.fed ? 1 : 0);
    s.bind_number(8, record.arrival_ms + later_ms);
    for (size_t part = 0; part < num_parts; ++part)
        s.bind_number(9 + static_cast<int>(part), record.part_ms[part]);
    s.run();
}

void TraceRows::candidate(int64_t run, int64_t step, size_t rank, int32_t token_id, float prob) {
    auto& s = m_candidate;
    s.bind(0, run);
    s.bind(1, step);
    s.bind(2, static_cast<int64_t>(rank));
    s.bind(3, token_id);
    s.bind_real(4, static_cast<double>(prob));
    s.run();
}

void TraceRows::signal(int64_t run, int64_t step, std::string_view signal, int64_t known, float value) {
    auto& s = m_signal;
    s.bind(0, run);
    s.bind(1, step);
    s.bind(2, signal);
    s.bind(3, known);
    s.bind_real(4, static_cast<double>(value));
    s.run();
}

void TraceRows::layers(int64_t run, int64_t step, std::string_view signal, std::span<const float> values) {
    auto& s = m_layers;
    s.bind(0, run);
    s.bind(1, step);
    s.bind(2, signal);
    s.bind_blob(3, std::as_bytes(values));
    s.run();
}

void TraceRows::refresh(int64_t run, size_t n, const RefreshEvent& e) {
    auto& s = m_refresh;
    s.bind(0, run);
    s.bind(1, static_cast<int64_t>(n));
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
    if (e.bytes_sent) {
        s.bind(19, *e.bytes_sent);
    } else {
        s.bind_null(19);
    }
    s.run();
}

void TraceRows::pass(int64_t run, size_t n, const PassEvent& e) {
    auto& s = m_pass;
    s.bind(0, run);
    s.bind(1, static_cast<int64_t>(n));
    s.bind(2, e.step);
    s.bind(3, e.first_pos);
    s.bind(4, e.tokens);
    s.bind(5, e.probe ? 1 : 0);
    s.bind(6, e.shadow ? 1 : 0);
    s.bind_number(7, e.kl_nats);
    s.bind_number(8, e.ms);
    s.run();
}

void TraceRows::draft(int64_t run, size_t n, const DraftEvent& e) {
    std::vector<int32_t> ids;
    std::vector<uint8_t> stays;
    std::vector<float> p_teacher, p_student, expected;
    for (const DraftToken& token : e.tokens) {
        ids.push_back(token.token_id);
        stays.push_back(token.stays ? 1 : 0);
        p_teacher.push_back(token.p_teacher);
        p_student.push_back(token.p_student);
        expected.push_back(token.expected);
    }
    auto& s = m_draft;
    s.bind(0, run);
    s.bind(1, static_cast<int64_t>(n));
    s.bind(2, e.step);
    s.bind(3, e.refresh_id);
    s.bind(4, e.first_pos);
    s.bind(5, e.instead);
    s.bind(6, e.rejected_read);
    s.bind_number(7, e.rejected_ms);
    s.bind_number(8, e.teacher_ms);
    s.bind_blob(9, bytes(ids));
    s.bind_blob(10, bytes(stays));
    s.bind_blob(11, bytes(p_teacher));
    s.bind_blob(12, bytes(p_student));
    s.bind_blob(13, bytes(expected));
    s.run();
}

void TraceRows::command(int64_t run, size_t n, const CommandEvent& e) {
    auto& s = m_command;
    s.bind(0, run);
    s.bind(1, static_cast<int64_t>(n));
    s.bind(2, e.step);
    s.bind(3, e.json);
    s.run();
}

void TraceRows::cache(int64_t run, size_t n, const CacheEntry& entry, int64_t steps) {
    const auto ranges = entry.positions();
    int64_t positions = 0;
    for (const PositionRange& range : ranges)
        positions += range.n;
    const auto held = entry.bytes();
    auto& s = m_cache;
    s.bind(0, run);
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
}

void TraceRows::begin_drift(int64_t run, size_t n, const DriftMap& drift) {
    auto& s = m_drift;
    s.bind(0, run);
    s.bind(1, static_cast<int64_t>(n));
    s.bind(2, drift.step);
    s.bind(3, drift.refresh_id);
    s.bind(4, drift.first_pos);
    s.bind(5, drift.positions);
    s.bind(6, drift.layers);
}

void TraceRows::drift(int64_t run, size_t n, const DriftMap& drift) {
    begin_drift(run, n, drift);
    const std::vector<float> none(
        drift.has_values() ? 0 : static_cast<size_t>(drift.positions * drift.layers), absent());
    int column = 7;
    for (const auto* values : {&drift.k, &drift.v, &drift.k_max, &drift.v_max})
        m_drift.bind_blob(column++, bytes(drift.has_values() ? *values : none));
    m_drift.run();
}

void TraceRows::drift_shape(int64_t run, size_t n, const DriftMap& drift) {
    begin_drift(run, n, drift);
    for (const int column : {7, 8, 9, 10})
        m_drift.bind_null(column);
    m_drift.run();
}

void TraceRows::attention(int64_t run, int64_t position, bool teacher, const AttentionRows* rows) {
    auto& s = m_attention;
    s.bind(0, run);
    s.bind(1, position);
    s.bind(2, teacher ? 1 : 0);
    if (rows != nullptr) { // else all NULL
        s.bind(3, rows->step);
        s.bind(4, rows->heads);
        s.bind(5, rows->keys);
        s.bind_blob(6, bytes(rows->layers));
        s.bind_blob(7, bytes(rows->weights));
        if (!rows->every_key()) s.bind_blob(8, bytes(rows->edges));
        if (rows->exact > 0) s.bind_blob(9, bytes(rows->exact_keys));
    }
    s.run();
}

void TraceRows::delete_attention(int64_t run, int64_t position, bool teacher) {
    auto& s = m_delete_attention;
    s.bind(0, run);
    s.bind(1, position);
    s.bind(2, teacher ? 1 : 0);
    s.run();
}

void TraceRows::token(int64_t vocabulary, int32_t id, std::string_view text, bool special) {
    auto& s = m_token;
    s.bind(0, vocabulary);
    s.bind(1, id);
    s.bind_blob(2, std::as_bytes(std::span(text)));
    s.bind(3, special ? 1 : 0);
    s.run();
}

} // namespace refreshlab::trace
