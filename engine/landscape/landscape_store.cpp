#include "engine/landscape/landscape_store.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/landscape/landscape_rows.h"
#include "engine/record/recording/recording.h"
#include "engine/record/trace/beside_run.h"
#include "engine/record/trace/schema/trace_schema.h"
#include "engine/record/trace/schema/trace_versions.h"
#include "engine/record/trace/sqlite.h"
#include "engine/record/trace/trace_access.h"
#include "engine/refresh/json_fields.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cstring>
#include <unordered_set>
#include <utility>

namespace refreshlab {

namespace {

using nlohmann::json;
using sqlite::Database;
using sqlite::Statement;
using trace::Damage;

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
    return std::as_bytes(std::span(values));
}

template <class T>
std::vector<T> values_of(std::span<const std::byte> bytes, const char* what) {
    if (bytes.size() % sizeof(T) != 0)
        throw Damage(fmt::format("{} of a landscape: {} bytes are no list", what, bytes.size()));
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

std::string info_text(const LandscapeInfo& info) {
    json text = {{"values", info.values},      {"teacher", info.teacher}, {"student", info.student},
                 {"device", info.device},      {"dtype", info.dtype},     {"kernel_set", info.kernel_set},
                 {"kept_rows", info.kept_rows}};
    if (info.mc.samples > 0) {
        text["mc_samples"] = info.mc.samples;
        text["mc_p"] = static_cast<double>(info.mc.p);
        text["mc_seed"] = info.mc.seed;
        text["mc_residual"] = info.mc.residual;
    }
    return json_text(text);
}

void read_info(const std::string& text, const std::string& what, LandscapeInfo& info) {
    const json parsed = parse_json(text, what);
    JsonFields fields(parsed, what);
    info.values.clear();
    if (const json* values = fields.find("values"); values != nullptr && values->is_array()) {
        for (const json& name : *values)
            info.values.push_back(name.get<std::string>());
    }
    fields.text("teacher", info.teacher);
    fields.text("student", info.student);
    fields.text("device", info.device);
    fields.text("dtype", info.dtype);
    fields.text("kernel_set", info.kernel_set);
    fields.integer("kept_rows", info.kept_rows, 1, int64_t{1} << 31);
    fields.integer("mc_samples", info.mc.samples, 0, int64_t{1} << 16);
    double p = 0;
    fields.real("mc_p", p, 0, 1);
    info.mc.p = static_cast<float>(p);
    fields.unsigned_integer("mc_seed", info.mc.seed);
    fields.boolean("mc_residual", info.mc.residual);
    fields.finish();
}

/// True when the same landscape is there already, with rows or without.
bool stands_there(Database& db, int64_t run, const Landscape& landscape) {
    Statement found(db, trace::select_sql("landscapes", trace::schema_version) + " WHERE run = ?");
    found.bind(0, run);
    if (!found.step()) return false;
    const auto same = [&](int column, std::span<const std::byte> bytes) {
        const auto there = found.blob(column);
        return std::equal(there.begin(), there.end(), bytes.begin(), bytes.end());
    };
    const LandscapeInfo& info = landscape.info();
    return same(1, bytes_of(info.prompt_ids)) && same(2, bytes_of(info.tokens)) &&
           same(3, bytes_of(info.teacher_logprob)) && found.text(4) == info_text(info);
}

void write_rows(Database& db, int64_t run, const Landscape& landscape) {
    std::unordered_set<int64_t> there;
    Statement stored(db, "SELECT row FROM landscape_rows WHERE run = ?");
    stored.bind(0, run);
    while (stored.step())
        there.insert(stored.integer(0));
    for (const int64_t j : landscape.rows())
        if (!there.contains(j)) trace::put_landscape_row(db, run, *landscape.row(j));
}

} // namespace

namespace trace {

Landscape landscape_of(const sqlite::Statement& row, const std::string& what) {
    LandscapeInfo info;
    info.prompt_ids = values_of<int32_t>(row.blob(1), "prompt");
    info.tokens = values_of<int32_t>(row.blob(2), "text");
    info.teacher_logprob = values_of<float>(row.blob(3), "teacher");
    for (const auto* ids : {&info.prompt_ids, &info.tokens}) {
        for (const int32_t id : *ids) {
            if (id < 0) throw Damage("a landscape has a token that is none");
        }
    }
    read_info(row.text(4), what, info);
    return Landscape(std::move(info));
}

void read_landscape_rows(Database& db, int64_t run, Landscape& landscape) {
    Statement rows(db, select_sql("landscape_rows", schema_version) + " WHERE run = ? ORDER BY row");
    rows.bind(0, run);
    const auto values = static_cast<int64_t>(landscape.info().values.size());
    while (rows.step()) {
        auto row = std::make_shared<LandscapeRow>();
        row->row = rows.integer(1);
        if (row->row < 0 || row->row >= landscape.num_rows())
            throw Damage(
                fmt::format("a landscape of {} tokens has a row {}", landscape.num_tokens(), row->row));
        const int64_t cells = landscape.num_steps() - row->row;
        const std::vector<float> all = values_of<float>(rows.blob(2), "cells");
        if (static_cast<int64_t>(all.size()) != cells * values) {
            throw Damage(
                fmt::format("row {} of a landscape has {} numbers instead of {} for each of {} values",
                            row->row, all.size(), cells, values));
        }
        for (int64_t v = 0; v < values; ++v)
            row->planes.emplace_back(all.begin() + v * cells, all.begin() + (v + 1) * cells);
        landscape.put_row(std::move(row));
    }
    if (!landscape.rows().empty() && !landscape.has_row(0)) throw Damage("a landscape has no row 0");
}

void begin_landscape(Database& db, int64_t run, const LandscapeInfo& info) {
    for (const char* table : {"landscapes", "landscape_rows"}) {
        Statement gone(db, fmt::format("DELETE FROM {} WHERE run = ?", table));
        gone.bind(0, run);
        gone.run();
    }
    Statement insert(db, "INSERT INTO landscapes VALUES (?, ?, ?, ?, ?)");
    const std::string text = info_text(info);
    insert.bind(0, run);
    insert.bind_blob(1, bytes_of(info.prompt_ids));
    insert.bind_blob(2, bytes_of(info.tokens));
    insert.bind_blob(3, bytes_of(info.teacher_logprob));
    insert.bind(4, std::string_view(text));
    insert.run();
}

void put_landscape_row(Database& db, int64_t run, const LandscapeRow& row) {
    std::vector<float> all;
    for (const auto& plane : row.planes)
        all.insert(all.end(), plane.begin(), plane.end());
    Statement insert(db, "INSERT INTO landscape_rows VALUES (?, ?, ?)");
    insert.bind(0, run);
    insert.bind(1, row.row);
    insert.bind_blob(2, bytes_of(all));
    insert.run();
}

} // namespace trace

std::vector<StoredLandscape> load_landscapes(const std::filesystem::path& path) {
    std::vector<StoredLandscape> all;
    trace::read_trace(path, [&](const trace::OpenTrace& file) {
        if (file.version < 4) return;
        Statement rows(file.db, trace::select_sql("landscapes", file.version) + " ORDER BY run");
        while (rows.step()) {
            const int64_t run = rows.integer(0);
            Statement id(file.db, "SELECT id FROM runs WHERE run = ?");
            id.bind(0, run);
            if (!id.step()) throw Damage(fmt::format("it has a landscape of run {}, which it has not", run));
            Landscape landscape =
                trace::landscape_of(rows, fmt::format("the landscape of run {} of {}", run, path.string()));
            trace::read_landscape_rows(file.db, run, landscape);
            all.push_back({id.text(0), std::make_shared<Landscape>(std::move(landscape))});
        }
    });
    return all;
}

void store_landscape(const std::filesystem::path& path, const std::string& run_id,
                     const Landscape& landscape) {
    constexpr trace::BesideRun about{.doing = "writing a landscape",
                                     .what = "landscapes",
                                     .elsewhere = "write to another file",
                                     .make_room = [](Database& db) {
                                         return trace::add_missing_tables(db,
                                                                          trace::table("landscapes").since);
                                     }};
    trace::write_beside_run(path, run_id, about, [&](Database& db, int64_t run) {
        if (!stands_there(db, run, landscape)) trace::begin_landscape(db, run, landscape.info());
        write_rows(db, run, landscape);
    });
}

void require_landscape_of(const Landscape& landscape, const Recording& recording, const std::string& what) {
    const LandscapeInfo& info = landscape.info();
    const std::vector<int32_t> text = recording.token_ids();
    const bool same = info.prompt_ids == recording.info().prompt_ids && info.tokens.size() <= text.size() &&
                      std::equal(info.tokens.begin(), info.tokens.end(), text.begin());
    if (!same) throw Error("reading a landscape", what, "it is of another text than its run");
}

std::shared_ptr<const Landscape> load_landscape_of(const std::filesystem::path& path, const Recording& run) {
    for (const StoredLandscape& stored : load_landscapes(path)) {
        if (stored.run_id != run.info().id) continue;
        require_landscape_of(*stored.landscape, run, path.string());
        return stored.landscape;
    }
    return nullptr;
}

} // namespace refreshlab
