"""Prints a deb822 entry for CODENAME-backports, derived from the machine's own entry for CODENAME."""
import glob
import re
import sys

codename = sys.argv[1]


def stanzas():
    for path in ["/etc/apt/sources.list", *sorted(glob.glob("/etc/apt/sources.list.d/*"))]:
        try:
            text = open(path, encoding="utf-8").read()
        except OSError:
            continue
        if path.endswith(".sources"):
            for block in re.split(r"\n\s*\n", re.sub(r"(?m)^#.*\n?", "", text)):
                fields = dict(re.findall(r"(?m)^([A-Za-z-]+):[ \t]*(.*(?:\n[ \t].*)*)", block))
                if "deb" in fields.get("Types", "").split():
                    yield fields.get("URIs", "").split(), fields.get("Suites", "").split(), fields.get("Signed-By", "")
        elif path.endswith(".list"):
            for line in text.splitlines():
                found = re.match(r"\s*deb\s+(\[[^]]*\]\s+)?(\S+)\s+(\S+)", line)
                if found:
                    key = re.search(r"signed-by=([^\s\]]+)", found[1] or "")
                    yield [found[2]], [found[3]], key[1] if key else ""


for uris, suites, key in stanzas():
    if codename in suites and uris:
        print(f"Types: deb\nURIs: {uris[0]}\nSuites: {codename}-backports\nComponents: main")
        if key:
            print(f"Signed-By: {key}")
        break
else:
    sys.exit(f"setup: no apt entry for {codename} found on this machine; install Catch2 v3 and pass -DCatch2_DIR=")
