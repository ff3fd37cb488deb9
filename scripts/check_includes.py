"""Checks that #include arrows only point down: app > ui > engine > kernels (docs/design.md, section 2)."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
layers = ["kernels", "engine", "ui", "app"]
# What a layer may not see of the outside world.
forbidden = {
    "kernels": r"(imgui|implot|GLFW|glad|GL/|nlohmann|sqlite3)",
    "engine": r"(imgui|implot|GLFW|glad|GL/)",
    "ui": r"(torch|ATen|c10|cuda|GLFW|glad|GL/|sqlite3)",
    "app": r"(?!)",
}
# engine rooms whose public headers have no torch type; everything that ui may include.
plain_rooms = {"base", "text", "control", "signals", "refresh", "record", "tasks"}

faults = []
for layer in layers:
    for path in sorted((root / layer).rglob("*")):
        if path.suffix not in {".h", ".cpp", ".cu", ".cuh"}:
            continue
        name = path.relative_to(root)
        plain = layer == "engine" and name.parts[1] in plain_rooms
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
            if not found:
                continue
            target = found[1]
            top = target.split("/")[0]
            if top in layers and layers.index(top) > layers.index(layer):
                faults.append(f"{name}:{number}: {layer} may not include {target}")
            if re.match(forbidden[layer], target):
                faults.append(f"{name}:{number}: {layer} may not include <{target}>")
            if plain and target != "kernels/shared/check.h" and (re.match(r"(torch|ATen|c10|cuda|kernels/)", target)
                          or (top == "engine" and target.split("/")[1] not in plain_rooms)):
                faults.append(f"{name}:{number}: {name.parts[1]}/ is torch-free and may not include {target}")
            if layer == "ui" and top == "engine" and target.split("/")[1] not in plain_rooms:
                faults.append(f"{name}:{number}: ui sees only the torch-free rooms, not {target}")
            if path.suffix == ".cu" and re.match(r"(torch|ATen|c10)/", target):
                faults.append(f"{name}:{number}: no torch headers in .cu files")
print("\n".join(faults) if faults else "include arrows: all point down")
sys.exit(1 if faults else 0)
