#include "engine/fetch/known_models.h"

#include "engine/base/model_path.h"
#include "engine/fetch/published_models.h"

#include <algorithm>
#include <system_error>

namespace refreshlab {

std::vector<KnownModel> models_in(const std::filesystem::path& folder) {
    std::vector<KnownModel> models;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error))
        if (may_be_model(entry.path())) models.push_back({model_name(entry.path()), entry.path().string()});
    std::ranges::sort(models, {}, &KnownModel::name);
    return models;
}

std::vector<KnownModel> known_models(const std::filesystem::path& assets) {
    std::vector<KnownModel> models = models_in(assets / "models");
    const std::filesystem::path fetched = models_folder(assets);
    for (const PublishedModel& model : published_models())
        if (is_fetched(model, fetched))
            models.push_back({model_name(fetched / model.file), (fetched / model.file).string()});
    return models;
}

} // namespace refreshlab
