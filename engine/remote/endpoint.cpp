#include "engine/remote/endpoint.h"

#include "engine/base/error.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

namespace refreshlab::remote {

namespace {

constexpr std::string_view unix_prefix = "unix:";
/// sun_path of Linux without its last 0.
constexpr size_t longest_path = 107;

} // namespace

bool Endpoint::is_local() const {
    return is_unix() || host == "localhost" || host == "::1" || host.starts_with("127.");
}

Endpoint parse_endpoint(const std::string& text, const std::string& what) {
    const auto refuse = [&](const std::string& problem) {
        return Error("reading", what, fmt::format("'{}' {}", text, problem),
                     "give HOST:PORT, as 127.0.0.1:7457, or unix:PATH");
    };
    Endpoint endpoint;
    if (text.starts_with(unix_prefix)) {
        endpoint.path = text.substr(unix_prefix.size());
        if (endpoint.path.empty()) throw refuse("has no path");
        if (endpoint.path.size() > longest_path)
            throw refuse(
                fmt::format("has a path of more than {} bytes, the most of a Unix socket", longest_path));
        return endpoint;
    }
    std::string_view host = text, port;
    const bool bracketed = text.starts_with('[');
    const size_t end = bracketed ? text.find(']') : text.rfind(':');
    if (bracketed) {
        if (end == std::string::npos) throw refuse("has no ]");
        host = std::string_view(text).substr(1, end - 1);
        port = std::string_view(text).substr(end + 1);
        if (!port.empty() && port.front() != ':') throw refuse("is no address");
        if (!port.empty()) port.remove_prefix(1);
    } else if (end != std::string::npos) {
        host = std::string_view(text).substr(0, end);
        port = std::string_view(text).substr(end + 1);
        if (host.find(':') != std::string_view::npos)
            throw refuse("is no address; an IPv6 one stands in [ ]");
        if (port.empty()) throw refuse("has no port");
    }
    if (host.empty()) throw refuse("has no host");
    if (host.find_first_of(" /@") != std::string_view::npos) throw refuse("is no address");
    endpoint.host = host;
    endpoint.port = default_port;
    if (port.empty()) return endpoint;
    const auto [rest, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
    if (error != std::errc() || rest != port.data() + port.size())
        throw refuse("has no port from 0 to 65535");
    return endpoint;
}

std::string to_string(const Endpoint& endpoint) {
    if (endpoint.is_unix()) return std::string(unix_prefix) + endpoint.path;
    const bool six = endpoint.host.find(':') != std::string::npos;
    return fmt::format("{}{}{}:{}", six ? "[" : "", endpoint.host, six ? "]" : "", endpoint.port);
}

} // namespace refreshlab::remote
