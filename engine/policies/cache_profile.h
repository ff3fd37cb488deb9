#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

struct PolicyContext;

/// What a method has measured of a model on other texts, once (input O of reference/cache-definitions.md, section 2): numbers of each
/// layer. `refreshlab profile` makes one. Plain data, JSON both ways.
struct CacheProfile {
    std::string method;     ///< of the cache policy: "compress_kv"
    std::string model;      ///< model_fingerprint() of the model that was measured
    std::string model_name; ///< for people
    std::string recipe;     ///< how it was measured, for people
    using Numbers = std::map<std::string, std::vector<double>, std::less<>>; ///< by the names of ProfilePart
    std::vector<Numbers> layers;

    /// \param name  of a part                                                                            (asserted)
    [[nodiscard]] const std::vector<double>& of(size_t layer, std::string_view name) const;
};

/// Profiles that are at hand, by method.
using CacheProfiles = std::map<std::string, std::shared_ptr<const CacheProfile>, std::less<>>;

/// Numbers that a method's profile has of each layer.
struct ProfilePart {
    std::string_view name;
    int64_t count = 1;  ///< of a layer
    double most = 0;    ///< each is 0 to this
    bool index = false; ///< whole numbers, all different
};

[[nodiscard]] nlohmann::json to_json(const CacheProfile& profile);
/// Throws Error{bad_input} naming `what`: no profile, of another version or method, or not of a model like this.
/// \param method  must have a profile                                                                     (asserted)
/// \param context  layers and heads of the model
[[nodiscard]] CacheProfile cache_profile_from_json(const nlohmann::json& json, const std::string& what,
                                                   std::string_view method, const PolicyContext& context);

/// A profile that tells no layer and no head from another, for measurements that need some profile.
/// \param method  must have a profile                                                                     (asserted)
[[nodiscard]] CacheProfile even_profile(std::string_view method, const PolicyContext& context);

} // namespace refreshlab
