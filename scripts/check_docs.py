"""Checks that the pages hold together: every link and every named file exists, every page that code names exists, and
docs/README.md leads to every page."""
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
pages = [root / "README.md", root / "THIRD_PARTY.md", *sorted((root / "docs").rglob("*.md"))]
# It quotes the files of other projects.
quoting = {root / "docs/development/style.md"}
# Where a path in backquotes may begin: at the root, in docs, beside the page, or, for tests, in tests and tests/engine.
places = [root, root / "docs", root / "tests", root / "tests/engine"]

faults = []
for page in pages:
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))  # code is not checked here
    name = page.relative_to(root)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target and not (page.parent / target).exists():
            faults.append(f"{name}: the link to {target} leads nowhere")
    if page in quoting:
        continue
    for path in re.findall(r"`([\w.-]+(?:/[\w.*-]+)+/?)`", text):
        known_type = re.search(r"\.(md|h|cpp|cu|cuh|py|sh|json|jsonl|txt|svg)$", path) or path.endswith("/")
        begins_here = path.split("/")[0] in {"docs", "engine", "app", "ui", "kernels", "tests", "scripts", "assets", "cmake", "howto", "reference", "results", "development"}
        if not known_type or (not begins_here and not path.endswith("_test.cpp")):
            continue
        if not any(list(place.glob(path.rstrip("/"))) for place in [*places, page.parent]):
            faults.append(f"{name}: there is no {path}")

# Comments and messages of the code name pages too, from the root or from docs.
kinds = {".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".txt", ".cmake", ".json"}
rooms = ["app", "ui", "engine", "kernels", "python", "tests", "scripts", "bench", "cmake", "assets"]
code = [file for room in rooms for file in sorted((root / room).rglob("*")) if file.suffix in kinds and file.is_file()]
for file in [root / "CMakeLists.txt", root / "Makefile", *code]:
    text = file.read_text(encoding="utf-8", errors="replace")
    for path in sorted(set(re.findall(r"(?<![\w/.-])(?:docs|howto|reference|results|development)/[\w/-]+\.md", text))):
        if not (root / path).exists() and not (root / "docs" / path).exists():
            faults.append(f"{file.relative_to(root)}: there is no page {path}")

index = root / "docs/README.md"
linked, to_read = set(), [index]
while to_read:
    page = to_read.pop()
    led = {(page.parent / target).resolve() for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text(encoding="utf-8"))}
    # A folder's own README lists the pages of that folder.
    to_read += [target for target in led - linked if target.name == "README.md" and target.is_relative_to(root / "docs")]
    linked |= led
for page in pages:
    if page.is_relative_to(root / "docs") and page != index and page.resolve() not in linked:
        faults.append(f"docs/README.md does not lead to {page.relative_to(root)}")
if subprocess.run([sys.executable, root / "scripts/tour_page.py", "--check"]).returncode != 0:
    faults.append("docs/tour.md is to be made again: scripts/tour_page.py")
print("\n".join(faults) if faults else "pages: every link and every named file exists")
sys.exit(1 if faults else 0)
