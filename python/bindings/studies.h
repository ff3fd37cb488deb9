#pragma once

#include <nanobind/nanobind.h>

namespace refreshlab::python {

/// Landscapes and sweeps over a pair that is open already.
void bind_studies(nanobind::module_& module);

} // namespace refreshlab::python
