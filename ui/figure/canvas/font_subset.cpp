#include "ui/figure/canvas/font_subset.h"

#include <harfbuzz/hb-subset.h>

#include <memory>

namespace refreshlab::ui {

std::string font_subset(const std::string& font, const std::set<uint32_t>& characters) {
    const std::unique_ptr<hb_blob_t, decltype(&hb_blob_destroy)> blob(
        hb_blob_create(font.data(), static_cast<unsigned>(font.size()), HB_MEMORY_MODE_READONLY, nullptr,
                       nullptr),
        hb_blob_destroy);
    const std::unique_ptr<hb_face_t, decltype(&hb_face_destroy)> face(hb_face_create(blob.get(), 0),
                                                                      hb_face_destroy);
    const std::unique_ptr<hb_subset_input_t, decltype(&hb_subset_input_destroy)> input(
        hb_subset_input_create_or_fail(), hb_subset_input_destroy);
    if (!input) return {};
    hb_set_t* wanted = hb_subset_input_unicode_set(input.get());
    for (const uint32_t character : characters)
        hb_set_add(wanted, character);
    hb_subset_input_set_flags(input.get(), HB_SUBSET_FLAGS_NO_HINTING);
    const std::unique_ptr<hb_face_t, decltype(&hb_face_destroy)> small(
        hb_subset_or_fail(face.get(), input.get()), hb_face_destroy);
    if (!small) return {};
    const std::unique_ptr<hb_blob_t, decltype(&hb_blob_destroy)> bytes(hb_face_reference_blob(small.get()),
                                                                       hb_blob_destroy);
    unsigned size = 0;
    const char* data = hb_blob_get_data(bytes.get(), &size);
    return {data, size};
}

std::string base64(std::string_view bytes) {
    static constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    for (size_t i = 0; i < bytes.size(); i += 3) {
        uint32_t three = 0;
        for (size_t k = 0; k < 3; ++k)
            three = three << 8U | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
        for (size_t k = 0; k < 4; ++k)
            text += i + k > bytes.size() ? '=' : digits[three >> (18 - 6 * k) & 63U];
    }
    return text;
}

} // namespace refreshlab::ui
