"""What the program does on files, from Python: each function runs the program, and says what that says."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ._installed import environment, program
from .errors import BadInput, Failure
from .recording import Landscape, Recording, read_trace


def _run(arguments: Sequence[str]) -> str:
    """Runs the program; its last line of complaint becomes an exception. Ctrl-C reaches the program too, which ends in good order."""
    child = subprocess.Popen([program, *arguments], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             stdin=subprocess.DEVNULL)
    try:
        out, said = child.communicate()
    except KeyboardInterrupt:
        child.wait()
        raise
    if child.returncode == 0:
        return out
    lines = [line.removeprefix("refreshlab: ") for line in said.splitlines() if line.startswith("refreshlab: ")]
    problem = lines[-1] if lines else said.strip() or f"the program ended with status {child.returncode}"
    raise (BadInput if child.returncode == 2 else Failure)(problem)


def _words(options: dict[str, object]) -> list[str]:
    words: list[str] = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is True:
                words.append(option)
            elif one is not False and one is not None:
                words += [option, str(one)]
    return words


@dataclass(frozen=True)
class Figure:
    """A figure for a paper. A notebook shows it by itself."""
    svg: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the figure as an SVG file."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg


def figure(of: Recording | str | os.PathLike[str], panel: str = "signals", **options: object) -> Figure:
    """The figure that ``refreshlab figure`` draws, as SVG.

    :param of: a run, or the path of a trace or a table
    :param options: those of the command: ``width="140mm"`` is ``--width 140mm``, a list gives an option several times
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.rlt"
        if isinstance(of, Recording):
            of.save(path)
        target = Path(folder) / "figure.svg"
        _run(["figure", str(path) if isinstance(of, Recording) else os.fspath(of), "--panel", panel, "-o", str(target), *_words(options)])
        return Figure(target.read_text(encoding="utf-8"))


def landscape(of: Recording | str | os.PathLike[str], **options: object) -> Landscape:
    """What every possible refresh is worth on a run's text, computed by ``refreshlab landscape``.

    :param of: a run, or the path of a trace, whose newest run it is; the trace gets the landscape
    :param options: those of the command: ``every=4``, ``teacher=...``
    """
    with tempfile.TemporaryDirectory() as folder:
        path = os.fspath(of) if not isinstance(of, Recording) else str(Path(folder) / "run.rlt")
        if isinstance(of, Recording):
            of.save(path)
        _run(["landscape", path, *_words(options)])
        trace = read_trace(path)
        return trace.landscapes[str(options.get("run") or trace.runs[-1].id)]


def sweep(spec: str | os.PathLike[str], out: str | os.PathLike[str], **options: object) -> str:
    """Runs a grid of runs by ``refreshlab sweep`` (docs/reference/sweeps.md); goes on where an earlier call of the same spec ended.

    :param spec: path of a JSON file
    :param out: folder of database and tables
    :return: what the command says at its end
    """
    return _run(["sweep", os.fspath(spec), "--out", os.fspath(out), *_words(options)])

