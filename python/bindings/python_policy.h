#pragma once

#include "engine/session/policies/tensor_policy.h"

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace refreshlab::python {

namespace nb = nanobind;

/// A cache policy written in Python, for one run: its class is a refreshlab.CachePolicy.
///
/// State      a copy of the object that the person gave; copied again at each step, as that of every policy, so that rewinds find it.
/// Exceptions pass through the engine and end the step that they happened in: nobody knows what its caches hold.
/// Threads    of the run; the interpreter's lock is taken for each call.
class PythonPolicy {
public:
    /// What its calls and copies have taken, of all steps of a run.
    struct Cost {
        std::atomic<int64_t> calls = 0;
        std::atomic<double> ms = 0; ///< waits for the interpreter's lock included
    };
    /// \param name   "HeavyHitters(budget=64)"
    /// \param begin  begin(layers, heads, kv_heads, head_dim, prompt_length, seed): a fresh policy that knows its model, and what it needs as a dict
    PythonPolicy(std::string name, nb::object begin)
        : m_name(std::move(name))
        , m_begin(std::move(begin)) {}
    ~PythonPolicy();
    PythonPolicy(const PythonPolicy&) = delete;
    PythonPolicy& operator=(const PythonPolicy&) = delete;

    /// For the request of one run. Outlived by this.
    [[nodiscard]] TensorPolicyFactory factory() const;
    [[nodiscard]] const std::string& name() const { return m_name; }
    [[nodiscard]] const Cost& cost() const { return *m_cost; }

private:
    std::string m_name;
    nb::object m_begin;
    std::shared_ptr<Cost> m_cost = std::make_shared<Cost>();
};

} // namespace refreshlab::python
