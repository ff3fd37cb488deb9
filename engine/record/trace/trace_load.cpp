#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/record/recording/older_cache_events.h"
#include "engine/record/runs/branch_info.h"
#include "engine/record/trace/sqlite.h"
#include "engine/record/trace/trace_access.h"
#include "engine/record/trace/trace_schema.h"
#include "engine/record/trace/trace_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace refreshlab {

namespace {

using sqlite::Database;
using sqlite::Statement;
using trace::Damage;

constexpr int64_t max_steps = static_cast<int64_t>(ChunkedLog<StepRecord>::max_size());
constexpr int64_t max_id = std::numeric_limits<int32_t>::max();
constexpr int64_t longest_token = int64_t{1}
                                  << 16; ///< bytes; those of real vocabularies have a few hundred at most

/// RunEnd::stop_reason
constexpr std::string_view stop_reasons[] = {"max_tokens",    "given_end", "stop_token",
                                             "context_limit", "cancelled", "failed"};

/// Checks one value of a file that anybody may have written.
int64_t within(int64_t value, int64_t min, int64_t max, const char* what) {
    if (value < min || value > max)
        throw Damage(fmt::format("{} {} is not from {} to {}", what, value, min, max));
    return value;
}

int32_t within32(int64_t value, int64_t min, int64_t max, const char* what) {
    return static_cast<int32_t>(within(value, min, max, what));
}

float real32(const Statement& row, int column) {
    return static_cast<float>(row.real(column));
}

double number_or_nan(const Statement& row, int column) {
    return row.number(column).value_or(std::numeric_limits<double>::quiet_NaN());
}

float number_or_absent(const Statement& row, int column) {
    const auto value = row.number(column);
    return value ? static_cast<float>(*value) : absent();
}

template <class T, class Vector = std::vector<T>>
Vector values(const Statement& row, int column, int64_t count, const char* what) {
    const auto bytes = row.blob(column);
    if (bytes.size() % sizeof(T) != 0 || bytes.size() / sizeof(T) != static_cast<uint64_t>(count)) {
        throw Damage(fmt::format("{} has {} bytes instead of {} values", what, bytes.size(), count));
    }
    Vector out(static_cast<size_t>(count));
    if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
}

/// Bytes of the ids that occur in a trace.
class TraceTokens final : public TokenTable {
public:
    void add(int32_t id, std::string bytes, bool special) { m_tokens[id] = {std::move(bytes), special}; }
    [[nodiscard]] bool contains(int32_t id) const { return m_tokens.contains(id); }
    [[nodiscard]] std::string_view token_bytes(int32_t id) const override {
        const auto found = m_tokens.find(id);
        return found == m_tokens.end() ? std::string_view() : std::string_view(found->second.bytes);
    }
    [[nodiscard]] bool is_special(int32_t id) const override {
        const auto found = m_tokens.find(id);
        return found != m_tokens.end() && found->second.special;
    }

private:
    struct Token {
        std::string bytes;
        bool special = false;
    };
    std::unordered_map<int32_t, Token> m_tokens;
};

class Loader {
public:
    /// \param version  schema of the file
    /// \param bytes    that the file really has
    Loader(Database& db, int64_t version, std::string file, uint64_t bytes)
        : m_db(db)
        , m_version(version)
        , m_file(std::move(file))
        , m_bytes(bytes) {}

    std::vector<std::shared_ptr<Recording>> load() {
        load_tokens();
        std::vector<std::shared_ptr<Recording>> all;
        Statement runs(m_db, select("runs", "ORDER BY run"));
        while (runs.step()) {
            all.push_back(load_run(runs));
            m_places.emplace(m_run, all.size() - 1);
        }
        for (const auto& recording : all) {
            if (recording->info().has_cache_events || !recording->cache_entries().empty()) continue;
            const size_t before = recording->own_bytes();
            add_older_cache_events(*recording);
            m_memory += recording->own_bytes() - before;
            check_memory(0);
        }
        return all;
    }

    /// What the runs of load() are known by, in their order.
    std::vector<RunLabel> labels(size_t count) {
        std::vector<RunLabel> all(count);
        if (m_version < trace::table("labels").since) return all;
        Statement rows(m_db, select("labels"));
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
    /// All columns of a table by name, in the order of trace::tables(), whatever the file's version.
    [[nodiscard]] std::string select(std::string_view table, std::string_view rest = {}) const {
        return fmt::format("{} {}", trace::select_sql(table, m_version), rest);
    }

    void load_tokens() {
        Statement rows(m_db, select("tokens"));
        while (rows.step()) {
            auto& table = m_vocabularies[rows.integer(0)];
            if (!table) table = std::make_shared<TraceTokens>();
            const auto bytes = rows.blob(2);
            within(static_cast<int64_t>(bytes.size()), 0, longest_token, "bytes of a token");
            std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
            table->add(within32(rows.integer(1), 0, max_id, "token id"), std::move(text),
                       rows.integer(3) != 0);
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
            check_memory(recording->own_bytes());
        } else {
            const auto tokens = m_vocabularies.find(row.integer(9));
            m_tokens = tokens != m_vocabularies.end() ? tokens->second : std::make_shared<TraceTokens>();
            RunInfo info =
                trace::info_from_text(row.text(10), m_version, fmt::format("run {} of {}", m_run, m_file));
            info.id = id;
            info.parent_id = parent;
            info.fork_step = fork_step;
            for (const int32_t token : info.prompt_ids)
                (void)known_id(token);
            (void)known_id(info.first_token);
            recording = std::make_shared<Recording>(std::move(info), m_tokens);
        }
        m_runs.emplace(id, recording);
        m_run_tokens.emplace(id, m_tokens);

        load_steps(*recording);
        check_text(*recording);
        within(fork_step, 0, recording->steps(), "fork step");
        load_refreshes(*recording);
        load_passes(*recording);
        load_commands(*recording);
        load_drift(*recording);
        load_cache(*recording);
        load_attention(*recording);
        if (!row.is_null(11)) {
            const std::string reason = row.text(11);
            if (std::ranges::find(stop_reasons, reason) == std::end(stop_reasons))
                throw Damage(fmt::format("run {} ended for no known reason", m_run));
            recording->set_end({reason, number_or_nan(row, 12), row.number(13), row.number(14)});
        }
        m_memory += recording->own_bytes();
        check_memory(0);
        return recording;
    }

    /// What its parent is, but for what a branch has of its own: more tokens than the run that it left, another device.
    RunInfo info_of_branch(const Statement& row, RunInfo info, const std::string& id) const {
        info.id = id;
        const std::string text = row.text(10);
        if (text.empty()) return info;
        set_own_info(info,
                     trace::info_from_text(text, m_version, fmt::format("run {} of {}", m_run, m_file)));
        return info;
    }

    // What the runs of one file may hold is bounded by what the file has: forks multiply little rows, and a long token may be
    // chosen at every step. Written by a recorder, a file is larger than its runs are in memory, within a factor of ten.
    void check_memory(size_t more) const {
        constexpr uint64_t base = uint64_t{64} << 20U, per_byte = 64;
        if (m_memory + more > base + per_byte * m_bytes)
            throw Damage("its runs take more memory than a file of its size can need");
    }
    void check_text(const Recording& recording) const {
        constexpr uint64_t base = uint64_t{1} << 20U, per_byte = 4;
        uint64_t text = 0;
        for (const int32_t id : recording.info().prompt_ids)
            text += m_tokens->token_bytes(id).size();
        for (int64_t t = 1; t <= recording.steps(); ++t)
            text += m_tokens->token_bytes(recording.step(t).token_id).size();
        if (text > base + per_byte * m_bytes)
            throw Damage("its text is longer than a file of its size can hold");
    }

    // Bounds of what speaks of a run: its steps and positions, and those of the step in flight, which comes with the next
    // round of the writer. A killed writer leaves no more than that.
    static int64_t last_boundary(const Recording& recording) { return recording.steps() + 1; }
    /// Columns of the caches at a boundary.
    static int64_t columns(const Recording& recording, int64_t boundary) {
        return recording.prompt_length() + boundary;
    }
    /// An id that occurs stands in `tokens`; -1 is none.
    int32_t known_id(int32_t id) const {
        if (id >= 0 && !m_tokens->contains(id))
            throw Damage(fmt::format("run {} has token {}, of which the file has no text", m_run, id));
        return id;
    }

    [[nodiscard]] static Recording::Inherited inherited(const Statement& row) {
        const auto count = [&](int column) {
            return static_cast<size_t>(within(row.integer(column), 0, int64_t{1} << 40, "inherited events"));
        };
        return {count(5), count(6), count(7), count(8), count(15)};
    }
    struct Fill {
        int64_t known, step;
        size_t signal;
        float value;
    };

    void load_steps(Recording& recording) {
        const int64_t before = recording.steps();
        std::vector<StepRecord> records = read_records(recording);
        read_candidates(recording, records, before);
        const std::vector<Fill> fills = read_signals(recording, records, before);
        std::vector<LayerValues> layers = read_layers(recording, records, before);

        // Between the records the back-fills, each after the boundary at which it was made.
        auto next = fills.begin();
        const auto fill_up_to = [&](int64_t known) {
            while (next != fills.end() && next->known <= known) {
                if (next->known != recording.steps() + 1)
                    throw Damage("a back-filled value belongs to no boundary");
                const Fill& first = *next;
                std::vector<float> run; // of neighbouring steps
                for (; next != fills.end() && next->known == first.known && next->signal == first.signal &&
                       next->step == first.step + static_cast<int64_t>(run.size());
                     ++next) {
                    run.push_back(next->value);
                }
                recording.back_fill(first.signal, first.step, run);
            }
        };
        for (const StepRecord& record : records) {
            fill_up_to(record.step);
            const auto at = static_cast<size_t>(record.step - before - 1);
            recording.append(record, at < layers.size() ? layers[at] : LayerValues{});
        }
        fill_up_to(recording.steps() + 1);
        if (next != fills.end()) throw Damage("a back-filled value belongs to no boundary");
    }

    std::vector<StepRecord> read_records(const Recording& recording) {
        std::vector<StepRecord> records;
        Statement rows(m_db, select("steps", "WHERE run = ? ORDER BY step"));
        rows.bind(0, m_run);
        const int64_t last_id = largest_id(recording);
        while (rows.step()) {
            StepRecord record;
            const int64_t expected = recording.steps() + static_cast<int64_t>(records.size()) + 1;
            record.step = within(rows.integer(1), expected, std::min(expected, max_steps), "step");
            record.position = recording.prompt_length() + record.step - 1;
            within(rows.integer(2), record.position, record.position, "position");
            record.token_id = known_id(within32(rows.integer(3), -1, last_id, "token id"));
            record.next_token_id = known_id(within32(rows.integer(4), -1, last_id, "next token id"));
            record.producer = static_cast<Producer>(within(rows.integer(5), 0, 1, "producer"));
            record.next_producer = static_cast<Producer>(within(rows.integer(6), 0, 1, "producer"));
            record.fed = within(rows.integer(7), 0, 1, "fed") != 0;
            record.arrival_ms = number_or_nan(rows, 8);
            for (size_t part = 0; part < num_parts; ++part) {
                record.part_ms[part] = static_cast<float>(number_or_nan(rows, 9 + static_cast<int>(part)));
            }
            record.signals.fill(absent());
            records.push_back(record);
        }
        return records;
    }

    void read_candidates(const Recording& recording, std::vector<StepRecord>& records, int64_t before) {
        Statement rows(m_db, "SELECT step, rank, token_id, prob FROM topk WHERE run = ? ORDER BY step, rank");
        rows.bind(0, m_run);
        const int64_t last_id = largest_id(recording);
        while (rows.step()) {
            StepRecord& record = own_record(records, before, rows.integer(0));
            within(rows.integer(1), record.top_k, std::min<int64_t>(record.top_k, max_top_k - 1), "rank");
            record.top_ids[record.top_k] = known_id(within32(rows.integer(2), -1, last_id, "token id"));
            record.top_probs[record.top_k] = real32(rows, 3);
            ++record.top_k;
        }
    }

    /// Measured values go into their records. \return the back-filled ones, by boundary
    std::vector<Fill> read_signals(const Recording& recording, std::vector<StepRecord>& records,
                                   int64_t before) {
        std::vector<Fill> fills;
        Statement rows(m_db, "SELECT step, signal, known, value FROM signals WHERE run = ?");
        rows.bind(0, m_run);
        const int64_t last = before + static_cast<int64_t>(records.size());
        while (rows.step()) {
            const auto id = recording.signal_id(rows.text(1));
            if (!id) continue; // a signal that this program does not have: nothing here could show it
            const int64_t step = within(rows.integer(0), 1, last, "step of a signal");
            const int64_t known = within(rows.integer(2), step, last + 1, "boundary of a signal");
            if (known == step) {
                own_record(records, before, step).signals[*id] = real32(rows, 3);
            } else {
                fills.push_back({known, step, *id, real32(rows, 3)});
            }
        }
        std::ranges::sort(fills, {}, [](const Fill& f) { return std::tuple(f.known, f.signal, f.step); });
        return fills;
    }

    /// By record; shorter where the last ones have none.
    std::vector<LayerValues> read_layers(const Recording& recording, std::vector<StepRecord>& records,
                                         int64_t before) {
        std::vector<LayerValues> layers;
        if (m_version < 3) return layers;
        Statement rows(m_db,
                       "SELECT step, signal, layer_values FROM layers WHERE run = ? ORDER BY step, signal");
        rows.bind(0, m_run);
        while (rows.step()) {
            const int64_t step = own_record(records, before, rows.integer(0)).step;
            const auto id = recording.signal_id(rows.text(1));
            if (!id) continue;
            if (!recording.signals()[*id].layered)
                throw Damage(
                    fmt::format("signal {} has layers in step {}", recording.signals()[*id].name, step));
            const auto of_layers = values<float>(rows, 2, recording.info().layers, "a layered signal");
            const auto at = static_cast<size_t>(step - before - 1);
            if (layers.size() <= at) layers.resize(at + 1);
            layers[at].set(*id, of_layers);
        }
        return layers;
    }

    static StepRecord& own_record(std::vector<StepRecord>& records, int64_t before, int64_t step) {
        within(step, before + 1, before + static_cast<int64_t>(records.size()), "step");
        return records[static_cast<size_t>(step - before - 1)];
    }

    void load_refreshes(Recording& recording) {
        Statement rows(m_db, select("refreshes", "WHERE run = ? ORDER BY n"));
        rows.bind(0, m_run);
        while (rows.step()) {
            check_order(rows, recording.refreshes().size());
            const size_t n = recording.refreshes().size();
            const int64_t earliest = n == 0 ? 0 : recording.refreshes()[n - 1].step;
            RefreshEvent e;
            e.step = within(rows.integer(2), earliest, last_boundary(recording), "step of a refresh");
            e.id = within32(rows.integer(3), 0, e.step, "refresh id"); // at most one at a boundary
            e.automatic = rows.integer(4) != 0;
            const int64_t end = columns(recording, e.step);
            e.delta = within(rows.integer(5), 0, e.step, "delta");
            e.first_pos = within(rows.integer(6), 0, end, "first_pos");
            e.spliced = within(rows.integer(7), 0, std::min(e.delta, end - e.first_pos), "spliced");
            e.pass_tokens = within(rows.integer(8), 0, end, "pass_tokens");
            const auto on_fire = on_fire_from_string(rows.text(9));
            if (!on_fire) throw Damage("on_fire of a refresh is unknown");
            e.on_fire = *on_fire;
            e.token_before = known_id(within32(rows.integer(10), -1, largest_id(recording), "token id"));
            e.token_after = known_id(within32(rows.integer(11), -1, largest_id(recording), "token id"));
            e.kl_nats = number_or_absent(rows, 12);
            e.mean_drift = number_or_absent(rows, 13);
            e.teacher_ms = number_or_nan(rows, 14);
            e.splice_ms = number_or_nan(rows, 15);
            e.redraw_ms = number_or_nan(rows, 16);
            e.hits =
                trace::hits_from_text(rows.text(17), fmt::format("a refresh of run {} of {}", m_run, m_file));
            e.fired_step = within(rows.integer(18), 0, e.step, "fired_step of a refresh");
            recording.add_refresh(std::move(e));
        }
    }

    void load_passes(Recording& recording) {
        Statement rows(m_db, select("passes", "WHERE run = ? ORDER BY n"));
        rows.bind(0, m_run);
        while (rows.step()) {
            check_order(rows, recording.passes().size());
            PassEvent e;
            e.step = within(rows.integer(2), 0, last_boundary(recording), "step of a pass");
            const int64_t end = columns(recording, e.step);
            e.first_pos = within(rows.integer(3), 0, end, "first_pos");
            e.tokens = within(rows.integer(4), 0, end - e.first_pos, "tokens");
            e.probe = rows.integer(5) != 0;
            e.shadow = rows.integer(6) != 0;
            e.kl_nats = number_or_absent(rows, 7);
            e.ms = number_or_nan(rows, 8);
            recording.add_pass(e);
        }
    }

    void load_commands(Recording& recording) {
        Statement rows(m_db, select("commands", "WHERE run = ? ORDER BY n"));
        rows.bind(0, m_run);
        while (rows.step()) {
            check_order(rows, recording.commands().size());
            CommandEvent e;
            e.step = within(rows.integer(2), 0, last_boundary(recording), "step of a command");
            e.json = rows.text(3);
            (void)parse_json(e.json,
                             fmt::format("a command of run {} of {}", m_run, m_file)); // readers trust it
            recording.add_command(std::move(e));
        }
    }

    void load_drift(Recording& recording) {
        Statement rows(m_db, select("drift", "WHERE run = ? ORDER BY n"));
        rows.bind(0, m_run);
        while (rows.step()) {
            check_order(rows, recording.drifts().size());
            auto map = std::make_shared<DriftMap>();
            map->step = within(rows.integer(2), 0, last_boundary(recording), "step of a drift map");
            map->refresh_id = within32(rows.integer(3), 0, map->step, "refresh id");
            const int64_t end = columns(recording, map->step);
            map->first_pos = within(rows.integer(4), 0, end, "first_pos");
            map->positions = within(rows.integer(5), 0, end - map->first_pos, "positions");
            map->layers = within(rows.integer(6), 0, max_id, "layers");
            const int64_t count = map->positions * map->layers;
            map->k = values<float>(rows, 7, count, "drift");
            map->v = values<float>(rows, 8, count, "drift");
            map->k_max = values<float>(rows, 9, count, "drift");
            map->v_max = values<float>(rows, 10, count, "drift");
            recording.add_drift(std::move(map));
        }
    }

    void load_cache(Recording& recording) {
        if (m_version < 3) return;
        Statement rows(m_db, select("cache", "WHERE run = ? ORDER BY n"));
        rows.bind(0, m_run);
        constexpr int64_t most_bytes = int64_t{1} << 50;
        const size_t inherited = recording.cache_entries().size();
        int64_t earliest = 0;
        std::set<std::pair<int32_t, int32_t>> planes; // told apart: cache_state() keeps all columns of each
        for (size_t i = 0; i < inherited; ++i)
            earliest = std::max(earliest, recording.cache_entries()[i].step);
        while (rows.step()) {
            const size_t size = recording.cache_entries().size();
            // A row of appends that came from the parent and goes on in the branch stands here again.
            const auto n =
                static_cast<size_t>(within(rows.integer(1), size > inherited ? static_cast<int64_t>(size) : 0,
                                           static_cast<int64_t>(size), "number of a cache event"));
            CacheEvent event;
            event.step = within(rows.integer(2), n < inherited ? 0 : earliest, last_boundary(recording),
                                "step of a cache event");
            const int64_t steps = within(rows.integer(3), 1, last_boundary(recording) - event.step + 1,
                                         "steps of a cache event");
            event.teacher = within(rows.integer(4), 0, 1, "teacher") != 0;
            const auto change = cache_change_from_string(rows.text(5));
            const bool too_new = m_version < 4 && change == CacheChange::encoded;
            if (!change || too_new) throw Damage("the change of a cache event is unknown");
            event.change = *change;
            event.layer =
                within32(rows.integer(6), -1, recording.info().layers - 1, "layer of a cache event");
            event.kv_head =
                within32(rows.integer(7), -1, recording.info().kv_heads - 1, "KV head of a cache event");
            planes.emplace(event.layer, event.kv_head);
            constexpr size_t cell = 10;
            check_memory(planes.size() * static_cast<size_t>(columns(recording, recording.steps())) * cell);
            const int64_t end = columns(recording, event.step + steps - 1);
            read_ranges(event, rows, end);
            const auto origin = origin_from_name(rows.text(11));
            if (!origin) throw Damage("the origin of a cache event is unknown");
            event.origin = *origin;
            event.refresh_id = within32(rows.integer(12), -1, event.step, "refresh id");
            const int64_t stride =
                within(rows.integer(14), -most_bytes, most_bytes, "bytes of a cache event");
            if (!rows.is_null(13)) event.bytes = {rows.integer(13)};
            if (!rows.is_null(15))
                event.bytes = values<int64_t>(rows, 15, recording.info().layers, "bytes of a cache event");
            for (const int64_t bytes : event.bytes) {
                within(bytes, 0, most_bytes, "bytes of a cache event");
                within(bytes + (steps - 1) * stride, 0, most_bytes, "bytes of a cache event");
            }
            const auto& last = event.positions.back();
            const bool row = event.change == CacheChange::appended && event.positions.size() == 1 &&
                             event.bytes.size() <= 1 && last.first + steps * last.n <= end;
            if ((steps > 1 && !row) || (steps == 1 && stride != 0))
                throw Damage("a cache event is no row of appends");
            earliest = std::max(earliest, event.step);
            put_entry(recording, n, std::move(event), steps, stride);
        }
    }

    /// The positions of a cache event, all before `end`.
    static void read_ranges(CacheEvent& event, const Statement& row, int64_t end) {
        const int64_t first = within(row.integer(8), 0, end, "first_pos"),
                      positions = within(row.integer(9), 1, end, "positions");
        if (row.is_null(10)) {
            event.positions = {{first, positions}};
        } else {
            const auto pairs = static_cast<int64_t>(row.blob(10).size() / sizeof(PositionRange));
            event.positions = values<PositionRange>(row, 10, pairs, "ranges");
            if (pairs < 2) throw Damage("a cache event has no ranges");
        }
        int64_t begin = first, count = 0;
        for (const PositionRange& range : event.positions) {
            within(range.first, begin, end, "position of a cache event");
            begin = range.first + within(range.n, 1, end - range.first, "positions of a cache event");
            count += range.n;
        }
        if (event.positions.front().first != first || count != positions)
            throw Damage("a cache event does not add up");
    }

    static std::optional<Origin> origin_from_name(const std::string& name) {
        for (int i = 0; i <= static_cast<int>(Origin::skipped); ++i) {
            if (name == origin_name(static_cast<Origin>(i))) return static_cast<Origin>(i);
        }
        return std::nullopt;
    }

    void put_entry(Recording& recording, size_t n, CacheEvent event, int64_t steps, int64_t stride) {
        CacheEntry entry(std::move(event));
        entry.bytes_stride = stride;
        entry.set_steps(steps);
        if (!recording.put_cache_entry(n, std::move(entry)))
            throw Damage("a cache event is not that of the run it was forked from");
    }

    void load_attention(Recording& recording) {
        Statement rows(m_db,
                       select("attention", "WHERE run = ? ORDER BY weights IS NOT NULL, position, teacher"));
        rows.bind(0, m_run); // what a branch has dropped comes first: then what it holds fits its limit
        while (rows.step()) {
            const int64_t position = within(rows.integer(1), 0, columns(recording, recording.steps()),
                                            "position"); // the newest is that of the step in flight
            const bool teacher = within(rows.integer(2), 0, 1, "teacher") != 0;
            if (rows.is_null(7)) {
                recording.drop_attention(position, teacher);
                continue;
            }
            auto attention = std::make_shared<AttentionRows>();
            attention->position = position;
            attention->teacher = teacher;
            const int64_t step = position - recording.prompt_length() + 1;
            attention->step = within(rows.integer(3), step, step, "step of attention");
            attention->heads = within(rows.integer(4), 0, 1 << 16, "heads");
            attention->keys = within(rows.integer(5), position + 1, position + 1, "keys");
            const auto layers = static_cast<int64_t>(rows.blob(6).size() / sizeof(int32_t));
            attention->layers = values<int32_t>(rows, 6, layers, "layers of attention");
            if (layers > 1 << 16 || attention->keys > max_id) throw Damage("attention of an absurd size");
            for (const int32_t layer : attention->layers)
                within(layer, 0, 1 << 16, "layer");
            attention->weights = values<uint16_t, RowVector<uint16_t>>(
                rows, 7, count_of(layers, attention->heads, attention->keys), "attention");
            recording.add_attention(std::move(attention));
        }
    }

    /// layers * heads * keys, each checked before; saturates where the product would not fit.
    static int64_t count_of(int64_t layers, int64_t heads, int64_t keys) {
        const int64_t rows = layers * heads;
        return rows > 0 && keys > std::numeric_limits<int64_t>::max() / rows
                   ? std::numeric_limits<int64_t>::max()
                   : rows * keys;
    }

    static void check_order(const Statement& row, size_t n) {
        within(row.integer(1), static_cast<int64_t>(n), static_cast<int64_t>(n), "number of an event");
    }

    static int64_t largest_id(const Recording& recording) {
        const int64_t vocab = recording.info().vocab_size;
        return vocab > 0 ? vocab - 1 : max_id;
    }

    Database& m_db;
    const int64_t m_version;
    std::string m_file;
    const uint64_t m_bytes;
    uint64_t m_memory = 0; ///< of the runs read so far
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
        Loader loader(file.db, file.version, path.string(), file.bytes);
        trace.runs = loader.load();
        trace.labels = loader.labels(trace.runs.size());
    });
    return trace;
}

std::vector<std::shared_ptr<Recording>> load_trace(const std::filesystem::path& path) {
    return load_labelled_trace(path).runs;
}

} // namespace refreshlab
