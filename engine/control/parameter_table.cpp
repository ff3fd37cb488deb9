#include "engine/control/parameter_table.h"

#include "engine/control/cache_parameters.h"
#include "engine/control/table/parameter_groups.h"
#include "engine/signals/registry.h"

#include <vector>

namespace refreshlab {

const std::vector<ParameterEntry>& parameter_table() {
    static const std::vector<ParameterEntry> table = [] {
        std::vector<ParameterEntry> entries;
        const auto add_of_run = [&](auto add) {
            const size_t first = entries.size();
            add(entries);
            for (size_t i = first; i < entries.size(); ++i)
                entries[i].of_run = true;
        };
        add_of_run(add_run_parameters);
        add_policy_parameters(entries);
        for (const Signal& signal : signals()) {
            if (signal.letter != 0) add_trigger_parameters(entries, signal);
        }
        add_of_run(add_measuring_parameters);
        add_cache_parameters(entries);
        return entries;
    }();
    return table;
}

} // namespace refreshlab
