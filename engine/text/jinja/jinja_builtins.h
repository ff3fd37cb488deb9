#pragma once

#include "engine/text/jinja/jinja_value.h"

#include <string>
#include <string_view>

namespace refreshlab::jinja {

// Filters, tests and methods, with the results of Python and Jinja. All throw Problem.

/// value | name(arguments)
[[nodiscard]] Value apply_filter(const std::string& name, const Value& value, const Arguments& arguments,
                                 Work& work);
/// value is name(arguments)
[[nodiscard]] bool apply_test(const std::string& name, const Value& value, const Arguments& arguments,
                              Work& work);
/// value.name(arguments), after attribute() gave the function
[[nodiscard]] Value call_method(const Value& value, const std::string& name, const Arguments& arguments,
                                Work& work);

/// value.name: a method or field first, then an item. Undefined when there is neither.
[[nodiscard]] Value attribute(const Value& value, const std::string& name, Work& work);
/// value[key]: an item first, then a field. Undefined when there is neither.
[[nodiscard]] Value item(const Value& value, const Value& key, Work& work);
/// value[begin:end:step]; parts that were left out are None.
[[nodiscard]] Value slice(const Value& value, const Value& begin, const Value& end, const Value& step,
                          Work& work);
/// left symbol right, for + - * / // % **
[[nodiscard]] Value arithmetic(const std::string& symbol, const Value& left, const Value& right, Work& work);

/// Throws Problem when the value is undefined.
void require_defined(const Value& value);

[[nodiscard]] std::string upper_case(std::string_view text);
[[nodiscard]] std::string lower_case(std::string_view text);
/// First character upper, the others lower.
[[nodiscard]] std::string capital_case(std::string_view text);

} // namespace refreshlab::jinja
