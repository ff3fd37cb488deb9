#include "app/window/picture.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/record/recording/recording.h"
#include "ui/base/png_text.h"
#include "ui/figure/run_origin.h"

#include <nlohmann/json.hpp>

#include <stdexcept>

// Static: the ImGui Test Engine brings the same library (development/ui.md, 9).
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image_write.h>
#pragma GCC diagnostic pop

namespace refreshlab {

std::string picture_origin(const Recording* recording, const std::string& command_line) {
    return json_text(
        {{"program", "RefreshLab"},
         {"version", RL_VERSION},
         {"command_line", command_line.empty() ? nlohmann::json() : nlohmann::json(command_line)},
         {"run", recording != nullptr ? ui::run_origin(*recording) : nlohmann::json()}},
        1);
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
