"""A run that is watched in a notebook: ``refreshlab.live(session)``. The plots are Plotly's, the widgets those of Jupyter."""

from __future__ import annotations

import html
import json
import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _installed
from .errors import BadInput, Error, Failure

if TYPE_CHECKING:
    from .recording import Recording, Step
    from .session import Session

_comparisons = ("above", "below", "at_least", "at_most")
#: Settings that are named otherwise than the signal of their trigger.
_prefixes = {"entropy_bits": "entropy", "kl_nats": "kl", "mc_variance": "mc", "mc_mutual_information_bits": "mi", "top1_surprisal_bits": "surprisal"}
_block_tokens, _most_blocks = 100, 40  # of the coloured text: what is sent at once, and what a browser lays out without a wait
_tail_steps, _columns = 400, 800  # of a curve: what is sent at each drawing, and what a plot's width can show of the rest


@dataclass(frozen=True)
class _Threshold:
    """A trigger of the session's policy that can be moved."""
    trigger: int
    signal: str
    value: float


def _thresholds(config: dict[str, Any]) -> list[_Threshold]:
    triggers = next(iter(config["policy"].get("when", {"any": []}).values()))
    return [_Threshold(number, trigger["signal"], float(trigger[kind])) for number, trigger in enumerate(triggers)
            for kind in _comparisons if kind in trigger]


def set_threshold(session: Session, trigger: int, value: float) -> None:
    """Moves a trigger's threshold: by its setting where it has one, else by a changed policy."""
    policy = json.loads(session._session.config())["policy"]
    of = next(iter(policy["when"].values()))[trigger]
    key = f"{_prefixes.get(of['signal'], of['signal'])}.threshold"
    try:
        session[key]
    except KeyError:
        kind = next(kind for kind in _comparisons if kind in of)
        of[kind] = value
        session.set_policy(policy)
        return
    session.set(key, value)


def _rgba(colour: str, alpha: float) -> str:
    red, green, blue = (int(colour[i:i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha:.2f})"


def coloured_text(recording: Recording, signal: str, top: float, colour: str, first: int, last: int) -> str:
    """Generated tokens ``first`` to ``last`` (from 0, without the last) as HTML: each on the signal of the step that chose it, a bar before one that
    was chosen behind a refresh."""
    steps = len(recording)
    values = recording[signal] if steps else np.empty(0, np.float32)
    refreshed = {refresh.step: refresh.reason for refresh in recording.refreshes}
    ids = recording.token_ids
    parts = []
    for at in range(first, min(last, len(ids))):  # y_{at + 1}, chosen by step at; the first by the prefill
        value = float(values[at - 1]) if 0 < at <= steps else float("nan")
        share = 0.0 if np.isnan(value) or top <= 0 else min(1.0, max(0.0, value / top))
        reason = refreshed.get(at)
        title = "" if np.isnan(value) else f"step {at}: {signal} {value:.3g}"
        title += f"; refresh: {reason}" if reason else ""
        bar = f"border-left:3px solid {colour};" if reason else ""
        text = html.escape(recording.token(ids[at]).text).replace("\n", "⏎\n")
        parts.append(f'<span title="{html.escape(title)}" style="background:{_rgba(colour, 0.75 * share)};{bar}">{text}</span>')
    return "".join(parts)


def at_most(values: NDArray[np.float32]) -> float:
    """A number a little above all of them, which rarely changes while they come: eight to each power of two."""
    finite = values[np.isfinite(values)]
    top = float(finite.max()) if finite.size else 0.0
    if top <= 0:
        return 1.0
    unit = 2.0 ** (math.floor(math.log2(top)) - 3)
    return math.ceil(top / unit) * unit


def thinned(values: NDArray[np.float32]) -> NDArray[np.intp]:
    """Indices that draw the same curve ``_columns`` pixels wide: the smallest and the largest of each column."""
    if len(values) <= 2 * _columns:
        return np.arange(len(values))
    picked = [0, len(values) - 1]
    for column in np.array_split(np.arange(len(values)), _columns):
        known = column[~np.isnan(values[column])]
        if known.size:
            picked += [known[values[known].argmin()], known[values[known].argmax()]]
    return np.unique(np.array(picked, np.intp))


class _Prose:
    """The coloured text in blocks: those that have changed are sent."""

    def __init__(self, ipywidgets: Any) -> None:
        # One running text of many widgets, which are boxes by themselves; what is newest stays in sight.
        self._style = ipywidgets.HTML("<style>.refreshlab-prose, .refreshlab-prose div {display: inline; margin: 0; padding: 0; white-space: pre-wrap; "
                                      "line-height: 1.5} .refreshlab-prose {display: block}</style>")
        self._text = ipywidgets.Box([self._style], layout={"flex": "0 0 auto"})
        self._text.add_class("refreshlab-prose")
        self.box = ipywidgets.Box([self._text], layout={"flex_flow": "column-reverse", "max_height": "22em", "overflow": "hidden auto"})
        self._make = ipywidgets.HTML
        self._blocks: dict[int, Any] = {}
        self._drawn: tuple[object, float] | None = None
        self._next = 0

    def draw(self, recording: Recording, signal: str, top: float, colour: str) -> None:
        count = -(-len(recording.token_ids) // _block_tokens)
        first = max(0, count - _most_blocks)
        if self._drawn != (recording, top):
            self._drawn, self._next = (recording, top), 0
        for block in range(max(first, self._next - 1), count):  # the last one may have grown, or have a refresh by now
            if block not in self._blocks:
                self._blocks[block] = self._make()
            self._blocks[block].value = coloured_text(recording, signal, top, colour, block * _block_tokens, (block + 1) * _block_tokens)
        self._next = count
        children = (self._style, *(self._blocks[block] for block in range(first, count)))
        if children != self._text.children:
            self._text.children = children
        for block in [block for block in self._blocks if not first <= block < count]:
            self._blocks.pop(block).close()


def _colours() -> dict[str, str]:
    """The window's, of its light theme."""
    theme = json.loads((Path(_installed.assets()) / "themes" / "light.json").read_text(encoding="utf-8"))
    return {**theme["signals"], "": theme["own"]["text_muted"], "refresh": theme["own"]["origin_refresh"]}


class LiveView:
    """A session that runs in a thread of its own, and what it records, drawn while it goes on: signals, refreshes, the text coloured by a signal.
    A notebook shows it by itself.

    Thresholds of the policy are lines that can be dragged (or numbers that can be typed); the buttons pause, make one step and refresh. All of it
    is recorded like commands from Python, which may be given meanwhile.
    """

    def __init__(self, session: Session, signals: Sequence[str], text: str, pace: float | None, paused: bool) -> None:
        try:
            import ipywidgets
            import plotly.graph_objects
            import plotly.subplots
            figure = plotly.graph_objects.FigureWidget
            figure()  # it says so here where anywidget is missing
        except ImportError as error:
            raise Failure(f"watching a run in a notebook: {error}; pip install 'refreshlab[jupyter]'", "watching a run in a notebook", "",
                          str(error), "pip install 'refreshlab[jupyter]'") from error
        known = {info.name: info for info in session.recording.signals}
        for name in [*signals, text]:
            if name not in known:
                raise BadInput(f"watching a run: there is no signal {name!r}; this run has {', '.join(known)}")
        if pace is not None and not pace > 0:
            raise BadInput(f"watching a run: pace is steps per second, more than 0, or None, not {pace!r}")
        self.session = session
        """The session that it shows."""
        self.error: BaseException | None = None
        """What ended the run, if anything did; ``wait()`` raises it."""
        self._signals, self._text, self._pace = list(signals), text, pace
        self._colours = _colours()
        self._drawing = threading.Lock()  # the figure and the text; held while they are made
        self._shown: tuple[object, int, int, bool] | None = None
        self._head: tuple[object, int, dict[str, float]] | None = None  # recording, steps and tops of the curves' first parts
        self._go, self._end, self._one = threading.Event(), threading.Event(), threading.Event()

        self.figure = figure(plotly.subplots.make_subplots(rows=len(signals), cols=1, shared_xaxes=True, vertical_spacing=0.04))
        """The plots, a ``plotly.graph_objects.FigureWidget``."""
        for row, name in enumerate(signals, 1):
            unit = f", {known[name].unit}" if known[name].unit else ""
            colour = self._colours.get(name, self._colours[""])
            for _ in ("all but the newest steps", "these"):
                self.figure.add_scatter(row=row, col=1, mode="lines", name=known[name].label, line={"color": colour, "width": 1.5})
                self.figure.add_scatter(row=row, col=1, mode="lines", name="refreshes", hoverinfo="skip",
                                        line={"color": self._colours["refresh"], "width": 1, "dash": "dot"})
            self.figure.update_yaxes(title_text=known[name].label + unit, rangemode="tozero", row=row, col=1)
        self.figure.update_xaxes(title_text="step", row=len(signals), col=1)
        self.figure.update_layout(height=90 + 170 * len(signals), autosize=True, margin={"l": 60, "r": 10, "t": 10, "b": 40}, showlegend=False,
                                  template="plotly_white", uirevision="run")
        self.figure._config = {**self.figure._config, "edits": {"shapePosition": True}, "displaylogo": False, "responsive": True}  # lines can be dragged; Plotly has no other name for it
        self._drawn_thresholds: list[_Threshold] = []
        self._numbers: list[Any] = []

        self._play = ipywidgets.ToggleButton(value=not paused, description="Run", icon="play", tooltip="Runs, or pauses between two steps")
        self._step = ipywidgets.Button(description="Step", icon="step-forward", tooltip="One step")
        self._refresh = ipywidgets.Button(description="Refresh", icon="refresh", tooltip="Refreshes at the next boundary")
        self._status = ipywidgets.Label()
        self._prose = _Prose(ipywidgets)
        self._boxes = ipywidgets.HBox([])
        self.widget = ipywidgets.VBox([ipywidgets.HBox([self._play, self._step, self._refresh, self._status]), self._boxes, self.figure,
                                       self._prose.box])
        """All of it, a widget of Jupyter."""
        self._make_number = ipywidgets.FloatText
        self._make_thresholds()
        self._play.observe(lambda change: self.resume() if change["new"] else self.pause(), "value")
        self._step.on_click(lambda _: self._make_one_step())
        self._refresh.on_click(lambda _: self._asked(self.session.refresh))
        self.figure.layout.on_change(lambda _, shapes: self._dragged(shapes), "shapes")
        self.draw()
        if not paused:
            self._go.set()
        self._thread = threading.Thread(target=self._work, name="refreshlab live", daemon=True)
        self._thread.start()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.widget._repr_mimebundle_(**options)

    @property
    def running(self) -> bool:
        """Steps are being made, or would be if it were not paused."""
        return self._thread.is_alive()

    def pause(self) -> None:
        """No further step begins."""
        self._go.clear()
        self._play.value = False

    def resume(self) -> None:
        """Goes on."""
        self._play.value = True
        self._go.set()

    def wait(self, timeout: float | None = None) -> None:
        """Returns when the run has ended, or after so many seconds. Raises what ended it, if anything did."""
        self._thread.join(timeout)
        if self.error is not None and not self._thread.is_alive():
            raise self.error

    def close(self) -> None:
        """Ends the watching; the session stays as it is, and what was drawn as well."""
        self._end.set()
        self._go.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
            self._go.clear()
            self.draw()

    def set_threshold(self, trigger: int, value: float) -> None:
        """Moves a threshold of the policy, as a drag of its line does."""
        self._asked(lambda: set_threshold(self.session, trigger, value))
        self._show_thresholds()

    def draw(self) -> None:
        """Draws what has been recorded since the last time. The view does so by itself while it runs."""
        with self._drawing:
            recording = self.session.recording
            steps, refreshes = len(recording), recording.refreshes
            whole = self.session.finished or not self._go.is_set()
            shown = (recording, steps, len(refreshes), whole)
            if shown == self._shown:
                return
            self._shown = shown
            values = {name: recording[name] if steps else np.empty(0, np.float32) for name in {*self._signals, self._text}}
            tops = {name: at_most(column) for name, column in values.items()}
            self._draw_curves(recording, values, tops, [refresh.step for refresh in refreshes], whole)
            self._prose.draw(recording, self._text, tops[self._text], self._colours.get(self._text, self._colours[""]))
            self._say(f"step {steps}, {len(refreshes)} refreshes{', ended' if self.session.finished else ''}")

    def _draw_curves(self, recording: Recording, values: dict[str, NDArray[np.float32]], tops: dict[str, float], refreshes: list[int],
                     whole: bool) -> None:
        """While the run goes on the newest steps are sent at each drawing, and the others now and then, as many as the plot is wide. Once it stands
        all are sent."""
        steps = len(recording)
        known = self._head
        anew = whole or known is None or known[0] is not recording or known[2] != tops or steps - known[1] > _tail_steps
        head = steps if anew or known is None else known[1]
        self._head = (recording, head, tops) if not whole else None
        at = np.array(refreshes, np.int32)
        with self.figure.batch_update():
            for row, name in enumerate(self._signals):
                curve, marks, tail, tail_marks = self.figure.data[4 * row:4 * row + 4]
                if anew:
                    picked = np.arange(steps) if whole else thinned(values[name])
                    curve.x, curve.y = (picked + 1).astype(np.int32), values[name][picked]
                    lines = at if whole else at[np.unique(at * _columns // max(steps, 1), return_index=True)[1]]
                    marks.x, marks.y = self._lines(lines, tops[name])
                first = max(0, head - 1)  # so that the two parts meet
                tail.x, tail.y = np.arange(first + 1, steps + 1, dtype=np.int32), values[name][first:]
                tail_marks.x, tail_marks.y = self._lines(at[at > head], tops[name])

    @staticmethod
    def _lines(at: NDArray[np.int32], top: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """A line at each step, from 0 to the top."""
        gap = np.full(len(at), np.nan, np.float32)
        return (np.column_stack([at.astype(np.float32), at, gap]).ravel().astype(np.float32),
                np.column_stack([np.zeros(len(at), np.float32), np.full(len(at), top, np.float32), gap]).ravel())

    def _say(self, text: str) -> None:
        self._status.value = text

    def _asked(self, work: Any) -> None:
        """What a person asked for by a widget; a refusal is said beside it."""
        try:
            work()
        except Error as error:
            self._say(str(error))

    def _make_one_step(self) -> None:
        self.pause()
        self._one.set()
        self._go.set()

    def _work(self) -> None:
        due = time.monotonic()
        try:
            while not self._end.is_set():
                self._go.wait()
                if self._end.is_set():
                    break
                if self._one.is_set():
                    self._one.clear()
                    if not self._play.value:
                        self._go.clear()
                    due = 0.0
                made = self.session._session.try_step()
                if made == 0:
                    break
                if made is None:  # a window holds the session
                    self.draw()
                    continue
                now = time.monotonic()
                if now >= due or not self._go.is_set():
                    self.draw()
                    due = time.monotonic() + 0.12
                if self._pace is not None:
                    self._end.wait(max(0.0, 1 / self._pace - (time.monotonic() - now)))
            self.draw()
        except BaseException as error:  # noqa: BLE001: it is raised in wait()
            self.error = error
            self._say(f"{type(error).__name__}: {error}")
        finally:
            self._play.disabled = self._step.disabled = self._refresh.disabled = True

    def _make_thresholds(self) -> None:
        """A line in the plot of each trigger's signal, and a number for it."""
        self._drawn_thresholds = _thresholds(json.loads(self.session._session.config()))
        for threshold in self._drawn_thresholds:
            number = self._make_number(value=threshold.value, description=threshold.signal, tooltip="Threshold of this trigger",
                                       style={"description_width": "initial"})
            number.observe(lambda change, at=threshold.trigger: self._typed(at, change["new"]), "value")
            self._numbers.append(number)
        self._boxes.children = self._numbers
        self.figure.layout.shapes = self._shapes()

    def _plotted(self) -> list[_Threshold]:
        return [threshold for threshold in self._drawn_thresholds if threshold.signal in self._signals]

    def _shapes(self) -> list[dict[str, Any]]:
        shapes = []
        for threshold in self._plotted():
            row = self._signals.index(threshold.signal) + 1
            shapes.append({"type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y" if row == 1 else f"y{row}", "y0": threshold.value,
                           "y1": threshold.value,
                           "line": {"width": 2, "color": self._colours.get(threshold.signal, self._colours[""]), "dash": "dash"}})
        return shapes

    def _show_thresholds(self) -> None:
        """As the session has them now."""
        now = _thresholds(json.loads(self.session._session.config()))
        if now != self._drawn_thresholds and len(now) == len(self._numbers):
            self._drawn_thresholds = now
            for number, threshold in zip(self._numbers, now):
                number.value = threshold.value
        shapes = self._shapes()
        drawn = [(shape.y0, shape.y1, shape.x0, shape.x1) for shape in self.figure.layout.shapes]
        if drawn != [(shape["y0"], shape["y1"], 0, 1) for shape in shapes]:
            self.figure.layout.shapes = shapes

    def _typed(self, trigger: int, value: float) -> None:
        if any(t.trigger == trigger and t.value != value for t in self._drawn_thresholds):
            self.set_threshold(trigger, value)

    def _dragged(self, shapes: Sequence[Any]) -> None:
        """A line was dragged as a whole or at one end: it is level again where it was let go."""
        for shape, threshold in zip(shapes, self._plotted()):
            ends = [float(end) for end in (shape.y0, shape.y1) if end is not None and float(end) != threshold.value]
            if ends:
                self.set_threshold(threshold.trigger, float(f"{ends[0]:.4g}"))  # a pixel tells no more
                return
        self._show_thresholds()


def live(session: Session, *, signals: Sequence[str] = ("entropy_bits",), text: str = "entropy_bits", pace: float | None = 20,
         paused: bool = False) -> LiveView:
    """Runs a session in a thread of its own and shows it in the notebook while it goes on. Needs ``pip install 'refreshlab[jupyter]'``.

    :param signals: a plot for each, one above the other
    :param text: the signal that colours the text
    :param pace: steps per second at most; None: as fast as they come
    :param paused: waits until somebody presses Run

    Raises BadInput for a signal that the run does not have, Failure where the widgets are not installed.
    """
    return LiveView(session, signals, text, pace, paused)
