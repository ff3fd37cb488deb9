#include "python/bindings/python_errors.h"

#include "engine/base/check.h"
#include "engine/base/error.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <exception>

namespace refreshlab::python {

namespace nb = nanobind;

namespace {

void raise(const Error& error) {
    const nb::module_ errors = nb::module_::import_("refreshlab.errors");
    const nb::object type = errors.attr(error.kind() == ErrorKind::bad_input ? "BadInput" : "Failure");
    const nb::object raised =
        type(error.what(), error.doing(), error.object(), error.problem(), error.hint());
    PyErr_SetObject(type.ptr(), raised.ptr());
}

} // namespace

void translate_errors() {
    nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
        try {
            std::rethrow_exception(thrown);
        } catch (const Error& error) {
            raise(error);
        } catch (const InvariantError& broken) {
            PyErr_SetString(PyExc_RuntimeError, broken.what());
        }
    });
}

} // namespace refreshlab::python
