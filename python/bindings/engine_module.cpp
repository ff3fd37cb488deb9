// refreshlab._engine: pairs and sessions. On librefreshlab_engine.so, hence on libtorch.
#include "app/base/build_commit.h"
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/session/decode/run_identity.h"
#include "kernels/shared/device_failure.h"
#include "python/bindings/arrays.h"
#include "python/bindings/cache_views.h"
#include "python/bindings/interruptible.h"
#include "python/bindings/live_session.h"
#include "python/bindings/policy_view.h"
#include "python/bindings/session_server.h"
#include "python/bindings/studies.h"
#include "python/bindings/without_lock.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace refreshlab::python {

namespace {

using Session = LiveSession;

RunConfig config_of(const std::string& json) {
    return run_config_from_json(parse_json(json, "the configuration"), "the configuration");
}

std::string facts_json(const LoadedPair& loaded) {
    const ModelPair& pair = *loaded.pair;
    nlohmann::json json{{"note", pair.note()}};
    for (const auto& [name, model, dir] : {std::tuple{"teacher", pair.teacher.get(), &pair.teacher_dir},
                                           std::tuple{"student", pair.student.get(), &pair.student_dir}}) {
        if (model == nullptr) continue;
        const ModelConfig& c = model->config();
        json[name] = {{"path", *dir},          {"device", model->device().str()}, {"layers", c.num_layers},
                      {"heads", c.num_heads},  {"kv_heads", c.num_kv_heads},      {"head_dim", c.head_dim},
                      {"vocab", c.vocab_size}, {"context", c.max_position}};
    }
    return json_text(json);
}

/// Exceptions of signals written in Python: the first is raised, after the step that it happened in.
void raise_of_signals(const Session& session) {
    std::optional<nb::python_error> first;
    for (const auto& signal : session.signals())
        if (auto error = signal->take_error(); error && !first) first.emplace(std::move(*error));
    if (first) throw std::move(*first);
}

/// A window may hold the session; Ctrl-C ends the wait.
void wait_for_window(Session& session) {
    constexpr std::chrono::milliseconds signals_every{100};
    while (!without_lock([&] { return session.hold().pass(signals_every); }))
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

int64_t step_that_may_begin(Session& session) {
    const int64_t made = without_lock([&] { return session.step(); });
    raise_of_signals(session);
    return made;
}

int64_t step(Session& session) {
    wait_for_window(session);
    return step_that_may_begin(session);
}

/// \return nothing, soon, where a window holds the session
std::optional<int64_t> try_step(Session& session) {
    constexpr std::chrono::milliseconds soon{50};
    if (!without_lock([&] { return session.hold().pass(soon); })) return std::nullopt;
    return step_that_may_begin(session);
}

/// At most so many steps; Ctrl-C ends it between two. \return how many were made
int64_t run(Session& session, int64_t steps) {
    int64_t made = 0;
    for (; made < steps; ++made) {
        wait_for_window(session);
        if (step_that_may_begin(session) == 0) break;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
    return made;
}

const KvCache& cache_of(const DecodeSession& session, bool teacher) {
    const KvCache* cache = teacher ? session.teacher_cache() : session.student_cache();
    if (cache == nullptr)
        throw Error("reading a cache", teacher ? "the teacher's" : "the student's",
                    "is not part of this run");
    return *cache;
}

nb::tuple layer_views(Session& session, int64_t layer, bool teacher) {
    std::pair<at::Tensor, at::Tensor> views;
    without_lock([&] {
        views =
            session.look([&](const DecodeSession& s) { return dense_layer(cache_of(s, teacher), layer); });
    });
    return nb::make_tuple(torch_view(views.first), torch_view(views.second));
}

nb::tuple held_entries(Session& session, int64_t layer, int64_t kv_head, bool teacher) {
    std::vector<int64_t> positions;
    at::Tensor entries;
    without_lock([&] {
        session.look([&](const DecodeSession& s) {
            const KvCache& cache = cache_of(s, teacher);
            require_layer(cache, layer, kv_head);
            const auto held = cache.held(layer, kv_head);
            positions.assign(held.begin(), held.end());
            entries = cache.read(layer, kv_head, positions);
        });
    });
    return nb::make_tuple(array_of(std::move(positions)), torch_view(entries[0]), torch_view(entries[1]));
}

std::string cache_json(Session& session, bool teacher) {
    return without_lock([&] {
        return session.look([&](const DecodeSession& s) {
            const KvCache& cache = cache_of(s, teacher);
            nlohmann::json json{{"layers", cache.num_layers()},
                                {"kv_heads", cache.num_kv_heads()},
                                {"head_dim", cache.head_dim()},
                                {"length", cache.length()},
                                {"capacity", cache.capacity()},
                                {"bytes_used", cache.bytes_used()},
                                {"bytes_reserved", cache.bytes_reserved()}};
            for (const Origin origin : cache.origins())
                json["origins"].push_back(origin_name(origin));
            return json_text(json);
        });
    });
}

nb::object logits_at(Session& session, int64_t position) {
    at::Tensor row;
    without_lock([&] { row = session.look([&](const DecodeSession& s) { return s.row(position); }); });
    return torch_view(row);
}

/// \param about  "next_token", "token" or "session"
std::shared_ptr<PythonSignal> make_signal(nb::object function, const std::string& name,
                                          const std::string& label, const std::string& unit,
                                          const std::string& description, const std::string& about,
                                          double low, double high, char letter, bool wants_row,
                                          bool layered) {
    PublishedSignal signal;
    signal.name = name;
    signal.label = label;
    signal.unit = unit;
    signal.description = description;
    signal.cost_hint = "a call of Python at each step";
    signal.about = about == "next_token" ? SignalAbout::next_token
                   : about == "token"    ? SignalAbout::token
                                         : SignalAbout::session;
    signal.min = low;
    signal.max = high;
    signal.letter = letter;
    signal.layered = layered;
    return std::make_shared<PythonSignal>(std::move(function), std::move(signal), wants_row);
}

/// Failures of libtorch and of devices, in one line as in the program.
void translate_failures() {
    nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
        const auto raise = [](const std::string& said) {
            const nb::object type = nb::module_::import_("refreshlab.errors").attr("Failure");
            PyErr_SetObject(type.ptr(), type(said, "computing", "", said, "").ptr());
        };
        try {
            std::rethrow_exception(thrown);
        } catch (const kernels::DeviceFailure& failure) {
            raise(std::string("the device failed: ") + failure.what());
        } catch (const c10::Error& failure) {
            raise(std::string("the device or libtorch failed: ") + failure.what_without_backtrace());
        }
    });
}

void bind_session(nb::module_& module) {
    nb::class_<Session>(module, "Session", "A run of the engine, see refreshlab.Session.")
        .def("step", &step)
        .def("run", &run)
        .def("try_step", &try_step)
        .def("command",
             [](Session& s, const std::string& json) {
                 without_lock(
                     [&] { s.apply(command_from_json(parse_json(json, "the command"), "the command")); });
             })
        .def("rewind", [](Session& s, int64_t to) { without_lock([&] { s.rewind(to); }); })
        .def("stop", [](Session& s) { without_lock([&] { s.stop(); }); })
        .def("flush", [](Session& s) { without_lock([&] { s.flush(); }); })
        .def("close", [](Session& s) { without_lock([&] { s.close(); }); })
        .def_prop_ro("closed", [](Session& s) { return without_lock([&] { return s.models() == nullptr; }); })
        .def_prop_ro("finished", [](Session& s) { return without_lock([&] { return s.finished(); }); })
        .def_prop_ro("recording", [](Session& s) { return without_lock([&] { return s.recording(); }); })
        .def("config",
             [](Session& s) { return without_lock([&] { return json_text(to_json(s.config())); }); })
        .def("keys_and_values", &layer_views,
             nb::sig("def keys_and_values(self, layer: int, teacher: bool, /) -> tuple[torch.Tensor, "
                     "torch.Tensor]"))
        .def("entries", &held_entries,
             nb::sig("def entries(self, layer: int, kv_head: int, teacher: bool, /) -> "
                     "tuple[numpy.typing.NDArray[numpy.int64], torch.Tensor, torch.Tensor]"))
        .def("cache", &cache_json)
        .def("logits", &logits_at, nb::sig("def logits(self, position: int, /) -> torch.Tensor | None"))
        .def("costs", [](const Session& s) {
            std::vector<std::tuple<std::string, int64_t, double>> all;
            for (const auto& signal : s.signals())
                all.emplace_back(signal->name(), signal->calls(), signal->total_ms());
            if (const PythonPolicy* policy = s.policy())
                all.emplace_back(policy->name(), policy->cost().calls.load(), policy->cost().ms.load());
            return all;
        });
}

} // namespace

NB_MODULE(_engine, module) {
    nb::set_leak_warnings(false);
    nb::module_::import_("refreshlab._records"); // Recording, and the exceptions
    translate_failures();
    set_program_commit(app::build_commit());
    nb::class_<LoadedPair>(module, "Pair", "A loaded pair, see refreshlab.Pair.")
        .def("facts", &facts_json)
        .def("config", [](const LoadedPair& pair) { return json_text(to_json(pair.config)); });
    nb::class_<StepView>(module, "StepView",
                         "A step as a signal written in Python is shown it, see refreshlab.StepView.")
        .def_prop_ro("step", &StepView::step)
        .def_prop_ro("position", &StepView::position)
        .def_prop_ro("token_id", &StepView::token_id)
        .def_prop_ro("num_layers", &StepView::num_layers)
        .def("signal", &StepView::signal, nb::arg("name"), nb::arg("back") = 0)
        .def("layers", &StepView::layers, nb::arg("name"), nb::arg("back") = 0)
        .def("keys", &StepView::keys, nb::arg("layer"), nb::sig("def keys(self, layer: int) -> torch.Tensor"))
        .def("values", &StepView::values, nb::arg("layer"),
             nb::sig("def values(self, layer: int) -> torch.Tensor"))
        .def_prop_ro("logits", &StepView::logits, nb::sig("def logits(self) -> torch.Tensor"));
    nb::class_<PythonSignal>(module, "Signal", "A signal written in Python, ready for one run.");
    nb::class_<PythonPolicy>(module, "Policy", "A cache policy written in Python, ready for one run.");
    bind_policy_view(module);
    bind_studies(module);
    bind_session(module);
    module.def("make_policy", [](const std::string& name, nb::object begin) {
        return std::make_shared<PythonPolicy>(name, std::move(begin));
    });
    module.def("open_pair", [](const std::string& json) {
        const RunConfig config = config_of(json);
        return interruptible([&](const GoesOn& goes_on) { return open_pair(config, goes_on); });
    });
    module.def("make_signal", &make_signal);
    module.def(
        "start",
        [](const std::shared_ptr<LoadedPair>& pair, const std::string& json, const Session::Signals& signals,
           const Session::Policy& policy, const std::string& record) {
            const RunConfig config = config_of(json);
            return interruptible([&](const GoesOn& goes_on) {
                return std::make_shared<Session>(*pair, config, signals, policy, record, goes_on);
            });
        },
        nb::arg("pair"), nb::arg("config"), nb::arg("signals"), nb::arg("policy").none(), nb::arg("record"));
    module.def(
        "branch",
        [](const std::shared_ptr<LoadedPair>& pair, const std::shared_ptr<Recording>& recorded, int64_t after,
           int32_t max_tokens, const Session::Signals& signals, const Session::Policy& policy,
           const std::string& record) {
            return interruptible([&](const GoesOn& goes_on) {
                return std::make_shared<Session>(*pair, *recorded, after, max_tokens, signals, policy, record,
                                                 goes_on);
            });
        },
        nb::arg("pair"), nb::arg("recorded"), nb::arg("after"), nb::arg("max_tokens"), nb::arg("signals"),
        nb::arg("policy").none(), nb::arg("record"));
    nb::module_::import_("atexit").attr("register")(nb::cpp_function(&end_all_work));
    bind_server(module); // what it does at the end of the interpreter comes before that
}

} // namespace refreshlab::python
