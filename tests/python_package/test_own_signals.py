"""Signals and policies written in Python run, are recorded, and are what the program's own would be."""

from __future__ import annotations

import pytest
import torch

import refreshlab as rl

from conftest import PROMPT


@rl.signal(unit="bits", range=(0, 16))
def entropy_again(step):
    """The entropy of the row, taken over."""
    return step.signal("entropy_bits")


@rl.signal(needs_logits=True)
def margin(step):
    best = torch.topk(step.logits, 2).values
    return float(best[0] - best[1])


def test_a_signal_is_recorded_like_the_programs(pair, program_run, tmp_path):
    path = tmp_path / "run.rlt"

    @rl.signal
    def rise(step):
        """How much the entropy rose."""
        now, then = step.signal("entropy_bits"), step.signal("entropy_bits", back=2)
        return None if now is None or then is None else now - then

    with pair.session(PROMPT, max_tokens=20, signals=[entropy_again, margin, rise], record=path) as session, \
            pair.session(PROMPT, max_tokens=20) as plain:
        session.run()
        plain.run()
        assert session.recording.token_ids == plain.recording.token_ids
        assert set(session.costs) == {"entropy_again", "margin", "rise"}
        cost = session.costs["margin"]
        assert cost.calls == 19 and 0 < cost.mean_ms * 19 == pytest.approx(cost.total_ms)
    run = rl.read_trace(path).runs[0]
    info = {s.name: s for s in run.signals}
    assert info["entropy_again"].unit == "bits" and info["entropy_again"].description == "The entropy of the row, taken over."
    for step in run:
        assert step.get("entropy_again") == step.get("entropy_bits")
        if 3 <= step.step < 20:
            assert step["rise"] == pytest.approx(step["entropy_bits"] - run[step.step - 2]["entropy_bits"], abs=1e-5)
        if step.step < 20:
            assert step["margin"] == pytest.approx(torch.tensor(step.candidates[0].prob / step.candidates[1].prob).log().item(), abs=1e-4)
    assert run[1].get("rise") is None
    # The window's plots: the figure is drawn by the same code.
    svg = rl.figure(path, signals="margin,entropy_again").svg
    assert "Margin" in svg and "Entropy again" in svg
    assert "margin" in (program_run("export", str(path), "--csv", str(tmp_path / "csv")), (tmp_path / "csv" / "steps.csv").read_text())[1]


def test_a_policy_in_python_is_the_same_run_as_the_policy_as_data(pair):
    @rl.refresh_when
    def unsure(step):
        return step.step % 2 == 0 and step.signal("entropy_bits") > 2.5

    with pair.session(PROMPT, max_tokens=40, signals=[unsure], policy={"on_fire": "redraw", "when": {"any": []}}) as session, \
            pair.session(PROMPT, max_tokens=40, policy={"on_fire": "redraw", "when": {"any": [
                {"signal": "entropy_bits", "above": 2.5, "every": 2}]}}) as data:
        session.run()
        data.run()
        ours, theirs = session.recording, data.recording
        assert ours.token_ids == theirs.token_ids
        assert [r.step for r in ours.refreshes] == [r.step for r in theirs.refreshes] and len(ours.refreshes) > 2
        assert {r.reason for r in ours.refreshes} == {"unsure"}
        assert ours["entropy_bits"].tobytes() == theirs["entropy_bits"].tobytes()
        # A branch has it too, and a threshold on a signal of Python may change.
        branch = session.branch(10)
        branch.run()
        assert branch.recording.difference(ours) is None


def test_a_trigger_as_data_compares_a_signal_of_python(pair):
    when = {"when": {"any": [{"signal": "entropy_again", "above": 3, "cooldown": 5}]}}
    with pair.session(PROMPT, max_tokens=30, signals=[entropy_again], policy=when) as session:
        session.run()
        steps = [r.step for r in session.recording.refreshes]
        assert steps and all(session.recording[t]["entropy_bits"] > 3 for t in steps)
        assert all(b - a >= 5 for a, b in zip(steps, steps[1:]))
    with pytest.raises(rl.BadInput, match="entropy_again"):
        pair.session(PROMPT, policy=when)


def test_logits_of_a_run_that_keeps_no_rows(pair):
    with pair.session(PROMPT, max_tokens=10, mode="student", signals=[margin]) as session, \
            pair.session(PROMPT, max_tokens=10, mode="student") as plain:
        session.run()
        plain.run()
        assert session.recording.token_ids == plain.recording.token_ids
        assert session.recording[4]["margin"] > 0


def test_a_value_for_each_layer(pair, tmp_path):
    kept = {}

    @rl.signal(layered=True, unit="units", about="session")
    def key_norm(step):
        """How long the newest key is, mean over the KV heads."""
        return [None if layer == 1 else step.keys(layer)[:, -1].norm(dim=-1).mean() for layer in range(step.num_layers)]

    @rl.signal(layered=True)
    def entropy_again_by_layer(step):
        kept[step.step] = step.layers("attention_entropy_bits", back=1), step.layers("key_norm"), step.values(0)[:, -1].clone()
        return step.layers("attention_entropy_bits") if step.step % 2 else None

    @rl.signal(layered=True)
    def too_few(step):
        return [1.0] if step.step == 4 else None

    path = tmp_path / "run.rlt"
    policy = {"when": {"any": [{"signal": "key_norm", "reduce": "max", "above": 0, "every": 5}]}}
    with pair.session(PROMPT, max_tokens=12, signals=[key_norm, entropy_again_by_layer, too_few], policy=policy, record=path,
                      settings={"capture.attention_entropy": True}) as session, pair.session(PROMPT, max_tokens=12, policy={"at": [5, 10]}) as plain:
        with pytest.raises(ValueError, match="too_few gives 1 values, and the model has 5 layers"):
            session.run()
        assert session.run() == 8
        plain.run()
        assert session.recording.token_ids == plain.recording.token_ids  # looking changes nothing
        assert [r.step for r in session.recording.refreshes] == [5, 10]
        assert torch.equal(kept[11][2], session.values(0)[:, len(session.recording.prompt_ids) + 10])
        last = session.keys(2)[:, -1].norm(dim=-1).mean()
    run = rl.read_trace(path).runs[0]
    assert {s.name: s.layered for s in run.signals}["key_norm"]
    norms = run[11].layers("key_norm")
    assert norms[2] == pytest.approx(float(last)) and norms[1] != norms[1] and len(norms) == pair.student["layers"]
    assert run[11]["key_norm"] == pytest.approx(float(norms[[0, 2, 3, 4]].mean()))
    assert (run[3].layers("entropy_again_by_layer") == run[3].layers("attention_entropy_bits")).all() and run[4].layers("entropy_again_by_layer") is None
    assert (kept[4][0] == run[3].layers("attention_entropy_bits")).all() and (kept[11][1][2:] == norms[2:]).all() and kept[1][0] is None
    assert "Key norm" in rl.figure(path, signals="key_norm").svg and run.tables()
    with pair.session(PROMPT, max_tokens=5, cache={"policy": "h2o", "budget": 8}, signals=[key_norm]) as session, pytest.raises(rl.BadInput):
        session.run()


def test_an_exception_leaves_the_step_without_a_value_and_the_run_goes_on(pair):
    kept = []

    @rl.signal
    def fragile(step):
        kept.append(step)
        if step.step in (3, 5):
            raise ZeroDivisionError(f"at step {step.step}")
        return "no number" if step.step == 7 else step.step

    with pair.session(PROMPT, max_tokens=12, signals=[fragile]) as session:
        with pytest.raises(ZeroDivisionError, match="at step 3"):
            session.run()
        assert len(session.recording) == 3
        with pytest.raises(ZeroDivisionError, match="at step 5"):
            for _ in session:
                pass
        with pytest.raises(TypeError):
            session.run()
        assert session.run() == 12 - 7
        assert [s.get("fragile") for s in session.recording] == [1, 2, None, 4, None, 6, None, 8, 9, 10, 11, None]
        with pytest.raises(rl.BadInput, match="its call has ended"):
            kept[0].signal("entropy_bits")
        with pytest.raises(rl.BadInput, match="its call has ended"):
            kept[-1].step


def test_a_signal_does_not_wait_for_its_own_session(pair):
    sessions = []

    @rl.signal
    def curious(step):
        return len(sessions[0].recording)

    @rl.signal
    def blind(step):
        return float(step.logits[0])

    for own, said in ((curious, "code of its own is at work"), (blind, "does not keep them")):
        with pair.session(PROMPT, max_tokens=5, mode="student", signals=[own]) as session:
            sessions[:] = [session]
            with pytest.raises(rl.BadInput, match=said):
                session.step()


def test_what_is_no_signal_is_refused(pair):
    def fine(step):
        return 1
    for name, said in (("Entropy", "lower-case"), ("entropy_bits", "exists already")):
        with pytest.raises(rl.BadInput, match=said):
            pair.session(PROMPT, signals=[rl.signal(name=name)(fine)])
    with pytest.raises(rl.BadInput, match="exists already"):
        pair.session(PROMPT, signals=[rl.signal(fine), rl.signal(fine)])
    with pytest.raises(rl.BadInput, match="about is"):
        rl.signal(about="all")(fine)
    with pytest.raises(rl.BadInput, match="too many"):
        pair.session(PROMPT, signals=[rl.signal(name=f"s{i}")(fine) for i in range(20)])
