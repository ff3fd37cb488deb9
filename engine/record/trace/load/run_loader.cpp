#include "engine/record/trace/load/run_loader.h"

#include "engine/record/notes/run_notes.h"
#include "engine/record/recording/older_cache_events.h"
#include "engine/record/runs/branch_info.h"
#include "engine/record/trace/load/checked_values.h"
#include "engine/record/trace/schema/trace_json.h"
#include "engine/record/trace/schema/trace_schema.h"
#include "engine/record/trace/schema/trace_versions.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace refreshlab::trace {

namespace {

using sqlite::Statement;

constexpr int64_t longest_token = int64_t{1}
                                  << 16; ///< bytes; those of real vocabularies have a few hundred at most

/// A branch shares its parent's steps only where it has all of their drafts (has_steps_of).
constexpr size_t every_draft = SIZE_MAX;

/// RunEnd::stop_reason
constexpr std::string_view stop_reasons[] = {"max_tokens",    "given_end", "stop_token",
                                             "context_limit", "cancelled", "failed"};

Recording::Inherited inherited(const Statement& row) {
    const auto count = [&](int column) {
        return static_cast<size_t>(within(row.integer(column), 0, int64_t{1} << 40, "inherited events"));
    };
    return {count(5), count(6), count(7), count(8), count(15), every_draft};
}

uint64_t text_bytes(const Recording& recording) {
    uint64_t text = 0;
    for (const int32_t id : recording.info().prompt_ids)
        text += recording.tokens().token_bytes(id).size();
    for (int64_t t = 1; t <= recording.steps(); ++t)
        text += recording.tokens().token_bytes(recording.step(t).token_id).size();
    return text;
}

} // namespace

RunLoader::RunLoader(sqlite::Database& db, int64_t version, std::string file, uint64_t file_bytes)
    : m_db(db)
    , m_version(version)
    , m_file(std::move(file))
    , m_memory(file_bytes) {}

std::vector<std::shared_ptr<Recording>> RunLoader::load() {
    load_tokens();
    std::vector<std::shared_ptr<Recording>> all;
    Statement runs(m_db, select_sql("runs", m_version) + " ORDER BY run");
    while (runs.step()) {
        const Run run = begin_run(runs);
        Recording& recording = *run.recording;
        load_rows(runs.integer(0), recording, *run.tokens);
        m_memory.check_text(text_bytes(recording));
        within(recording.info().fork_step, 0, recording.steps(), "fork step");
        load_end(runs, recording);
        m_memory.add(recording.own_bytes());
        m_places.emplace(recording.info().id, all.size());
        all.push_back(run.recording);
    }
    load_notes();
    for (const auto& recording : all) {
        if (recording->info().has_cache_events || !recording->cache_entries().empty()) continue;
        const size_t before = recording->own_bytes();
        add_older_cache_events(*recording);
        m_memory.add(recording->own_bytes() - before);
    }
    return all;
}

std::vector<RunLabel> RunLoader::labels(size_t count) {
    std::vector<RunLabel> all(count);
    if (m_version < table("labels").since) return all;
    Statement rows(m_db, select_sql("labels", m_version));
    while (rows.step()) {
        const auto id = m_numbers.find(rows.integer(0));
        if (id == m_numbers.end()) throw Damage("a run that is not there has a name");
        RunLabel& label = all[m_places.at(id->second)];
        if (!rows.is_null(1)) {
            label.name = rows.text(1);
            if (label.name.empty() || label.name != clean_run_name(label.name))
                throw Damage("the name of a run is no line of text");
        }
        if (!rows.is_null(2))
            label.colour =
                static_cast<uint32_t>(within(rows.integer(2), 0, run_colours - 1, "colour of a run"));
    }
    return all;
}

std::vector<std::shared_ptr<Recording>> RunLoader::take_more(std::vector<int64_t> numbers) {
    m_comes = true;
    load_tokens();
    m_parents.clear();
    std::vector<std::shared_ptr<Recording>> begun;
    Statement row(m_db, select_sql("runs", m_version) + " WHERE run = ?");
    for (const int64_t number : numbers) {
        row.reset();
        row.bind(0, number);
        const bool told = row.step();
        if (!m_numbers.contains(number)) {
            if (!told) throw Damage(fmt::format("run {} has rows and no beginning", number));
            m_runs.erase(row.text(1)); // told once more, from its beginning
            begun.push_back(begin_run(row).recording);
        }
        const Run& run = m_runs.at(m_numbers.at(number));
        load_rows(number, *run.recording, *run.tokens);
        if (told) load_end(row, *run.recording);
    }
    return begun;
}

void RunLoader::forget_numbers() {
    m_numbers.clear();
    m_vocabularies.clear();
}

bool RunLoader::go_on_with(const std::string& run_id, int64_t number, int64_t vocabulary) {
    const auto found = m_runs.find(run_id);
    if (found == m_runs.end()) return false;
    m_numbers[number] = run_id;
    auto& tables = m_vocabularies[vocabulary];
    if (std::ranges::find(tables, found->second.tokens) == tables.end())
        tables.push_back(found->second.tokens);
    return true;
}

std::shared_ptr<Recording> RunLoader::run(const std::string& id) const {
    const auto found = m_runs.find(id);
    return found == m_runs.end() ? nullptr : found->second.recording;
}

std::shared_ptr<TraceTokens> RunLoader::tokens_of(const std::string& run_id) const {
    const auto found = m_runs.find(run_id);
    return found == m_runs.end() ? nullptr : found->second.tokens;
}

void RunLoader::load_tokens() {
    Statement rows(m_db, select_sql("tokens", m_version));
    while (rows.step()) {
        auto& tables = m_vocabularies[rows.integer(0)];
        if (tables.empty()) tables.push_back(std::make_shared<TraceTokens>());
        const auto bytes = rows.blob(2);
        within(static_cast<int64_t>(bytes.size()), 0, longest_token, "bytes of a token");
        const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        for (const auto& table : tables)
            table->add(within32(rows.integer(1), 0, max_id, "token id"), text, rows.integer(3) != 0);
    }
}

void RunLoader::load_notes() {
    if (m_version < table("notes").since) return;
    Statement rows(m_db, select_sql("notes", m_version) + " ORDER BY run, n");
    while (rows.step()) {
        const auto id = m_numbers.find(rows.integer(0));
        if (id == m_numbers.end()) throw Damage("a run that is not there has a note");
        StepNote note{
            .id = within(rows.integer(1), 1, int64_t{1} << 40, "number of a note"),
            .first_step = rows.integer(2),
            .last_step = rows.integer(3),
            .colour = static_cast<uint32_t>(within(rows.integer(4), 0, note_colours - 1, "colour of a note")),
            .text = rows.text(5),
            .made_at = rows.text(6)};
        if (const std::string fault = note_fault(note); !fault.empty())
            throw Damage("a note is none: " + fault);
        if (note.made_at.empty() || note.made_at != clean_run_name(note.made_at))
            throw Damage("a note has no time");
        m_runs.at(id->second).recording->notes()->put(std::move(note));
    }
}

RunLoader::Run RunLoader::begin_run(const Statement& row) {
    const int64_t number = row.integer(0);
    const std::string id = row.text(1);
    const std::string parent = row.is_null(2) ? std::string() : row.text(2);
    const int64_t fork_step = within(row.integer(3), 0, max_steps, "fork step");
    const int64_t first_step = within(row.integer(4), 1, max_steps + 1, "first step");
    if (m_runs.contains(id)) throw Damage("two runs have the same id");
    if (parent == id) throw Damage("a run is its own parent");
    if (m_parents.contains(id)) throw Damage("a run stands after its own branch");
    if (parent.empty() && fork_step > 0) throw Damage("a run without a parent has a fork step");
    if (!parent.empty()) m_parents.insert(parent);

    Run run;
    const auto found = m_runs.find(parent);
    if (first_step > 1) {
        if (found == m_runs.end()) throw Damage(fmt::format("run {} has no parent in this file", number));
        if (first_step != fork_step + 1)
            throw Damage(fmt::format("run {} does not begin at its fork", number));
        const Recording& left = *found->second.recording;
        within(fork_step, 0, left.steps(), "fork step");
        run.tokens = found->second.tokens;
        run.recording =
            left.fork_as(fork_step, info_of_branch(row, left.info(), id, source_of(number, *run.tokens)),
                         run.tokens, inherited(row));
        m_memory.check(run.recording->own_bytes());
    } else {
        const auto tokens = m_vocabularies.find(row.integer(9));
        run.tokens =
            tokens != m_vocabularies.end() ? tokens->second.front() : std::make_shared<TraceTokens>();
        const RunSource source = source_of(number, *run.tokens);
        RunInfo info = info_from_text(row.text(10), m_version, source.name());
        info.id = id;
        info.parent_id = parent;
        info.fork_step = fork_step;
        for (const int32_t token : info.prompt_ids)
            (void)source.known_id(token);
        (void)source.known_id(info.first_token);
        run.recording = std::make_shared<Recording>(std::move(info), run.tokens);
        if (found != m_runs.end()) // stored whole, beside its parent
            run.recording->notes()->descend_from(found->second.recording->notes(), fork_step);
    }
    m_runs.emplace(id, run);
    m_numbers.emplace(number, id);
    return run;
}

void RunLoader::load_rows(int64_t number, Recording& recording, const TraceTokens& tokens) const {
    const RunSource source = source_of(number, tokens);
    load_steps(source, recording);
    load_events(source, recording);
    load_cache(source, recording);
    load_attention(source, recording);
}

void RunLoader::load_end(const Statement& row, Recording& recording) const {
    if (row.is_null(11)) return;
    const std::string reason = row.text(11);
    if (std::ranges::find(stop_reasons, reason) == std::end(stop_reasons))
        throw Damage(fmt::format("run {} ended for no known reason", row.integer(0)));
    recording.set_end({reason, number_or_nan(row, 12), row.number(13), row.number(14)});
}

/// What its parent is, but for what a branch has of its own: more tokens than the run that it left, another device.
RunInfo RunLoader::info_of_branch(const Statement& row, RunInfo info, const std::string& id,
                                  const RunSource& source) const {
    info.id = id;
    const std::string text = row.text(10);
    if (text.empty()) return info;
    set_own_info(info, info_from_text(text, m_version, source.name()));
    return info;
}

RunSource RunLoader::source_of(int64_t number, const TraceTokens& tokens) const {
    return {.db = m_db,
            .version = m_version,
            .number = number,
            .file = m_file,
            .tokens = tokens,
            .memory = m_memory,
            .comes = m_comes};
}

} // namespace refreshlab::trace
