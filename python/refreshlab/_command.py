"""What the program does on files, from Python: each function runs the program, and says what that says. Beside an open pair the engine that is there
does it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ._installed import assets, environment, program, require_system_libraries
from .errors import BadInput, Failure
from .recording import Landscape, Recording, read_trace

if TYPE_CHECKING:
    from .session import Pair


def _run(arguments: Sequence[str]) -> str:
    """Runs the program; its last line of complaint becomes an exception. Ctrl-C reaches the program too, which ends in good order."""
    require_system_libraries()
    child = subprocess.Popen([program, *arguments], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             stdin=subprocess.DEVNULL)
    try:
        out, said = child.communicate()
    except KeyboardInterrupt:
        child.wait()
        raise
    _raise_what_it_said(child.returncode, said)
    return out


def _raise_what_it_said(status: int, said: str) -> None:
    if status == 0:
        return
    lines = [line.removeprefix("refreshlab: ") for line in said.splitlines() if line.startswith("refreshlab: ")]
    problem = lines[-1] if lines else said.strip() or f"the program ended with status {status}"
    raise (BadInput if status == 2 else Failure)(problem)


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
    """The whole file."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the figure as an SVG file."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg


def figure(of: Recording | str | os.PathLike[str], panel: str = "signals", **options: object) -> Figure:
    """The figure that ``refreshlab figure`` draws, as SVG.

    :param of: a run, or the path of a trace or a table
    :param options: those of the command: ``size="140mm"`` is ``--size 140mm``, a list gives an option several times
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.rlt"
        if isinstance(of, Recording):
            of.save(path)
        target = Path(folder) / "figure.svg"
        _run(["figure", str(path) if isinstance(of, Recording) else os.fspath(of), "--panel", panel, "-o", str(target), *_words(options)])
        return Figure(target.read_text(encoding="utf-8"))


class Window:
    """A window of the program, as a process of its own. Made by ``open_window()``."""

    def __init__(self, shown: Sequence[str], options: dict[str, object], holds: Sequence[object] = (), folder: object = None) -> None:
        """:param shown: arguments that say what it shows
        :param holds: what must live as long as this object does
        :param folder: a temporary folder, removed when the window has been closed"""
        require_system_libraries()
        self._holds, self._folder = holds, folder
        self._process = subprocess.Popen([program, "gui", *shown, *_words(options)], env=environment(), stdin=subprocess.DEVNULL,
                                         stderr=subprocess.PIPE, text=True)

    @property
    def open(self) -> bool:
        """The process goes on."""
        return self._process.poll() is None

    def wait(self) -> None:
        """Returns when it has been closed. Raises what it could not do, as the program says it."""
        _, said = self._process.communicate()
        self._end()
        _raise_what_it_said(self._process.returncode, said)

    def close(self) -> None:
        """Closes it."""
        self._process.terminate()
        self._process.communicate()
        self._end()

    def _end(self) -> None:
        self._holds = ()
        if isinstance(self._folder, tempfile.TemporaryDirectory):
            self._folder.cleanup()


def window_of(recording: Recording, options: dict[str, object]) -> Window:
    """A window on a copy of a recording."""
    folder = tempfile.TemporaryDirectory(prefix="refreshlab-")
    path = Path(folder.name) / "run.rlt"
    recording.save(path)
    return Window([str(path)], options, folder=folder)


def _only(what: str, options: dict[str, object], known: Sequence[str]) -> None:
    for name in options:
        if name not in known:
            raise BadInput(f"rl.{what}: {name} has no effect beside pair=; it takes {', '.join(known)}")


def landscape(of: Recording | str | os.PathLike[str], *, pair: Pair | None = None, **options: object) -> Landscape:
    """What every possible refresh is worth on a run's text, computed by ``refreshlab landscape``.

    :param of: a run, or the path of a trace, whose newest run it is (``run=...``: another); the trace gets the landscape
    :param pair: models that are open: nothing is read again, and no process begins. Of the options it takes ``every``, ``values`` and ``run``
    :param options: those of the command: ``every=4``, ``teacher=...``
    """
    if pair is not None:
        from . import _engine
        _only("landscape", options, ("every", "values", "run"))
        path = "" if isinstance(of, Recording) else os.fspath(of)
        run = of if isinstance(of, Recording) else _chosen_run(path, str(options.get("run") or ""))
        every = options.get("every", 1)
        if not isinstance(every, int):
            raise BadInput(f"rl.landscape: every is a whole number, not {every!r}")
        return Landscape(_engine.landscape(pair._pair, run._record, every, _list(options.get("values")), path))
    with tempfile.TemporaryDirectory() as folder:
        path = os.fspath(of) if not isinstance(of, Recording) else str(Path(folder) / "run.rlt")
        if isinstance(of, Recording):
            of.save(path)
        _run(["landscape", path, *_words(options)])
        trace = read_trace(path)
        return trace.landscapes[str(options.get("run") or trace.runs[-1].id)]


def _chosen_run(path: str, run: str) -> Recording:
    trace = read_trace(path)
    try:
        return trace[run] if run else trace[-1]
    except (KeyError, IndexError):
        raise BadInput(f"reading a landscape's run {path}: there is no run {run or 'in it'}") from None


def _list(values: object) -> str:
    """As the command line has a list."""
    return ",".join(map(str, values)) if isinstance(values, (list, tuple)) else str(values or "")


def sweep(spec: str | os.PathLike[str], out: str | os.PathLike[str], *, pair: Pair | None = None, **options: object) -> str:
    """Runs a grid of runs by ``refreshlab sweep`` (docs/reference/sweeps.md); goes on where an earlier call of the same spec ended.

    :param spec: path of a JSON file
    :param out: SQLite file of the results
    :param pair: models that are open: what of them serves the spec is not read again, those that it does not name are these, and no process
        begins. Of the options it takes ``jobs``, ``shard``, ``against``, ``deterministic`` and the files ``markdown``, ``csv``, ``differences``,
        ``pareto``
    :param options: those of the command
    :return: the table that the command prints
    """
    if pair is None:
        return _run(["sweep", os.fspath(spec), "--out", os.fspath(out), *_words(options)])
    from . import _engine
    files = ("markdown", "csv", "differences", "pareto")
    _only("sweep", options, ("jobs", "shard", "against", "deterministic", *files))
    jobs = options.get("jobs", 0)
    if not isinstance(jobs, int):
        raise BadInput(f"rl.sweep: jobs is a whole number, not {jobs!r}")
    tables = _engine.sweep(pair._pair, os.fspath(spec), os.fspath(out), assets(), str(options.get("shard", "1/1")), jobs,
                           str(options.get("against") or ""), bool(options.get("deterministic")))
    for name in files:
        if options.get(name):
            Path(str(options[name])).write_text(tables[name], encoding="utf-8")
    return tables["markdown"]
