#include "engine/landscape/landscape_store.h"
#include "engine/record/trace/trace_store.h"
#include "python/bindings/arrays.h"
#include "python/bindings/recording_bindings.h"
#include "python/bindings/without_lock.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::python {

namespace {

using SharedLandscape = std::shared_ptr<Landscape>;

/// [rows, steps] with NaN where a row has no cell: on and below the diagonal.
Array<float> cells_of(const Landscape& landscape, const std::string& value) {
    const auto index = landscape.value_index(value);
    if (!index) throw nb::key_error(("the landscape has no value " + value).c_str());
    const std::vector<int64_t> rows = landscape.rows();
    const auto steps = static_cast<size_t>(landscape.num_steps());
    std::vector<float> cells(rows.size() * steps, std::numeric_limits<float>::quiet_NaN());
    for (size_t r = 0; r < rows.size(); ++r) {
        const auto plane = landscape.plane(*index, rows[r]);
        std::copy(plane.begin(), plane.end(),
                  cells.begin() + static_cast<std::ptrdiff_t>(r * steps + static_cast<size_t>(rows[r])));
    }
    return array_of(std::move(cells), {rows.size(), steps});
}

} // namespace

void bind_trace(nb::module_& module) {
    nb::class_<Landscape>(module, "Landscape", "A refresh landscape, see refreshlab.Landscape.")
        .def_prop_ro("values", [](const Landscape& l) { return l.info().values; })
        .def_prop_ro("tokens", [](const Landscape& l) { return l.info().tokens; })
        .def_prop_ro("prompt_ids", [](const Landscape& l) { return l.info().prompt_ids; })
        .def_prop_ro(
            "teacher_logprob",
            [](const SharedLandscape& l) {
                const auto& values = l->info().teacher_logprob;
                return view_of(values.data(), {values.size()}, l);
            },
            nb::rv_policy::automatic)
        .def_prop_ro("rows", &Landscape::rows)
        .def_prop_ro("complete", &Landscape::complete)
        .def("cells", &cells_of);
    module.def("read_runs", [](const std::string& path) {
        const LabelledRuns runs = without_lock([&] { return load_labelled_trace(path); });
        std::vector<std::pair<std::shared_ptr<Recording>, std::string>> all;
        for (size_t i = 0; i < runs.runs.size(); ++i)
            all.emplace_back(runs.runs[i], runs.labels[i].name);
        return all;
    });
    module.def("read_landscapes", [](const std::string& path) {
        std::vector<std::pair<std::string, SharedLandscape>> all;
        for (const StoredLandscape& stored : load_landscapes(path))
            all.emplace_back(stored.run_id, std::const_pointer_cast<Landscape>(stored.landscape));
        return all;
    });
}

} // namespace refreshlab::python
