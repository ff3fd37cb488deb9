#include "engine/base/check.h"
#include "engine/base/csv_text.h"
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/base/regular_file.h"
#include "engine/record/export/blocked_fires.h"
#include "engine/record/export/export.h"
#include "engine/record/notes/run_notes.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

namespace refreshlab {

namespace {

using json = nlohmann::json;

constexpr auto doing = "exporting to";

/// Asked at each row: true once somebody cancelled. The flag is read now and then only; a row costs microseconds.
class Stop {
public:
    explicit Stop(const std::atomic<bool>* flag)
        : m_flag(flag) {}
    [[nodiscard]] bool operator()() {
        if (m_flag != nullptr && m_row++ % 256 == 0) m_stopped = m_flag->load(std::memory_order_relaxed);
        return m_stopped;
    }

private:
    const std::atomic<bool>* m_flag;
    uint64_t m_row = 0;
    bool m_stopped = false;
};

/// Rows of CSV (RFC 4180: comma, CRLF, quotes doubled). Fields are added one by one; end_row() closes the line.
class CsvRows {
public:
    explicit CsvRows(std::ostream& out)
        : m_out(out) {}

    CsvRows& text(std::string_view value) {
        separate();
        m_row += csv_field(value);
        return *this;
    }
    CsvRows& integer(int64_t value) {
        separate();
        m_row += std::to_string(value);
        return *this;
    }
    CsvRows& empty() {
        separate();
        return *this;
    }
    /// Empty when absent(), else the shortest text that reads back as the same number.
    CsvRows& number(float value) {
        if (is_absent(value)) return empty();
        return real(value);
    }
    CsvRows& number(double value) { return real(value); }
    void end_row() {
        m_out << m_row << "\r\n";
        m_row.clear();
        m_first = true;
    }

private:
    template <class T>
    CsvRows& real(T value) {
        separate();
        m_row += std::isnan(value) ? std::string("nan") : fmt::format("{}", value); // no "-nan"
        return *this;
    }
    void separate() {
        if (!m_first) m_row += ',';
        m_first = false;
    }

    std::ostream& m_out;
    std::string m_row;
    bool m_first = true;
};

/// A file of such rows under one header.
class CsvFile {
public:
    CsvFile(const std::filesystem::path& path, std::string_view header)
        : m_path(path) {
        errno = 0;
        m_file.open(path, std::ios::binary | std::ios::trunc);
        check();
        m_file << header << "\r\n";
    }
    [[nodiscard]] CsvRows& rows() { return m_rows; }
    void close() {
        m_file.close();
        check();
    }

private:
    void check() const {
        if (m_file) return;
        const int code = errno;
        if (kind_of_errno(code) == ErrorKind::failure) fail_with_errno(doing, m_path, code);
        throw Error(doing, m_path.string(), code != 0 ? std::strerror(code) : "cannot be written",
                    "check the folder");
    }

    std::filesystem::path m_path;
    std::ofstream m_file;
    CsvRows m_rows{m_file};
};

/// Token bytes as UTF-8: bytes that belong to no character of this token alone, and NUL, as \xHH.
std::string token_text(const TokenTable& tokens, int32_t id) {
    std::string_view rest = tokens.token_bytes(id);
    std::string text;
    const auto escape = [&](char c) { text += fmt::format("\\x{:02X}", static_cast<unsigned char>(c)); };
    while (!rest.empty()) {
        const size_t good = first_invalid_utf8(rest).value_or(rest.size());
        for (const char c : rest.substr(0, good)) {
            if (c == '\0') {
                escape(c); // few CSV readers survive one
            } else {
                text += c;
            }
        }
        rest.remove_prefix(good);
        if (rest.empty()) break;
        escape(rest[0]);
        rest.remove_prefix(1);
    }
    return text;
}

/// "refreshed" and "reason" of a step.
void refresh_columns(CsvRows& csv, const Recording& r, int64_t step) {
    const RefreshEvent* refresh = r.refresh_at(step);
    csv.integer(refresh != nullptr && refresh->spliced >= 1 ? 1 : 0);
    csv.text(refresh != nullptr ? reason_text(refresh->hits) : "");
}

bool write_steps(const Recording& r, const std::filesystem::path& path, Stop& stop) {
    const auto logprob = r.signal_id("logprob");
    std::vector<size_t> others;
    std::string header = "step,position,token_id,text,logprob";
    for (size_t id = 0; id < r.signals().size(); ++id) {
        if (id == logprob) continue;
        others.push_back(id);
        header += fmt::format(",{}", r.signals()[id].name);
    }
    CsvFile file(path, header + ",refreshed,reason");
    CsvRows& csv = file.rows();
    for (int64_t t = 1, n = r.steps(); t <= n; ++t) {
        if (stop()) return false;
        const StepRecord& record = r.step(t);
        csv.integer(t)
            .integer(record.position)
            .integer(record.token_id)
            .text(token_text(r.tokens(), record.token_id));
        csv.number(logprob ? r.signal(t, *logprob) : absent());
        for (const size_t id : others)
            csv.number(r.signal(t, id));
        refresh_columns(csv, r, t);
        csv.end_row();
    }
    file.close();
    return true;
}

bool write_candidates(const Recording& r, const std::filesystem::path& path, Stop& stop) {
    CsvFile file(path, "step,rank,token_id,text,prob");
    CsvRows& csv = file.rows();
    for (int64_t t = 1, n = r.steps(); t <= n; ++t) {
        if (stop()) return false;
        const StepRecord& record = r.step(t);
        for (size_t rank = 0; rank < record.top_k; ++rank) {
            csv.integer(t).integer(static_cast<int64_t>(rank) + 1).integer(record.top_ids[rank]);
            csv.text(token_text(r.tokens(), record.top_ids[rank])).number(record.top_probs[rank]).end_row();
        }
    }
    file.close();
    return true;
}

std::string hits_detail(const std::vector<TriggerHit>& hits) {
    json list = json::array();
    for (const TriggerHit& hit : hits) {
        if (hit.trigger < 0) continue; // by hand: no threshold
        const auto number = [](double v) { return std::isfinite(v) ? json(v) : json(nullptr); };
        list.push_back({{"signal", reduced_name(hit.signal, hit.reduce, hit.layer)},
                        {"value", number(hit.value)},
                        {"threshold", number(hit.threshold)}});
    }
    return list.empty() ? std::string() : json_text(list);
}

void refresh_row(CsvRows& csv, const RefreshEvent& e) {
    csv.integer(e.step).text("refresh").text(reason_text(e.hits)).integer(e.automatic ? 1 : 0);
    csv.integer(e.delta)
        .integer(e.first_pos)
        .integer(e.spliced)
        .integer(e.pass_tokens)
        .text(to_string(e.on_fire));
    csv.integer(e.token_before).integer(e.token_after).number(e.kl_nats).number(e.mean_drift);
    csv.number(e.teacher_ms).number(e.splice_ms);
    if (e.on_fire == OnFire::keep) {
        csv.empty();
    } else {
        csv.number(e.redraw_ms);
    }
    csv.integer(e.fired_step);
    if (e.bytes_sent) {
        csv.integer(*e.bytes_sent);
    } else {
        csv.empty();
    }
    csv.text(hits_detail(e.hits)).end_row();
}

void pass_row(CsvRows& csv, const PassEvent& e) {
    csv.integer(e.step).text("pass").text(e.shadow ? "shadow" : e.probe ? "probe" : "refresh");
    csv.empty().empty().integer(e.first_pos).empty().integer(e.tokens).empty().empty().empty();
    csv.number(e.kl_nats).empty().number(e.ms).empty().empty().empty().empty().empty().end_row();
}

void command_row(CsvRows& csv, const CommandEvent& e) {
    csv.integer(e.step).text("command");
    for (int i = 0; i < 16; ++i)
        csv.empty();
    csv.text(e.json).end_row();
}

/// Events by step; at one step in the order in which they happen: commands before it, its pass, its refresh.
bool write_events(const Recording& r, const std::filesystem::path& path, Stop& stop) {
    CsvFile file(
        path,
        "step,kind,reason,automatic,delta,first_pos,spliced,pass_tokens,on_fire,token_before,token_after,"
        "kl_nats,mean_drift,teacher_ms,splice_ms,redraw_ms,fired_step,bytes_sent,detail");
    CsvRows& csv = file.rows();
    struct Entry {
        int64_t step;
        int kind;
        size_t index;
    };
    std::vector<Entry> entries;
    for (size_t i = 0, n = r.commands().size(); i < n; ++i)
        entries.push_back({r.commands()[i].step, 0, i});
    for (size_t i = 0, n = r.passes().size(); i < n; ++i)
        entries.push_back({r.passes()[i].step, 1, i});
    for (size_t i = 0, n = r.refreshes().size(); i < n; ++i)
        entries.push_back({r.refreshes()[i].step, 2, i});
    std::ranges::stable_sort(entries, {}, [](const Entry& e) { return std::pair(e.step, e.kind); });
    for (const Entry& entry : entries) {
        if (stop()) return false;
        if (entry.kind == 0) command_row(csv, r.commands()[entry.index]);
        if (entry.kind == 1) pass_row(csv, r.passes()[entry.index]);
        if (entry.kind == 2) refresh_row(csv, r.refreshes()[entry.index]);
    }
    file.close();
    return true;
}

bool write_drift(const Recording& r, const std::filesystem::path& path, Stop& stop) {
    CsvFile file(path, "refresh,step,layer,position,k_relative,v_relative,k_max_abs,v_max_abs");
    CsvRows& csv = file.rows();
    for (size_t i = 0, n = r.drifts().size(); i < n; ++i) {
        const auto drift = r.drift(i);
        const DriftMap& map = *drift;
        if (!map.has_values()) continue; // of a run elsewhere, and not here yet
        for (int64_t layer = 0; layer < map.layers; ++layer) {
            for (int64_t p = 0; p < map.positions; ++p) {
                if (stop()) return false;
                const auto at = static_cast<size_t>(layer * map.positions + p);
                csv.integer(map.refresh_id).integer(map.step).integer(layer).integer(map.first_pos + p);
                csv.number(map.k[at]).number(map.v[at]).number(map.k_max[at]).number(map.v_max[at]).end_row();
            }
        }
    }
    file.close();
    return true;
}

/// A row for each layer that was measured.
bool write_layers(const Recording& r, const std::filesystem::path& path, Stop& stop) {
    CsvFile file(path, "step,signal,layer,value");
    CsvRows& csv = file.rows();
    const auto& rows = r.layer_rows();
    for (size_t i = 0, n = rows.size(); i < n; ++i) {
        const Recording::LayerRow& row = rows[i];
        for (size_t layer = 0; layer < row.values->size(); ++layer) {
            if (stop()) return false;
            if (is_absent((*row.values)[layer])) continue;
            csv.integer(row.step).text(r.signals()[row.signal].name).integer(static_cast<int64_t>(layer));
            csv.number((*row.values)[layer]).end_row();
        }
    }
    file.close();
    return true;
}

/// A row for each event and range of positions, by step; at one step in the order in which they happened.
bool write_cache(const Recording& r, const std::filesystem::path& path, Stop& stop) {
    CsvFile file(path, "step,cache,change,layer,kv_head,first_pos,positions,origin,refresh,bytes_per_layer");
    CsvRows& csv = file.rows();
    struct Place {
        int64_t step;
        size_t entry;
        int64_t event;
    };
    std::vector<Place> places;
    for (size_t i = 0, n = r.cache_entries().size(); i < n; ++i) {
        const CacheEntry& entry = r.cache_entries()[i];
        for (int64_t event = 0, steps = entry.steps(); event < steps; ++event)
            places.push_back({entry.step + event, i, event});
    }
    std::ranges::stable_sort(places, {}, &Place::step);
    const auto unless_all = [&](int64_t index) { index < 0 ? csv.empty() : csv.integer(index); };
    for (const Place& place : places) {
        const CacheEvent event = r.cache_entries()[place.entry].event(place.event);
        for (const PositionRange& range : event.positions) {
            if (stop()) return false;
            csv.integer(event.step).text(event.teacher ? "teacher" : "student").text(to_string(event.change));
            unless_all(event.layer);
            unless_all(event.kv_head);
            csv.integer(range.first)
                .integer(range.n)
                .text(event.origin == Origin::none ? "" : origin_name(event.origin));
            unless_all(event.refresh_id);
            csv.text(fmt::format("{}", fmt::join(event.bytes, ";"))).end_row();
        }
    }
    file.close();
    return true;
}

/// A row for each boundary at which a limit stood in the way of a refresh.
bool write_blocked(const std::vector<BlockedFire>& fires, const std::filesystem::path& path, Stop& stop) {
    CsvFile file(path, "step,limit,reason,detail");
    CsvRows& csv = file.rows();
    for (const BlockedFire& fire : fires) {
        if (stop()) return false;
        csv.integer(fire.step).text(fire.budget && fire.cooldown ? "budget+cooldown"
                                    : fire.budget                ? "budget"
                                                                 : "cooldown");
        csv.text(reason_text(fire.hits)).text(hits_detail(fire.hits)).end_row();
    }
    file.close();
    return true;
}

/// A row for each note that the run shows.
bool write_notes(const std::vector<RunNotes::Seen>& notes, const Recording& r,
                 const std::filesystem::path& path, Stop& stop) {
    CsvFile file(path, "note,first_step,last_step,colour,made_at,run,text");
    CsvRows& csv = file.rows();
    int64_t number = 0;
    for (const auto& [note, owner] : notes) {
        if (stop()) return false;
        csv.integer(++number).integer(note.first_step).integer(note.last_step).integer(note.colour);
        csv.text(note.made_at).text(owner ? owner->run_id() : r.info().id).text(note.text).end_row();
    }
    file.close();
    return true;
}

/// A row for each drafted token.
bool write_drafts(const Recording& r, const std::filesystem::path& path, Stop& stop) {
    CsvFile file(path,
                 "step,refresh,place,position,token_id,text,stays,p_teacher,p_student,expected,instead_id,"
                 "instead_text");
    CsvRows& csv = file.rows();
    for (size_t i = 0, n = r.drafts().size(); i < n; ++i) {
        const DraftEvent& draft = r.drafts()[i];
        const int64_t accepted = draft.accepted();
        for (int64_t place = 0; place < std::ssize(draft.tokens); ++place) {
            if (stop()) return false;
            const DraftToken& token = draft.tokens[static_cast<size_t>(place)];
            csv.integer(draft.step)
                .integer(draft.refresh_id)
                .integer(place + 1)
                .integer(draft.first_pos + place);
            csv.integer(token.token_id).text(token_text(r.tokens(), token.token_id));
            csv.integer(place < accepted ? 1 : 0).number(token.p_teacher).number(token.p_student);
            csv.number(token.expected);
            if (place == accepted) {
                csv.integer(draft.instead).text(token_text(r.tokens(), draft.instead));
            } else {
                csv.empty().empty();
            }
            csv.end_row();
        }
    }
    file.close();
    return true;
}

void write_meta(const Recording& r, const std::filesystem::path& path) {
    const RunInfo& info = r.info();
    const auto end = r.end();
    json versions = json::object();
    for (const auto& [name, version] : info.versions)
        versions[name] = version;
    json commands = json::array();
    for (size_t i = 0, n = r.commands().size(); i < n; ++i) {
        const CommandEvent& e = r.commands()[i];
        const json parsed = json::parse(e.json, nullptr, false);
        commands.push_back({{"step", e.step}, {"command", parsed.is_discarded() ? json(e.json) : parsed}});
    }
    const json meta = {{"run", info.id},
                       {"parent", info.parent_id.empty() ? json(nullptr) : json(info.parent_id)},
                       {"fork_step", info.fork_step},
                       {"prompt", info.config.prompt},
                       {"rendered_prompt", info.rendered_prompt},
                       {"prompt_token_ids", info.prompt_ids},
                       {"config", to_json(info.config)},
                       {"first_token", info.first_token},
                       {"versions", versions},
                       {"device", info.device},
                       {"dtype", info.dtype},
                       {"threads", info.threads},
                       {"started_at", info.started_at},
                       {"stop_reason", end ? json(end->stop_reason) : json(nullptr)},
                       {"text", generated_text(r)},
                       {"token_ids", r.token_ids()},
                       {"commands", commands},
                       {"note", info.note},
                       {"kernel_set", info.kernel_set},
                       {"derived", info.derived ? to_json(*info.derived) : json(nullptr)},
                       {"rebuild", info.rebuild}};
    write_file(path, json_text(meta, 2) + "\n");
}

/// What stands there may be replaced when it is empty or a table by steps, as this function or export_csv writes it: a
/// trace, a prompt file, a checkpoint never is.
void check_table_target(const std::filesystem::path& path) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) return; // write_file knows about folders and devices
    constexpr std::string_view begin = "step,";
    std::string head(begin.size(), '\0');
    std::ifstream file(path, std::ios::binary);
    file.read(head.data(), static_cast<std::streamsize>(head.size()));
    if (file.gcount() == 0 || head == begin) return;
    throw Error(doing, path.string(), "this file is no table of steps, so it is not replaced",
                "choose another name");
}

} // namespace

bool export_csv(const Recording& recording, const std::filesystem::path& folder,
                const std::atomic<bool>* cancelled) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (!std::filesystem::is_directory(folder)) {
        throw Error(doing, folder.string(), error ? error.message() : "this is not a folder");
    }
    Stop stop(cancelled);
    const bool layers = !recording.layer_rows().empty(), cache = !recording.cache_entries().empty();
    const bool drafts = !recording.drafts().empty();
    const std::vector<BlockedFire> blocked = blocked_fires(recording);
    const std::vector<RunNotes::Seen> notes = recording.notes()->seen();
    const bool whole = write_steps(recording, folder / "steps.csv", stop) &&
                       write_candidates(recording, folder / "topk.csv", stop) &&
                       write_events(recording, folder / "events.csv", stop) &&
                       write_drift(recording, folder / "drift.csv", stop) &&
                       (!layers || write_layers(recording, folder / "layers.csv", stop)) &&
                       (!cache || write_cache(recording, folder / "cache.csv", stop)) &&
                       (!drafts || write_drafts(recording, folder / "drafts.csv", stop)) &&
                       (blocked.empty() || write_blocked(blocked, folder / "blocked.csv", stop)) &&
                       (notes.empty() || write_notes(notes, recording, folder / "notes.csv", stop));
    // Half a table looks like a short run to whoever reads it later, and that of an earlier export like a part of this one.
    const auto remove = [&](const char* name) { std::filesystem::remove(folder / name, error); };
    if (!layers || !whole) remove("layers.csv");
    if (!cache || !whole) remove("cache.csv");
    if (!drafts || !whole) remove("drafts.csv");
    if (blocked.empty() || !whole) remove("blocked.csv");
    if (notes.empty() || !whole) remove("notes.csv");
    if (whole) {
        write_meta(recording, folder / "meta.json");
        return true;
    }
    for (const char* name : {"steps.csv", "topk.csv", "events.csv", "drift.csv"})
        remove(name);
    return false;
}

bool export_plotted(const Recording& recording, const std::filesystem::path& path, int64_t first,
                    int64_t last, std::span<const PlottedSignal> plotted,
                    const std::atomic<bool>* cancelled) {
    check_table_target(path);
    std::vector<PlottedSignal> columns;
    std::ostringstream out;
    out << "step";
    for (const PlottedSignal& one : plotted) {
        RL_ASSERT(one.id < recording.signals().size());
        columns.push_back(one);
        if (one.reduce != Reduction::mean) continue;
        // A band is plotted as well; where its signal has a plot of its own, the column comes from there.
        const auto band = recording.signal_id(recording.signals()[one.id].band);
        if (band && std::ranges::find(plotted, PlottedSignal{*band}) == plotted.end())
            columns.push_back({*band});
    }
    for (const PlottedSignal& one : columns)
        out << ',' << reduced_name(recording.signals()[one.id].name, one.reduce, one.layer);
    out << ",refreshed,reason\r\n";
    CsvRows csv(out);
    Stop stop(cancelled);
    for (int64_t t = std::max<int64_t>(first, 1), end = std::min(last, recording.steps()); t <= end; ++t) {
        if (stop()) return false;
        csv.integer(t);
        for (const PlottedSignal& one : columns)
            csv.number(one.reduce == Reduction::mean
                           ? recording.signal(t, one.id)
                           : reduce_layers(recording.layer_values(t, one.id), one.reduce, one.layer));
        refresh_columns(csv, recording, t);
        csv.end_row();
    }
    write_file(path, out.str());
    return true;
}

} // namespace refreshlab
