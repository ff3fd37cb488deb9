#pragma once

#include "engine/session/parts/signal_source.h"
#include "python/bindings/arrays.h"

#include <ATen/core/Tensor.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::python {

namespace nb = nanobind;

/// What a signal written in Python is shown of a step; of use during the call alone.
class StepView {
public:
    explicit StepView(const StepInSight& step)
        : m_step(&step) {}
    void end() { m_step = nullptr; } ///< whoever kept it is told so

    [[nodiscard]] int64_t step() const;
    [[nodiscard]] int64_t position() const;
    [[nodiscard]] int32_t token_id() const;
    /// A signal of this step, or of an earlier one. Nothing where it was not measured, and before the first step.
    [[nodiscard]] std::optional<float> signal(const std::string& name, int64_t back) const;
    [[nodiscard]] int64_t num_layers() const;
    /// [layers] of a layered signal, as signal(); a layer that was not measured is NaN. A copy.
    [[nodiscard]] std::optional<Array<float>> layers(const std::string& name, int64_t back) const;
    /// [kv_heads, length, head_dim] of the decoder's cache, this step's entry the last; a view. Throws Error where a cache policy holds other
    /// positions in each KV head.
    [[nodiscard]] nb::object keys(int64_t layer) const;
    [[nodiscard]] nb::object values(int64_t layer) const;
    [[nodiscard]] nb::object logits() const; ///< [vocab] fp32 as a tensor of torch, a view

private:
    [[nodiscard]] const StepInSight& now() const;
    const StepInSight* m_step;
};

/// A signal that a function in Python measures once a step, between the forward and the boundary. It is published like those of the run's own
/// components, so it is recorded, plotted and compared by triggers.
///
/// An exception of the function does not end the step: the step has no value, and the exception waits for take_error().
class PythonSignal final : public SignalSource {
public:
    /// \param function  of a StepView; gives a number, a truth value or None, and of a layered signal as many of them as there are layers, or None
    PythonSignal(nb::object function, PublishedSignal signal, bool wants_row);
    ~PythonSignal() override;

    [[nodiscard]] std::vector<PublishedSignal> published() const override { return {m_signal}; }
    void measure(std::span<const size_t> ids, const StepValues& values, const StepInSight& step) override;
    [[nodiscard]] bool wants_row() const override { return m_wants_row; }

    /// The first exception since the last call; the interpreter's lock is held.
    [[nodiscard]] std::optional<nb::python_error> take_error() {
        return std::exchange(m_error, std::nullopt);
    }
    [[nodiscard]] const std::string& name() const { return m_signal.name; }
    [[nodiscard]] int64_t calls() const { return m_calls; }
    [[nodiscard]] double total_ms() const { return m_ms; } ///< waits for the interpreter's lock included

private:
    /// What the function gave, as the step's value. Throws nb::python_error.
    void take(size_t id, const StepValues& values, int64_t layers, const nb::object& given) const;

    nb::object m_function;
    PublishedSignal m_signal;
    bool m_wants_row;
    std::optional<nb::python_error> m_error;
    int64_t m_calls = 0;
    double m_ms = 0;
};

/// Numbers of something that can be iterated, absent() for None. Throws nb::python_error.
[[nodiscard]] std::vector<float> layer_numbers(nb::handle given);

/// A tensor of the engine as one of torch in Python, over the same memory.
[[nodiscard]] nb::object torch_view(const at::Tensor& tensor);

} // namespace refreshlab::python
