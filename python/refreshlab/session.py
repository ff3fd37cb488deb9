"""Pairs and sessions: the engine, live. Loads libtorch."""

from __future__ import annotations

import ctypes
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

import numpy as np
from numpy.typing import NDArray

from . import _installed, _records
from .errors import BadInput, Failure
from .policy import CachePolicy, _begin, _name_of
from .recording import Candidate, Path, Recording, Step, Token

if TYPE_CHECKING:
    import torch

    from ._command import Window


def _load_libtorch() -> None:
    """Where libtorch does not lie beside this package it is loaded first: the linker takes what is there already."""
    if _installed.finds_libtorch():
        return
    torch, cuda = _installed.libraries()
    for library in (cuda / "libcudart.so.13", torch / "libc10.so", torch / "libtorch_cpu.so", torch / "libc10_cuda.so"):
        if library.exists():
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


_load_libtorch()
try:
    from . import _engine
except ImportError as error:
    raise Failure(f"loading the engine: {error}; it needs torch 2.11: pip install 'torch==2.11.*'", "loading the engine", "", str(error),
                  "it needs torch 2.11: pip install 'torch==2.11.*'") from error

Setting = bool | int | float | str | Sequence[int] | None
Policy = str | Mapping[str, Any]
CacheChoice = Policy | CachePolicy | type[CachePolicy]
StepView = _engine.StepView
PolicyView = _engine.PolicyView


def _text(value: Setting) -> str:
    """A value as ``--set`` takes it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, str)):
        return repr(value) if isinstance(value, float) else str(value)
    return ",".join(str(item) for item in value)


@dataclass(frozen=True)
class OwnSignal:
    """A signal written in Python: see ``signal()`` and ``refresh_when()``."""
    function: Callable[[StepView], Any]
    """What is called at each step."""
    name: str
    """As recordings and policies have it."""
    label: str
    """As plots have it."""
    unit: str
    """May be empty."""
    description: str
    """The first line of the function's docstring."""
    about: str
    """``next_token``, ``token`` or ``session``."""
    range: tuple[float, float]
    """Usual range, for sliders; (0, 0): open."""
    needs_logits: bool
    """It reads ``StepView.logits``."""
    refreshes: bool
    """The run refreshes where its value is true."""
    layered: bool = False
    """It has a value for each layer."""

    def __call__(self, step: StepView) -> Any:
        return self.function(step)


_Function = Callable[[StepView], float | bool | None]
_LayerFunction = Callable[[StepView], Iterable[float | None] | NDArray[Any] | None]


def _own(function: _Function | _LayerFunction, name: str | None, unit: str, about: str, range_: tuple[float, float], needs_logits: bool,
         refreshes: bool, layered: bool = False) -> OwnSignal:
    if about not in ("next_token", "token", "session"):
        raise BadInput(f"about is next_token, token or session, not {about!r}")
    known = name or function.__name__
    first_line = (function.__doc__ or "").strip().split("\n")[0].strip()
    return OwnSignal(function, known, known.replace("_", " ").capitalize(), unit, first_line or f"{known}, written in Python.", about, range_,
                     needs_logits, refreshes, layered)


@overload
def signal(function: _Function, /) -> OwnSignal: ...
@overload
def signal(*, name: str | None = None, unit: str = "", about: str = "next_token", range: tuple[float, float] = (0, 0),
           needs_logits: bool = False, layered: Literal[False] = False) -> Callable[[_Function], OwnSignal]: ...
@overload
def signal(*, name: str | None = None, unit: str = "", about: str = "next_token", range: tuple[float, float] = (0, 0),
           needs_logits: bool = False, layered: Literal[True]) -> Callable[[_LayerFunction], OwnSignal]: ...
def signal(function: _Function | None = None, /, *, name: str | None = None, unit: str = "", about: str = "next_token",
           range: tuple[float, float] = (0, 0), needs_logits: bool = False,
           layered: bool = False) -> OwnSignal | Callable[[_Function], OwnSignal] | Callable[[_LayerFunction], OwnSignal]:
    """Makes a signal of a function: it is called at each step, behind the forward and before the boundary, and what it gives is recorded,
    plotted, exported and compared by triggers like a signal of the program. None: not measured at this step.

    The function is shown a ``StepView``, of use during the call alone. An exception leaves the step without a value, and is raised when the step
    has been made. What the function remembers is not taken back by ``rewind()``: read earlier steps from the view instead.

    :param name: lower-case letters, digits and ``_``; else the function's own
    :param about: ``next_token`` (the row), ``token`` (y_t) or ``session`` (the caches)
    :param range: usual range, for sliders; (0, 0): open
    :param needs_logits: the function reads ``StepView.logits``, which runs outside of mode overfill do not keep by themselves
    :param layered: the function gives a value for each layer (``StepView.num_layers``), None where a layer has none. Plots show the mean, or the
        layer that is chosen; triggers compare either
    """
    def make(function: Any) -> OwnSignal:
        return _own(function, name, unit, about, range, needs_logits, False, layered)
    return make if function is None else make(function)


@overload
def refresh_when(function: _Function, /) -> OwnSignal: ...
@overload
def refresh_when(*, name: str | None = None, needs_logits: bool = False) -> Callable[[_Function], OwnSignal]: ...
def refresh_when(function: _Function | None = None, /, *, name: str | None = None,
                 needs_logits: bool = False) -> OwnSignal | Callable[[_Function], OwnSignal]:
    """Makes a refresh policy of a function: the run refreshes at the boundary of a step where it gives a true value. The value is a signal (0 or
    1) with a trigger, so that the recording says where and why; budget, window and scope are those of the session's policy. See ``signal()``.
    """
    def make(function: _Function) -> OwnSignal:
        def decide(step: StepView) -> float | bool | None:
            value = function(step)
            return None if value is None else bool(value)
        decide.__name__, decide.__doc__ = function.__name__, function.__doc__
        return _own(decide, name, "", "session", (0, 1), needs_logits, True)
    return make if function is None else make(function)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a signal or a cache policy written in Python has taken of a session."""
    calls: int
    """How often it was called."""
    total_ms: float
    """Milliseconds of all calls, waits for the interpreter's lock included. They are part of the steps' time: a signal's of ``signals_ms``, a
    policy's of the forward and of the prefill."""

    @property
    def mean_ms(self) -> float:
        """Milliseconds of a call."""
        return self.total_ms / self.calls if self.calls else 0.0


@dataclass(frozen=True, slots=True)
class Cache:
    """A model's KV cache between two steps."""
    layers: int
    """Of the model."""
    kv_heads: int
    """Of a layer."""
    head_dim: int
    """Numbers in a key, and in a value, of one KV head."""
    length: int
    """Positions that were fed."""
    capacity: int
    """Positions that it can hold."""
    bytes_used: int
    """Of the entries that it holds."""
    bytes_reserved: int
    """Of its memory."""
    origins: list[str]
    """[length]: who wrote a position's entries: ``teacher_prefill``, ``teacher_refresh``, ``student``, ..."""


@dataclass(frozen=True, slots=True)
class Entries:
    """What one KV head of a layer holds. Copies."""
    positions: NDArray[np.int64]
    """[n], ascending."""
    keys: torch.Tensor
    """[n, head_dim], behind RoPE."""
    values: torch.Tensor
    """[n, head_dim]."""


#: Markers of refreshes that a signal of Python asked for; the program's own letters are capitals.
_letters = "abcdefghijklmnopqrstuvwxyz"


def _signals_for_engine(signals: Sequence[OwnSignal]) -> list[_engine.Signal]:
    if len(signals) > len(_letters):
        raise BadInput(f"{len(signals)} signals are too many")
    return [_engine.make_signal(own.function, own.name, own.label, own.unit, own.description, own.about, *own.range, letter, own.needs_logits, own.layered)
            for own, letter in zip(signals, _letters)]


def _policy_for_engine(own: CachePolicy | None) -> _engine.Policy | None:
    return None if own is None else _engine.make_policy(_name_of(own), _begin(own))


def _policy(policy: Policy, signals: Sequence[OwnSignal]) -> dict[str, Any]:
    """A policy as the engine's JSON. A trigger on a signal of Python says so, and what refreshes by itself gets a trigger."""
    if isinstance(policy, str):
        data: dict[str, Any] = json.loads(_records.named_policy(policy))
    else:
        data = json.loads(json.dumps(policy))
    names = {own.name for own in signals}
    when = data.get("when") or {"any": []}
    for triggers in when.values():
        for trigger in triggers if isinstance(triggers, list) else []:
            if isinstance(trigger, dict) and trigger.get("signal") in names:
                trigger["published"] = True
    for own in signals:
        if own.refreshes:
            when[next(iter(when))].append({"signal": own.name, "at_least": 1, "published": True})
            if data.get("name", "none") == "none":
                data["name"] = own.name
    data["when"] = when
    return dict(json.loads(_records.policy_from_json(json.dumps(data))))


def _made(cache: CacheChoice) -> Policy | CachePolicy:
    """A policy of Python as an object: a class stands for one with its defaults."""
    return cache() if isinstance(cache, type) else cache


def _cache_policy(cache: Policy | CachePolicy) -> dict[str, Any]:
    if isinstance(cache, CachePolicy):
        cache = {"policy": f"python:{_name_of(cache)}"}
    text = _records.named_cache_policy(cache) if isinstance(cache, str) else _records.cache_policy_from_json(json.dumps(dict(cache)))
    return dict(json.loads(text))


class Pair:
    """A loaded teacher and student, for any number of sessions, also in several threads. The sessions share the weights.
    """

    def __init__(self, pair: _engine.Pair) -> None:
        self._pair = pair
        self._facts = json.loads(pair.facts())

    @classmethod
    def open(cls, teacher: Path | None = None, student: Path | None = None, *, device: str = "auto", teacher_device: str = "",
             student_device: str = "", dtype: str = "f32", threads: int = 0, mode: str = "overfill") -> Pair:
        """Reads models. Without any, the bundled pair.

        :param teacher: a checkpoint folder or a .gguf file
        :param student: the same, or ``derive:SPEC`` (docs/howto/derived-students.md)
        :param device: ``auto``, ``cpu``, ``cuda``, ``cuda:1``; of both models
        :param dtype: ``f32``, ``bf16``, ``f16``, ``native`` (blocks of a GGUF file)
        :param threads: of the CPU; 0: all cores that the program may use. Results do not depend on it
        :param mode: ``overfill`` reads both models; ``teacher`` and ``student`` those that are given

        Raises BadInput for models that cannot be read or do not go together, KeyboardInterrupt at Ctrl-C.
        """
        bundled = _records.bundled_pair(_installed.assets())
        config = json.loads(_records.default_config())
        alone = teacher is None and student is None
        if mode == "overfill" or alone:
            teacher, student = teacher or bundled[0], student or bundled[1]
        config.update(teacher_dir=os.fspath(teacher or ""), student_dir=_records.settled_model(os.fspath(student or "")), device=device,
                      teacher_device=teacher_device, student_device=student_device, dtype=dtype, threads=threads, mode=mode)
        return cls(_engine.open_pair(json.dumps(config)))

    @property
    def note(self) -> str:
        """What a person must know of the pair (rebuild mode, ...); empty when all is ordinary."""
        return str(self._facts["note"])

    @property
    def teacher(self) -> dict[str, Any] | None:
        """Path, device, layers, heads, kv_heads, head_dim, vocab, context."""
        return self._model("teacher")

    @property
    def student(self) -> dict[str, Any] | None:
        """The same of the student."""
        return self._model("student")

    def _model(self, which: str) -> dict[str, Any] | None:
        facts: dict[str, Any] | None = self._facts.get(which)
        return facts

    def session(self, prompt: str, *, policy: Policy = "none", cache: CacheChoice = "full", teacher_cache: CacheChoice = "full",
                mode: str | None = None, max_tokens: int = 256, seed: int = 0, temperature: float = 0, given: str = "",
                raw_prompt: bool = False, settings: Mapping[str, Setting] | None = None, signals: Sequence[OwnSignal] = (),
                record: Path | None = None) -> Session:
        """Starts a run: reads the prompt and chooses the first token. It is the run of ``refreshlab run`` with the same settings, bit for bit.

        :param policy: when to refresh: a preset (``policy_presets``), a JSON file, or the policy as data (docs/reference/refresh-policies.md)
        :param cache: which entries the student's cache keeps: a cache policy, a JSON file, or as data (docs/reference/cache-policies.md); or a
            ``CachePolicy`` written in Python
        :param teacher_cache: the same of the teacher, which decodes in mode teacher
        :param mode: that of the pair, unless given
        :param max_tokens: N
        :param given: the continuation, where it is read instead of drawn
        :param raw_prompt: without the model's chat template
        :param settings: anything else that ``--set`` takes: ``{"entropy.threshold": 6, "on_fire": "redraw"}``
        :param signals: signals and policies written in Python
        :param record: a trace that is written while the run goes on

        Raises BadInput, Failure, KeyboardInterrupt at Ctrl-C.
        """
        config = json.loads(self._pair.config())
        cache, teacher_cache = _made(cache), _made(teacher_cache)
        config.update(prompt=prompt, given_text=given, raw_prompt=raw_prompt,
                      policy=_policy(policy, signals), student_cache=_cache_policy(cache), teacher_cache=_cache_policy(teacher_cache))
        if mode is not None:
            config["mode"] = mode
        wanted = {"max_tokens": max_tokens, "seed": seed, "sampler.temperature": temperature, **(settings or {})}
        text = _records.with_settings(json.dumps(config), [(key, _text(value)) for key, value in wanted.items()])
        text = _records.with_task(text, os.path.join(_installed.assets(), "prompts"))
        engine_signals = _signals_for_engine(signals)
        deciding = teacher_cache if config["mode"] == "teacher" else cache
        own = deciding if isinstance(deciding, CachePolicy) else None
        return Session(self, _engine.start(self._pair, text, engine_signals, _policy_for_engine(own), os.fspath(record or "")), tuple(signals), own)

    def branch(self, recording: Recording, after: int, *, max_tokens: int | None = None, signals: Sequence[OwnSignal] = (),
               cache: CachePolicy | type[CachePolicy] | None = None, record: Path | None = None) -> Session:
        """Makes a recorded run again up to step ``after`` (0: the prompt alone) and waits there as a branch of it, whose first own step is the
        next. The state is that of the step bit for bit where kernels round alike.

        :param max_tokens: N, unless it is the run's
        :param signals: those written in Python that the run had
        :param cache: the same: its cache policy, where that is written in Python

        Raises BadInput where another token comes out than was recorded.
        """
        own = cache() if isinstance(cache, type) else cache
        return Session(self, _engine.branch(self._pair, recording._record, after, max_tokens or 0, _signals_for_engine(signals),
                                            _policy_for_engine(own), os.fspath(record or "")), tuple(signals), own)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a pair is not pickled: it holds the weights of its models; open it in each process")

    def __repr__(self) -> str:
        return f"<pair {(self.teacher or {}).get('path')} | {(self.student or {}).get('path')}>"


class Server:
    """Where windows find a session: ``Session.serve()``."""

    def __init__(self, session: _engine.Session, address: str, token: str, drive: bool) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if not address:
            # The path of a socket has at most 107 bytes.
            self._folder = tempfile.TemporaryDirectory(prefix="refreshlab-", dir="/tmp" if len(tempfile.gettempdir()) > 60 else None)
            address = f"unix:{self._folder.name}/session"
        self._server = _engine.serve(session, address, token, drive)
        self.drives: bool = drive
        """A thread makes the steps, as the windows say."""
        self.open = True
        """False after ``close()``."""

    @property
    def address(self) -> str:
        """What ``gui --connect`` takes."""
        return self._server.address

    @property
    def viewers(self) -> int:
        """Windows and programs that are connected."""
        return self._server.viewers

    def close(self) -> None:
        """Ends the connections. Windows keep what has come, and the session goes on."""
        self._server.close()
        self.open = False
        _driven.difference_update([session for session in _driven if session._server is self])
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a server is not pickled: it holds a socket and threads; its address is text")


#: Sessions that a server drives: they live without a name in Python.
_driven: set[Session] = set()


class Session:
    """A run that goes on: an iterator of its steps. Made by ``Pair.session()``.

    - Any thread may use it: they take turns, a step at a time. The interpreter's lock is let go while a step runs.
    - Ctrl-C ends a call between two steps, and the run can go on.
    """

    def __init__(self, pair: Pair, session: _engine.Session, signals: tuple[OwnSignal, ...],
                 cache: CachePolicy | None) -> None:
        self._pair = pair
        self._session = session
        self._signals = signals
        self._own_cache = cache
        self._recording: Recording | None = None
        self._server: Server | None = None

    @property
    def recording(self) -> Recording:
        """What is known of the run. A rewind makes another one."""
        record = self._session.recording
        if self._recording is None or self._recording._record is not record:
            self._recording = Recording(record)
        return self._recording

    @property
    def finished(self) -> bool:
        """The run has ended, and makes no more steps."""
        return self._session.finished

    def __iter__(self) -> Iterator[Step]:
        return self

    def __next__(self) -> Step:
        step = self.step()
        if step is None:
            raise StopIteration
        return step

    def step(self) -> Step | None:
        """Makes one step; None where the run has ended."""
        number = self._session.step()
        return Step(self.recording, number) if number else None

    def run(self, steps: int | None = None) -> int:
        """Makes so many steps, or all that are left. Returns how many were made."""
        return self._session.run(2**62 if steps is None else steps)

    def _command(self, command: str, **fields: Any) -> None:
        self._session.command(json.dumps({"command": command, **fields}))

    def set(self, key: str, value: Setting) -> None:
        """Changes a setting from the next step on; recorded with it. BadInput where it is fixed during a run."""
        self._command("set_parameter", key=key, value=_text(value))

    def __getitem__(self, key: str) -> str:
        """A setting as it is now, as text: ``session["entropy.threshold"]``. KeyError where the run has no such thing."""
        value = _records.setting(self._session.config(), key)
        if value is None:
            raise KeyError(key)
        return value

    def set_policy(self, policy: Policy) -> None:
        """Changes the whole refresh policy from the next step on."""
        self._command("set_policy", policy=_policy(policy, self._signals))

    def refresh(self) -> None:
        """Refreshes at the boundary of the next step, whatever the policy says."""
        self._command("refresh_now")

    def give(self, text: str = "", ids: Sequence[int] = ()) -> None:
        """The next choices are these tokens instead of drawn ones, one a step."""
        self._command("give_tokens", text=text, ids=list(ids))

    def full_step(self) -> None:
        """At the next step every layer reads all that it holds, where the cache policy has such steps."""
        self._command("full_step_now")

    def read_attention(self, position: int, teacher: bool = False) -> None:
        """Computes the attention of the query at ``position`` over the columns as they are now; then ``recording.attention()`` has it."""
        self._command("request_attention", position=position, teacher=teacher)

    def rewind(self, step: int) -> None:
        """Back to the state after step ``step`` (0: the prompt alone), bit for bit; the run goes on as a branch with a recording of its own."""
        self._session.rewind(step)

    def branch(self, after: int, *, max_tokens: int | None = None, record: Path | None = None) -> Session:
        """Another session that begins with the steps of this one up to ``after``; this one stays as it is. The steps are made again: see
        ``Pair.branch()``."""
        return self._pair.branch(self.recording, after, max_tokens=max_tokens, signals=self._signals, cache=self._own_cache, record=record)

    def stop(self) -> None:
        """Ends the run here. What it recorded stays."""
        self._session.stop()

    @property
    def text(self) -> str:
        """The generated text so far."""
        return self.recording.text

    @property
    def candidates(self) -> list[Candidate]:
        """Of the newest step; empty before the first."""
        recording = self.recording
        return recording[len(recording)].candidates if len(recording) else []

    @property
    def pending(self) -> Token | None:
        """The token that is chosen and not read yet."""
        ids = self.recording.token_ids
        return self.recording.token(ids[-1]) if ids and not self.finished else None

    def cache(self, teacher: bool = False) -> Cache:
        """Shape, bytes and origins of a model's cache."""
        return Cache(**json.loads(self._session.cache(teacher)))

    def keys(self, layer: int, teacher: bool = False) -> torch.Tensor:
        """[kv_heads, length, head_dim]: keys of a layer behind RoPE, by position. A view of the cache, no copy: the next steps write into the
        memory behind it, and a refresh changes it. BadInput where a cache policy holds other positions in each KV head: ``entries()``."""
        tensor: torch.Tensor = self._session.keys_and_values(layer, teacher)[0]
        return tensor

    def values(self, layer: int, teacher: bool = False) -> torch.Tensor:
        """[kv_heads, length, head_dim], as ``keys()``."""
        tensor: torch.Tensor = self._session.keys_and_values(layer, teacher)[1]
        return tensor

    def entries(self, layer: int, kv_head: int, teacher: bool = False) -> Entries:
        """What one KV head holds, under any cache policy. Copies."""
        return Entries(*self._session.entries(layer, kv_head, teacher))

    def logits(self, step: int | None = None) -> torch.Tensor | None:
        """[vocab] fp32: the decoder's row of a step, of the newest without one. A view of a ring that keeps the newest 256 rows, good until the
        next step. None where the run keeps no rows (modes teacher and student) or not this one any more."""
        recording = self.recording
        number = len(recording) if step is None else step
        return self._session.logits(len(recording.prompt_ids) + number - 1) if number >= 1 else None

    @property
    def costs(self) -> dict[str, Cost]:
        """What each signal and the cache policy written in Python have taken. Of a policy the calls are those of its functions and the copies of its
        state."""
        return {name: Cost(calls, ms) for name, calls, ms in self._session.costs()}

    def serve(self, address: str = "", *, token: str = "", drive: bool = False) -> Server:
        """Lets windows (``refreshlab gui --connect ADDRESS``) and programs (docs/reference/protocol.md) see this session live and steer it. What they
        ask for acts between two steps, and is recorded as if Python had asked. Pause holds Python's next step back until somebody resumes, or
        nobody is connected any more.

        :param address: ``unix:PATH`` or ``HOST:PORT`` (port 0: a free one); else a socket in a folder of this user alone
        :param token: that a client must give; an address that other machines reach needs one
        :param drive: a thread makes the steps as the window says, paused at first: nothing in Python need do it. It keeps the session alive
            until ``close()``, of this or of the session

        A second call gives the same server. BadInput where the address cannot be listened on.
        """
        if self._server is not None and self._server.open:
            if (address and address != self._server.address) or drive != self._server.drives:
                raise BadInput(f"serving a session: it is served at {self._server.address} already, {'with' if self._server.drives else 'without'} "
                               "drive=True; close() that first")
            return self._server
        self._server = Server(self._session, address, token, drive)
        if drive:
            _driven.add(self)
        return self._server

    def open_window(self, *, drive: bool = False, **options: object) -> Window:
        """Opens the program's window on this session: it shows each step as it is made, and steers the run (``serve()``). When it is closed the
        session goes on; when Python ends, the window keeps what has come. Of a closed session, and with ``screenshot=FILE``, it is what is
        recorded now: ``Recording.open_window()``.

        :param drive: the window says when steps are made, as if the run were its own; else Python makes them
        :param options: those of ``refreshlab gui``: ``layout="Tune"``, ``theme="light"``
        """
        from ._command import Window
        if self._session.closed or "screenshot" in options:
            return self.recording.open_window(**options)
        return Window(["--connect", self.serve(drive=drive).address], options, [self])

    def flush(self) -> None:
        """Waits until all steps are in the trace. Failure where it could not be written; the run goes on."""
        self._session.flush()

    def close(self) -> None:
        """Ends the trace and gives up caches; the recording stays. As at the end of a ``with`` block."""
        _driven.discard(self)
        self._session.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session is not pickled: it holds models, caches and threads; recording.save() writes what it made, and "
                        "pair.branch() goes on from that")

    def __repr__(self) -> str:
        recording = self.recording
        return f"<session {recording.id}: {len(recording)} steps{', ended' if self.finished else ''}>"
