"""Traces are read without the engine, and say what the program says of them."""

from __future__ import annotations

import json
import math
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
import torch

import refreshlab as rl

from conftest import PROMPT


def test_a_trace_is_read_without_numpy_of_torch_or_libtorch(recorded, python_run):
    done = python_run(f"""
import sys
import refreshlab
trace = refreshlab.read_trace({str(recorded)!r})
print(len(trace.runs), len(trace.runs[-1]))
assert "torch" not in sys.modules and "refreshlab.session" not in sys.modules
assert "libtorch" not in open("/proc/self/maps").read()
""")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2", "40"]


def test_without_torch_traces_are_read_and_the_engine_says_what_is_missing(recorded, python_run):
    done = python_run(f"""
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "torch" else found(name, *more)
import refreshlab
print(len(refreshlab.read_trace({str(recorded)!r})), refreshlab.figure({str(recorded)!r}).svg.count("<svg"))
try:
    refreshlab.Pair
except refreshlab.Failure as failure:
    print(failure)
""")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["2 1", "loading the engine: torch is not installed; pip install 'torch==2.11.*'"]


def test_tables_are_those_of_the_export(recorded, program_run, tmp_path):
    run = rl.read_trace(recorded).runs[-1]
    program_run("export", str(recorded), "--csv", str(tmp_path / "by_program"), "--run", run.id)
    run.export_csv(tmp_path / "by_package")
    for folder in ("by_program", "by_package"):
        steps = pd.read_csv(tmp_path / folder / "steps.csv", keep_default_na=False, na_values=[""])
        ours = run.to_pandas()
        assert list(ours["token_id"]) == list(steps["token_id"]) and list(ours["position"]) == list(steps["position"])
        for info in run.signals:
            there = steps[info.name].to_numpy(dtype=np.float32)
            assert np.array_equal(ours[info.name].to_numpy(), there, equal_nan=True), info.name
        assert list(ours["reason"]) == ["" if isinstance(r, float) else r for r in steps["reason"]]
        events = pd.read_csv(tmp_path / folder / "events.csv")
        refreshes = events[events["kind"] == "refresh"]
        assert list(run.to_pandas("refreshes")["step"]) == list(refreshes["step"])
        assert list(run.to_pandas("refreshes")["spliced"]) == list(refreshes["spliced"])
        assert len(run.to_pandas("passes")) == (events["kind"] == "pass").sum()
        topk = pd.read_csv(tmp_path / folder / "topk.csv")
        assert np.array_equal(run.to_pandas("candidates")["prob"].to_numpy(), topk["prob"].to_numpy(dtype=np.float32))
        cache = pd.read_csv(tmp_path / folder / "cache.csv")
        assert list(run.to_pandas("cache")["positions"]) == list(cache["positions"])
        drift = pd.read_csv(tmp_path / folder / "drift.csv")
        assert np.array_equal(run.to_pandas("drift")["k_relative"].to_numpy(), drift["k_relative"].to_numpy(dtype=np.float32))
        layers = pd.read_csv(tmp_path / folder / "layers.csv")
        assert np.array_equal(run.to_pandas("layers")["value"].to_numpy(), layers["value"].to_numpy(dtype=np.float32))


def test_every_table_has_its_columns_also_without_rows(recorded):
    trace = rl.read_trace(recorded)
    for table in rl.Recording.tables():
        frame = trace.runs[0].to_pandas(table)
        assert len(frame.columns) >= 2, table
    assert len(trace.runs[0].to_pandas("drafts")) == 0
    with pytest.raises(rl.BadInput, match="reading a table of a run stepps: there is none of this name"):
        trace.runs[0].columns("stepps")


def test_arrow_keeps_what_was_not_measured_apart(recorded):
    run = rl.read_trace(recorded).runs[-1]
    column = run.to_arrow()["entropy_bits"]
    assert column.null_count == 1  # the last step has no row
    assert column[len(run) - 1].as_py() is None and math.isnan(run[len(run)]["entropy_bits"])
    frame = run.to_polars()
    assert frame["entropy_bits"].null_count() == 1 and frame["entropy_bits"][0] == run[1]["entropy_bits"] and frame.height == len(run)
    assert run[len(run)].get("entropy_bits") is None and "entropy_bits" not in run[len(run)].signals


def test_a_step_says_what_the_tables_say(recorded):
    run = rl.read_trace(recorded).runs[-1]
    steps, candidates = run.to_pandas().set_index("step"), run.to_pandas("candidates")
    refreshed = [step.step for step in run if step.refresh]
    assert refreshed == [r.step for r in run.refreshes] and refreshed
    assert {r.reason.split("+")[0] for r in run.refreshes} == {"manual", "entropy"}
    for step in run:
        assert step.token.id == steps.loc[step.step, "token_id"]
        here = candidates[candidates["step"] == step.step]
        assert [c.token.id for c in step.candidates] == list(here["token_id"])
        assert [c.prob for c in step.candidates] == list(here["prob"])
    # The step chose the token that the next one reads, and the candidates are sorted.
    assert all(a.next_token == b.token for a, b in zip(run, list(run)[1:]))
    assert run["entropy_bits"][4] == run[5]["entropy_bits"]
    with pytest.raises(KeyError, match="entropy_bitz"):
        run["entropy_bitz"]
    with pytest.raises(KeyError, match="entropy_bitz"):
        run[1]["entropy_bitz"]
    with pytest.raises(IndexError, match="step 41: the run has steps 1 to 40"):
        run[41]


def test_layers_drift_and_attention_are_views(recorded):
    run = rl.read_trace(recorded).runs[-1]
    layers = run[3].layers("attention_entropy_bits")
    assert layers is not None and not layers.flags.writeable and not layers.flags.owndata
    assert float(layers.mean()) == pytest.approx(run[3]["attention_entropy_bits"], rel=1e-6)
    drift = run.drifts[0]
    assert drift.keys.shape == (run.info["layers"], run.refreshes[0].delta) and drift.keys.min() >= 0
    position = run[20].position
    attention = run.attention(position)
    assert attention is not None and attention.weights.dtype == np.float16
    assert np.shares_memory(attention.weights, run.attention(position).weights)
    assert attention.weights.shape[:2] == (len(attention.layers), run.info["heads"])
    assert torch.from_dlpack(attention.weights).data_ptr() == attention.weights.ctypes.data
    whole = attention.whole()
    assert whole.shape[2] == position + 1
    assert np.allclose(whole.sum(axis=2), 1, atol=0.01)
    assert run.attention(10**6) is None


def test_views_outlive_what_they_came_from(recorded):
    run = rl.read_trace(recorded).runs[-1]
    attention = run.attention(run[20].position)
    drift = run.drifts[0]
    kept = attention.weights, drift.keys
    before = [array.copy() for array in kept]
    del run, attention, drift
    rl.read_trace(recorded)  # other recordings, in freed memory if there were any
    assert all(np.array_equal(a, b) for a, b in zip(kept, before))


def test_a_run_is_saved_and_read_again(recorded, tmp_path):
    run = rl.read_trace(recorded).runs[-1]
    run.save(tmp_path / "again.rlt")
    again = rl.read_trace(tmp_path / "again.rlt")
    assert run.difference(again.runs[-1]) is None
    assert run.difference(rl.read_trace(recorded).runs[0]) is not None
    assert again[again.runs[-1].id].text == run.text
    assert json.loads(json.dumps(run.summary))["tokens"] == len(run)
    assert PROMPT in run.info["rendered_prompt"]


def test_bad_files_are_one_sentence(tmp_path, program_run, recorded):
    (tmp_path / "no.rlt").write_text("no trace")
    for path in (tmp_path / "no.rlt", tmp_path / "missing.rlt"):
        said = program_run("info", str(path), status=2).stderr.strip().removeprefix("refreshlab: ")
        with pytest.raises(rl.BadInput) as raised:
            rl.read_trace(path)
        assert str(raised.value) == said
        assert isinstance(raised.value, ValueError) and raised.value.problem in said
        again = pickle.loads(pickle.dumps(raised.value))
        assert str(again) == said and again.doing == raised.value.doing
    with pytest.raises(rl.BadInput):
        rl.read_trace(recorded).runs[0].save(tmp_path / "no" / "folder.rlt")
    with pytest.raises(TypeError, match="save\\(\\) writes it as a trace"):
        pickle.dumps(rl.read_trace(recorded).runs[0])


def test_figures_landscapes_and_what_the_program_refuses(recorded, pair):
    trace = rl.read_trace(recorded)
    drawn = rl.figure(trace.runs[-1], signals="entropy_bits")
    assert drawn.svg.startswith("<?xml") or drawn.svg.startswith("<svg")
    assert drawn._repr_svg_() == drawn.svg
    with pytest.raises(rl.BadInput, match="signalz"):
        rl.figure(recorded, "signalz")
    with pair.session(PROMPT, max_tokens=12, policy="none") as session:
        session.run()
        short = session.recording
    cells = rl.landscape(short)
    assert cells.complete and cells.tokens == short.token_ids
    loss = -cells["logprob"]
    assert loss.shape == (11, 11) and np.isnan(loss[5, :5]).all() and not np.isnan(loss[5, 5:]).any()
    # Row 0 has no refresh: it is the run itself.
    own = np.array([step["logprob"] for step in short][1:], dtype=np.float32)
    assert np.allclose(-loss[0], own, atol=1e-4)
    assert cells.teacher_logprob.shape == (12,)
