#include "app/cli/link_options.h"

#include "engine/base/error.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace refreshlab::app {

std::string token_of(const std::string& file) {
    constexpr size_t longest = 1000;
    if (file.empty()) return {};
    std::ifstream in(file);
    std::string line;
    if (!in || !std::getline(in, line)) throw Error("reading", file, "there is no token in this file");
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) throw Error("reading", file, "its first line is empty; it should be the token");
    if (line.size() > longest)
        throw Error("reading", file, fmt::format("a token has {} bytes at most", longest));
    return line;
}

std::string own_name() {
    const char* user = std::getenv("USER");
    char host[256] = {};
    if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
    return fmt::format("{}@{}", user != nullptr && *user != '\0' ? user : "somebody", host);
}

} // namespace refreshlab::app
