#pragma once

namespace refreshlab::python {

/// From now on an Error of the engine is an exception of refreshlab.errors: BadInput or Failure by its kind, with the same sentence. A broken
/// invariant is RuntimeError. For all modules of the package.
void translate_errors();

} // namespace refreshlab::python
