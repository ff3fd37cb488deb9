"""Makes docs/tour.md from the chapters of the tour (assets/tour), so that page and window say the same.

  scripts/tour_page.py            writes the page
  scripts/tour_page.py --check    exit status 1 where the page is another
  scripts/tour_page.py --pictures takes the pictures anew, with the built suite that plays the chapters
"""
import json
import os
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
page = root / "docs/tour.md"
pictures = root / "docs/images/tour"


def shown(text):
    """The numbers are those of a run: here they are left out. Keys are those of the first start."""
    text = re.sub(r"\{key:[^,}]*, ([^}]*)\}", r"\1", text)
    return re.sub(r"\{[^}]*\}", "...", text)


def made():
    lines = ["# The tour", "",
             "*This page is made by `scripts/tour_page.py` from `assets/tour/`; the window plays the same chapters under **Help > Tour** (F2), with the numbers of",
             "its own run where dots stand here. How to write a chapter: [tour-chapters.md](development/tour-chapters.md).*", ""]
    for file in sorted((root / "assets/tour").glob("*.json")):
        chapter = json.loads(file.read_text(encoding="utf-8"))
        lines += [f"## {chapter['title']}", "", f"{chapter['about']} {chapter['minutes']} minutes.", ""]
        if (pictures / f"{file.stem}.png").exists():
            lines += [f"![{chapter['title']}](images/tour/{file.stem}.png)", ""]
        for number, step in enumerate(chapter["steps"], 1):
            lines.append(f"{number}. {shown(step['text'])}")
            if "then" in step:
                lines.append(f"   *{shown(step['then'])}*")
        lines.append("")
    return "\n".join(lines)


if "--pictures" in sys.argv:
    pictures.mkdir(parents=True, exist_ok=True)
    subprocess.run([root / "build/tests/gui/test_gui", "TO1 .*to its end"], cwd=root, check=True,
                   env={**os.environ, "LP_NUM_THREADS": "1", "REFRESHLAB_TOUR_PICTURES": str(pictures)})
if "--check" in sys.argv:
    if page.read_text(encoding="utf-8") != made():
        sys.exit("docs/tour.md is not what scripts/tour_page.py makes of assets/tour")
else:
    page.write_text(made(), encoding="utf-8")
