"""Landscapes and sweeps over an open pair are those of the program."""

from __future__ import annotations

import json

import pytest

import refreshlab as rl

from conftest import PROMPT

SPEC = {"modes": ["student", "overfill"], "policies": ["entropy"], "max_tokens": [12], "prompts": [PROMPT, "Write a chronicle of 3 companies."],
        "seeds": [5], "bootstrap": {"resamples": 100}}


def same(a: rl.Landscape, b: rl.Landscape) -> bool:
    return (a.values, a.rows, a.tokens, a.prompt_ids, a.complete) == (b.values, b.rows, b.tokens, b.prompt_ids, b.complete) and \
        a.teacher_logprob.tobytes() == b.teacher_logprob.tobytes() and all(a[value].tobytes() == b[value].tobytes() for value in a.values)


def test_a_landscape_over_an_open_pair_is_the_programs(pair, tmp_path):
    path = tmp_path / "run.rlt"
    with pair.session(PROMPT, max_tokens=20, record=path) as session:
        session.run()
        run = session.recording
    theirs = rl.landscape(run, every=4, values="logprob,entropy_bits")
    assert same(rl.landscape(run, pair=pair, every=4, values=["logprob", "entropy_bits"]), theirs) and len(theirs.rows) == 5
    assert not rl.read_trace(path).landscapes
    # Of a trace the file has it, and it is gone on with, here or by the program.
    first = rl.landscape(path, pair=pair, every=8)
    assert same(rl.read_trace(path).landscapes[run.id], first)
    more = rl.landscape(path, every=4)
    assert same(rl.landscape(path, pair=pair, every=4, run=run.id), more) and len(more.rows) == 5 > len(first.rows)


def test_a_sweep_over_an_open_pair_is_the_programs(pair, tmp_path):
    spec = tmp_path / "grid.json"
    spec.write_text(json.dumps(SPEC))
    theirs = rl.sweep(spec, tmp_path / "theirs.db", deterministic=True, csv=tmp_path / "theirs.csv")
    ours = rl.sweep(spec, tmp_path / "ours.db", pair=pair, deterministic=True, csv=tmp_path / "ours.csv", jobs=2)
    assert ours == theirs and "entropy" in ours
    assert (tmp_path / "ours.csv").read_bytes() == (tmp_path / "theirs.csv").read_bytes()
    # The program finds all of it there.
    assert rl.sweep(spec, tmp_path / "ours.db", deterministic=True) == theirs


def test_what_goes_wrong_is_said(pair, tmp_path):
    with pair.session(PROMPT, max_tokens=6, cache={"policy": "h2o", "budget": 16}) as session:
        session.run()
        with pytest.raises(rl.BadInput, match="caches that keep everything"):
            rl.landscape(session.recording, pair=pair)
    with pair.session(PROMPT, max_tokens=6) as session:
        session.run()
        for options, said in (({"every": 0}, "must be 1 or more"), ({"values": "nothing"}, "nothing"), ({"best": 3}, "best has no effect beside pair="),
                              ({"every": "all"}, "whole number")):
            with pytest.raises(rl.BadInput, match=said):
                rl.landscape(session.recording, pair=pair, **options)
        session.recording.save(tmp_path / "run.rlt")
    with pytest.raises(rl.BadInput, match="there is no run 7"):
        rl.landscape(tmp_path / "run.rlt", pair=pair, run="7")
    with pytest.raises(rl.BadInput, match="devices has no effect beside pair="):
        rl.sweep("grid.json", "x.db", pair=pair, devices="cpu")
    with pytest.raises(rl.BadInput, match="No such file"):
        rl.sweep(tmp_path / "none.json", tmp_path / "x.db", pair=pair)
    (tmp_path / "long.json").write_text(json.dumps({**SPEC, "prompts": ["word " * 20000]}))
    with pytest.raises(rl.Failure, match="2 of 2 runs failed"):
        rl.sweep(tmp_path / "long.json", tmp_path / "x.db", pair=pair)
