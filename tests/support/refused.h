#pragma once

#include "engine/base/error.h"

#include <catch2/catch_test_macros.hpp>

#include <string>

namespace refreshlab::test {

/// What is said of bad input; "accepted" where nothing is.
template <typename Work>
std::string refused(const Work& work) {
    try {
        work();
    } catch (const Error& e) {
        CHECK(e.kind() == ErrorKind::bad_input);
        return e.what();
    }
    return "accepted";
}

} // namespace refreshlab::test
