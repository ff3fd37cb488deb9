"""The live view of a notebook draws what is recorded, and what a person does in it reaches the session. Browsers are not part of it: what they
send is put where they put it."""

from __future__ import annotations

import re
import threading

import numpy as np
import pytest

import refreshlab as rl
from refreshlab._live import coloured_text

from conftest import PROMPT

POLICY = {"name": "mixed", "when": {"any": [{"signal": "entropy_bits", "above": 3.0}, {"signal": "steps_since_refresh", "at_least": 9}]}}


def dragged(view: rl.LiveView, shape: int, **ends: float) -> None:
    """The message of a browser whose person has dragged a line."""
    view.figure._js2py_relayout = {"relayout_data": {f"shapes[{shape}].{end}": value for end, value in ends.items()}, "source_view_id": "a"}


def test_a_run_is_drawn_to_its_end_and_is_the_run_without_the_view(pair):
    with pair.session(PROMPT, policy=POLICY, max_tokens=40) as watched, pair.session(PROMPT, policy=POLICY, max_tokens=40) as plain:
        view = rl.live(watched, signals=["entropy_bits", "kl_nats"], pace=None)
        view.wait(60)
        plain.run()
        assert not view.running and watched.recording.difference(plain.recording) is None
        curve, marks = view.figure.data[:2]
        assert np.array_equal(np.float32(curve.y), watched.recording["entropy_bits"], equal_nan=True) and list(curve.x) == list(range(1, 41))
        assert [at for at in marks.x[::3]] == [refresh.step for refresh in watched.recording.refreshes] != []
        text = view.widget.children[-1].value
        assert re.sub(r"<[^>]*>", "", text).replace("⏎", "").replace("&#x27;", "'") == watched.text
        assert text.count("border-left") == len(watched.recording.refreshes)
        assert "40, " in view._status.value and "ended" in view._status.value and view._play.disabled
        assert "application/vnd.jupyter.widget-view+json" in view._repr_mimebundle_()
        view.close()


def test_it_pauses_steps_and_refreshes(pair):
    with pair.session(PROMPT, max_tokens=60) as session:
        view = rl.live(session, paused=True, pace=None)
        assert len(session.recording) == 0
        drawn = threading.Event()
        view._status.observe(lambda change: drawn.set() if change["new"].startswith("step 1,") else None, "value")
        view._refresh.click()
        view._step.click()
        assert drawn.wait(60)
        session.run(1)  # it waits again: this is the second step
        assert len(session.recording) == 2 and [r.reason for r in session.recording.refreshes] == ["manual"]
        view._play.value = True
        view.wait(60)
        assert len(session.recording) == 60
        view.close()


def test_a_threshold_is_dragged_typed_and_recorded(pair):
    with pair.session(PROMPT, policy=POLICY, max_tokens=20) as session:
        view = rl.live(session, signals=["entropy_bits", "steps_since_refresh"], paused=True)
        assert [(s.yref, s.y0) for s in view.figure.layout.shapes] == [("y", 3.0), ("y2", 9.0)]
        assert view.figure._config["edits"]["shapePosition"]  # without it a browser does not let lines be dragged
        dragged(view, 0, y0=4.5, y1=4.5)
        assert session["entropy.threshold"] == "4.5" and view._numbers[0].value == 4.5
        dragged(view, 0, y1=5.0, x1=0.8)  # at one end, and to the side: it is level again
        assert session["entropy.threshold"] == "5" and [(s.x0, s.x1, s.y0, s.y1) for s in view.figure.layout.shapes][0] == (0, 1, 5.0, 5.0)
        dragged(view, 1, y0=7.0, y1=7.0)  # a trigger without a setting of its own
        view._numbers[0].value = 2.5
        assert view.figure.layout.shapes[0].y0 == 2.5 and view.figure.layout.shapes[1].y0 == 7.0
        dragged(view, 0, y0=-1.0, y1=-1.0)  # refused: said, and the line is back
        assert "threshold" in view._status.value and view.figure.layout.shapes[0].y0 == 2.5
        view.close()
        session.run()
        commands = session.recording.columns("commands")
        assert len(commands["step"]) >= 4
        fresh = {"name": "mixed", "when": {"any": [{"signal": "entropy_bits", "above": 2.5}, {"signal": "steps_since_refresh", "at_least": 7}]}}
        with pair.session(PROMPT, policy=fresh, max_tokens=20) as same:
            same.run()
            assert [r.step for r in same.recording.refreshes] == [r.step for r in session.recording.refreshes] != []


def test_what_goes_wrong_is_said(pair):
    @rl.signal
    def fragile(step):
        return 1 / (3 - step.step)

    with pair.session(PROMPT, max_tokens=6, signals=[fragile]) as session:
        for options, said in (({"signals": ["nothing"]}, "no signal 'nothing'"), ({"text": "x"}, "no signal 'x'"), ({"pace": 0}, "pace is")):
            with pytest.raises(rl.BadInput, match=said):
                rl.live(session, **options)
        view = rl.live(session, signals=["fragile"], pace=None)
        with pytest.raises(ZeroDivisionError):
            view.wait(60)
        assert "ZeroDivisionError" in view._status.value
        # The session goes on, in another view as well.
        rl.live(session, pace=None).wait(60)
        assert len(session.recording) == 6


def test_text_is_only_text():
    class Run:
        refreshes, token_ids = (), [1, 2]

        def __len__(self):
            return 1

        def __getitem__(self, name):
            return np.float32([2.0])

        def token(self, token):
            return rl.Token(token, "<script>" if token == 1 else "& \"b\"\n")

    assert "<script>" not in coloured_text(Run(), "entropy_bits", 4, "#102030") and "&amp; " in coloured_text(Run(), "entropy_bits", 4, "#102030")


def test_the_window_opens_what_is_recorded(pair, tmp_path):
    with pair.session(PROMPT, max_tokens=12) as session:
        session.run(8)
        window = session.open_window(screenshot=tmp_path / "window.png", size="900x600")
        session.run()
        window.wait()
        assert (tmp_path / "window.png").stat().st_size > 10000 and not window.open
        with pytest.raises(rl.BadInput, match="size"):
            session.open_window(screenshot=tmp_path / "other.png", size="small").wait()
