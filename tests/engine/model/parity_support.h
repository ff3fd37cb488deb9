#pragma once

#include "engine/model/checkpoint/checkpoint.h"
#include "tests/engine/model/support.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace refreshlab::test {

/// True with REFRESHLAB_PARITY=full in the environment: more shapes, seeds and longer texts.
bool parity_full();

/// One model of the suite: its checkpoint, and what transformers_reference.py found with it.
struct ParityCase {
    std::string name;                 ///< "mistral-window"; the family stands before the dash
    std::filesystem::path checkpoint; ///< checkpoint folder
    std::filesystem::path reference;  ///< folder of the tensors listed in transformers_reference.py
    int64_t prompt = 0;               ///< tokens of the prefill
    int64_t steps = 0;                ///< cached steps after it
};

/// All cases; runs the Python script on the first call of a build (it leaves its results in the build folder).
const std::vector<ParityCase>& parity_cases();

/// The case of that name; the test fails if there is none.
const ParityCase& parity_case(const std::string& name);

/// A list of ids that the reference stores as floats.
std::vector<int32_t> ids_of(const Checkpoint& reference, const std::string& name, int64_t n);

/// CPU, and the GPU where there is one.
std::vector<at::Device> parity_devices();

} // namespace refreshlab::test
