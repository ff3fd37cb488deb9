#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace refreshlab {

class Recording;

/// Where a picture comes from, as it is embedded in the PNG (keyword "RefreshLab"; development/ui.md, EX5): JSON with
/// program, version, command line, run id, parent id, policy, seed, steps, prompt, models, device and dtype. What does
/// not exist (no run yet) is null.
[[nodiscard]] std::string picture_origin(const Recording* recording, const std::string& command_line);

/// Saves pixels (0xAABBGGRR, rows from the top) as PNG without alpha, `origin` inside. Through a temporary file: a failure
/// leaves what was there. Throws Error naming the path.
void write_png(const std::filesystem::path& path, int width, int height, std::span<const uint32_t> pixels,
               const std::string& origin);

} // namespace refreshlab
