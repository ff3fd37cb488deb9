#!/usr/bin/env python3
"""The pictures of docs/results, drawn from the tables of those very pages, so that a picture and its table cannot differ.

    scripts/studies_pictures.py [NAME ...]     all pictures, or those with these names (study-NAME.svg)

Each picture says which table of which page it draws, and which cells become values with their intervals."""
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parent.parent
program = pathlib.Path(os.environ.get("REFRESHLAB", root / "build/refreshlab")).resolve()


def row_of(words, cells):
    """A row by the words above its columns; of two columns with the same words, the first."""
    row = {}
    for word, cell in zip(words, cells):
        row.setdefault(word, cell)
    return row


def tables_of(page):
    """Every table of a page, as a list of rows."""
    found, rows = [], []
    for line in [*(root / "docs/results" / page).read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            found.append([row_of(rows[0], row) for row in rows[2:]])
            rows = []
    return found


def table_with(page, *columns):
    """The tables of a page that have all these columns, in their order."""
    found = [table for table in tables_of(page) if table and all(column in table[0] for column in columns)]
    if not found:
        sys.exit(f"studies_pictures: {page} has no table with {', '.join(columns)}")
    return found


def number(text):
    return float(text.replace(",", "").replace("%", "").strip())


def value(cell):
    """"0.52", "0.52 (0.40 to 0.62)" or "21 % (14 to 26)": the value, and its interval where there is one."""
    match = re.match(r"([-+\d.,]+)\s*%?\s*(?:\(([-+\d.,]+) to ([-+\d.,]+)\))?", cell)
    if not match:
        return "", "", ""
    low, high = match.group(2), match.group(3)
    return number(match.group(1)), number(low) if low else "", number(high) if high else ""


def above_blind(cell):
    """"0.79 (+0.51, +0.46 to +0.56)": how much a gate is above blind placement, with its interval."""
    match = re.search(r"\(([-+\d.]+)(?:, ([-+\d.]+) to ([-+\d.]+))?\)", cell)
    if not match:
        return "", "", ""
    return tuple(float(part) if part else "" for part in match.groups())


def simulation():
    # A curve of 400 steps is no table of the page: the study itself takes a second.
    return None, {"study": "simulation"}


def tasks():
    rows = [[row["kind"].replace("_", " "), row["case"], number(row["share right"])] for row in table_with("tasks.md", "share right", "scored")[0]]
    return (["kind", "case", "share"], rows), {"kind": "dots", "series": ["case"], "facets": ["kind"], "parts": [{"title": "share of facts right", "values": ["share"]}]}


def thresholds():
    rows = []
    for row in table_with("thresholds.md", "signal", "every", "refreshes per 1,000 tokens")[0]:
        if row["every"] in ("1", "16"):
            rows.append([row["family"], row["signal"], f"every {row['every']}", number(row["refreshes per 1,000 tokens"])])
    return (["family", "signal", "looked at", "rate"], rows), {"kind": "dots", "series": ["signal", "looked at"], "facets": ["family"],
                                                              "parts": [{"title": "refreshes per 1,000 tokens", "values": ["rate"], "mark": 2.5}]}


def drift():
    rows = []
    for row in table_with("drift.md", "distance", "K", "V")[0]:
        for half in ("K", "V"):
            middle, width = number(row[half]), number(row[f"{half} +- 1.96 SE"])
            first = int(row["distance"].partition("-")[0])
            rows.append([row["family"], f"{half}, refresh every {row['refresh every']}", first, middle, middle - width, middle + width])
    return (["family", "entries", "tokens", "far", "low", "high"], rows), {
        "kind": "curves", "series": ["entries"], "facets": ["family"], "x": "tokens", "x_title": "tokens since the refresh, from", "x_log": True,
        "parts": [{"title": "relative distance from the teacher's", "values": ["far"]}]}


def landscape(columns_of, title, mark=None):
    rows = []
    for model, table in zip(("bundled pair", "SmolLM2, 3-bit student"), columns_of):
        rows += [[model, *row] for row in table]
    part = {"title": title, "values": ["value"]}
    if mark is not None:
        part["mark"] = mark
    return (["model", "what", "count", "value", "low", "high"], rows), {
        "kind": "curves", "series": ["what"], "facets": ["model"], "x": "count", "x_title": "refreshes per 256 tokens", "x_log": True, "parts": [part]}


def landscape_loss():
    tables = []
    for table in table_with("signals-as-triggers.md", "none", "blind", "best"):
        tables.append([[what, number(row["refreshes per 256"]), *value(row[what])] for what in ("none", "blind", "best") for row in table])
    return landscape(tables, "loss above the teacher (nats)")


def landscape_gates():
    shown = ("kl_mean_nats", "kl_nats", "top1_surprisal_bits", "entropy_bits", "top2_margin", "attention_entropy_bits")
    tables = []
    for table in table_with("signals-as-triggers.md", "gate", "2 per 256"):
        tables.append([[row["gate"], number(count.split()[0]), *above_blind(row[count])]
                       for row in table if row["gate"] in shown for count in list(row)[1:]])
    return landscape(tables, "efficiency above blind", 0)


def cache_text():
    rows = []
    table = table_with("cache-policies.md", "PPL", "loss above vanilla", "entries read")[1]
    for row in table:
        if row["policy"] not in ("vanilla", "random"):
            rows.append([row["budget"], row["policy"], *value(row["loss above vanilla"]), *value(row["KL to vanilla"])])
    return (["budget", "policy", "loss", "loss_low", "loss_high", "kl", "kl_low", "kl_high"], rows), {
        "kind": "dots", "series": ["policy"], "facets": ["budget"],
        "parts": [{"title": "loss above vanilla (nats)", "values": ["loss"], "mark": 0}, {"title": "KL to vanilla (nats)", "values": ["kl"], "log": True}]}


def derived():
    rows = []
    for row in table_with("derived-students.md", "own weights", "cache", "every 16")[0]:
        for every in (64, 16, 4):
            rows.append([row["text"], row["student"], every, *value(row[f"every {every}"])])
    return (["text", "student", "every", "share", "low", "high"], rows), {
        "kind": "curves", "series": ["student"], "facets": ["text"], "x": "every", "x_title": "tokens from one refresh to the next", "x_log": True,
        "parts": [{"title": "% of the cache's loss back", "values": ["share"], "mark": 0}]}


def drafts():
    rows = []
    for row in table_with("drafts.md", "student", "draft", "acceptance, spliced", "difference")[0]:
        for how in ("acceptance, spliced", "own entries"):
            rows.append([row["student"], row["draft"] + (", spliced" if "spliced" in how else ", own entries"), *value(row[how])])
    return (["student", "draft", "acceptance", "low", "high"], rows), {
        "kind": "dots", "series": ["draft"], "facets": ["student"], "parts": [{"title": "acceptance", "values": ["acceptance"]}]}


def scope():
    shares = [row for row in table_with("scope.md", "refreshed", "3-bit g32")[0] if not row["refreshed"].startswith("everything")]
    students = [column for column in shares[0] if column != "refreshed"]
    rows = [[student, row["refreshed"], *value(row[student])] for student in students for row in shares]
    return (["student", "refreshed", "share", "low", "high"], rows), {
        "kind": "dots", "series": ["refreshed"], "facets": ["student"],
        "parts": [{"title": "share of the whole refreshes' gain", "values": ["share"], "mark": 0}]}


pictures = {"simulation": simulation, "tasks": tasks, "thresholds": thresholds, "drift": drift, "landscape-loss": landscape_loss,
            "landscape-gates": landscape_gates, "cache-text": cache_text, "derived": derived, "drafts": drafts, "scope": scope}


def draw(name):
    data, spec = pictures[name]()
    with tempfile.TemporaryDirectory() as folder:
        # A figure keeps its command line: without a word of this machine.
        environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
        if data is None:
            subprocess.run(["refreshlab", "study", spec["study"], "--out", name], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
        else:
            (pathlib.Path(folder) / name).mkdir()
            with open(f"{folder}/{name}/table.csv", "w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([data[0], *data[1]])
            with open(f"{folder}/{name}/figures.json", "w", encoding="utf-8") as file:
                json.dump({"figures": [{"name": name, "table": "table", **spec}]}, file)
        picture = f"study-{name}.svg"
        subprocess.run(["refreshlab", "figure", name, "--size", "174mm", "-o", picture], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
        (root / "docs/images" / picture).write_bytes((pathlib.Path(folder) / picture).read_bytes())


names = sys.argv[1:] or list(pictures)
for name in names:
    if name not in pictures:
        sys.exit(f"studies_pictures: there is no {name}; there are {', '.join(pictures)}")
    draw(name)
