#pragma once

#include <string>

namespace refreshlab::simt {

/// File and line of an instruction, as debug information says; a module and an offset where it says nothing.
[[nodiscard]] std::string place_of(const void* instruction);
/// Name of a function, without namespaces and parameters; of a template with its arguments.
[[nodiscard]] std::string name_of(const void* function);

} // namespace refreshlab::simt
