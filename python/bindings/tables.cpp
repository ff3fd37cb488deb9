#include "python/bindings/tables.h"

#include "engine/base/error.h"
#include "engine/record/export/blocked_fires.h"
#include "engine/record/notes/run_notes.h"
#include "engine/record/recording/recording.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace refreshlab::python {

namespace {

/// Makes columns of rows, one after the other: each is there also where there are no rows.
template <class Row>
class Rows {
public:
    std::vector<Row> rows;

    template <class Get>
    Rows& whole(std::string_view name, const Get& get) {
        return numbers<int64_t>(name, get);
    }
    template <class Get>
    Rows& single(std::string_view name, const Get& get) {
        return numbers<float>(name, get);
    }
    template <class Get>
    Rows& real(std::string_view name, const Get& get) {
        return numbers<double>(name, get);
    }
    template <class Get>
    Rows& flag(std::string_view name, const Get& get) {
        return list(name, [&](const Row& row) { return nb::object(nb::bool_(get(row))); });
    }
    template <class Get>
    Rows& text(std::string_view name, const Get& get) {
        return list(name, [&](const Row& row) {
            const std::string value(get(row));
            return nb::object(nb::str(value.data(), value.size()));
        });
    }
    template <class Get>
    Rows& maybe(std::string_view name, const Get& get) {
        return list(name, [&](const Row& row) {
            const std::optional<int64_t> value = get(row);
            return value ? nb::object(nb::int_(*value)) : nb::object(nb::none());
        });
    }
    /// An object of Python in each row.
    template <class Get>
    Rows& list(std::string_view name, const Get& get) {
        nb::list values;
        for (const Row& row : rows)
            values.append(get(row));
        return put(name, std::move(values));
    }
    [[nodiscard]] nb::dict take() { return std::move(m_columns); }

private:
    template <class T, class Get>
    Rows& numbers(std::string_view name, const Get& get) {
        std::vector<T> values;
        values.reserve(rows.size());
        for (const Row& row : rows)
            values.push_back(static_cast<T>(get(row)));
        return put(name, nb::cast(array_of(std::move(values))));
    }
    Rows& put(std::string_view name, nb::object column) {
        m_columns[nb::str(name.data(), name.size())] = std::move(column);
        return *this;
    }
    nb::dict m_columns;
};

/// A place of something that has several: an event and which of its parts.
template <class Of>
struct Part {
    const Of* of;
    size_t n;
};

template <class Log>
auto pointers(const Log& log) {
    Rows<decltype(&log[0])> table;
    for (size_t i = 0, n = log.size(); i < n; ++i)
        table.rows.push_back(&log[i]);
    return table;
}

Rows<int64_t> by_step(const Recording& r) {
    Rows<int64_t> table;
    for (int64_t t = 1, n = r.steps(); t <= n; ++t)
        table.rows.push_back(t);
    return table.whole("step", [](int64_t t) { return t; });
}

/// A token's bytes as text; those that are no character of their own stand as \xhh.
std::string text_of(const Recording& r, int32_t id) {
    const std::string_view bytes = r.tokens().token_bytes(id);
    const nb::bytes raw(bytes.data(), bytes.size());
    return nb::cast<std::string>(raw.attr("decode")("utf-8", "backslashreplace"));
}

nb::dict steps(const Recording& r) {
    auto table = by_step(r);
    table.whole("position", [&](int64_t t) { return r.step(t).position; })
        .whole("token_id", [&](int64_t t) { return r.step(t).token_id; })
        .text("text", [&](int64_t t) { return text_of(r, r.step(t).token_id); })
        .text("producer",
              [&](int64_t t) { return r.step(t).producer == Producer::teacher ? "teacher" : "student"; })
        .whole("next_token_id", [&](int64_t t) { return r.step(t).next_token_id; })
        .real("arrival_ms", [&](int64_t t) { return r.step(t).arrival_ms; });
    for (size_t id = 0; id < r.signals().size(); ++id)
        if (r.knows_signal(id))
            table.single(r.signals()[id].name, [&](int64_t t) { return r.signal(t, id); });
    table
        .flag("refreshed",
              [&](int64_t t) { return r.refresh_at(t) != nullptr && r.refresh_at(t)->spliced >= 1; })
        .text("reason", [&](int64_t t) {
            const RefreshEvent* refresh = r.refresh_at(t);
            return refresh != nullptr ? reason_text(refresh->hits) : std::string();
        });
    return table.take();
}

nb::dict candidates(const Recording& r) {
    using Row = Part<StepRecord>;
    Rows<Row> table;
    for (int64_t t = 1, n = r.steps(); t <= n; ++t)
        for (size_t rank = 0; rank < r.step(t).top_k; ++rank)
            table.rows.push_back({&r.step(t), rank});
    return table.whole("step", [](const Row& row) { return row.of->step; })
        .whole("rank", [](const Row& row) { return row.n + 1; })
        .whole("token_id", [](const Row& row) { return row.of->top_ids[row.n]; })
        .text("text", [&](const Row& row) { return text_of(r, row.of->top_ids[row.n]); })
        .single("prob", [](const Row& row) { return row.of->top_probs[row.n]; })
        .take();
}

nb::dict layers(const Recording& r) {
    using Row = Part<Recording::LayerRow>;
    Rows<Row> table;
    const auto& all = r.layer_rows();
    for (size_t i = 0, n = all.size(); i < n; ++i)
        for (size_t layer = 0; layer < all[i].values->size(); ++layer)
            table.rows.push_back({&all[i], layer});
    return table.whole("step", [](const Row& row) { return row.of->step; })
        .text("signal", [&](const Row& row) { return r.signals()[row.of->signal].name; })
        .whole("layer", [](const Row& row) { return row.n; })
        .single("value", [](const Row& row) { return (*row.of->values)[row.n]; })
        .take();
}

nb::dict refreshes(const Recording& r) {
    using Row = const RefreshEvent*;
    auto table = pointers(r.refreshes());
    return table.whole("step", [](Row e) { return e->step; })
        .whole("fired_step", [](Row e) { return e->fired_step; })
        .text("reason", [](Row e) { return reason_text(e->hits); })
        .flag("automatic", [](Row e) { return e->automatic; })
        .whole("delta", [](Row e) { return e->delta; })
        .whole("first_pos", [](Row e) { return e->first_pos; })
        .whole("spliced", [](Row e) { return e->spliced; })
        .maybe("bytes_sent", [](Row e) { return e->bytes_sent; })
        .whole("pass_tokens", [](Row e) { return e->pass_tokens; })
        .text("on_fire", [](Row e) { return to_string(e->on_fire); })
        .whole("token_before", [](Row e) { return e->token_before; })
        .whole("token_after", [](Row e) { return e->token_after; })
        .single("kl_nats", [](Row e) { return e->kl_nats; })
        .single("mean_drift", [](Row e) { return e->mean_drift; })
        .real("teacher_ms", [](Row e) { return e->teacher_ms; })
        .real("splice_ms", [](Row e) { return e->splice_ms; })
        .real("redraw_ms", [](Row e) { return e->redraw_ms; })
        .take();
}

nb::dict passes(const Recording& r) {
    using Row = const PassEvent*;
    auto table = pointers(r.passes());
    return table.whole("step", [](Row e) { return e->step; })
        .whole("first_pos", [](Row e) { return e->first_pos; })
        .whole("tokens", [](Row e) { return e->tokens; })
        .flag("probe", [](Row e) { return e->probe; })
        .flag("shadow", [](Row e) { return e->shadow; })
        .single("kl_nats", [](Row e) { return e->kl_nats; })
        .real("ms", [](Row e) { return e->ms; })
        .take();
}

nb::dict commands(const Recording& r) {
    using Row = const CommandEvent*;
    auto table = pointers(r.commands());
    return table.whole("step", [](Row e) { return e->step; })
        .text("command", [](Row e) { return e->json; })
        .take();
}

nb::dict drafts(const Recording& r) {
    using Row = Part<DraftEvent>;
    Rows<Row> table;
    const auto& all = r.drafts();
    for (size_t i = 0, n = all.size(); i < n; ++i)
        for (size_t place = 0; place < all[i].tokens.size(); ++place)
            table.rows.push_back({&all[i], place});
    const auto token = [](const Row& row) -> const DraftToken& { return row.of->tokens[row.n]; };
    return table.whole("step", [](const Row& row) { return row.of->step; })
        .whole("refresh", [](const Row& row) { return row.of->refresh_id; })
        .whole("place", [](const Row& row) { return row.n + 1; })
        .whole("position", [](const Row& row) { return row.of->first_pos + static_cast<int64_t>(row.n); })
        .whole("token_id", [&](const Row& row) { return token(row).token_id; })
        .text("text", [&](const Row& row) { return text_of(r, token(row).token_id); })
        .flag("stays", [&](const Row& row) { return token(row).stays; })
        .single("p_teacher", [&](const Row& row) { return token(row).p_teacher; })
        .single("p_student", [&](const Row& row) { return token(row).p_student; })
        .single("expected", [&](const Row& row) { return token(row).expected; })
        .take();
}

nb::dict drift(const Recording& r) {
    using Row = Part<DriftMap>;
    Rows<Row> table;
    const auto& all = r.drifts();
    for (size_t i = 0, n = all.size(); i < n; ++i)
        for (size_t place = 0; place < all[i]->k.size(); ++place)
            table.rows.push_back({all[i].get(), place});
    const auto column = [](const Row& row) { return static_cast<int64_t>(row.n) % row.of->positions; };
    return table.whole("refresh", [](const Row& row) { return row.of->refresh_id; })
        .whole("step", [](const Row& row) { return row.of->step; })
        .whole("layer", [](const Row& row) { return static_cast<int64_t>(row.n) / row.of->positions; })
        .whole("position", [&](const Row& row) { return row.of->first_pos + column(row); })
        .single("k_relative", [](const Row& row) { return row.of->k[row.n]; })
        .single("v_relative", [](const Row& row) { return row.of->v[row.n]; })
        .single("k_max_abs", [](const Row& row) { return row.of->k_max[row.n]; })
        .single("v_max_abs", [](const Row& row) { return row.of->v_max[row.n]; })
        .take();
}

nb::dict cache(const Recording& r) {
    using Row = std::pair<CacheEvent, PositionRange>;
    Rows<Row> table;
    const auto& all = r.cache_entries();
    for (size_t i = 0, n = all.size(); i < n; ++i)
        for (int64_t k = 0, events = all[i].steps(); k < events; ++k) {
            const CacheEvent event = all[i].event(k);
            for (const PositionRange& range : event.positions)
                table.rows.emplace_back(event, range);
        }
    std::ranges::stable_sort(table.rows, {}, [](const Row& row) { return row.first.step; });
    const auto unless_all = [](int64_t index) { return index < 0 ? std::nullopt : std::optional(index); };
    return table.whole("step", [](const Row& row) { return row.first.step; })
        .text("cache", [](const Row& row) { return row.first.teacher ? "teacher" : "student"; })
        .text("change", [](const Row& row) { return to_string(row.first.change); })
        .maybe("layer", [&](const Row& row) { return unless_all(row.first.layer); })
        .maybe("kv_head", [&](const Row& row) { return unless_all(row.first.kv_head); })
        .whole("first_pos", [](const Row& row) { return row.second.first; })
        .whole("positions", [](const Row& row) { return row.second.n; })
        .text("origin",
              [](const Row& row) {
                  return row.first.origin == Origin::none ? "" : origin_name(row.first.origin);
              })
        .maybe("refresh", [&](const Row& row) { return unless_all(row.first.refresh_id); })
        .list("bytes_per_layer", [](const Row& row) { return nb::cast(row.first.bytes); })
        .take();
}

nb::dict blocked(const Recording& r) {
    Rows<BlockedFire> table;
    table.rows = blocked_fires(r);
    return table.whole("step", [](const BlockedFire& fire) { return fire.step; })
        .flag("budget", [](const BlockedFire& fire) { return fire.budget; })
        .flag("cooldown", [](const BlockedFire& fire) { return fire.cooldown; })
        .text("reason", [](const BlockedFire& fire) { return reason_text(fire.hits); })
        .take();
}

nb::dict notes(const Recording& r) {
    using Row = RunNotes::Seen;
    Rows<Row> table;
    table.rows = r.notes()->seen();
    return table.whole("first_step", [](const Row& row) { return row.note.first_step; })
        .whole("last_step", [](const Row& row) { return row.note.last_step; })
        .whole("colour", [](const Row& row) { return row.note.colour; })
        .text("made_at", [](const Row& row) { return row.note.made_at; })
        .text("text", [](const Row& row) { return row.note.text; })
        .take();
}

nb::dict parts(const Recording& r) {
    auto table = by_step(r);
    for (size_t p = 0; p < num_parts; ++p)
        table.single(std::string(part_name(static_cast<refreshlab::Part>(p))) + "_ms",
                     [&](int64_t t) { return r.step(t).part_ms[p]; });
    return table.take();
}

struct Table {
    const char* name;
    nb::dict (*columns)(const Recording&);
};
constexpr std::array<Table, 12> tables{{{"steps", steps},
                                        {"candidates", candidates},
                                        {"layers", layers},
                                        {"refreshes", refreshes},
                                        {"passes", passes},
                                        {"commands", commands},
                                        {"drafts", drafts},
                                        {"drift", drift},
                                        {"cache", cache},
                                        {"blocked", blocked},
                                        {"notes", notes},
                                        {"parts", parts}}};

} // namespace

nb::dict table_of(const Recording& recording, const std::string& name) {
    std::string known;
    for (const Table& table : tables) {
        if (table.name == name) return table.columns(recording);
        known += (known.empty() ? "" : ", ") + std::string(table.name);
    }
    throw Error("reading a table of a run", name, "there is none of this name", "there are " + known);
}

std::vector<std::string> table_names() {
    std::vector<std::string> names;
    for (const Table& table : tables)
        names.emplace_back(table.name);
    return names;
}

} // namespace refreshlab::python
