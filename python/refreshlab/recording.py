"""Runs as they were recorded: live ones and those of a trace are read in the same way. Needs no engine."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy as np
from numpy.typing import NDArray

from . import _installed, _records

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from ._command import Window

#: A float32 with these bits means "not measured at this step"; any other NaN was measured.
_absent_bits = np.uint32(0x7FC0AB5E)

Path = str | os.PathLike[str]
policy_presets: tuple[str, ...] = tuple(_records.policy_presets())
"""Names of the refresh policies that come with the program."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the text."""
    id: int
    """In the vocabulary."""
    text: str
    """Its bytes as UTF-8; bytes that are no character of their own stand as ``\\xhh``."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a step could have chosen."""
    token: Token
    """What would have been chosen."""
    prob: float
    """Under the decoder's row, before temperature and filters."""


@dataclass(frozen=True, slots=True)
class SignalInfo:
    """A signal of a run."""
    name: str
    """As in ``step["entropy_bits"]`` and in policies."""
    label: str
    """As plots have it."""
    unit: str
    """``bits``, ``nats``, ``ms``, ...; may be empty."""
    description: str
    """What it is, in one sentence."""
    layered: bool
    """It has a value for each layer; its number is their mean."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """A refresh at the boundary of a step: the teacher's entries took the place of the student's."""
    step: int
    """At whose boundary the entries were written."""
    fired_step: int
    """The boundary that decided it; ``step`` but for a lagged refresh."""
    reason: str
    """``"entropy"``, ``"manual"``, ``"manual+kl"``: what asked for it."""
    automatic: bool
    """By the policy, perhaps with a person's request at the same boundary."""
    delta: int
    """Positions that the student had written since the last refresh."""
    first_pos: int
    """First position that was written."""
    spliced: int
    """Positions that were written."""
    bytes_sent: int | None
    """Size of what was written in the student's cache; None where it was not counted."""
    pass_tokens: int
    """Tokens that the teacher read for it."""
    on_fire: str
    """What became of the pending token: ``keep``, ``teacher_token``, ``redraw``, ``verify``."""
    token_before: int
    """Id of the pending token before the refresh."""
    token_after: int
    """The same behind it: another one where ``on_fire`` chose again."""
    kl_nats: float
    """KL divergence at the last position of delta, nats; NaN where it is not known."""
    mean_drift: float
    """Relative distance of the replaced entries from the teacher's, the mean of keys and values, layers and positions; NaN where it was not measured."""
    teacher_ms: float
    """Milliseconds of the teacher's pass."""
    splice_ms: float
    """Milliseconds of measuring drift and writing the entries."""
    redraw_ms: float
    """Milliseconds of choosing the pending token again."""


@dataclass(frozen=True, slots=True)
class Drift:
    """How far the entries that a refresh replaced were from the teacher's."""
    step: int
    """Of the refresh."""
    refresh: int
    """Number of the refresh, from 0."""
    first_pos: int
    """Position of the first column."""
    keys: NDArray[np.float32]
    """[layers, positions], relative distance; a view of the recording."""
    values: NDArray[np.float32]
    """The same of the values."""


class Step:
    """One step of a run: the token y_t was fed, its row of logits gave the signals and the choice of y_{t+1}, and the boundary may have had a
    refresh. A view: values that a later teacher pass fills in appear here."""

    __slots__ = ("_numbers", "recording", "step")

    def __init__(self, recording: Recording, step: int) -> None:
        self._numbers = recording._record.step_numbers(step)
        self.recording = recording
        """The run that it belongs to."""
        self.step = step
        """t, from 1."""

    @property
    def position(self) -> int:
        """Absolute position of y_t, prompt included, from 0."""
        return self._numbers[0]

    @property
    def token(self) -> Token:
        """The token that was fed, y_t."""
        return self.recording.token(self._numbers[1])

    @property
    def next_token(self) -> Token | None:
        """The token that the step chose, y_{t+1}; None in the last step of a run."""
        return self.recording.token(self._numbers[2]) if self._numbers[2] >= 0 else None

    @property
    def producer(self) -> str:
        """Whose row y_t was drawn from: ``"teacher"`` or ``"student"``."""
        return "teacher" if self._numbers[3] else "student"

    @property
    def fed(self) -> bool:
        """False in the last step of a finished run, which has no row."""
        return self._numbers[5]

    @property
    def arrival_ms(self) -> float:
        """When y_{t+1} was known, milliseconds since the run was submitted."""
        return self._numbers[6]

    def __getitem__(self, signal: str) -> float:
        """A signal by its name; NaN where this step did not measure it. KeyError for a signal that the run does not have."""
        try:
            value = self.recording._record.signal(self.step, signal)
        except ValueError as unknown:
            raise KeyError(str(unknown)) from None
        return float("nan") if value is None else value

    def get(self, signal: str) -> float | None:
        """The same, None where this step did not measure it."""
        return self.recording._record.signal(self.step, signal)

    @property
    def signals(self) -> dict[str, float]:
        """All signals that have a value here."""
        values = {info.name: self.get(info.name) for info in self.recording.signals}
        return {name: value for name, value in values.items() if value is not None}

    def layers(self, signal: str) -> NDArray[np.float32] | None:
        """[layers] of a layered signal, a view of the recording; None where the step did not measure it."""
        return self.recording._record.layer_values(self.step, signal)

    @property
    def candidates(self) -> list[Candidate]:
        """What the step could have chosen, most likely first; as many as ``capture.top_k`` says."""
        return [Candidate(self.recording.token(id_), prob) for id_, prob in self.recording._record.candidates(self.step)]

    @property
    def refresh(self) -> Refresh | None:
        """The refresh at this step's boundary."""
        index = self.recording._record.refresh_index(self.step)
        return None if index is None else self.recording.refreshes[index]

    def __repr__(self) -> str:
        return f"<step {self.step}: {self.token.text!r}>"


class Attention:
    """Attention of one query, of the layers that were captured. Long rows are kept as sums over neighbouring keys (bins), each head's strongest
    keys apart."""

    def __init__(self, rows: _records.AttentionRows) -> None:
        self._rows = rows
        self.position = rows.position
        """Of the query."""
        self.teacher = rows.teacher
        """Whose attention."""
        self.layers: NDArray[np.int32] = rows.layers
        """[n]: which layers are here."""
        self.edges: NDArray[np.int32] = rows.edges
        """Number i of a row is of keys [edges[i], edges[i + 1]); empty: every key has its own."""
        self.exact_keys: NDArray[np.int32] = rows.exact_keys
        """[n, heads, exact]: keys that are told apart from their bins."""
        self.weights: NDArray[np.float16] = rows.weights
        """[n, heads, numbers + exact]: sums of the bins, then the weights of ``exact_keys``. A view of the recording, no copy;
        ``torch.from_dlpack()`` makes a tensor over it."""

    def whole(self) -> NDArray[np.float32]:
        """[n, heads, keys]: every key's weight, of a bin the mean. A copy."""
        return self._rows.whole()


class Recording:
    """What is known of one run: append-only, so a view of a live one grows. Any thread may read it.
    """

    def __init__(self, record: _records.Recording, name: str = "") -> None:
        self._record = record
        self._texts: dict[int, Token] = {}
        self.name = name
        """By a person, in the window; may be empty."""

    @property
    def id(self) -> str:
        """16 hexadecimal digits, unique."""
        return self._record.id

    @property
    def parent_id(self) -> str:
        """Of a branch: the run that it left after step ``fork_step``. Empty else."""
        return self._record.parent_id

    @property
    def fork_step(self) -> int:
        """Of a branch: the last step that it has from its parent. 0 else."""
        return self._record.fork_step

    @property
    def info(self) -> dict[str, Any]:
        """Configuration (``config``), prompt as it was read, device, versions, shape of the models."""
        return dict(json.loads(self._record.info()))

    @property
    def prompt_ids(self) -> list[int]:
        """The prompt as the models read it, template included."""
        return self._record.prompt_ids

    @property
    def token_ids(self) -> list[int]:
        """y_1, y_2, ...: all tokens chosen so far, the pending one included."""
        return self._record.token_ids

    @property
    def text(self) -> str:
        """The generated text, without special tokens."""
        return self._record.text

    @property
    def stop_reason(self) -> str | None:
        """``max_tokens``, ``stop_token``, ``cancelled``, ...; None while the run goes on."""
        return self._record.stop_reason

    @property
    def signals(self) -> list[SignalInfo]:
        """The signals that the run has: the program's, those of its components, and those written in Python."""
        return [SignalInfo(*row) for row in self._record.signals()]

    def token(self, id: int) -> Token:
        """A token of the vocabulary by its id; its text is empty where the trace does not know it."""
        known = self._texts.get(id)
        if known is None:
            known = self._texts[id] = Token(id, self._record.token_bytes(id).decode("utf-8", "backslashreplace"))
        return known

    def __len__(self) -> int:
        """Steps so far."""
        return self._record.steps

    @overload
    def __getitem__(self, step: int) -> Step: ...
    @overload
    def __getitem__(self, step: str) -> NDArray[np.float32]: ...
    def __getitem__(self, step: int | str) -> Step | NDArray[np.float32]:
        """``recording[40]`` is step 40 (from 1), ``recording["entropy_bits"]`` that signal of all steps, [steps], NaN where it was not
        measured."""
        if isinstance(step, str):
            try:
                return self._record.column(step)
            except ValueError as unknown:
                raise KeyError(str(unknown)) from None
        if not 1 <= step <= len(self):
            raise IndexError(f"step {step}: the run has steps 1 to {len(self)}")
        return Step(self, step)

    def __iter__(self) -> Iterator[Step]:
        step = 1
        while step <= len(self):
            yield Step(self, step)
            step += 1

    @property
    def refreshes(self) -> list[Refresh]:
        """In the order in which they happened."""
        table = self._record.table("refreshes")
        return [Refresh(*(value.item() if isinstance(value, np.generic) else value for value in row)) for row in zip(*table.values())]

    @property
    def drifts(self) -> list[Drift]:
        """Of each refresh that measured it, position by position."""
        return [Drift(*row) for row in self._record.drifts()]

    def attention(self, position: int, teacher: bool = False) -> Attention | None:
        """The row of the query at ``position``; None where it was not kept."""
        rows = self._record.attention(position, teacher)
        return None if rows is None else Attention(rows)

    def scores(self, layer: int, kv_head: int) -> NDArray[np.float32]:
        """[positions]: what the cache policy last gave each entry of a KV head when it chose: larger ones stay, or are read, rather. NaN where it
        gave none. Known while the run is in memory; no trace has it. A policy that chooses at every step tells them from the first call on."""
        return self._record.scores(layer, kv_head)

    @property
    def summary(self) -> dict[str, Any]:
        """The numbers of the run, as ``refreshlab run --summary`` writes them (docs/reference/summary.md)."""
        return dict(json.loads(self._record.summary()))

    @staticmethod
    def tables() -> list[str]:
        """What ``columns()``, ``to_pandas()``, ``to_polars()`` and ``to_arrow()`` take."""
        return _records.table_names()

    def columns(self, table: str = "steps") -> dict[str, Any]:
        """A table by columns: arrays of NumPy, and lists where a cell is a text, a truth value or may be missing. What was not measured is NaN."""
        return dict(self._record.table(table))

    def to_pandas(self, table: str = "steps") -> pandas.DataFrame:
        """A table as a data frame. NaN stands for what was not measured, and for a measured NaN: ``to_arrow()`` keeps the two apart."""
        import pandas
        return pandas.DataFrame(self.columns(table))

    def to_arrow(self, table: str = "steps") -> pyarrow.Table:
        """A table of Arrow: null is what was not measured."""
        import pyarrow
        columns = {}
        for name, values in self.columns(table).items():
            absent = values.view(np.uint32) == _absent_bits if isinstance(values, np.ndarray) and values.dtype == np.float32 else None
            columns[name] = pyarrow.array(values, mask=absent)
        return pyarrow.table(columns)

    def to_polars(self, table: str = "steps") -> polars.DataFrame:
        """A table as a data frame of polars: null is what was not measured."""
        import polars
        return polars.DataFrame(self.to_arrow(table))

    def save(self, path: Path) -> None:
        """Writes the run as a trace, which the window opens. What stood there is replaced when the new one is whole."""
        self._record.save(os.fspath(path))

    def open_window(self, **options: object) -> Window:
        """Opens the run in the program's window, as ``refreshlab gui TRACE``: a copy of what is recorded now. The window looks through it and
        branches from it with an engine of its own; what goes on here does not appear there.

        :param options: those of the command: ``layout="Tune"``, ``theme="light"``
        """
        from ._command import window_of
        return window_of(self, options)

    def export_csv(self, folder: Path) -> None:
        """Writes the tables of ``refreshlab export``."""
        self._record.export_csv(os.fspath(folder))

    def difference(self, other: Recording, tolerance: float = 0) -> str | None:
        """The first difference of two runs in what a replay must have equal, in one line; None: they are the same, bit for bit where the
        tolerance is 0. Times, ids and machines are not compared."""
        return self._record.difference(other._record, tolerance)

    def __repr__(self) -> str:
        return f"<run {self.name or self.id}: {len(self)} steps, {len(self.refreshes)} refreshes>"

    def __str__(self) -> str:
        return self._record.summary_table()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a recording is not pickled: save() writes it as a trace, and read_trace() reads that")


class Landscape:
    """What every possible refresh is worth on a text: row j is the last refresh, column i is step i (docs/howto/landscape.md)."""

    def __init__(self, landscape: _records.Landscape) -> None:
        self._landscape = landscape
        self.values: list[str] = landscape.values
        """What each cell holds: names of signals, ``logprob`` first."""
        self.tokens: list[int] = landscape.tokens
        """y_1, y_2, ...: the text that it is of."""
        self.prompt_ids: list[int] = landscape.prompt_ids
        """The prompt before it."""
        self.rows: list[int] = landscape.rows
        """Boundaries that have been computed, ascending."""
        self.complete: bool = landscape.complete
        """All rows that were asked for are there."""

    @property
    def teacher_logprob(self) -> NDArray[np.float32]:
        """[tokens], nats: ln p of y_1, y_2, ... under the teacher. A view."""
        return self._landscape.teacher_logprob

    def __getitem__(self, value: str) -> NDArray[np.float32]:
        """[len(rows), steps]: a value's cells, column i of step i + 1; NaN where the row's refresh comes later."""
        return self._landscape.cells(value)


@dataclass(frozen=True)
class Trace:
    """What a trace file holds."""
    path: str
    """Of the file."""
    runs: Sequence[Recording]
    """The newest last."""
    landscapes: Mapping[str, Landscape]
    """By the id of the run whose text they are of."""

    def __getitem__(self, run: int | str) -> Recording:
        """By number, or by id or name."""
        if isinstance(run, int):
            return self.runs[run]
        for recording in self.runs:
            if run in (recording.id, recording.name):
                return recording
        raise KeyError(run)

    def __len__(self) -> int:
        return len(self.runs)


def read_trace(path: Path) -> Trace:
    """Reads a trace: runs, steps, events, caches, landscapes. A trace that is being written is read up to now; one that is
    just being begun is in use for a moment (``Session.flush()`` waits until it is whole up to the newest step)."""
    file = os.fspath(path)
    return Trace(file, [Recording(record, name) for record, name in _records.read_runs(file)],
                 {run: Landscape(landscape) for run, landscape in _records.read_landscapes(file)})


def published_models() -> dict[str, str | None]:
    """Published models that the program can fetch: name -> the path of the file, None where ``refreshlab models get NAME`` has not fetched it yet."""
    return {name: path or None for name, path in _records.published_models(os.path.realpath(_installed.assets()))}


def settings() -> dict[str, str]:
    """Every setting that a run has (``--set`` of the program): key -> what it means, its unit, and whether it may change while a run goes on."""
    return {key: f"{help_}{f' Unit: {unit}.' if unit else ''}{'' if live else ' Fixed during a run.'}"
            for key, unit, help_, live in _records.parameters()}
