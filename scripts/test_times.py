#!/usr/bin/env python3
"""Where the time of the last runs of the suites went: seconds per suite and the slowest cases.

Reads what the suites left (build*/times/NAME.txt, a line per case; the window's suite writes build*/test_gui*.xml) and runs
nothing. A suite that has not run is not in the table; what stands there is of its last run, whenever that was.
"""
import argparse
import datetime
import pathlib
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parent.parent


def cases_of(path):
    """(seconds, name) of every case of a report."""
    if path.suffix == ".xml":
        found = xml.parse(path).getroot().iter("testcase")
        return [(float(case.get("time") or 0), case.get("name")) for case in found]
    lines = [line.split("\t", 1) for line in path.read_text(errors="replace").splitlines() if "\t" in line]
    return [(float(seconds), name) for seconds, name in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=30, help="how many of the slowest cases (else 30)")
    parser.add_argument("--suite", help="cases of this suite only")
    given = parser.parse_args()
    suites, cases = [], []
    for build, words in (("build", "optimised"), ("build-asan", "AddressSanitizer")):
        folder = ROOT / build
        for path in sorted([*folder.glob("times/*.txt"), *folder.glob("test_gui*.xml")]):
            found = cases_of(path)
            when = datetime.datetime.fromtimestamp(path.stat().st_mtime)
            suites.append((sum(seconds for seconds, _ in found), len(found), path.stem, words, when))
            if given.suite in (None, path.stem):
                cases += [(seconds, f"{path.stem}{' (ASan)' if build == 'build-asan' else ''}", name) for seconds, name in found]
    if not suites:
        raise SystemExit("No suite has left its times yet: make test first.")
    print("seconds  cases  suite")
    for seconds, count, name, words, when in sorted(suites, reverse=True):
        print(f"{seconds:7.1f}  {count:5}  {name}, {words}, {when:%d %b %H:%M}")
    for words in ("optimised", "AddressSanitizer"):
        of = [suite for suite in suites if suite[3] == words]
        if of:
            print(f"{sum(suite[0] for suite in of):7.1f}  {sum(suite[1] for suite in of):5}  all, {words}, one after another")
    print("\nseconds  slowest cases")
    for seconds, suite, name in sorted(cases, reverse=True)[: given.cases]:
        print(f"{seconds:7.2f}  {suite}: {name}")


if __name__ == "__main__":
    main()
