"""Cache policies written in Python are the built-in ones, bit for bit, and whatever goes wrong in one is said."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

import refreshlab as rl

from conftest import PROMPT

LONG = "Write a chronicle of 12 companies."


@dataclass
class HeavyHitters(rl.CachePolicy):
    """H2O: the newest half of the budget stays, and of the others what received the most attention."""
    budget: int = 32
    prompt_sums = True
    row = True

    def start(self):
        self.received = {}

    def read_prompt(self, view):
        for head in range(self.model.kv_heads):
            self.thin(view, head, sum(view.sums(head)) / self.model.group)

    def after_attention(self, view):
        for head in range(self.model.kv_heads):
            row = sum(view.attention(head)) / self.model.group
            before = self.received[view.layer, head]
            row[:len(before)] += before  # the new entry starts with its own attention
            self.thin(view, head, row)

    def thin(self, view, head, received):
        held, heavy = view.held(head), self.budget // 2
        old = len(held) - (self.budget - heavy)
        if len(held) > self.budget:
            view.score(head, held[:old], received[:old])
            stay = np.concatenate([rl.top(received[:old], heavy), np.arange(old, len(held))])
            view.keep(head, held[stay])
            received = received[stay]
        self.received[view.layer, head] = received


@dataclass
class Sinks(rl.CachePolicy):
    """StreamingLLM with true positions."""
    budget: int = 24
    sinks: int = 4

    def trim(self, view):
        for head in range(self.model.kv_heads):
            excess = len(view.held(head)) - self.budget
            if excess > 0:
                view.evict(head, view.held(head)[self.sinks:self.sinks + excess])

    read_prompt = trim
    before_attention = trim


@dataclass
class Snap(rl.CachePolicy):
    """SnapKV."""
    budget: int = 10
    window: int = 4
    kernel: int = 5

    @property
    def prompt_rows(self):
        return self.window

    def read_prompt(self, view):
        before = view.position + 1 - self.window
        if before + self.window <= self.budget:
            return
        for head in range(self.model.kv_heads):
            mean = sum(view.attention(head)) / self.window  # [group, length]
            scores = rl.pooled((sum(mean) / self.model.group)[:before], self.kernel)
            view.score(head, np.arange(before), scores)
            view.keep(head, [*rl.top(scores, self.budget - self.window), *range(before, view.position + 1)])


@dataclass
class Newest(rl.CachePolicy):
    """Everything stays, and the newest entries are read."""
    window: int = 16
    edits = False

    def before_attention(self, view):
        return view.held(0)[-self.window:]


SAME = [
    (HeavyHitters(), {"policy": "h2o", "budget": 32}),
    (Sinks(), {"policy": "streaming_llm", "budget": 24, "sinks": 4, "keep_positions": True}),
    (Snap(), {"policy": "snapkv", "budget": 10, "window": 4, "kernel": 5}),
]


@pytest.mark.parametrize("own, built_in", SAME, ids=lambda policy: getattr(policy, "name", ""))
@pytest.mark.parametrize("policy, mode", [({"at": [9, 21]}, "overfill"), ("none", "teacher")], ids=["refreshes", "teacher"])
def test_a_policy_in_python_is_the_built_in_one_bit_for_bit(pair, own, built_in, policy, mode):
    which = "teacher_cache" if mode == "teacher" else "cache"
    with pair.session(LONG, policy=policy, mode=mode, max_tokens=32, **{which: own}) as ours, \
            pair.session(LONG, policy=policy, mode=mode, max_tokens=32, **{which: built_in}) as theirs:
        for run in (ours, theirs):
            run.recording.scores(0, 0)  # somebody looks
            run.run()
        assert ours.recording.difference(theirs.recording) is None
        assert len(ours.recording.refreshes) == len(theirs.recording.refreshes) == (2 if mode == "overfill" else 0)
        a, b = ours.recording.columns("cache"), theirs.recording.columns("cache")
        assert all((np.asarray(a[name]) == np.asarray(b[name])).all() for name in b if name != "policy") and len(a["step"]) > 10
        for layer in range(2):
            one, other = (s.entries(layer, 0, teacher=mode == "teacher") for s in (ours, theirs))
            assert (one.positions == other.positions).all() and torch.equal(one.keys, other.keys) and torch.equal(one.values, other.values)
        assert np.array_equal(ours.recording.scores(1, 1), theirs.recording.scores(1, 1), equal_nan=True)
        assert isinstance(own, Sinks) or np.isfinite(ours.recording.scores(1, 1)).any()
        cost = ours.costs[own.name]
        assert cost.calls > 32 and cost.total_ms > 0 and not theirs.costs


def test_what_is_read_is_chosen_without_an_edit(pair):
    with pair.session(PROMPT, mode="student", max_tokens=12, cache=Newest(window=9)) as ours, \
            pair.session(PROMPT, mode="student", max_tokens=12, cache={"policy": "sliding_window", "budget": 9}) as theirs:
        ours.step()
        theirs.step()
        assert ours.recording["cache_read"][0] == theirs.recording["cache_read"][0] == 9
        assert ours.cache().bytes_used > theirs.cache().bytes_used
        ours.run()


def test_it_is_recorded_and_opens_like_a_built_in_one(pair, program_run, tmp_path):
    path = tmp_path / "run.rlt"
    with pair.session(LONG, policy={"at": [9]}, max_tokens=24, cache=HeavyHitters(budget=24), record=path) as session:
        session.run(12)
        session.rewind(8)
        session.run()
        run = session.recording
    loaded = rl.read_trace(path).runs[-1]
    assert loaded.difference(run) is None and loaded.info["config"]["student_cache"] == {"policy": "python:HeavyHitters(budget=24)"}
    program_run("report", str(path), "-o", str(tmp_path / "page.html"))
    assert "HeavyHitters(budget=24)" in (tmp_path / "page.html").read_text()
    built_in = tmp_path / "built_in.rlt"
    with pair.session(LONG, policy={"at": [9]}, max_tokens=24, cache={"policy": "h2o", "budget": 24}, record=built_in) as session:
        session.run(8)
        session.rewind(8)
        session.run()
    drawn = [rl.figure(trace, "cache").svg.partition("</metadata>")[2] for trace in (path, built_in)]  # before it stands what made the figure
    lines = [text.splitlines() for text in drawn]
    assert set(lines[0]) <= set(lines[1]) and len(lines[1]) <= len(lines[0]) + 1 > 20  # but for the line of the budget, which is the policy's own
    again = program_run("run", "--replay", str(path), status=2).stderr
    assert "cache policy HeavyHitters(budget=24)" in again and "is written in Python" in again
    # Branches of a trace make it again, with the policy alone.
    with pair.branch(loaded, 10, cache=HeavyHitters(budget=24)) as branch:
        branch.run()
        assert branch.recording.difference(loaded) is None
    with pytest.raises(rl.BadInput, match=r"the run was made with HeavyHitters\(budget=24\)"):
        pair.branch(loaded, 10, cache=HeavyHitters)
    with pytest.raises(rl.BadInput, match="is written in Python, and nobody has brought it"):
        pair.branch(loaded, 10)


def test_rewinds_and_branches_find_its_state_as_it_was(pair):
    @dataclass
    class Counting(HeavyHitters):
        table: tuple = ()
        shared = ("table",)

        def start(self):
            super().start()
            self.seen, self.weights = [], torch.zeros(3)

        def after_attention(self, view):
            super().after_attention(view)
            if view.layer == 0:
                self.seen.append(view.step)
                self.weights[0] += view.step
                told.append((list(self.seen), float(self.weights[0]), self.table is table))

    told, table = [], (1, 2)
    with pair.session(LONG, max_tokens=20, cache=Counting(table=table), settings={"seed": 3, "sampler.temperature": 0.7}) as session:
        session.run(9)
        first = session.recording
        session.rewind(4)
        session.run(5)
        assert session.recording.difference(first) is None
        other = session.branch(6)
        other.run()
        session.run()
        assert other.recording.difference(session.recording) is None
        assert told[-1][0] == list(range(1, len(told[-1][0]) + 1)) and all(same for _, _, same in told)
        assert all(weight == sum(seen) for seen, weight, _ in told)


def test_what_a_view_shows(pair):
    kept = []

    class Looks(rl.CachePolicy):
        prompt_rows, prompt_sums, prompt_queries, output_norms, row, query = 3, True, 2, True, True, True

        def read_prompt(self, view):
            group, length, dim = self.model.group, self.model.prompt_length, self.model.head_dim
            assert view.step == 0 and view.position == length - 1 and list(view.held(0)) == list(range(length))
            assert view.attention(0).shape == (3, group, length) and torch.allclose(view.attention(0).sum(-1), torch.ones(3, group), atol=1e-5)
            assert view.sums(0).shape == view.output_norms(0).shape == (group, length) and view.queries(0).shape == (2, group, dim)
            assert view.keys(0).shape == (length, dim)
            view.evict(0, [3, 1])

        def before_attention(self, view):
            if view.step == 2 and view.layer == 1:
                # No copy: the same memory twice, and the one that storage() shows.
                keys, values = view.storage(1)
                assert view.storage(1)[0].data_ptr() == keys.data_ptr() != values.data_ptr()
                assert torch.equal(keys[torch.from_numpy(view.columns(1))], view.keys(1))
                assert torch.equal(values[torch.from_numpy(view.columns(1))], view.values(1))
                assert not view.keys(1).isnan().any() and len(view.held(1)) == view.keys(1).shape[0] == view.position + 1
            assert view.queries(0).shape == (self.model.group, self.model.head_dim)
            return [view.held(head)[-5:-1] for head in range(self.model.kv_heads)]  # the new position comes by itself

        def after_attention(self, view):
            assert list(view.read(0)) == list(range(view.position - 4, view.position + 1))
            weights = view.attention(0)
            assert weights.shape == (self.model.group, 5)
            kept[:] = [view, weights.clone(), weights]

        def refreshed(self, view):
            refreshes.append((view.layer, list(view.written(0)), list(view.written(1))))
            with pytest.raises(rl.BadInput, match="not changed in this call"):
                view.evict(0, [0])

    refreshes = []
    with pair.session(PROMPT, max_tokens=8, policy={"at": [4]}, cache=Looks) as session:
        session.run(5)
        prompt = len(session.recording.prompt_ids)
        assert 1 not in session.entries(0, 0).positions and 1 in session.entries(0, 1).positions
        assert {layer for layer, _, _ in refreshes} == set(range(session.cache().layers))
        assert all(one == two == list(range(prompt, prompt + 4)) for _, one, two in refreshes)
    assert torch.allclose(kept[1].sum(1), torch.ones(len(kept[1])), atol=1e-5) and kept[2].shape == kept[1].shape
    with pytest.raises(rl.BadInput, match="its call has ended"):
        kept[0].held(0)


WRONG = {
    "evicting entries of layer 0, KV head 1: position 999 is not held": lambda view: view.evict(1, [999]),
    "position 2 comes twice": lambda view: view.evict(0, [2, 2]),
    "positions are a list, an array or a tensor of whole numbers with one axis, not float64": lambda view: view.keep(0, [0.5]),
    r"not int64 of shape \(1, 2\)": lambda view: view.keep(0, [[1, 2]]),
    "the model has KV heads 0 to": lambda view: view.held(99),
    "2 positions take numbers of shape": lambda view: view.rewrite(0, [0, 1], keys=np.zeros((2, 3))),
    r"1 positions take numbers of shape \[1\]": lambda view: view.score(0, [0], [1, 2]),
    "reading attention in layer 0, KV head 0: this call does not have it; row = True": lambda view: view.attention(0),
    r"read_prompt\(\) of Wrong: gives list": lambda view: [1],
}


@pytest.mark.parametrize("said", WRONG)
def test_a_bad_answer_gets_one_sentence(pair, said):
    class Wrong(rl.CachePolicy):
        def read_prompt(self, view):
            return WRONG[said](view)

    with pytest.raises(rl.BadInput, match=said) as raised:
        pair.session(PROMPT, max_tokens=4, cache=Wrong())
    assert "\n" not in str(raised.value)


def test_a_cache_may_be_emptied_and_what_a_step_needs_stays(pair):
    class Nothing(rl.CachePolicy):
        def after_attention(self, view):
            for head in range(self.model.kv_heads):
                view.keep(head, [])

        read_prompt = after_attention

    with pair.session(PROMPT, mode="student", max_tokens=6, cache=Nothing) as session:
        session.run()
        assert list(session.recording["cache_read"][:5]) == [1.0] * 5

    class Hasty(rl.CachePolicy):
        edits = True

        def before_attention(self, view):
            view.evict(0, view.held(0)[-1:])

    class Reader(Hasty):
        edits = False

    for policy, said in ((Hasty, "is the new token's own, which has to be read first"), (Reader, "has said that it changes none; edits = True")):
        with pair.session(PROMPT, max_tokens=4, cache=policy) as session, pytest.raises(rl.BadInput, match=said):
            session.run()


@pytest.mark.parametrize("given, said", [([[0], [0], [0], [0], [0]], "5 lists of positions"), ([0, 4000], "position 4000 is not held"),
                                         (["a"], "of whole numbers")])
def test_a_bad_choice_of_what_is_read_gets_one_sentence(pair, given, said):
    class Wrong(rl.CachePolicy):
        def before_attention(self, view):
            return given

    with pair.session(PROMPT, max_tokens=4, cache=Wrong) as session, pytest.raises(rl.BadInput, match=said):
        session.run()


def test_an_exception_ends_the_run_and_leaves_what_was_recorded(pair, tmp_path):
    class Fragile(Sinks):
        def after_attention(self, view):
            if view.step == 5 and view.layer == 1:
                sessions[0].text if own else {}["nothing"]

    sessions, path = [], tmp_path / "run.rlt"
    for own, kind in ((False, KeyError), (True, rl.BadInput)):
        with pair.session(PROMPT, max_tokens=12, cache=Fragile(budget=16), record=path) as session:
            sessions[:] = [session]
            with pytest.raises(kind) as raised:
                session.run()
            assert any("after_attention() in layer 1 at step 5" in note for note in getattr(raised.value, "__notes__", ["after_attention() in layer 1 at step 5"]))
            assert len(session.recording) == 4
            with pytest.raises(rl.BadInput, match="it is closed"):
                session.step()
        assert len(rl.read_trace(path).runs[0]) == 4
        path.unlink()
    with pair.branch(session.recording, 4, cache=type("Fragile", (Sinks,), {})(budget=16)) as mended:
        assert mended.run() == 8


def test_what_is_no_policy_is_refused(pair):
    class Vague(rl.CachePolicy):
        row = 1

    class Unnamed(rl.CachePolicy):
        name = "two\nlines"

    class Closed(rl.CachePolicy):
        def start(self):
            self.door = open(__file__)  # noqa: SIM115

    for policy, kind, said in ((Vague, rl.BadInput, "row is True or False"), (Unnamed, rl.BadInput, "one printable line"),
                               (Closed, TypeError, "cannot pickle")):
        with pytest.raises(kind, match=said):
            pair.session(PROMPT, cache=policy)
    with pytest.raises(rl.BadInput, match="cannot act in mode overfill"):
        pair.session(PROMPT, teacher_cache=Sinks())
    assert list(rl.top([3, 1, 3, 2], 2)) == [0, 2] and list(rl.top([1, 1, 1], 2)) == [1, 2]
    with pytest.raises(rl.BadInput, match="odd kernel"):
        rl.pooled([1, 2], 4)


class Counting(rl.CachePolicy):
    """Keeps everything, and says how many entries each layer holds."""
    wrong: str = ""

    def start(self):
        self.held = None

    def before_attention(self, view):
        self.held = self.held or [None] * self.model.layers
        self.held[view.layer] = len(view.held(0)) if view.layer != 1 else None
        return None

    def signals(self):
        if self.wrong and self.held:
            return {"names": {"another": None}, "layers": {"own_held": [1.0]}, "values": {"own_held": ["x"] * self.model.layers}}[self.wrong]
        return {"own_held": self.held}


def test_a_policy_publishes_signals(pair, tmp_path):
    path = tmp_path / "run.rlt"
    with pair.session(PROMPT, max_tokens=12, cache=Counting(), policy={"at": [5]}, record=path) as session:
        session.run(8)
        session.rewind(6)
        session.run()
        prompt = len(session.recording.prompt_ids)
    run = rl.read_trace(path).runs[-1]
    for step in run:
        if step.step < 12:
            layers = step.layers("own_held")
            assert layers[0] == layers[2] == prompt + step.step == step.layers("cache_held")[0] and layers[1] != layers[1]
    assert {s.name: s.label for s in run.signals}["own_held"] == "Own held" and "Own held" in rl.figure(path, signals="own_held").svg
    for wrong, error, said in (("names", rl.BadInput, "other names"), ("layers", rl.BadInput, "has 1 values"), ("values", TypeError, "")):
        policy = Counting()
        policy.wrong = wrong
        with pair.session(PROMPT, max_tokens=4, cache=policy) as session, pytest.raises(error, match=said or None):
            session.run()
