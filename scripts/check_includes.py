"""Checks that #include arrows only point down: python, app > ui > engine > kernels, and within engine and ui from room to room
(docs/design.md, section 2)."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
layers = ["kernels", "engine", "ui", "app", "python"]
# What a layer may not see of the outside world.
forbidden = {
    "kernels": r"(imgui|implot|GLFW|glad|GL/|nlohmann|sqlite3)",
    "engine": r"(imgui|implot|GLFW|glad|GL/)",
    "ui": r"(torch|ATen|c10|cuda|GLFW|glad|GL/|sqlite3)",
    "app": r"(?!)",
    "python": r"(imgui|implot|GLFW|glad|GL/|torch/|ui/|app/(?!base/))",
}
# engine rooms whose public headers have no torch type; everything that ui may include.
plain_rooms = {"base", "text", "control", "signals", "refresh", "policies", "record", "tasks", "fetch", "landscape", "results", "remote"}
# Headers of kernels/ that have no torch type.
plain_kernels = {"kernels/shared/check.h", "kernels/shared/attention_bins.h", "kernels/execution/isa.h", "kernels/execution/cores.h",
                 "kernels/cpu/fold_avx512.h"}

# Rooms of engine/ from the bottom to the top: a room includes itself and those before it. Some are floors by themselves, each
# of which includes itself and those before it.
engine_rooms = ["base", "text", "fetch", "signals", "refresh", "policies", "control", "record", "tasks", "landscape", "results", "remote", "cache", "model", "session", "study",
                "bench", "train"]
engine_floors = {
    "record": ["tables", "notes", "recording", "runs", "export", "trace", "keep"],
    "session": ["policies", "parts", "pair", "decode", "driver", "exactness", "landscape", "readings", "worker"],
    "study": ["jobs", "measure", "sweep", "studies"],
    "bench": ["numbers", "report", "measure"],
}


def engine_fault(name, target):
    """What is wrong with an #include in a file of engine/; None where nothing is."""
    room, parts = name.parts[1], target.split("/")
    if room not in engine_rooms:
        return f"engine/{room} is no room of engine/ (see engine_rooms)"
    floors = engine_floors.get(room)
    if floors and (len(name.parts) < 4 or name.parts[2] not in floors):
        return f"{name} stands on no floor of engine/{room} (see engine_floors)"
    if parts[0] != "engine":
        return None
    if parts[1] not in engine_rooms or engine_rooms.index(parts[1]) > engine_rooms.index(room):
        return f"engine/{room} may not include {target}"
    if floors and parts[1] == room and floors.index(parts[2]) > floors.index(name.parts[2]):
        return f"engine/{room}/{name.parts[2]} may not include {target}"
    return None


# Rooms of ui/ from the bottom to the top: a room includes itself and those before it. The first four, which are what the
# window shows, what a paper prints and what a report holds, are compiled without Dear ImGui (rl_scene, rl_figure). Rooms within scene/ stand in an order of their own.
ui_rooms = ["base", "scene", "figure", "report", "context", "draw", "panels", "state", "tour", "dialogs", "shell"]
ui_plain = {"base", "scene", "figure", "report"}
scene_rooms = ["series", "axes", "policy", "text", "maps", "attention", "runs", "tables", "landscape", "views", "theme"]


def ui_fault(name, target):
    """What is wrong with an #include in a file of ui/; None where nothing is."""
    room, sub = name.parts[1], name.parts[2]
    if room not in ui_rooms:
        return None if room == name.name else f"ui/{room} is no room of ui/ (see ui_rooms)"
    if room in ui_plain and re.match(r"(imgui|implot|misc/cpp/)", target):
        return f"ui/{room} has no Dear ImGui and may not include <{target}>"
    parts = target.split("/")
    if parts[0] != "ui" or len(parts) < 3:
        return None
    if parts[1] not in ui_rooms:
        return f"ui/{parts[1]} is no room of ui/"
    if ui_rooms.index(parts[1]) > ui_rooms.index(room):
        return f"ui/{room} may not include {target}"
    if room == parts[1] == "scene" and scene_rooms.index(parts[2]) > scene_rooms.index(sub):
        return f"ui/scene/{sub} may not include {target}"
    # Panels know each other by ui/panels/panel.h alone.
    if room == parts[1] == "panels" and len(parts) > 3 and (len(name.parts) < 4 or parts[2] != sub):
        return f"{name} may not include {target}: a panel's folder is its own"
    return None


# Rooms of app/: what each sees of the others. The program has no torch; only app/engine, a library of its own, has.
app_sees = {"base": {"base"}, "options": {"base", "options"}, "engine": {"base", "options", "engine"},
            "loader": {"base", "options"}, "figures": {"base", "figures"}, "window": {"window"},
            "cli": {"base", "options", "figures", "window", "cli"}, "main.cpp": {"cli"}}
# Of the engine the program sees the plain rooms, and a report as data.
plain_reports = {"engine/bench/report/bench_report.h"}


def app_fault(name, target):
    """What is wrong with an #include in a file of app/; None where nothing is."""
    room, parts = name.parts[1], target.split("/")
    if room not in app_sees:
        return f"app/{room} is no room of app/ (see app_sees)"
    if parts[0] == "app":
        return None if parts[1] in app_sees[room] else f"app/{room} may not include {target}"
    if room == "engine":
        return None
    torch = re.match(r"(torch|ATen|c10|cuda)", target)
    engine = parts[0] == "engine" and parts[1] not in plain_rooms and target not in plain_reports
    kernels = parts[0] == "kernels" and target not in plain_kernels
    return f"app/{room} is without torch and may not include {target}" if torch or engine or kernels else None


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
            if plain and target not in plain_kernels and (re.match(r"(torch|ATen|c10|cuda|kernels/)", target)
                          or (top == "engine" and target.split("/")[1] not in plain_rooms)):
                faults.append(f"{name}:{number}: {name.parts[1]}/ is torch-free and may not include {target}")
            if layer == "ui" and top == "engine" and target.split("/")[1] not in plain_rooms:
                faults.append(f"{name}:{number}: ui sees only the torch-free rooms, not {target}")
            if layer == "engine" and (fault := engine_fault(name, target)):
                faults.append(f"{name}:{number}: {fault}")
            if layer == "app" and (fault := app_fault(name, target)):
                faults.append(f"{name}:{number}: {fault}")
            if layer == "ui" and (fault := ui_fault(name, target)):
                faults.append(f"{name}:{number}: {fault}")
            if path.suffix == ".cu" and re.match(r"(torch|ATen|c10)/", target):
                faults.append(f"{name}:{number}: no torch headers in .cu files")
print("\n".join(faults) if faults else "include arrows: all point down")
sys.exit(1 if faults else 0)
