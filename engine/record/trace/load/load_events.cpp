#include "engine/base/json_file.h"
#include "engine/record/trace/load/checked_values.h"
#include "engine/record/trace/load/run_source.h"
#include "engine/record/trace/schema/trace_json.h"
#include "engine/record/trace/schema/trace_schema.h"

#include <algorithm>
#include <memory>

namespace refreshlab::trace {

namespace {

using sqlite::Statement;

constexpr int64_t most_drafted = 2 * longest_draft; ///< generous: another program may draft more

constexpr int64_t most_bytes_sent = int64_t{1} << 50;

void check_order(const Statement& row, size_t n) {
    within(row.integer(1), static_cast<int64_t>(n), static_cast<int64_t>(n), "number of an event");
}

void load_refreshes(const RunSource& run, Recording& recording) {
    Statement rows(run.db, run.select("refreshes", "n"));
    rows.bind(0, run.number);
    while (rows.step()) {
        check_order(rows, recording.refreshes().size());
        const size_t n = recording.refreshes().size();
        const int64_t earliest = n == 0 ? 0 : recording.refreshes()[n - 1].step;
        RefreshEvent e;
        e.step = within(rows.integer(2), earliest, last_boundary(recording), "step of a refresh");
        e.id = within32(rows.integer(3), 0, e.step, "refresh id"); // at most one at a boundary
        e.automatic = rows.integer(4) != 0;
        const int64_t end = columns_at(recording, e.step);
        e.delta = within(rows.integer(5), 0, e.step, "delta");
        e.first_pos = within(rows.integer(6), 0, end, "first_pos");
        e.spliced = within(rows.integer(7), 0, std::min(e.delta, end - e.first_pos), "spliced");
        e.pass_tokens = within(rows.integer(8), 0, end, "pass_tokens");
        const auto on_fire = on_fire_from_string(rows.text(9));
        if (!on_fire) throw Damage("on_fire of a refresh is unknown");
        e.on_fire = *on_fire;
        e.token_before = run.known_id(within32(rows.integer(10), -1, largest_id(recording), "token id"));
        e.token_after = run.known_id(within32(rows.integer(11), -1, largest_id(recording), "token id"));
        e.kl_nats = number_or_absent(rows, 12);
        e.mean_drift = number_or_absent(rows, 13);
        e.teacher_ms = number_or_nan(rows, 14);
        e.splice_ms = number_or_nan(rows, 15);
        e.redraw_ms = number_or_nan(rows, 16);
        e.hits = hits_from_text(rows.text(17), "a refresh of " + run.name());
        e.fired_step = within(rows.integer(18), 0, e.step, "fired_step of a refresh");
        if (!rows.is_null(19))
            e.bytes_sent = within(rows.integer(19), 0, most_bytes_sent, "bytes_sent of a refresh");
        recording.add_refresh(std::move(e));
    }
}

void load_passes(const RunSource& run, Recording& recording) {
    Statement rows(run.db, run.select("passes", "n"));
    rows.bind(0, run.number);
    while (rows.step()) {
        check_order(rows, recording.passes().size());
        PassEvent e;
        e.step = within(rows.integer(2), 0, last_boundary(recording), "step of a pass");
        const int64_t end = columns_at(recording, e.step);
        e.first_pos = within(rows.integer(3), 0, end, "first_pos");
        e.tokens = within(rows.integer(4), 0, end - e.first_pos, "tokens");
        e.probe = rows.integer(5) != 0;
        e.shadow = rows.integer(6) != 0;
        e.kl_nats = number_or_absent(rows, 7);
        e.ms = number_or_nan(rows, 8);
        recording.add_pass(e);
    }
}

void load_drafts(const RunSource& run, Recording& recording) {
    if (run.version < table("drafts").since) return;
    Statement rows(run.db, run.select("drafts", "n"));
    rows.bind(0, run.number);
    while (rows.step()) {
        check_order(rows, recording.drafts().size());
        DraftEvent e;
        e.step = within(rows.integer(2), 0, last_boundary(recording), "step of a draft");
        e.refresh_id = within32(rows.integer(3), 0, e.step, "refresh id");
        // Its first token is settled at that boundary or pending there.
        e.first_pos = within(rows.integer(4), 0, columns_at(recording, e.step), "first_pos of a draft");
        e.instead = run.known_id(within32(rows.integer(5), -1, largest_id(recording), "token id"));
        const auto count = static_cast<int64_t>(rows.blob(9).size() / sizeof(int32_t));
        within(count, 1, most_drafted, "tokens of a draft");
        e.rejected_read = within(rows.integer(6), 0, count, "rejected_read of a draft");
        e.rejected_ms = number_or_nan(rows, 7);
        e.teacher_ms = number_or_nan(rows, 8);
        const auto ids = values<int32_t>(rows, 9, count, "a draft");
        const auto stays = values<uint8_t>(rows, 10, count, "a draft");
        const auto p_teacher = values<float>(rows, 11, count, "a draft");
        const auto p_student = values<float>(rows, 12, count, "a draft");
        const auto expected = values<float>(rows, 13, count, "a draft");
        for (size_t i = 0; i < ids.size(); ++i) {
            within(stays[i], 0, 1, "stays of a drafted token");
            within(ids[i], 0, largest_id(recording), "token id");
            e.tokens.push_back(
                {run.known_id(ids[i]), stays[i] == 1, p_teacher[i], p_student[i], expected[i]});
        }
        if ((e.instead < 0) != (e.accepted() == count))
            throw Damage("a draft is cut and has no token in its place, or the reverse");
        recording.add_draft(std::move(e));
    }
}

void load_commands(const RunSource& run, Recording& recording) {
    Statement rows(run.db, run.select("commands", "n"));
    rows.bind(0, run.number);
    while (rows.step()) {
        check_order(rows, recording.commands().size());
        CommandEvent e;
        e.step = within(rows.integer(2), 0, last_boundary(recording), "step of a command");
        e.json = rows.text(3);
        (void)parse_json(e.json,
                         "a command of " + run.name()); // readers trust it
        recording.add_command(std::move(e));
    }
}

void load_drift(const RunSource& run, Recording& recording) {
    Statement rows(run.db, run.select("drift", "n"));
    rows.bind(0, run.number);
    while (rows.step()) {
        // Of a run whose rows come over a connection the values of a map come later.
        const auto n = static_cast<size_t>(std::max<int64_t>(0, rows.integer(1)));
        const bool known = run.comes && n < recording.drifts().size();
        if (known && recording.drift(n)->has_values())
            continue; // they came with the run that this one comes from
        const bool late = known;
        if (!late) check_order(rows, recording.drifts().size());
        auto map = std::make_shared<DriftMap>();
        map->step = within(rows.integer(2), 0, last_boundary(recording), "step of a drift map");
        map->refresh_id = within32(rows.integer(3), 0, map->step, "refresh id");
        const int64_t end = columns_at(recording, map->step);
        map->first_pos = within(rows.integer(4), 0, end, "first_pos");
        map->positions = within(rows.integer(5), 0, end - map->first_pos, "positions");
        map->layers = within(rows.integer(6), 0, max_id, "layers");
        const int64_t count = map->positions * map->layers;
        if (!late && rows.is_null(7)) {
            recording.add_drift(std::move(map));
            continue;
        }
        map->k = values<float>(rows, 7, count, "drift");
        map->v = values<float>(rows, 8, count, "drift");
        map->k_max = values<float>(rows, 9, count, "drift");
        map->v_max = values<float>(rows, 10, count, "drift");
        if (late)
            recording.fill_drift(n, std::move(map));
        else
            recording.add_drift(std::move(map));
    }
}

} // namespace

void load_events(const RunSource& run, Recording& recording) {
    load_refreshes(run, recording);
    load_passes(run, recording);
    load_drafts(run, recording);
    load_commands(run, recording);
    load_drift(run, recording);
}

} // namespace refreshlab::trace
