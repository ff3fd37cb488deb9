#pragma once

#include "engine/base/error.h"
#include "python/bindings/live_session.h"
#include "python/bindings/without_lock.h"

#include <optional>
#include <utility>

namespace refreshlab::python {

/// Work that a person may end with Ctrl-C, without the interpreter's lock. What the engine then says is replaced by KeyboardInterrupt.
template <class Work>
auto interruptible(const Work& work) {
    std::optional<nb::python_error> raised;
    const GoesOn goes_on = [&] {
        const nb::gil_scoped_acquire interpreter;
        if (PyErr_CheckSignals() == 0) return true;
        raised.emplace();
        return false;
    };
    try {
        return without_lock([&] { return work(goes_on); });
    } catch (const Error&) {
        if (raised) throw std::move(*raised);
        throw;
    }
}

} // namespace refreshlab::python
