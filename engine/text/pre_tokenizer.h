#pragma once

#include "engine/text/json_fields.h"
#include "engine/text/regex.h"

#include <functional>
#include <string_view>
#include <vector>

namespace refreshlab {

/// The `pre_tokenizer` of a tokenizer.json: cuts text into the words that merges never cross. ByteLevel must come last
/// (it is what makes the model byte-level); before it Split with any behaviour, and Digits.
class PreTokenizer {
public:
    /// Throws Error{bad_input} naming what is missing or not supported.
    explicit PreTokenizer(const FileFields& fields);

    /// Calls word(bytes) for every word in order; the bytes live only during the call.
    /// \param text  well-formed UTF-8, not empty
    void split(std::string_view text, const std::function<void(std::string_view)>& word) const;

private:
    enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
    struct Step {
        std::vector<Regex> pattern; ///< one, or none: the text is not cut
        Behavior behavior = Behavior::isolated;
        bool invert = false;           ///< the pattern finds what is not a delimiter
        bool add_prefix_space = false; ///< ByteLevel: every piece starts with a space
        bool byte_level = false;
    };
    void add(const FileFields& fields, int depth);
    void run(size_t step, std::string_view text, const std::function<void(std::string_view)>& word) const;

    std::vector<Step> m_steps;
};

} // namespace refreshlab
