#include "kernels/simt/place.h"

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace refreshlab::simt {

namespace {

/// What binutils' addr2line says of an address: function and place in turns, the innermost inlined one first.
std::vector<std::string> lines_of(const void* address) {
    Dl_info info{};
    if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
    const auto offset =
        static_cast<size_t>(static_cast<const char*>(address) - static_cast<const char*>(info.dli_fbase));
    std::array<char, 32> hex{};
    (void)std::snprintf(hex.data(), hex.size(), "0x%zx", offset);
    const std::string command =
        std::string("addr2line -f -C -i -e '") + info.dli_fname + "' " + hex.data() + " 2> /dev/null";
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
    std::vector<std::string> lines;
    if (pipe == nullptr) return lines;
    std::string line;
    for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) {
        if (c == '\n') {
            lines.push_back(std::move(line));
            line.clear();
        } else {
            line += static_cast<char>(c);
        }
    }
    return lines;
}

std::string look_up_place(const void* instruction) {
    // A return address stands behind its call, which may be the next line already.
    const void* const call = static_cast<const char*>(instruction) - 1;
    const std::vector<std::string> lines = lines_of(call);
    for (size_t i = 1; i < lines.size(); i += 2) {
        std::string place = lines[i].substr(0, lines[i].find(" (discriminator"));
        // The machine's own inlined wrappers, those of the kernels, and the toolbox are not where the mistake is.
        const auto within = [&](const char* folder) { return place.find(folder) != std::string::npos; };
        if (!within("tests/") && (within("kernels/simt/") || within("kernels/cuda/device/"))) continue;
        if (place.find("??") != std::string::npos) continue;
        const size_t relative = place.find("./"); // the build's folder may stand before it
        if (relative != std::string::npos) place = place.substr(relative + 2);
        return place;
    }
    std::array<char, 40> text{};
    (void)std::snprintf(text.data(), text.size(), "instruction %p", instruction);
    return text.data();
}

std::string look_up_name(const void* function) {
    const std::vector<std::string> lines = lines_of(function);
    if (lines.empty() || lines[0].find("??") != std::string::npos) return "kernel";
    std::string name = lines[0];
    // "void a::(anonymous namespace)::f<int>(float*)": template functions bring their result, and parameters follow.
    for (size_t at = name.find("(anonymous namespace)::"); at != std::string::npos;
         at = name.find("(anonymous namespace)::"))
        name.erase(at, 23);
    int depth = 0;
    size_t first = 0, end = name.size();
    for (size_t i = 0; i < name.size(); ++i) {
        if (name[i] == '<') ++depth;
        if (name[i] == '>') --depth;
        if (depth != 0) continue;
        if (name[i] == '(') {
            end = i;
            break;
        }
        if (name[i] == ' ') first = i + 1;
        if (name[i] == ':') first = i + 1;
    }
    return name.substr(first, end - first);
}

/// Looking up takes a child process, and one place is asked for often.
std::string remembered(const void* address, std::string (*look_up)(const void*)) {
    static std::mutex mutex;
    static std::map<std::pair<const void*, const void*>, std::string> known;
    const std::lock_guard lock(mutex);
    const std::pair key{address, reinterpret_cast<const void*>(look_up)};
    const auto found = known.find(key);
    return found != known.end() ? found->second : known.emplace(key, look_up(address)).first->second;
}

} // namespace

std::string place_of(const void* instruction) {
    return remembered(instruction, look_up_place);
}

std::string name_of(const void* function) {
    return remembered(function, look_up_name);
}

} // namespace refreshlab::simt
