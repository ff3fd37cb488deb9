#include "python/bindings/recording_bindings.h"

#include "engine/base/error.h"
#include "engine/base/json_text.h"
#include "engine/record/export/export.h"
#include "engine/record/recording/recording.h"
#include "engine/record/runs/rebuild.h"
#include "engine/record/trace/trace_store.h"
#include "python/bindings/arrays.h"
#include "python/bindings/tables.h"
#include "python/bindings/without_lock.h"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace refreshlab::python {

namespace {

using Shared = std::shared_ptr<Recording>;
using SharedRows = std::shared_ptr<AttentionRows>;

const StepRecord& record_of(const Recording& r, int64_t step) {
    if (step < 1 || step > r.steps())
        throw Error("reading a run", fmt::format("step {}", step),
                    fmt::format("the run has steps 1 to {}", r.steps()));
    return r.step(step);
}

std::string info_json(const Recording& r) {
    const RunInfo& info = r.info();
    nlohmann::json json{
        {"config", to_json(info.config)}, {"rendered_prompt", info.rendered_prompt},
        {"device", info.device},          {"dtype", info.dtype},
        {"kernel_set", info.kernel_set},  {"threads", info.threads},
        {"started_at", info.started_at},  {"note", info.note},
        {"layers", info.layers},          {"heads", info.heads},
        {"kv_heads", info.kv_heads},      {"head_dim", info.head_dim},
        {"vocab_size", info.vocab_size},  {"cache_bytes_per_token", info.cache_bytes_per_token},
        {"ttft_ms", info.ttft_ms},        {"prefill_ms", info.prefill_ms},
        {"rebuild", info.rebuild}};
    for (const auto& [part, version] : info.versions)
        json["versions"][part] = version;
    return json_text(json);
}

std::vector<std::tuple<std::string, std::string, std::string, std::string, bool>>
signal_table_of(const Recording& r) {
    std::vector<std::tuple<std::string, std::string, std::string, std::string, bool>> all;
    for (size_t id = 0; id < r.signals().size(); ++id)
        if (const Signal& s = r.signals()[id]; r.knows_signal(id))
            all.emplace_back(s.name, s.label, s.unit, s.description, s.layered);
    return all;
}

std::optional<float> signal_at(const Recording& r, int64_t step, const std::string& name) {
    static_cast<void>(record_of(r, step));
    const float value = r.signal(step, require_signal(r.signals(), name, "the run"));
    return is_absent(value) ? std::nullopt : std::optional(value);
}

Array<float> signal_column(const Recording& r, const std::string& name) {
    const size_t id = require_signal(r.signals(), name, "the run");
    std::vector<float> values;
    for (int64_t t = 1, n = r.steps(); t <= n; ++t)
        values.push_back(r.signal(t, id));
    return array_of(std::move(values));
}

/// The values of a step's layers, which the recording keeps for as long as somebody looks.
std::optional<Array<const float>> layer_values_of(const Shared& r, int64_t step, const std::string& name) {
    static_cast<void>(record_of(*r, step));
    const auto values = r->layer_values(step, require_signal(r->signals(), name, "the run"));
    if (values.empty()) return std::nullopt;
    return view_of(values.data(), {values.size()}, r);
}

using StepNumbers = std::tuple<int64_t, int32_t, int32_t, bool, bool, bool, double>;
StepNumbers step_numbers(const Recording& r, int64_t step) {
    const StepRecord& record = record_of(r, step);
    return {record.position,
            record.token_id,
            record.next_token_id,
            record.producer == Producer::teacher,
            record.next_producer == Producer::teacher,
            record.fed,
            record.arrival_ms};
}

std::vector<std::pair<int32_t, float>> candidates_of(const Recording& r, int64_t step) {
    const StepRecord& record = record_of(r, step);
    std::vector<std::pair<int32_t, float>> all;
    for (size_t rank = 0; rank < record.top_k; ++rank)
        all.emplace_back(record.top_ids[rank], record.top_probs[rank]);
    return all;
}

/// Number of the refresh whose boundary is the step's, in the table of refreshes.
std::optional<size_t> refresh_index(const Recording& r, int64_t step) {
    static_cast<void>(record_of(r, step));
    const auto& all = r.refreshes();
    for (size_t i = all.size(); i-- > 0;)
        if (all[i].step == step) return i;
    return std::nullopt;
}

using Drift = std::tuple<int64_t, int32_t, int64_t, Array<const float>, Array<const float>>;
std::vector<Drift> drifts_of(const Recording& r) {
    std::vector<Drift> all;
    const auto& maps = r.drifts();
    for (size_t i = 0, n = maps.size(); i < n; ++i) {
        const auto& map = maps[i];
        const std::vector<size_t> shape{static_cast<size_t>(map->layers),
                                        static_cast<size_t>(map->positions)};
        all.emplace_back(map->step, map->refresh_id, map->first_pos, view_of(map->k.data(), shape, map),
                         view_of(map->v.data(), shape, map));
    }
    return all;
}

nb::object half_weights(const SharedRows& rows) {
    const std::vector<size_t> shape{rows->layers.size(), static_cast<size_t>(rows->heads),
                                    static_cast<size_t>(rows->stride())};
    const nb::object bits = nb::cast(view_of(rows->weights.data(), shape, rows));
    return bits.attr("view")("float16");
}

Array<float> whole_rows(const AttentionRows& rows) {
    const auto keys = static_cast<size_t>(rows.keys);
    std::vector<float> all(rows.rows() * keys);
    for (size_t row = 0; row < rows.rows(); ++row)
        for_each_share(rows, row, [&](const AttentionShare& share) {
            const float each = half_to_float(share.share);
            for (int64_t key = share.first; key < share.end; ++key)
                all[row * keys + static_cast<size_t>(key)] = each;
        });
    return array_of(std::move(all), {rows.layers.size(), static_cast<size_t>(rows.heads), keys});
}

void bind_attention(nb::module_& module) {
    nb::class_<AttentionRows>(module, "AttentionRows", "Attention of one query, see refreshlab.Attention.")
        .def_ro("position", &AttentionRows::position)
        .def_ro("step", &AttentionRows::step)
        .def_ro("teacher", &AttentionRows::teacher)
        .def_ro("keys", &AttentionRows::keys)
        .def_prop_ro(
            "layers", [](const SharedRows& r) { return view_of(r->layers.data(), {r->layers.size()}, r); },
            nb::rv_policy::automatic)
        .def_prop_ro(
            "edges", [](const SharedRows& r) { return view_of(r->edges.data(), {r->edges.size()}, r); },
            nb::rv_policy::automatic)
        .def_prop_ro(
            "exact_keys",
            [](const SharedRows& r) {
                return view_of(
                    r->exact_keys.data(),
                    {r->layers.size(), static_cast<size_t>(r->heads), static_cast<size_t>(r->exact)}, r);
            },
            nb::rv_policy::automatic)
        .def_prop_ro("weights", &half_weights,
                     nb::sig("def weights(self) -> numpy.typing.NDArray[numpy.float16]"))
        .def("whole", &whole_rows);
}

/// [positions]: what the cache policy last gave each entry of a KV head; NaN where it gave none. From now on it tells them at every step.
Array<float> scores_of(const Recording& recording, int64_t layer, int64_t kv_head) {
    const RunInfo& info = recording.info();
    if (layer < 0 || layer >= info.layers || kv_head < 0 || kv_head >= info.kv_heads)
        throw Error("reading scores of a cache policy", fmt::format("layer {}, KV head {}", layer, kv_head),
                    fmt::format("the cache has layers 0 to {} and KV heads 0 to {}", info.layers - 1,
                                info.kv_heads - 1));
    recording.entry_scores().ask();
    std::vector<float> scores(info.prompt_ids.size() + static_cast<size_t>(recording.steps()),
                              std::numeric_limits<float>::quiet_NaN());
    for (size_t position = 0; position < scores.size(); ++position)
        if (const auto score =
                recording.entry_scores().at(layer * info.kv_heads + kv_head, static_cast<int64_t>(position)))
            scores[position] = score->value;
    return array_of(std::move(scores));
}

} // namespace

void bind_recording(nb::module_& module) {
    bind_attention(module);
    module.def("table_names", &table_names);
    nb::class_<Recording>(module, "Recording", "The engine's recording of one run, see refreshlab.Recording.")
        .def_prop_ro("id", [](const Recording& r) { return r.info().id; })
        .def_prop_ro("parent_id", [](const Recording& r) { return r.info().parent_id; })
        .def_prop_ro("fork_step", [](const Recording& r) { return r.info().fork_step; })
        .def_prop_ro("steps", &Recording::steps)
        .def_prop_ro("prompt_ids", [](const Recording& r) { return r.info().prompt_ids; })
        .def_prop_ro("token_ids", &Recording::token_ids)
        .def_prop_ro("text", &generated_text)
        .def_prop_ro("stop_reason",
                     [](const Recording& r) {
                         const auto end = r.end();
                         return end ? std::optional(end->stop_reason) : std::nullopt;
                     })
        .def("info", &info_json)
        .def("summary", [](const Recording& r) { return json_text(summary_json(r)); })
        .def("summary_table", &summary_table)
        .def("token_bytes",
             [](const Recording& r, int32_t id) {
                 const std::string_view bytes = r.tokens().token_bytes(id);
                 return nb::bytes(bytes.data(), bytes.size());
             })
        .def("signals", &signal_table_of)
        .def("signal", &signal_at)
        .def("column", &signal_column)
        .def("layer_values", &layer_values_of)
        .def("step_numbers", &step_numbers)
        .def("candidates", &candidates_of)
        .def("refresh_index", &refresh_index)
        .def("drifts", &drifts_of)
        .def("attention",
             [](const Recording& r, int64_t position, bool teacher) {
                 return std::const_pointer_cast<AttentionRows>(r.attention(position, teacher));
             })
        .def("scores", &scores_of)
        .def("table", &table_of, nb::sig("def table(self, name: str, /) -> dict[str, typing.Any]"))
        .def("newest_reached", &newest_reached)
        .def("save",
             [](const Shared& r, const std::string& path) {
                 without_lock([&] { static_cast<void>(save_trace(path, r)); });
             })
        .def("export_csv",
             [](const Shared& r, const std::string& folder) {
                 without_lock([&] { static_cast<void>(export_csv(*r, folder)); });
             })
        .def("difference", [](const Recording& a, const Recording& b, double tolerance) {
            return first_difference(a, b, tolerance);
        });
}

} // namespace refreshlab::python
