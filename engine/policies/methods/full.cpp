// Full: everything is kept and read. The oracle of every other policy (reference/cache-definitions.md, rule 9).
#include "engine/policies/methods/method_list.h"

namespace refreshlab {

namespace {

class Full final : public CacheMethodBase<Full> {
public:
    [[nodiscard]] PolicyNeeds needs() const override { return {.edits = false}; }
};

} // namespace

CacheMethod cache_method_list::full() {
    CacheMethod method;
    method.name = "full";
    method.label = "Full";
    method.summary = "Everything is kept and read.";
    method.cost = "stores and reads n entries";
    method.source = "Vaswani et al. 2017";
    method.make = [](const CacheValues&, const PolicyContext&) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<Full>();
    };
    return method;
}

} // namespace refreshlab
