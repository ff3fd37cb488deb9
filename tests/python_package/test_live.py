"""The live view of a notebook draws what is recorded, and what a person does in it reaches the session. Browsers are not part of it: what they
send is put where they put it."""

from __future__ import annotations

import json
import re
import threading

import comm
import numpy as np
import pytest

import refreshlab as rl
from refreshlab._live import at_most, coloured_text, thinned

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
        curve, marks, tail, _ = view.figure.data[:4]
        assert len(tail.x) == 1  # all of it is in the first part once the run has ended
        assert np.array_equal(np.float32(curve.y), watched.recording["entropy_bits"], equal_nan=True) and list(curve.x) == list(range(1, 41))
        assert [at for at in marks.x[::3]] == [refresh.step for refresh in watched.recording.refreshes] != []
        text = "".join(block.value for block in view._prose._text.children[1:])
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

    text = coloured_text(Run(), "entropy_bits", 4, "#102030", 0, 2)
    assert "<script>" not in text and "&amp; " in text


@pytest.fixture
def sent(monkeypatch):
    """Bytes of each message to the browser."""
    sizes = []

    def count(self, kind, data=None, metadata=None, buffers=None, **keys):
        sizes.append(len(json.dumps(data or {}, default=str)) + sum(memoryview(buffer).nbytes for buffer in buffers or []))
    monkeypatch.setattr(comm.DummyComm, "publish_msg", count)
    return sizes


def test_a_drawing_sends_no_more_of_a_long_run_than_of_a_short_one(pair, sent):
    with pair.session(PROMPT, max_tokens=900, policy={"when": {"any": [{"signal": "steps_since_refresh", "at_least": 3}]}}) as session:
        view = rl.live(session, signals=["entropy_bits", "top1_prob"], paused=True)
        view.close()
        view._go.set()  # as while it runs; the steps are made here

        def drawn(steps):
            session.run(steps)
            sent.clear()
            view.draw()
            return sum(sent)
        drawn(40)
        short = [drawn(5) for _ in range(12)]
        drawn(500)
        long = [drawn(5) for _ in range(12)]
        assert 0 < np.median(long) < 3 * np.median(short) and max(long) < 150_000
        recording, shown = session.recording, view.figure.data[:4]
        assert np.array_equal(np.concatenate([shown[0].x, shown[2].x[1:]])[[0, -1]], [1, len(recording)])
        assert shown[0].y.max() == recording["entropy_bits"][:shown[0].x[-1]].max() and shown[2].y[-1] == recording["entropy_bits"][-1]
        assert sum(len(set(part.x[::3])) for part in shown[1::2]) > 50
        view._go.clear()
        view.draw()  # once it stands, all of it
        assert np.array_equal(view.figure.data[0].y, recording["entropy_bits"], equal_nan=True)
        assert [int(at) for at in view.figure.data[1].x[::3]] == [refresh.step for refresh in recording.refreshes]
        session.rewind(20)
        session.run(1)
        view.draw()
        assert len(view.figure.data[0].x) == 21 and len(view._prose._text.children) == 2


def test_a_thinned_curve_has_the_extremes_of_every_column():
    random = np.random.default_rng()
    values = random.normal(size=7001).astype(np.float32)
    values[3000:3100] = np.nan
    picked = thinned(values)
    assert len(picked) <= 1602 and picked[0] == 0 and picked[-1] == 7000 and (np.diff(picked) > 0).all()
    assert values[picked].max() == np.nanmax(values) and values[picked].min() == np.nanmin(values)
    assert list(thinned(values[:50])) == list(range(50))
    for top in (0.03, 1.0, 5.2, 900.0):
        assert top <= at_most(np.float32([np.nan, top, -4])) <= 1.126 * top


def test_the_window_opens_what_is_recorded(pair, tmp_path):
    with pair.session(PROMPT, max_tokens=12) as session:
        session.run(8)
        window = session.open_window(screenshot=tmp_path / "window.png", size="900x600")
        session.run()
        window.wait()
        assert (tmp_path / "window.png").stat().st_size > 10000 and not window.open
        with pytest.raises(rl.BadInput, match="size"):
            session.open_window(screenshot=tmp_path / "other.png", size="small").wait()
