#include "ui/context/fonts.h"

#include <fmt/format.h>

#include <cstring>

namespace refreshlab::ui {

namespace {

ImFont* add(const std::filesystem::path& path, bool merge, std::vector<std::string>& problems) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) { // ImGui would assert on a missing file
        problems.push_back(
            fmt::format("loading fonts: {} is missing; some text will look plain", path.string()));
        return nullptr;
    }
    ImFontConfig config;
    config.MergeMode = merge;
    const std::string name = path.stem().string();
    std::strncpy(config.Name, name.c_str(), sizeof(config.Name) - 1);
    return ImGui::GetIO().Fonts->AddFontFromFileTTF(path.c_str(), 0.0F, &config);
}

/// Noto Sans CJK or another font with Chinese, Japanese and Korean, where the person has one installed.
std::filesystem::path find_cjk_font() {
    const char* const folders[] = {"/usr/share/fonts", "/usr/local/share/fonts"};
    const char* const names[] = {"NotoSansCJK-Regular", "NotoSansCJKsc-Regular", "NotoSansSC-Regular",
                                 "wqy-microhei", "DroidSansFallbackFull"};
    std::error_code error;
    for (const char* folder : folders) {
        const auto options = std::filesystem::directory_options::skip_permission_denied;
        for (std::filesystem::recursive_directory_iterator it(folder, options, error), end;
             !error && it != end; it.increment(error)) {
            const std::string stem = it->path().stem().string();
            for (const char* name : names)
                if (stem == name) return it->path();
        }
    }
    return {};
}

} // namespace

Fonts load_fonts(const std::filesystem::path& assets, std::vector<std::string>& problems) {
    const auto folder = assets / "fonts";
    const auto cjk = find_cjk_font();
    ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
    const auto family = [&](const char* file, const char* wide) {
        ImFont* font = add(folder / file, false, problems);
        if (!font) font = atlas.AddFontDefault();
        add(folder / wide, true, problems);
        if (!cjk.empty()) add(cjk, true, problems);
        font->FallbackChar = 0xFFFD; // a box with a question mark: a missing glyph must not vanish
        return font;
    };
    Fonts fonts;
    fonts.regular = family("Roboto-Regular.ttf", "DejaVuSans.ttf");
    fonts.medium = family("Roboto-Medium.ttf", "DejaVuSans.ttf");
    fonts.mono = family("DejaVuSansMono.ttf", "DejaVuSans.ttf");
    ImGui::GetIO().FontDefault = fonts.regular;
    return fonts;
}

} // namespace refreshlab::ui
