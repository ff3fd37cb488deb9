#pragma once

#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::test {

/// Points of the first path in a group of an SVG file, as they stand in it.
inline std::vector<std::pair<double, double>> points_of(const std::string& svg, const std::string& group) {
    const size_t at = svg.find("<g id=\"" + group + "\">");
    REQUIRE(at != std::string::npos);
    const size_t begin = svg.find(" d=\"", at) + 4;
    const std::string path = svg.substr(begin, svg.find('"', begin) - begin);
    std::vector<std::pair<double, double>> points;
    const std::regex number("[ML]([-0-9.]+) ([-0-9.]+)");
    for (std::sregex_iterator it(path.begin(), path.end(), number), end; it != end; ++it)
        points.emplace_back(std::stod((*it)[1]), std::stod((*it)[2]));
    return points;
}

} // namespace refreshlab::test
