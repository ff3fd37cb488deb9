#include "engine/policies/cache_method.h"

#include "engine/base/check.h"
#include "engine/policies/methods/method_list.h"
#include "engine/policies/outside_policy.h"

#include <algorithm>
#include <cmath>

namespace refreshlab {

double CacheValues::real(std::string_view key) const {
    const auto found = m_values.find(key);
    RL_ASSERT(found != m_values.end());
    return found->second;
}
int64_t CacheValues::whole(std::string_view key) const {
    const double value = real(key);
    RL_ASSERT(value == std::floor(value));
    return static_cast<int64_t>(value);
}

std::span<const CacheMethod> cache_methods() {
    static const std::vector<CacheMethod> all = [] {
        std::vector<CacheMethod> list;
        for (const auto& [family, make] : cache_method_list::all)
            list.emplace_back(make()).family = family;
        return list;
    }();
    return all;
}

const CacheMethod* find_cache_method(std::string_view name) {
    if (is_outside_policy(name)) return &outside_method();
    const auto all = cache_methods();
    const auto found = std::ranges::find(all, name, &CacheMethod::name);
    return found == all.end() ? nullptr : &*found;
}

} // namespace refreshlab
