#pragma once

#include "engine/policies/cache_policy.h"
#include "engine/policies/cache_profile.h"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// One number that a cache policy can be set by. Parameters of one key mean the same in every method; their defaults differ.
struct CacheParameter {
    enum class Kind : uint8_t { integer, real, boolean, choice };
    std::string_view key;   ///< "budget"
    std::string_view label; ///< sentence case
    std::string_view unit;  ///< may be empty
    std::string_view help;  ///< one sentence
    Kind kind = Kind::integer;
    double min = 0, max = 0;               ///< inclusive
    double slider_min = 0, slider_max = 0; ///< usual range
    double fallback = 0;                   ///< the default; of a choice its index
    std::vector<std::string_view> choices; ///< of a choice
    bool live = false;                     ///< may change between two steps (CachePolicy::set_values)
};

/// One file that a cache policy can be given. It belongs to a model.
struct CacheFile {
    enum class Kind : uint8_t {
        gate,   ///< trained (interface Gate): safetensors
        profile ///< measured (CacheProfile): JSON
    };
    std::string_view key;   ///< "gate"
    std::string_view label; ///< sentence case
    std::string_view help;  ///< one sentence: what it is, and what stands in for it where none is named
    Kind kind = Kind::gate;
    bool of_decoder = false; ///< it belongs to the model that decodes; else to the one that reads the prompt
};

/// The parameters of a policy, all of them, each in its range. Booleans are 0 or 1, choices an index.
class CacheValues {
public:
    CacheValues() = default;
    explicit CacheValues(std::map<std::string, double, std::less<>> values)
        : m_values(std::move(values)) {}
    [[nodiscard]] int64_t whole(std::string_view key) const;
    [[nodiscard]] double real(std::string_view key) const;
    [[nodiscard]] bool flag(std::string_view key) const { return real(key) != 0; }

private:
    std::map<std::string, double, std::less<>> m_values;
};

/// A cache policy as the registry knows it. Its file under methods/ has all of it.
struct CacheMethod {
    std::string_view name;    ///< "snapkv"
    std::string_view label;   ///< "SnapKV"
    std::string_view summary; ///< one sentence: what stays, what is read
    std::string_view cost;    ///< one phrase: what it stores and reads
    std::string_view source;  ///< paper
    std::string_view family;  ///< of methods that stand together in a list: "Merge"; set by the registry
    std::vector<CacheParameter> parameters;
    /// Where they lie if none is named: engine/control/model_files.h.
    std::vector<CacheFile> files = {};
    /// Of a method with a profile: what that says of each layer of a model. Null: it has none.
    std::vector<ProfilePart> (*profile)(const PolicyContext& model) = nullptr;
    bool prompt_only = false; ///< thins the prompt's entries alone: all that is generated stays
    bool given_text = false;  ///< works on a given text alone: it has to know what comes
    std::unique_ptr<CachePolicy> (*make)(const CacheValues& values, const PolicyContext& context) = nullptr;
};

/// In the order of the list; `full` first.
[[nodiscard]] std::span<const CacheMethod> cache_methods();
/// Null if there is none.
[[nodiscard]] const CacheMethod* find_cache_method(std::string_view name);

/// clone() for a method.
template <typename Method>
class CacheMethodBase : public CachePolicy {
public:
    [[nodiscard]] std::unique_ptr<CachePolicy> clone() const override {
        return std::unique_ptr<CachePolicy>(new Method(static_cast<const Method&>(*this)));
    }
};

} // namespace refreshlab
