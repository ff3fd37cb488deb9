#include "ui/state/places.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace refreshlab::ui {

namespace {

using Extent = std::array<float, 2>; // x, y
constexpr float unbounded = std::numeric_limits<float>::infinity();

/// What the contents of a panel need and can use, in ems, tabs and padding included. Found by looking at each at 75 to
/// 300 %: below, words are cut. In order of importance: of panels of one size that come to share a place the first one is in front.
struct Need {
    std::string_view panel;
    Extent least, most;
};
constexpr Need needs[] = {
    {"Signals", {26, 17}, {unbounded, unbounded}},
    {"Text", {15, 10}, {unbounded, unbounded}},
    {"Policy", {17, 10}, {30, unbounded}},
    {"Sampling", {17, 10}, {30, unbounded}},
    {"Measure", {17, 10}, {30, unbounded}},
    {"Inspector", {15, 10}, {30, unbounded}},
    {"Landscape", {17, 12}, {unbounded, unbounded}},
    {"Attention", {17, 12}, {unbounded, unbounded}},
    {"Cache", {13, 12}, {unbounded, unbounded}},
    {"Distribution", {17, 12}, {unbounded, unbounded}},
    {"Events", {11, 10}, {unbounded, unbounded}},
    {"Runs", {13, 10}, {unbounded, unbounded}},
    {"Notes", {13, 10}, {unbounded, unbounded}},
    {"Table", {17, 14}, {unbounded, unbounded}},
    {"Performance", {11, 10}, {unbounded, unbounded}},
    {"Timeline", {20, 5}, {unbounded, 8}},
};

/// What panels put up with before two of them share a place instead: narrower ones shorten their words, but a lower one
/// soon has no room for its map.
constexpr Extent squeeze{0.9F, 0.97F};
/// A border that was dragged moves by more; rounding to pixels moves it by less.
constexpr float moved_share = 0.02F;

size_t along(const Place& place) {
    return place.split == Place::Split::stacked ? 1 : 0;
}

struct Wants {
    Extent least{1, 1}, most{unbounded, unbounded};
    Extent folded{1, 1}; ///< least when all of it shares one place
};

Wants wants_of_tabs(const std::vector<std::string>& titles, float em) {
    Wants wants;
    Extent most{0, 0}; // what the widest of them can use
    for (const std::string& title : titles) {
        const auto* need = std::ranges::find(needs, title, &Need::panel);
        if (need == std::end(needs)) continue;
        for (const size_t axis : {0U, 1U}) {
            wants.least[axis] = std::max(wants.least[axis], need->least[axis] * em);
            most[axis] = std::max(most[axis], need->most[axis] * em);
        }
    }
    for (const size_t axis : {0U, 1U})
        wants.most[axis] = most[axis] > 0 ? most[axis] : unbounded;
    wants.folded = wants.least;
    return wants;
}

/// Of a place with tabs from its panels, of one that is shared from its two parts.
Wants wants_of(const Place& place, float em) {
    if (place.parts.empty()) return wants_of_tabs(place.tabs, em);
    const Wants first = wants_of(place.parts[0], em), second = wants_of(place.parts[1], em);
    Wants both;
    for (const size_t axis : {0U, 1U}) {
        const bool is_along = axis == along(place);
        both.least[axis] = is_along ? first.least[axis] + second.least[axis]
                                    : std::max(first.least[axis], second.least[axis]);
        both.most[axis] =
            is_along ? first.most[axis] + second.most[axis] : std::max(first.most[axis], second.most[axis]);
        both.folded[axis] = std::max(first.folded[axis], second.folded[axis]);
    }
    return both;
}

/// What each panel had of the whole before anything was folded: what a layout is about has the most.
using Areas = std::map<std::string, float, std::less<>>;

void add_areas(const Place& place, float area, Areas& areas) {
    for (const std::string& title : place.tabs)
        areas[title] = area;
    if (place.parts.empty()) return;
    add_areas(place.parts[0], area * place.share, areas);
    add_areas(place.parts[1], area * (1 - place.share), areas);
}

/// The smallest place with tabs: what has to give way goes there, and the large panels stay alone. Of equal ones the first.
std::pair<Place*, float> smallest(Place& place, float area) {
    if (place.parts.empty()) return {&place, area};
    const auto a = smallest(place.parts[0], area * place.share),
               b = smallest(place.parts[1], area * (1 - place.share));
    return a.second <= b.second ? a : b;
}

/// Whether a panel is rather in front than another: it had the larger place, or is the more important one.
bool is_before(const std::string& a, const std::string& b, const Areas& areas) {
    const auto rank = [&](const std::string& title) {
        const auto area = areas.find(title);
        return std::pair(area == areas.end() ? 0.0F : -area->second,
                         std::ranges::find(needs, title, &Need::panel) - std::begin(needs));
    };
    return rank(a) < rank(b);
}

/// The panels of the smaller half of a place go into one of the other half's places.
void fold(Place& place, const Areas& areas) {
    const size_t larger = place.share >= 0.5F ? 0 : 1;
    Place kept = std::move(place.parts[larger]);
    const Place dropped = std::move(place.parts[1 - larger]);
    Place& target = *smallest(kept, 1).first;
    for (std::string& title : panels_of(dropped))
        target.tabs.push_back(std::move(title));
    for (std::string& front : fronts_of(dropped))
        if (is_before(front, target.front, areas)) target.front = std::move(front);
    place = std::move(kept);
}

/// Makes panels share places until what is left beside each other fits.
void fold_to_fit(Place& place, Extent size, float em, bool is_root, const Areas& areas) {
    while (!place.parts.empty()) {
        const size_t axis = along(place);
        const Wants a = wants_of(place.parts[0], em), b = wants_of(place.parts[1], em);
        // Halves that would fit if each were one place: then they stay beside each other and fold inside.
        if (!is_root && (a.folded[axis] + b.folded[axis]) * squeeze[axis] > size[axis]) {
            fold(place, areas);
            continue;
        }
        const float all = size[axis];
        const bool whole = a.least[axis] + b.least[axis] <= all;
        const float least_a = whole ? a.least[axis] : a.folded[axis],
                    least_b = whole ? b.least[axis] : b.folded[axis];
        const float first = least_a + least_b > all ? all * least_a / (least_a + least_b)
                                                    : std::clamp(all * place.share, least_a, all - least_b);
        Extent size_a = size, size_b = size;
        size_a[axis] = first;
        size_b[axis] = all - first;
        fold_to_fit(place.parts[0], size_a, em, false, areas);
        fold_to_fit(place.parts[1], size_b, em, false, areas);
        return;
    }
}

void share_out(Place& place, Extent size, float em) {
    if (place.parts.empty()) return;
    const size_t axis = along(place);
    const Wants a = wants_of(place.parts[0], em), b = wants_of(place.parts[1], em);
    const float all = size[axis];
    float first = all * place.share;
    if (a.least[axis] + b.least[axis] > all) {
        first = all * a.least[axis] / (a.least[axis] + b.least[axis]);
    } else {
        first = std::min(first, a.most[axis]);
        first = std::max(first, all - b.most[axis]);
        first = std::clamp(first, a.least[axis], all - b.least[axis]);
    }
    place.share = first / all;
    Extent size_a = size, size_b = size;
    size_a[axis] = first;
    size_b[axis] = all - first;
    share_out(place.parts[0], size_a, em);
    share_out(place.parts[1], size_b, em);
}

void add_sizes(const Place& place, Extent size, std::map<std::string, Extent, std::less<>>& sizes) {
    for (const std::string& title : place.tabs)
        sizes[title] = size;
    if (place.parts.empty()) return;
    const size_t axis = along(place);
    Extent size_a = size, size_b = size;
    size_a[axis] = std::round(size[axis] * place.share);
    size_b[axis] = size[axis] - size_a[axis];
    add_sizes(place.parts[0], size_a, sizes);
    add_sizes(place.parts[1], size_b, sizes);
}

Place shared(Place::Split split, float share, Place first, Place second) {
    Place place;
    place.split = split;
    place.share = share;
    place.parts.push_back(std::move(first));
    place.parts.push_back(std::move(second));
    return place;
}

} // namespace

Place tabs(std::vector<std::string> titles) {
    Place place;
    if (!titles.empty()) place.front = titles.front();
    place.tabs = std::move(titles);
    return place;
}

Place beside(float share, Place left, Place right) {
    return shared(Place::Split::beside, share, std::move(left), std::move(right));
}

Place stacked(float share, Place above, Place below) {
    return shared(Place::Split::stacked, share, std::move(above), std::move(below));
}

std::vector<std::string> panels_of(const Place& place) {
    std::vector<std::string> titles = place.tabs;
    for (const Place& part : place.parts)
        for (std::string& title : panels_of(part))
            titles.push_back(std::move(title));
    return titles;
}

std::vector<std::string> fronts_of(const Place& place) {
    std::vector<std::string> titles;
    if (!place.front.empty()) titles.push_back(place.front);
    for (const Place& part : place.parts)
        for (std::string& title : fronts_of(part))
            titles.push_back(std::move(title));
    return titles;
}

std::map<std::string, std::array<float, 2>, std::less<>> sizes_of(const Place& place, float width,
                                                                  float height) {
    std::map<std::string, Extent, std::less<>> sizes;
    add_sizes(place, {width, height}, sizes);
    return sizes;
}

Place fitted(const Place& layout, float width, float height, float em) {
    Place place = layout;
    Areas areas;
    add_areas(place, 1, areas);
    fold_to_fit(place, {width, height}, em, true, areas);
    share_out(place, {width, height}, em);
    return place;
}

Place keep_front(Place layout, const std::vector<std::string>& drawn) {
    const auto was_drawn = [&](const std::string& title) {
        return std::ranges::find(drawn, title) != drawn.end();
    };
    // A place without any of them was folded behind another: nobody chose there.
    const auto chosen = std::ranges::find_if(layout.tabs, was_drawn);
    if (chosen != layout.tabs.end() && !was_drawn(layout.front)) layout.front = *chosen;
    for (Place& part : layout.parts)
        part = keep_front(std::move(part), drawn);
    return layout;
}

bool same_places(const Place& a, const Place& b) {
    if (a.split != b.split || a.parts.size() != b.parts.size()) return false;
    if (a.parts.empty()) return std::ranges::is_permutation(a.tabs, b.tabs);
    return std::abs(a.share - b.share) < moved_share && same_places(a.parts[0], b.parts[0]) &&
           same_places(a.parts[1], b.parts[1]);
}

} // namespace refreshlab::ui
