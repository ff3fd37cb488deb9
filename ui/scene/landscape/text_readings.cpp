#include "ui/scene/landscape/text_readings.h"

#include "engine/base/error.h"
#include "engine/landscape/landscape_store.h"

namespace refreshlab::ui {

void store_readings(const std::filesystem::path& trace, const std::string& run_id,
                    const TextReadings& readings) {
    if (readings.landscape) store_landscape(trace, run_id, *readings.landscape);
    if (readings.scope_map) store_scope_map(trace, run_id, *readings.scope_map);
}

ReadingsOfFile readings_of_file(const std::filesystem::path& path, const Recording& newest) {
    ReadingsOfFile found;
    const auto read = [&](auto&& what) {
        try {
            what();
        } catch (const Error& e) {
            found.faults.emplace_back(e.what());
        }
    };
    read([&] { found.landscape = load_landscape_of(path, newest); });
    read([&] { found.scope_maps = load_scope_maps(path); });
    return found;
}

} // namespace refreshlab::ui
