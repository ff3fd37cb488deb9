#include "app/window/picture.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/record/recording/recording.h"
#include "ui/base/png_text.h"

#include <nlohmann/json.hpp>

#include <stdexcept>

// Static: the ImGui Test Engine brings the same library (reference/ui.md, 9).
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image_write.h>
#pragma GCC diagnostic pop

namespace refreshlab {

std::string picture_origin(const Recording* recording, const EngineStatus& status,
                           const std::string& command_line) {
    nlohmann::json json{
        {"program", "RefreshLab"},
        {"version", RL_VERSION},
        {"command_line", command_line.empty() ? nlohmann::json() : nlohmann::json(command_line)},
        {"run", nullptr}};
    if (recording != nullptr) {
        const RunInfo& info = recording->info();
        const auto or_null = [](const std::string& s) {
            return s.empty() ? nlohmann::json() : nlohmann::json(s);
        };
        nlohmann::json versions = nlohmann::json::object();
        for (const auto& [name, version] : info.versions)
            versions[name] = version;
        // The configuration at the start; what was changed since stands in the command log.
        nlohmann::json commands = nlohmann::json::array();
        const auto& log = recording->commands();
        for (size_t i = 0, n = log.size(); i < n; ++i)
            commands.push_back(
                {{"step", log[i].step}, {"command", nlohmann::json::parse(log[i].json, nullptr, false)}});
        json["run"] = {{"id", info.id},
                       {"parent", or_null(info.parent_id)},
                       {"fork_step", info.fork_step},
                       {"steps", recording->steps()},
                       {"seed", info.config.seed},
                       {"mode", to_string(info.config.mode)},
                       {"policy", policy_to_json(info.config.policy)},
                       {"teacher", or_null(status.teacher.name)},
                       {"student", or_null(status.student.name)},
                       {"device", info.device},
                       {"dtype", info.dtype},
                       {"prompt", info.config.prompt},
                       {"started_at", info.started_at},
                       {"versions", versions},
                       {"commands", commands}};
    }
    return json_text(json, 1);
}

void write_png(const std::filesystem::path& path, int width, int height, std::span<const uint32_t> pixels,
               const std::string& origin) {
    if (pixels.size() != static_cast<size_t>(width) * static_cast<size_t>(height))
        throw std::invalid_argument("write_png: not width * height pixels");
    std::string rgb;
    rgb.reserve(pixels.size() * 3);
    for (const uint32_t pixel : pixels) {
        rgb.push_back(static_cast<char>(pixel & 0xFFU));
        rgb.push_back(static_cast<char>(pixel >> 8U & 0xFFU));
        rgb.push_back(static_cast<char>(pixel >> 16U & 0xFFU));
    }
    std::string png;
    const auto append = [](void* context, void* data, int size) {
        static_cast<std::string*>(context)->append(static_cast<const char*>(data), static_cast<size_t>(size));
    };
    if (stbi_write_png_to_func(append, &png, width, height, 3, rgb.data(), width * 3) == 0 || png.empty())
        throw Error("saving a picture", path.string(), "the picture could not be compressed", {},
                    ErrorKind::failure);
    png = ui::with_png_text(png, "Software", "RefreshLab " RL_VERSION);
    if (!origin.empty()) png = ui::with_png_text(png, "RefreshLab", origin);
    write_file(path, png);
}

} // namespace refreshlab
