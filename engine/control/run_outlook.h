#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab {

/// What a start of a configuration would meet, found out without reading weights.
struct RunOutlook {
    /// What a person would have to change.
    enum class Part : uint8_t { none, prompt, teacher, student, device, memory, other };
    Part part = Part::none; ///< none: the run would start, as far as is known
    std::string problem;    ///< one line about that part, without its path; empty where it would start
    std::string note;       ///< what a person must know about the pair ("rebuild mode: ..."); may be empty

    /// One line a model that the run needs and that could be read: "134.5 M parameters, 30 layers, context 8192". Else empty.
    std::string teacher, student;
    int64_t teacher_bytes = 0, student_bytes = 0; ///< of their weights in the asked for type; 0 = not read
    int64_t prompt_tokens = 0;                    ///< with template and start token; 0 = not known
    int64_t context = 0;                          ///< positions that all models have; 0 = not known
    /// One line a device: "cpu: 9.8 GB needed (...), 14.2 GB available". What the standing run would give up counts as there.
    std::vector<std::string> memory;
};

} // namespace refreshlab
