#include "python/bindings/python_signal.h"

#include "engine/base/error.h"
#include "engine/record/recording/recording.h"
#include "engine/session/parts/stopwatch.h"
#include "python/bindings/cache_views.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>

#include <utility>
#include <vector>

namespace refreshlab::python {

const StepInSight& StepView::now() const {
    if (m_step == nullptr)
        throw Error("reading a step in a signal", {}, "its call has ended",
                    "keep the numbers, not the step; session.recording has every step");
    return *m_step;
}

int64_t StepView::step() const {
    return now().record.step;
}
int64_t StepView::position() const {
    return now().record.position;
}
int32_t StepView::token_id() const {
    return now().record.token_id;
}

std::optional<float> StepView::signal(const std::string& name, int64_t back) const {
    const Recording& before = now().before;
    const size_t id = require_signal(before.signals(), name, "a signal written in Python");
    if (back < 0) throw Error("reading a signal", name, "the future is not known", "back is 0 or more");
    const int64_t step = now().record.step - back;
    if (step < 1) return std::nullopt;
    const float value = back == 0 ? now().record.signals[id] : before.signal(step, id);
    return is_absent(value) ? std::nullopt : std::optional(value);
}

int64_t StepView::num_layers() const {
    return now().before.info().layers;
}

std::optional<Array<float>> StepView::layers(const std::string& name, int64_t back) const {
    const Recording& before = now().before;
    const size_t id = require_signal(before.signals(), name, "a signal written in Python");
    if (back < 0) throw Error("reading a signal", name, "the future is not known", "back is 0 or more");
    const int64_t step = now().record.step - back;
    if (step < 1) return std::nullopt;
    const auto found = back == 0 ? now().layers.find(id) : before.layer_values(step, id);
    if (found.empty()) return std::nullopt;
    return array_of(std::vector<float>(found.begin(), found.end()));
}

nb::object StepView::keys(int64_t layer) const {
    return torch_view(dense_layer(now().cache, layer).first);
}
nb::object StepView::values(int64_t layer) const {
    return torch_view(dense_layer(now().cache, layer).second);
}

nb::object StepView::logits() const {
    if (!now().row.defined())
        throw Error("reading the logits of a step", {}, "this run does not keep them",
                    "refreshlab.signal(needs_logits=True)");
    return torch_view(now().row);
}

PythonSignal::PythonSignal(nb::object function, PublishedSignal signal, bool wants_row)
    : m_function(std::move(function))
    , m_signal(std::move(signal))
    , m_wants_row(wants_row) {}

PythonSignal::~PythonSignal() {
    const nb::gil_scoped_acquire interpreter;
    m_error.reset();
    m_function.reset();
}

namespace {

double number_of(nb::handle value) {
    const double number = PyFloat_AsDouble(value.ptr());
    if (number == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    return number;
}

} // namespace

std::vector<float> layer_numbers(nb::handle given) {
    std::vector<float> numbers;
    for (const nb::handle one : given)
        numbers.push_back(one.is_none() ? absent() : static_cast<float>(number_of(one)));
    return numbers;
}

void PythonSignal::take(size_t id, const StepValues& values, int64_t layers, const nb::object& given) const {
    if (!m_signal.layered) return values.set(id, number_of(given));
    const std::vector<float> numbers = layer_numbers(given);
    if (static_cast<int64_t>(numbers.size()) != layers) {
        PyErr_SetString(PyExc_ValueError,
                        fmt::format("signal {} gives {} values, and the model has {} layers", name(),
                                    numbers.size(), layers)
                            .c_str());
        throw nb::python_error();
    }
    values.set_layers(id, numbers);
}

void PythonSignal::measure(std::span<const size_t> ids, const StepValues& values, const StepInSight& step) {
    const Stopwatch watch;
    const nb::gil_scoped_acquire interpreter;
    const auto view = std::make_shared<StepView>(step);
    try {
        const nb::object value = m_function(nb::cast(view));
        if (!value.is_none()) take(ids[0], values, step.before.info().layers, value);
    } catch (nb::python_error& error) {
        if (!m_error) m_error.emplace(std::move(error));
    } catch (const std::exception& error) { // of a translator's making: thrown where a value could not cross
        PyErr_SetString(PyExc_RuntimeError, error.what());
        if (!m_error) m_error.emplace();
        PyErr_Clear();
    }
    view->end();
    ++m_calls;
    m_ms += watch.ms();
}

nb::object torch_view(const at::Tensor& tensor) {
    if (!tensor.defined()) return nb::none();
    std::vector<size_t> shape(tensor.sizes().begin(), tensor.sizes().end());
    std::vector<int64_t> strides(tensor.strides().begin(), tensor.strides().end());
    nb::dlpack::dtype dtype{static_cast<uint8_t>(nb::dlpack::dtype_code::Float),
                            static_cast<uint8_t>(8 * tensor.element_size()), 1};
    if (tensor.scalar_type() == at::kBFloat16)
        dtype.code = static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat);
    const bool gpu = tensor.is_cuda();
    auto* const held = new at::Tensor(tensor);
    const nb::capsule owner(held, [](void* p) noexcept { delete static_cast<at::Tensor*>(p); });
    const nb::ndarray<nb::pytorch> view(tensor.data_ptr(), shape.size(), shape.data(), owner, strides.data(),
                                        dtype, gpu ? nb::device::cuda::value : nb::device::cpu::value,
                                        gpu ? tensor.get_device() : 0);
    return nb::cast(view);
}

} // namespace refreshlab::python
