#include "engine/record/notes/run_notes.h"
#include "engine/record/recording/older_cache_events.h"
#include "engine/record/runs/branch_info.h"
#include "engine/record/trace/load/checked_values.h"
#include "engine/record/trace/load/run_source.h"
#include "engine/record/trace/schema/trace_json.h"
#include "engine/record/trace/schema/trace_schema.h"
#include "engine/record/trace/schema/trace_versions.h"
#include "engine/record/trace/trace_access.h"
#include "engine/record/trace/trace_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace refreshlab {

namespace {

using sqlite::Database;
using sqlite::Statement;
using trace::Damage;
using trace::max_steps;
using trace::RunSource;
using trace::TraceTokens;
using trace::within;
using trace::within32;

constexpr int64_t longest_token = int64_t{1}
                                  << 16; ///< bytes; those of real vocabularies have a few hundred at most

/// A branch shares its parent's steps only where it has all of their drafts (has_steps_of).
constexpr size_t every_draft = SIZE_MAX;

/// RunEnd::stop_reason
constexpr std::string_view stop_reasons[] = {"max_tokens",    "given_end", "stop_token",
                                             "context_limit", "cancelled", "failed"};

/// Reads the runs of a file one after the other, parents before their branches, and puts together what they share.
class Loader {
public:
    Loader(const trace::OpenTrace& trace, std::string file)
        : m_db(trace.db)
        , m_version(trace.version)
        , m_file(std::move(file))
        , m_memory(trace.bytes) {}

    std::vector<std::shared_ptr<Recording>> load() {
        load_tokens();
        std::vector<std::shared_ptr<Recording>> all;
        Statement runs(m_db, trace::select_sql("runs", m_version) + " ORDER BY run");
        while (runs.step()) {
            all.push_back(load_run(runs));
            m_places.emplace(m_run, all.size() - 1);
        }
        load_notes(all);
        for (const auto& recording : all) {
            if (recording->info().has_cache_events || !recording->cache_entries().empty()) continue;
            const size_t before = recording->own_bytes();
            add_older_cache_events(*recording);
            m_memory.add(recording->own_bytes() - before);
        }
        return all;
    }

    /// What the runs of load() are known by, in their order.
    std::vector<RunLabel> labels(size_t count) {
        std::vector<RunLabel> all(count);
        if (m_version < trace::table("labels").since) return all;
        Statement rows(m_db, trace::select_sql("labels", m_version));
        while (rows.step()) {
            const auto place = m_places.find(rows.integer(0));
            if (place == m_places.end()) throw Damage("a run that is not there has a name");
            RunLabel& label = all[place->second];
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

private:
    void load_tokens() {
        Statement rows(m_db, trace::select_sql("tokens", m_version));
        while (rows.step()) {
            auto& table = m_vocabularies[rows.integer(0)];
            if (!table) table = std::make_shared<TraceTokens>();
            const auto bytes = rows.blob(2);
            within(static_cast<int64_t>(bytes.size()), 0, longest_token, "bytes of a token");
            std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
            table->add(within32(rows.integer(1), 0, trace::max_id, "token id"), std::move(text),
                       rows.integer(3) != 0);
        }
    }

    void load_notes(const std::vector<std::shared_ptr<Recording>>& all) {
        if (m_version < trace::table("notes").since) return;
        Statement rows(m_db, trace::select_sql("notes", m_version) + " ORDER BY run, n");
        while (rows.step()) {
            const auto place = m_places.find(rows.integer(0));
            if (place == m_places.end()) throw Damage("a run that is not there has a note");
            StepNote note{.id = within(rows.integer(1), 1, int64_t{1} << 40, "number of a note"),
                          .first_step = rows.integer(2),
                          .last_step = rows.integer(3),
                          .colour = static_cast<uint32_t>(
                              within(rows.integer(4), 0, note_colours - 1, "colour of a note")),
                          .text = rows.text(5),
                          .made_at = rows.text(6)};
            if (const std::string fault = note_fault(note); !fault.empty())
                throw Damage("a note is none: " + fault);
            if (note.made_at.empty() || note.made_at != clean_run_name(note.made_at))
                throw Damage("a note has no time");
            all[place->second]->notes()->put(std::move(note));
        }
    }

    std::shared_ptr<Recording> load_run(const Statement& row) {
        m_run = row.integer(0);
        const std::string id = row.text(1);
        const std::string parent = row.is_null(2) ? std::string() : row.text(2);
        const int64_t fork_step = within(row.integer(3), 0, max_steps, "fork step");
        const int64_t first_step = within(row.integer(4), 1, max_steps + 1, "first step");
        if (m_runs.contains(id)) throw Damage("two runs have the same id");
        if (parent == id) throw Damage("a run is its own parent");
        if (m_parents.contains(id)) throw Damage("a run stands after its own branch");
        if (parent.empty() && fork_step > 0) throw Damage("a run without a parent has a fork step");
        if (!parent.empty()) m_parents.insert(parent);

        std::shared_ptr<Recording> recording;
        if (first_step > 1) {
            const auto found = m_runs.find(parent);
            if (found == m_runs.end()) throw Damage(fmt::format("run {} has no parent in this file", m_run));
            if (first_step != fork_step + 1)
                throw Damage(fmt::format("run {} does not begin at its fork", m_run));
            within(fork_step, 0, found->second->steps(), "fork step");
            m_tokens = m_run_tokens.at(parent);
            recording = found->second->fork_as(fork_step, info_of_branch(row, found->second->info(), id),
                                               m_tokens, inherited(row));
            m_memory.check(recording->own_bytes());
        } else {
            const auto tokens = m_vocabularies.find(row.integer(9));
            m_tokens = tokens != m_vocabularies.end() ? tokens->second : std::make_shared<TraceTokens>();
            RunInfo info = trace::info_from_text(row.text(10), m_version, this_run().name());
            info.id = id;
            info.parent_id = parent;
            info.fork_step = fork_step;
            const RunSource source = this_run();
            for (const int32_t token : info.prompt_ids)
                (void)source.known_id(token);
            (void)source.known_id(info.first_token);
            recording = std::make_shared<Recording>(std::move(info), m_tokens);
            if (const auto found = m_runs.find(parent);
                found != m_runs.end()) // stored whole, beside its parent
                recording->notes()->descend_from(found->second->notes(), fork_step);
        }
        m_runs.emplace(id, recording);
        m_run_tokens.emplace(id, m_tokens);

        const RunSource source = this_run();
        trace::load_steps(source, *recording);
        m_memory.check_text(text_bytes(*recording));
        within(fork_step, 0, recording->steps(), "fork step");
        trace::load_events(source, *recording);
        trace::load_cache(source, *recording);
        trace::load_attention(source, *recording);
        if (!row.is_null(11)) {
            const std::string reason = row.text(11);
            if (std::ranges::find(stop_reasons, reason) == std::end(stop_reasons))
                throw Damage(fmt::format("run {} ended for no known reason", m_run));
            recording->set_end({reason, trace::number_or_nan(row, 12), row.number(13), row.number(14)});
        }
        m_memory.add(recording->own_bytes());
        return recording;
    }

    /// What its parent is, but for what a branch has of its own: more tokens than the run that it left, another device.
    RunInfo info_of_branch(const Statement& row, RunInfo info, const std::string& id) const {
        info.id = id;
        const std::string text = row.text(10);
        if (text.empty()) return info;
        set_own_info(info, trace::info_from_text(text, m_version, this_run().name()));
        return info;
    }

    [[nodiscard]] static Recording::Inherited inherited(const Statement& row) {
        const auto count = [&](int column) {
            return static_cast<size_t>(within(row.integer(column), 0, int64_t{1} << 40, "inherited events"));
        };
        return {count(5), count(6), count(7), count(8), count(15), every_draft};
    }

    /// The run that is being read.
    [[nodiscard]] RunSource this_run() const {
        return {.db = m_db,
                .version = m_version,
                .number = m_run,
                .file = m_file,
                .tokens = *m_tokens,
                .memory = m_memory};
    }

    [[nodiscard]] uint64_t text_bytes(const Recording& recording) const {
        uint64_t text = 0;
        for (const int32_t id : recording.info().prompt_ids)
            text += m_tokens->token_bytes(id).size();
        for (int64_t t = 1; t <= recording.steps(); ++t)
            text += m_tokens->token_bytes(recording.step(t).token_id).size();
        return text;
    }

    Database& m_db;
    const int64_t m_version;
    std::string m_file;
    trace::MemoryLimit m_memory;
    int64_t m_run = 0;
    std::unordered_map<int64_t, size_t> m_places; ///< in the list of runs, by their numbers in the file
    std::unordered_map<int64_t, std::shared_ptr<TraceTokens>> m_vocabularies;
    std::unordered_map<std::string, std::shared_ptr<Recording>> m_runs;
    std::unordered_map<std::string, std::shared_ptr<TraceTokens>> m_run_tokens; ///< by run id
    std::unordered_set<std::string> m_parents;                                  ///< that earlier runs name
    std::shared_ptr<TraceTokens> m_tokens; ///< of the run that is being read
};

} // namespace

LabelledRuns load_labelled_trace(const std::filesystem::path& path) {
    LabelledRuns trace;
    trace::read_trace(path, [&](const trace::OpenTrace& file) {
        Loader loader(file, path.string());
        trace.runs = loader.load();
        trace.labels = loader.labels(trace.runs.size());
    });
    return trace;
}

std::vector<std::shared_ptr<Recording>> load_trace(const std::filesystem::path& path) {
    return load_labelled_trace(path).runs;
}

} // namespace refreshlab
