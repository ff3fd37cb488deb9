#pragma once

#include <nanobind/nanobind.h>

namespace refreshlab::python {

/// Recording and what it holds: attention rows, drift maps, tables.
void bind_recording(nanobind::module_& module);
/// Landscape, and the reading of traces.
void bind_trace(nanobind::module_& module);

} // namespace refreshlab::python
