"""Tries a wheel of RefreshLab in a fresh environment: package, program and window, with nothing of the checkout.

    .deps/venv/bin/python scripts/check_wheel.py dist/refreshlab-*.whl

torch and what it needs are linked from the environment that runs this, as pip would install them; nothing is fetched.
"""
import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import tempfile

checkout = pathlib.Path(__file__).resolve().parent.parent

in_python = """
import pathlib, refreshlab as rl
assert "torch" not in __import__("sys").modules
pair = rl.Pair.open()
with pair.session("Write a chronicle of 6 companies.", policy="entropy", max_tokens=40, settings={"entropy.threshold": 3, "entropy.every": 1},
                  record="package.rlt") as session:
    session.run()
    import torch
    assert session.keys(0).shape[1] == session.cache().length
program = rl.read_trace("program.rlt").runs[0]
assert program.refreshes and session.recording.difference(program) is None, session.recording.difference(program)
assert rl.figure("package.rlt").svg.count("<") > 100
checkout = CHECKOUT
outside = {line.split()[-1] for line in open("/proc/self/maps") if line.split()[-1].startswith(checkout + "/")}
assert not {path for path in outside if "/site-packages/" not in path}, outside
print("package: a run of", len(session.recording), "steps is that of the program, bit for bit;", rl.__file__)
"""


def closure(names):
    """Installed distributions and what they require here."""
    done, to_do = {}, list(names)
    while to_do:
        name = re.split(r"[ ;<>=!~\[(]", to_do.pop())[0].lower().replace("_", "-")
        if name in done:
            continue
        try:
            done[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # of another system, or optional
        to_do += [wanted for wanted in done[name].requires or [] if "extra ==" not in wanted]
    return done.values()


def link_distributions(site):
    for distribution in closure(["torch", "numpy"]):
        for top in {file.parts[0] for file in distribution.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            target = pathlib.Path(distribution.locate_file(top))
            if target.exists() and not (site / top).exists():
                (site / top).symlink_to(target)


def check_licences(site):
    """Every library of Debian in the wheel has its licence there: a source package has one text for all that is made of it."""
    def source(package):
        return subprocess.run(["dpkg-query", "-W", "-f", "${source:Package}\n", package], capture_output=True, text=True).stdout.split("\n")[0]
    there = {source(file.stem) for file in (site / "refreshlab/licences").glob("*.txt")}
    for file in (site / "refreshlab.libs").iterdir():
        debian_name = re.sub(r"-[0-9a-f]{8}", "", file.name)
        owner = subprocess.run(["dpkg", "-S", f"*/{debian_name}"], capture_output=True, text=True).stdout.split(":")[0]
        assert source(owner) in there, f"no licence of {file.name}, which is of {owner}"


def check_libraries(site):
    """Every library of the wheel finds what it needs in the wheel, beside torch, or among those that manylinux takes for granted."""
    from auditwheel.policy import WheelPolicies
    from auditwheel.architecture import Architecture
    from auditwheel.libc import Libc
    from elftools.elf.elffile import ELFFile
    granted = set().union(*(policy.whitelist for policy in WheelPolicies(libc=Libc.GLIBC, arch=Architecture.x86_64)))
    files = [file for folder in ("refreshlab", "refreshlab.libs") for file in sorted((site / folder).rglob("*"))
             if file.is_file() and file.read_bytes()[:4] == b"\x7fELF"]
    own = {file.name for file in files}
    check_licences(site)
    for file in files:
        with file.open("rb") as opened:
            needed = {tag.needed for tag in ELFFile(opened).get_section_by_name(".dynamic").iter_tags("DT_NEEDED")}
        others = {name for name in needed - own - granted if not re.match("lib(torch|c10|cudart)|ld-linux", name)}
        assert not others, f"{file.name} needs {others}"
        unfound = [line for line in subprocess.run(["ldd", file], capture_output=True, text=True).stdout.splitlines() if "not found" in line]
        assert not unfound, f"{file.name}: {unfound}"
        for line in subprocess.run(["ldd", file], capture_output=True, text=True).stdout.splitlines():
            assert not re.match(r"\s*lib(torch|c10|cudart)", line) or "/site-packages/" in line, f"{file.name}: {line}"
    print(f"libraries: {len(files)} files need nothing that the wheel does not bring, torch has not, and manylinux does not grant")


def main():
    wheel = pathlib.Path(sys.argv[1]).resolve()
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("REFRESHLAB_", "PYTHON", "LD_LIBRARY"))}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", f"{folder}/venv"], check=True)
        site = next(pathlib.Path(folder, "venv/lib").glob("python3*")) / "site-packages"
        subprocess.run([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", f"{folder}/venv/bin/python", "install",
                        "--no-deps", wheel], check=True)
        link_distributions(site)
        check_libraries(site)

        # Where a process may hide a folder from itself, the checkout's assets and program are not there: a path that was compiled in shows.
        hidden = [checkout / "assets", checkout / "build"]
        hide = ["unshare", "--map-root-user", "--mount", "sh", "-c", "".join(f"mount -t tmpfs none '{path}'; " for path in hidden) + 'exec "$@"', "sh"]
        if subprocess.run([*hide, "true"], capture_output=True).returncode != 0:
            print("note: this machine hides no folders from a process, so the checkout is in reach of the wheel")
            hide = []

        def run(*words):
            done = subprocess.run([*hide, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, (words, done.stdout, done.stderr)
            return done.stdout.strip()
        program = f"{folder}/venv/bin/refreshlab"
        print("program:", run(program, "--version"))
        run(program, "run", "--prompt", "Write a chronicle of 6 companies.", "--policy", "entropy", "--set", "entropy.threshold=3", "--set", "entropy.every=1", "--max-tokens", "40",
            "--record", "program.rlt")
        print(run(f"{folder}/venv/bin/python", "-c", in_python.replace("CHECKOUT", repr(str(checkout)))))
        run(program, "gui", "program.rlt", "--screenshot", "window.png")
        run(program, "gui", "--screenshot", "live.png")
        for name in ("window.png", "live.png"):
            picture = pathlib.Path(folder, name).read_bytes()
            assert picture[:8] == b"\x89PNG\r\n\x1a\n" and len(picture) > 20_000
        print(f"window: draws a trace and a live run ({len(picture) // 1000} KB of picture)")


main()
