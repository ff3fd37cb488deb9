"""Sessions: the run of the program bit for bit, every command, exceptions, threads, Ctrl-C, arrays."""

from __future__ import annotations

import os
import pickle
import signal
import threading

import numpy as np
import pytest
import torch

import refreshlab as rl

from conftest import PROMPT

ENTROPY = {"entropy.threshold": 3, "entropy.every": 1, "entropy.cooldown": 4}


def options(settings):
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


@pytest.mark.parametrize("words, given", [
    (["--policy", "entropy", *options(ENTROPY)], {"policy": "entropy", "settings": ENTROPY}),
    (["--policy", "kl", "--set", "kl.every=8", "--set", "kl.threshold=0.01", "--student-cache", "h2o", "--set", "student_cache.budget=48", "--set", "sampler.temperature=0.7", "--set", "seed=18446744073709551615"],
     {"policy": "kl", "cache": {"policy": "h2o", "budget": 48}, "temperature": 0.7, "seed": 2**64 - 1,
      "settings": {"kl.every": 8, "kl.threshold": 0.01}}),
    (["--mode", "teacher", "--set", "mc.measure=true"], {"mode": "teacher", "settings": {"mc.measure": True}}),
    (["--policy", "speculative"], {"policy": "speculative"}),
])
def test_a_run_is_that_of_the_program_bit_for_bit(pair, program_run, tmp_path, words, given):
    program_run("run", "--prompt", PROMPT, "--max-tokens", "40", "--record", str(tmp_path / "program.rlt"), *words)
    theirs = rl.read_trace(tmp_path / "program.rlt").runs[0]
    with pair.session(PROMPT, max_tokens=40, record=tmp_path / "package.rlt", **given) as session:
        session.run()
        assert session.finished
        assert session.recording.difference(theirs) is None
    assert rl.read_trace(tmp_path / "package.rlt").runs[0].difference(theirs) is None
    assert theirs.info["config"]["task"]["kind"] == "chronicle"  # the program scores a bundled task, and so do we
    if "policy" in given:
        assert theirs.refreshes


def test_commands_are_logged_and_replayed_by_the_program(pair, program_run, tmp_path):
    path = tmp_path / "run.rlt"
    with pair.session(PROMPT, policy="entropy", max_tokens=40, settings=ENTROPY, record=path) as session:
        assert session.run(5) == 5
        session.set("entropy.threshold", 4.5)
        assert session["entropy.threshold"] == "4.5" and session["seed"] == "0"
        with pytest.raises(KeyError, match="kl.threshold"):  # the policy has no such trigger
            session["kl.threshold"]
        session.set("sampler.temperature", 0.5)
        assert session.run(3) == 3
        session.refresh()
        session.give(" blue")
        pending = session.pending
        step = session.step()
        assert step is not None and step.token == pending
        assert step.refresh is not None and step.refresh.reason.startswith("manual") and not step.refresh.automatic
        assert step.next_token is not None and step.next_token.text == " blue"
        session.set_policy({"at": [15]})
        session.read_attention(3, teacher=True)
        session.run()
        assert session.recording.attention(3, teacher=True) is not None
        assert [r.step for r in session.recording.refreshes if r.step > 9] == [15]
        assert session.run(5) == 0 and session.step() is None and list(session) == []
    assert "identical" in program_run("run", "--replay", str(path), "--exact").stderr


def test_a_rewind_and_a_branch_are_the_run_again(pair, tmp_path):
    with pair.session(PROMPT, policy="entropy", max_tokens=30, settings=ENTROPY) as session, \
            pair.session(PROMPT, policy="entropy", max_tokens=30, settings=ENTROPY) as other:
        session.run(25)
        first = session.recording
        session.rewind(10)
        assert session.recording is not first and session.recording.parent_id == first.id and session.recording.fork_step == 10
        branch = session.branch(10, record=tmp_path / "branch.rlt")
        session.run()
        other.run()
        assert session.recording.difference(other.recording) is None
        branch.refresh()
        branch.run(5)
        assert branch.recording.fork_step == 10 and [s.token for s in branch.recording][:10] == [s.token for s in first][:10]
        assert branch.recording[11].refresh is not None and other.recording[11].refresh is None
        branch.close()
        # A recorded run goes on from its file.
        again = pair.branch(rl.read_trace(tmp_path / "branch.rlt").runs[-1], 15, max_tokens=20)
        again.run()
        assert len(again.recording) == 20
        for wrong in (-1, 26):
            with pytest.raises(rl.BadInput, match=f"step {wrong}: the run can"):
                pair.branch(first, wrong)
            with pytest.raises(rl.BadInput, match="the run can go back to steps"):
                other.rewind(wrong + 10 if wrong > 0 else wrong)


@pytest.mark.parametrize("words, given", [
    (["--set", "entropy.threshold=nan"], {"settings": {"entropy.threshold": float("nan")}}),
    (["--set", "no.such=1"], {"settings": {"no.such": 1}}),
    (["--max-tokens", "0"], {"max_tokens": 0}),
    (["--teacher", "/nowhere"], {}),
])
def test_errors_are_the_sentences_of_the_program(pair, program_run, words, given):
    said = program_run("run", "--prompt", PROMPT, "--policy", "entropy", *words, status=2).stderr.strip().splitlines()[-1]
    with pytest.raises(rl.BadInput) as raised:
        rl.Pair.open("/nowhere") if words[0] == "--teacher" else pair.session(PROMPT, policy="entropy", **given)
    assert f"refreshlab: {raised.value}" == said


def test_a_trace_that_is_lost_is_told_and_the_run_goes_on(pair, tmp_path):
    session = pair.session(PROMPT, max_tokens=12, record=tmp_path / "run.rlt")
    session.run(3)
    session.flush()
    assert len(rl.read_trace(tmp_path / "run.rlt").runs[0]) == 3
    for file in tmp_path.iterdir():
        file.unlink()
    session.run()
    for end in (session.flush, session.close):
        with pytest.raises(rl.Failure, match="recording to .*run.rlt: .*the run itself went on"):
            end()
    session.close()  # nothing is left to say
    session.recording.save(tmp_path / "run.rlt")
    assert len(rl.read_trace(tmp_path / "run.rlt").runs[0]) == 12


def test_a_pair_of_one_model_and_a_derived_student(pair, program_run, tmp_path):
    student = pair.student["path"]
    with rl.Pair.open(student=student, mode="student").session(PROMPT, max_tokens=8) as alone, \
            pair.session(PROMPT, max_tokens=8, mode="student") as of_pair:
        alone.run(), of_pair.run()
        assert alone.recording.token_ids == of_pair.recording.token_ids and alone.recording.info["config"]["teacher_dir"] == ""
        with pytest.raises(rl.BadInput, match="teacher"):
            alone.cache(teacher=True)
    spec = "derive:bits=3,group=32"
    program_run("run", "--prompt", PROMPT, "--student", spec, "--max-tokens", "12", "--record", str(tmp_path / "run.rlt"))
    derived = rl.Pair.open(student=spec)
    with derived.session(PROMPT, max_tokens=12) as session:
        session.run()
        assert session.recording.difference(rl.read_trace(tmp_path / "run.rlt").runs[0]) is None
    assert derived.student["layers"] == derived.teacher["layers"] == pair.teacher["layers"]


def test_what_cannot_be_done_changes_nothing(pair, tmp_path):
    with pair.session(PROMPT, max_tokens=20) as session:
        session.run(3)
        for wrong in (lambda: session.set("seed", "x"), lambda: session.set("max_tokens", 99), lambda: session.set_policy("entropie"),
                      lambda: session.set_policy({"when": {"any": [{"signal": "nothing", "above": 1}]}}), lambda: session.full_step(),
                      lambda: session.give(ids=[10**6]), lambda: session.read_attention(10**6), lambda: session.keys(99),
                      lambda: session.entries(0, 99)):
            with pytest.raises(rl.BadInput):
                wrong()
        assert len(session.recording) == 3 and session.recording.columns("commands")["command"] == []
        assert session.run() == 17
    with pytest.raises(rl.BadInput, match="it is closed"):
        session.step()
    assert len(session.recording) == 20  # stays
    with pytest.raises(rl.BadInput):
        pair.session("", max_tokens=5)
    with pytest.raises(rl.BadInput):
        pair.session(PROMPT, record=tmp_path / "no" / "run.rlt")
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(rl.BadInput):
        pair.session(PROMPT, record=tmp_path / "mine.txt")
    assert (tmp_path / "mine.txt").read_text() == "mine"
    for thing in (session, pair):
        with pytest.raises(TypeError, match="is not pickled"):
            pickle.dumps(thing)


def test_other_threads_run_while_a_step_does(pair):
    with pair.session(PROMPT, max_tokens=1500) as session:
        recording = session.recording
        worker = threading.Thread(target=session.run)
        worker.start()
        while len(recording) < 3:
            pass
        seen = len(recording)  # with the lock held all the way nothing between 0 and 1500 would be seen
        session.stop()
        worker.join()
    assert 3 <= seen <= len(recording) < 1500


def test_threads_take_turns_step_by_step(pair):
    with pair.session(PROMPT, max_tokens=1500) as session:
        worker = threading.Thread(target=session.run)
        worker.start()
        for _ in range(3):
            session.refresh()
        session.stop()
        worker.join()
        assert session.recording.stop_reason == "cancelled"
        manual = [r.step for r in session.recording.refreshes]
        assert len(session.recording) < 1500 and len(session.recording.columns("commands")["command"]) == 3 and len(manual) <= 3


def test_two_sessions_in_two_threads_are_what_each_is_alone(pair):
    def made(seed):
        with pair.session(PROMPT, policy="entropy", max_tokens=40, seed=seed, temperature=0.8, settings=ENTROPY) as session:
            session.run()
            return session.recording
    alone = [made(seed) for seed in (1, 2)]
    together = [None, None]

    def work(place):
        together[place] = made(place + 1)
    workers = [threading.Thread(target=work, args=[place]) for place in (0, 1)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert alone[0].difference(alone[1]) is not None
    for a, b in zip(alone, together):
        assert a.difference(b) is None


def test_ctrl_c_ends_between_two_steps_and_the_run_goes_on(pair):
    with pair.session(PROMPT, max_tokens=200) as session, pair.session(PROMPT, max_tokens=200) as other:
        recording = session.recording

        def press():
            while len(recording) < 5:
                pass
            os.kill(os.getpid(), signal.SIGINT)
        worker = threading.Thread(target=press)
        worker.start()
        with pytest.raises(KeyboardInterrupt):
            session.run()
        worker.join()
        reached = len(session.recording)
        assert 5 <= reached < 200 and not session.finished
        assert session.run(10) == 10
        other.run(reached + 10)
        assert session.recording.difference(other.recording) is None


def test_a_session_is_dropped_in_the_middle_of_a_step(pair, python_run):
    session = pair.session(PROMPT, max_tokens=60)
    recording = session.recording
    worker = threading.Thread(target=session.run)
    worker.start()
    del session  # the thread has it
    worker.join()
    assert len(recording) == 60
    # A thread that nobody waits for, at the end of the interpreter: several times, because where it is then is chance.
    done = python_run(f"""
import os, sys, threading
import refreshlab
pair = refreshlab.Pair.open()
for child in range(6):
    if os.fork() == 0:
        sessions = [pair.session({PROMPT!r}, max_tokens=300) for _ in range(2)]
        for session in sessions:
            threading.Thread(target=session.run, daemon=True).start()
        while len(sessions[0].recording) < child:
            pass
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
""")
    assert done.returncode == 0, done.stderr


def test_keys_and_values_are_views_of_the_cache(pair):
    with pair.session(PROMPT, max_tokens=40) as session:
        session.run(9)
        cache, teacher = session.cache(), session.cache(teacher=True)
        length = len(session.recording.prompt_ids) + 9
        assert cache.length == length and cache.origins[-9:] == ["student"] * 9 and cache.origins[0] == "teacher_prefill"
        for of in (session.keys, session.values):
            view = of(cache.layers - 1)
            assert view.shape == (cache.kv_heads, length, cache.head_dim) and view.dtype == torch.float32
            assert view.data_ptr() == of(cache.layers - 1).data_ptr()
        keys = session.keys(1)
        before = keys[:, -9:].clone()
        session.refresh()
        step = session.step()
        assert step is not None and step.refresh is not None and step.refresh.spliced == 10
        assert not torch.equal(keys[:, -9:], before)  # the same memory, now the teacher's entries
        assert torch.equal(session.keys(1), session.keys(1, teacher=True)) and teacher.length == length - 9
        entries = session.entries(1, 0)
        assert np.array_equal(entries.positions, np.arange(length + 1)) and torch.equal(entries.keys, session.keys(1)[0])
        assert torch.equal(entries.values, session.values(1)[0])
    assert keys.shape[1] == length  # a view outlives its session
    assert float(keys.abs().sum()) > 0
    with pair.session(PROMPT, max_tokens=40, cache={"policy": "h2o", "budget": 16}) as session:
        session.run(3)
        assert len(session.entries(0, 0).positions) == 16
        with pytest.raises(rl.BadInput, match="entries\\(layer, kv_head\\)"):
            session.keys(0)


def test_logits_are_what_the_step_chose_by(pair):
    with pair.session(PROMPT, max_tokens=40) as session:
        assert session.logits() is None
        for step in session:
            if step.step == 6:
                break
        row, step = session.logits(), session.recording[6]
        assert row is not None and row.shape == (session.recording.info["vocab_size"],)
        assert int(row.argmax()) == step.candidates[0].token.id == step.next_token.id
        probs = torch.softmax(row.double(), 0)
        assert float(probs[step.candidates[3].token.id]) == pytest.approx(step.candidates[3].prob, rel=1e-5)
        assert float(-(probs * probs.log2()).sum()) == pytest.approx(step["entropy_bits"], rel=1e-5)
        assert torch.equal(session.logits(6), row) and not torch.equal(session.logits(5), row)
        assert session.logits(99) is None
    with pair.session(PROMPT, max_tokens=10, mode="student") as session:
        session.run(2)
        assert session.logits() is None
