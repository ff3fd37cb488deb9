#include "tests/gui/robot.h"

#include <zlib.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace refreshlab::gui {

namespace {

uint32_t big_endian(const unsigned char* p) {
    return static_cast<uint32_t>(p[0]) << 24U | static_cast<uint32_t>(p[1]) << 16U |
           static_cast<uint32_t>(p[2]) << 8U | static_cast<uint32_t>(p[3]);
}

unsigned char paeth(int left, int up, int corner) {
    const int guess = left + up - corner;
    const int a = std::abs(guess - left), b = std::abs(guess - up), c = std::abs(guess - corner);
    return static_cast<unsigned char>(a <= b && a <= c ? left : b <= c ? up : corner);
}

} // namespace

Image read_png(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("no picture at " + path.string());
    const std::vector<unsigned char> bytes{std::istreambuf_iterator<char>(file), {}};
    constexpr unsigned char magic[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
    if (bytes.size() < 8 || std::memcmp(bytes.data(), magic, 8) != 0) throw std::runtime_error("not a PNG");
    Image image;
    std::vector<unsigned char> packed;
    bool ended = false;
    for (size_t at = 8; at + 12 <= bytes.size() && !ended;) {
        const uint32_t length = big_endian(&bytes[at]);
        if (at + 12 + length > bytes.size()) throw std::runtime_error("a chunk is cut off");
        const unsigned char* data = bytes.data() + at + 8;
        const uint32_t crc = static_cast<uint32_t>(crc32(0, bytes.data() + at + 4, length + 4));
        if (crc != big_endian(data + length)) throw std::runtime_error("a chunk has a wrong checksum");
        const std::string type(reinterpret_cast<const char*>(bytes.data()) + at + 4, 4);
        if (type == "IHDR") {
            image.width = static_cast<int>(big_endian(data));
            image.height = static_cast<int>(big_endian(data + 4));
            if (data[8] != 8 || data[9] != 2 || data[12] != 0) throw std::runtime_error("not 8-bit RGB");
        } else if (type == "IDAT") {
            packed.insert(packed.end(), data, data + length);
        } else if (type == "IEND") {
            ended = true;
        }
        at += 12 + length;
    }
    if (!ended || image.width < 1 || image.height < 1) throw std::runtime_error("the picture has no end");
    const size_t row = static_cast<size_t>(image.width) * 3, height = static_cast<size_t>(image.height);
    std::vector<unsigned char> raw(height * (row + 1));
    uLongf size = raw.size();
    if (uncompress(raw.data(), &size, packed.data(), packed.size()) != Z_OK || size != raw.size())
        throw std::runtime_error("the pixels cannot be unpacked");
    std::vector<unsigned char> before(row, 0), now(row);
    image.pixels.reserve(height * static_cast<size_t>(image.width));
    for (size_t y = 0; y < height; ++y) {
        const unsigned char* line = raw.data() + y * (row + 1);
        for (size_t i = 0; i < row; ++i) {
            const int left = i >= 3 ? now[i - 3] : 0, up = before[i], corner = i >= 3 ? before[i - 3] : 0;
            int predicted = 0;
            switch (line[0]) {
            case 0:
                break;
            case 1:
                predicted = left;
                break;
            case 2:
                predicted = up;
                break;
            case 3:
                predicted = (left + up) / 2;
                break;
            case 4:
                predicted = paeth(left, up, corner);
                break;
            default:
                throw std::runtime_error("unknown row filter");
            }
            now[i] = static_cast<unsigned char>(line[i + 1] + predicted);
        }
        for (size_t x = 0; x < row; x += 3)
            image.pixels.push_back(0xFF000000U | static_cast<uint32_t>(now[x + 2]) << 16U |
                                   static_cast<uint32_t>(now[x + 1]) << 8U | now[x]);
        std::swap(before, now);
    }
    return image;
}

} // namespace refreshlab::gui
