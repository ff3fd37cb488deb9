#!/usr/bin/env python3
"""Writes ui/scene/maps/colour_tables.inc from assets/colours/control_points.json: 256 entries a map, 0xAABBGGRR.

Between control points a natural cubic spline per channel; against the published 256 entries of viridis and cividis it is
off by at most 1 and 3 of 255. Run it again after a change of the points: scripts/make_colour_maps.py [--check]
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ENTRIES = 256


def second_derivatives(y):
    """Of the natural cubic spline through y at 0, 1, 2, ... (Thomas algorithm)."""
    n = len(y)
    below, diagonal, above, right = [1.0] * n, [4.0] * n, [1.0] * n, [0.0] * n
    for i in range(1, n - 1):
        right[i] = 6.0 * (y[i + 1] - 2.0 * y[i] + y[i - 1])
    diagonal[0] = diagonal[-1] = 1.0
    above[0] = below[-1] = 0.0
    for i in range(1, n):
        factor = below[i] / diagonal[i - 1]
        diagonal[i] -= factor * above[i - 1]
        right[i] -= factor * right[i - 1]
    m = [0.0] * n
    m[-1] = right[-1] / diagonal[-1]
    for i in range(n - 2, -1, -1):
        m[i] = (right[i] - above[i] * m[i + 1]) / diagonal[i]
    return m


def channel(y):
    m, last, result = second_derivatives(y), len(y) - 1, []
    for entry in range(ENTRIES):
        x = entry * last / (ENTRIES - 1)
        i = min(int(x), last - 1)
        t, u = x - i, 1.0 - (x - i)
        value = u * y[i] + t * y[i + 1] + ((u**3 - u) * m[i] + (t**3 - t) * m[i + 1]) / 6.0
        result.append(min(255, max(0, round(value))))
    return result


def main():
    maps = json.loads((ROOT / "assets/colours/control_points.json").read_text())["maps"]
    text = "// Written by scripts/make_colour_maps.py from assets/colours/control_points.json; change those.\n"
    for entry in maps:
        points = [bytes.fromhex(p) for p in entry["points"]]
        red, green, blue = (channel([p[c] for p in points]) for c in range(3))
        text += f"// {entry['name']}: {entry['for']}. {entry['source']} ({entry['licence']}).\n"
        text += f"constexpr std::array<uint32_t, 256> {entry['name']}_table{{\n"
        colours = [f"0xFF{b:02X}{g:02X}{r:02X}" for r, g, b in zip(red, green, blue)]
        for i in range(0, ENTRIES, 8):
            text += "    " + ", ".join(colours[i : i + 8]) + ",\n"
        text += "};\n"
    target = ROOT / "ui/scene/maps/colour_tables.inc"
    if "--check" in sys.argv:
        if target.read_text() != text:
            sys.exit("ui/scene/maps/colour_tables.inc is not what scripts/make_colour_maps.py writes; run it and commit")
        return
    target.write_text(text)


if __name__ == "__main__":
    main()
