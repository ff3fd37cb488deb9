#include "engine/policies/outside_policy.h"

namespace refreshlab {

namespace {

constexpr std::string_view prefix = "python:";

class Unknown final : public CacheMethodBase<Unknown> {};

} // namespace

bool is_outside_policy(std::string_view name) {
    return name.size() > prefix.size() && name.starts_with(prefix);
}

std::string_view outside_policy_name(std::string_view name) {
    return is_outside_policy(name) ? name.substr(prefix.size()) : name;
}

const CacheMethod& outside_method() {
    static const CacheMethod method = [] {
        CacheMethod all;
        all.name = "python";
        all.label = "Written in Python";
        all.summary = "Code in Python decides what stays and what is read.";
        all.cost = "what that code takes; session.costs measures it";
        all.source = "whoever wrote it";
        all.family = "Written in Python";
        all.make = [](const CacheValues&, const PolicyContext&) -> std::unique_ptr<CachePolicy> {
            return std::make_unique<Unknown>();
        };
        return all;
    }();
    return method;
}

} // namespace refreshlab
