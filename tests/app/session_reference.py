"""Whole decode sessions in plain Python over `transformers`: docs/reference/refresh.md as an outsider would read it.

usage: session_reference.py JOBS.json OUT.json

JOBS.json is a job or a list of jobs, OUT.json the results in the same order. Nothing here was taken from the C++: the models'
forwards are those of transformers (eager attention), the caches are plain lists of K and V, one pair per layer, and every rule
names its section ("S3" = section 3). Slow on purpose: no incremental trick beyond the caches that the method itself defines.

A job:
  teacher, student   checkpoint folders; student may be left out in mode teacher
  mode               teacher | student | overfill
  prompt_ids         list of ids; or prompt: text, through the tokenizer as it is, or with chat: true through its template
  given_ids          optional: the continuation is read from here, not chosen (signals and refreshes as ever)
  N                  tokens to generate at most
  stop_ids           ids that end the run (not counted in N); default none
  policy             {"when": {"any" | "all": [{"signal", "above" | "at_least" | "below" | "at_most", "every", "cooldown",
                     "enabled"}]}, "do": {"refresh": {"window": W or null, "lag": j}}, "on_fire",
                     "budget": {"refreshes", "per_tokens"}}
                     the JSON form of docs/design.md, section 4; overfill only
  manual             steps with a refresh by hand
  shadow             true: a teacher pass at every step, for a complete KL curve
  mc                 {"samples", "p", "every", "measure", "seed", "groups"}; dropout on the attention probabilities and, where the
                     checkpoint declares resid_dropout, on both residual branches. groups: so many measurements per step, all
                     of them in mc_groups
  dtype              float64 (default) | float32
  kl_ring            student rows kept for back-filled KL, S6.1; default 256
  top_k              candidates per step, default 8

Results are named like the columns of steps.csv, events.csv, drift.csv and the keys of the summary; None = not known.
`closest` tells how near the run came to going another way: the smallest gap between the two best logits of a choice, and the
smallest distance of a looked-at signal from its threshold (None: there was none).
"""

import functools
import json
import math
import pathlib
import sys

import torch
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, DynamicCache
from transformers.cache_utils import DynamicLayer
from transformers.utils import logging

LN2 = math.log(2.0)
FIRES = {
    "above": lambda value, bound: value > bound,
    "at_least": lambda value, bound: value >= bound,
    "below": lambda value, bound: value < bound,
    "at_most": lambda value, bound: value <= bound,
}


@functools.lru_cache(maxsize=None)
def load_model(folder: str, dtype: torch.dtype):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()


class StoredColumn(DynamicLayer):
    """One layer of a cache behind which a token is read again: its own column is not computed but the stored one."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, stored_key: torch.Tensor, stored_value: torch.Tensor):
        super().__init__()
        self.lazy_initialization(keys, values)
        self.keys, self.values = keys, values
        self.stored = (stored_key, stored_value)

    def update(self, key_states, value_states, *args, **kwargs):
        return super().update(*self.stored)


class Reader:
    """A model and the columns it has, [1, Hk, n, d] per layer for K and V; column p belongs to absolute position p (S1)."""

    def __init__(self, folder: str, dtype: torch.dtype):
        self.model = load_model(folder, dtype)
        self.config = self.model.config
        # Without the configuration a cache keeps every position, also of sliding layers: a window is a mask alone.
        self.cache = DynamicCache()

    @property
    def len(self) -> int:
        return self.cache.get_seq_length()

    def _forward(self, tokens: list[int], first: int, cache: DynamicCache, copies: int = 1) -> torch.Tensor:
        positions = torch.arange(first, first + len(tokens))
        out = self.model(torch.tensor([tokens] * copies), past_key_values=cache, use_cache=True,
                         position_ids=positions.expand(copies, -1), cache_position=positions)
        return out.logits.to(torch.float64)

    def extend(self, tokens: list[int]) -> torch.Tensor:
        """Reads tokens at positions len, len + 1, ...; their columns are appended. Returns their rows."""
        return self._forward(tokens, self.len, self.cache)[0]

    def copy_columns(self, source: "Reader", first: int, last: int) -> None:
        """Columns [first, last) become those of `source`, or are appended when this cache ends at `first`."""
        append = first == self.len
        for index, layer in enumerate(source.cache.layers):
            keys, values = layer.keys[:, :, first:last].clone(), layer.values[:, :, first:last].clone()
            if append:
                self.cache.update(keys, values, index)
            else:
                self.cache.layers[index].keys[:, :, first:last] = keys
                self.cache.layers[index].values[:, :, first:last] = values

    def reread(self, token: int, position: int) -> torch.Tensor:
        """The row of a read-only step (S3, redraw): attends the stored columns 0..position, writes none."""
        cache = DynamicCache()
        cache.layers = [StoredColumn(layer.keys[:, :, :position], layer.values[:, :, :position],
                                     layer.keys[:, :, position:position + 1], layer.values[:, :, position:position + 1])
                        for layer in self.cache.layers]
        return self._forward([token], position, cache)[0, 0]

    def dropout_rows(self, token: int, position: int, passes: int, p: float, residual: bool) -> torch.Tensor:
        """Rows of `passes` reads of one token with dropout on (S5, MC dropout; S6.3), as a batch.

        Dropout on the attention probabilities is transformers' own training mode. The prefix columns are those of the
        deterministic pass, the token's own column is the pass's own, and no pass leaves a column behind.
        """
        attentions = [layer.self_attn for layer in self.model.model.layers]
        hooks = []
        if residual:
            def drop(_, __, output):
                if isinstance(output, tuple):
                    return (torch.nn.functional.dropout(output[0], p), *output[1:])
                return torch.nn.functional.dropout(output, p)
            hooks = [module.register_forward_hook(drop)
                     for layer in self.model.model.layers for module in (layer.self_attn, layer.mlp)]
        before = [attention.attention_dropout for attention in attentions]
        for attention in attentions:
            attention.attention_dropout = p
            attention.train()
        cache = DynamicCache()
        for index, layer in enumerate(self.cache.layers):
            cache.update(layer.keys[:, :, :position].expand(passes, -1, -1, -1),
                         layer.values[:, :, :position].expand(passes, -1, -1, -1), index)
        rows = self._forward([token], position, cache, passes)[:, 0]
        for attention, value in zip(attentions, before):
            attention.attention_dropout = value
            attention.eval()
        for hook in hooks:
            hook.remove()
        return rows


def same_geometry(teacher, student) -> bool:
    """S4, "geometry check before any splice"; the tokenizer is one for both here."""
    def geometry(config):
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return (config.num_hidden_layers, config.num_key_value_heads, head_dim, config.rope_parameters,
                config.max_position_embeddings)
    return geometry(teacher) == geometry(student)


# Quantities of one row, S5 and S7: raw logits, temperature 1.


def log_softmax(row: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(row, dim=-1)


def entropy_bits(row: torch.Tensor) -> float:
    log_p = log_softmax(row)
    return float(-(log_p.exp() * log_p).sum() / LN2)


def varentropy_bits2(row: torch.Tensor) -> float:
    """Variance of -log2 p under p."""
    log_p = log_softmax(row)
    surprisal = -log_p / LN2
    return float((log_p.exp() * (surprisal - (log_p.exp() * surprisal).sum()) ** 2).sum())


def kl_nats(teacher_row: torch.Tensor, student_row: torch.Tensor) -> float:
    """KL(p_T || p_S)."""
    log_t, log_s = log_softmax(teacher_row), log_softmax(student_row)
    return float((log_t.exp() * (log_t - log_s)).sum())


def acceptance(teacher_row: torch.Tensor, student_row: torch.Tensor) -> float:
    """sum of min(p_T, p_S)."""
    return float(torch.minimum(torch.softmax(teacher_row, dim=-1), torch.softmax(student_row, dim=-1)).sum())


# Logits closer than this may change places with the precision of the program's.
NEAR = 2e-4


def possible_ranks(row: torch.Tensor, token: int) -> list[int]:
    """Lowest and highest place that a token can have."""
    return [1 + int((row > row[token] + NEAR).sum()), max(1, int((row > row[token] - NEAR).sum()))]


def possible_hits(a: torch.Tensor, b: torch.Tensor) -> list[int]:
    """Whether two rows have one arg max: [0, 0], [1, 1], or [0, 1] where a close second makes both possible."""
    close = [torch.nonzero(row > row.max() - NEAR).flatten().tolist() for row in (a, b)]
    if len(close[0]) == len(close[1]) == 1:
        return [int(close[0] == close[1])] * 2
    return [0, int(bool(set(close[0]) & set(close[1])))]


def mc_statistics(rows: torch.Tensor) -> dict:
    """S5: U = mean over the vocabulary of the unbiased variance; S7: I = H(mean p) - mean H(p)."""
    log_p = log_softmax(rows)
    mean_entropy = float(-(log_p.exp() * log_p).sum(dim=-1).mean() / LN2)
    mean = log_p.exp().mean(dim=0)
    return {
        "mc_variance": float(rows.var(dim=0, unbiased=True).mean()),
        "mc_entropy_bits": mean_entropy,
        "mc_mutual_information_bits": float(-(mean * mean.log()).nansum() / LN2) - mean_entropy,
    }


class Session:
    """The loop of S3. Names follow the page: L, P, T, S, y; y[t] is y_t (y[0] is unused)."""

    def __init__(self, job: dict):
        self.job = job
        dtype = getattr(torch, job.get("dtype", "float64"))
        self.mode = job["mode"]
        self.T = Reader(job["teacher"], dtype)
        self.S = self.T if self.mode == "teacher" else Reader(job["student"], dtype)
        self.prompt = prompt_ids(job)
        self.L = len(self.prompt)
        self.last_kl: float | None = None  # known before a boundary: KL of the newest position that the teacher has read,
        self.last_drift: float | None = None  # and the mean drift of the delta of the last refresh
        self.rebuild = self.mode == "overfill" and not same_geometry(self.T.config, self.S.config)
        policy = job.get("policy", {}) if self.mode == "overfill" else {}  # S1: refresh policies act in overfill
        when = policy.get("when", {})
        self.all = "all" in when
        self.triggers = [t for t in when.get("all", when.get("any", [])) if t.get("enabled", True)]
        self.window = policy.get("do", {}).get("refresh", {}).get("window")
        self.lag = policy.get("do", {}).get("refresh", {}).get("lag", 0)
        self.on_fire = policy.get("on_fire", "keep")
        self.budget = policy.get("budget", {})
        self.mc = job.get("mc", {})
        torch.manual_seed(self.mc.get("seed", 0))
        self.limit = min(reader.config.max_position_embeddings for reader in (self.T, self.S))

        self.y = [None]          # y_1 .. y_N
        self.P = self.L          # splice watermark
        self.t_last = None       # boundary of the last splice of any cause
        self.automatic = []      # boundaries of the automatic refreshes, for the cap
        self.teacher_rows = {}   # position -> row_T, as far as a teacher pass read it
        self.student_rows = {}   # position -> row of the decoding model
        self.chosen_by = [None]  # the row from which y_t was drawn
        self.steps = {}          # t -> values of that step
        self.refreshes, self.passes = [], []
        self.pass_end = self.L   # where the last teacher pass of a probe or a refresh ended
        self.flight = None       # the refresh that has fired and not landed
        self.manual = job.get("manual", [])
        self.asked = False       # by hand, while one was in flight
        self.closest = {"choice": math.inf, "trigger": math.inf}

    # Choice of a token, S2.

    def pick(self, row: torch.Tensor) -> int:
        """Greedy, or read from the given ids."""
        given = self.job.get("given_ids")
        if given is not None:
            return given[len(self.y) - 1]
        best = row.topk(2).values
        self.closest["choice"] = min(self.closest["choice"], float(best[0] - best[1]))
        return int(row.argmax())

    def text_ends(self) -> bool:
        given = self.job.get("given_ids")
        return given is not None and len(self.y) - 1 >= len(given)

    # The teacher, S3 and S6.

    def teacher_pass(self, t: int, last: int, probe: bool = False, shadow: bool = False) -> int:
        """Extends the teacher over [T.len, last); no pass if that is empty. Back-fills KL (S6.1)."""
        first = self.T.len
        if first >= last:
            return 0
        rows = self.T.extend([self.y[p - self.L + 1] for p in range(first, last)])
        for p in range(first, last):
            self.teacher_rows[p] = rows[p - first]
            if p >= self.S.len - self.job.get("kl_ring", 256):  # a row that fell out of the ring leaves KL missing
                self.steps[p - self.L + 1]["kl_nats"] = kl_nats(rows[p - first], self.student_rows[p])
                self.steps[p - self.L + 1]["acceptance"] = acceptance(rows[p - first], self.student_rows[p])
                self.steps[p - self.L + 1]["same_top1"] = possible_hits(rows[p - first], self.student_rows[p])
        newest = self.steps[last - self.L]["kl_nats"]
        if newest is not None:
            self.last_kl = newest
        if last == self.S.len:
            self.steps[t]["kl_mean_nats"] = self.mean_kl(t)
        self.passes.append({"step": t, "first_pos": first, "tokens": last - first, "probe": probe, "shadow": shadow})
        return last - first

    def mean_kl(self, t: int) -> float | None:
        """S5, option: mean over all delta positions."""
        values = [self.steps[i]["kl_nats"] for i in range(self.P - self.L + 1, t + 1)]
        return None if not values or None in values else sum(values) / len(values)

    # Policy, S5.

    def holds(self, trigger: dict, value: float | None, t: int) -> bool:
        """Eligible by cool-down and beyond the threshold. NaN, infinite or missing values never fire."""
        if self.t_last is not None and t - self.t_last < trigger.get("cooldown", 0):
            return False
        if value is None or not math.isfinite(value):
            return False
        name = next(key for key in FIRES if key in trigger)
        if trigger["signal"] != "steps_since_refresh":  # a whole number is never close
            self.closest["trigger"] = min(self.closest["trigger"], abs(value - trigger[name]))
        return FIRES[name](value, trigger[name])

    def at_boundary(self, t: int) -> None:
        """decision = policy.at_boundary(t), and what follows from it."""
        if self.flight is not None:
            self.advance(t)
        if self.flight is not None:  # nothing fires and nothing is probed meanwhile; a person's request waits
            self.asked = self.asked or t in self.manual
            return
        # S.len - P as it is now: after a lagged splice that has just landed.
        known = self.steps[t] | {"steps_since_refresh": self.S.len - self.P}
        hits, pass_tokens = [], 0
        kl_triggers = [x for x in self.triggers if x["signal"] in ("kl_nats", "kl_mean_nats", "acceptance")]
        for trigger in self.triggers:
            if trigger in kl_triggers or t % trigger.get("every", 1) != 0:
                continue
            if self.holds(trigger, known[trigger["signal"]], t):
                hits.append(trigger)
        # A probe is due every M tokens, whatever cool-down and cap say (they bind the splice); where all triggers must
        # hold, only when they still can.
        due = [x for x in kl_triggers if self.S.len - self.pass_end >= x.get("every", 1)]
        if due and (not self.all or len(hits) + len(due) == len(self.triggers)):
            pass_tokens += self.teacher_pass(t, self.S.len, probe=True)
            self.pass_end = self.S.len
            for trigger in due:
                known[trigger["signal"]] = self.steps[t][trigger["signal"]]
                if self.holds(trigger, known[trigger["signal"]], t):
                    hits.append(trigger)
        fires = bool(hits) and (not self.all or len(hits) == len(self.triggers))
        hits.sort(key=self.triggers.index)  # every trigger that was above its threshold, in the policy's order
        cap = self.budget.get("refreshes")
        if fires and cap is not None:  # fewer than cap automatic refreshes at boundaries in (t - per_tokens, t]
            recent = [b for b in self.automatic if t - self.budget.get("per_tokens", 1000) < b <= t]
            fires = len(recent) < cap
        by_hand, self.asked = self.asked or t in self.manual, False
        if not fires and not by_hand:
            return
        if fires:
            self.automatic.append(t)
        self.flight = {
            "fired_step": t,
            "hits": [{"signal": h["signal"],
                      "value": known[h["signal"]],
                      "threshold": next(h[key] for key in FIRES if key in h)} for h in hits],
            "by_hand": by_hand,
            "automatic": fires,
            "delta": self.S.len - self.P,
            "pass_tokens": pass_tokens,
            "on_fire": self.on_fire,
            "end": self.S.len,
        }
        self.advance(t)

    def advance(self, t: int) -> None:
        """S3, exact or lagged: the splice lands `lag` boundaries after the one that fired, on what was delta at the fire; the teacher
        reads an equal share of what is left of it at each boundary. Exact = lag 0: all at once. A run that ends before has
        no refresh there."""
        event, S, T = self.flight, self.S, self.T
        boundaries = event["fired_step"] + self.lag - t + 1  # this one included
        # The teacher's token needs the teacher's newest row, so it then reads the columns written meanwhile as well.
        end = S.len if boundaries == 1 and self.on_fire == "teacher_token" else event["end"]
        share = math.ceil(max(0, end - T.len) / boundaries)
        event["pass_tokens"] += self.teacher_pass(t, T.len + share)
        if boundaries == 1:
            self.pass_end = end
            self.flight = None
            self.splice(t, event)

    def splice(self, t: int, event: dict) -> None:
        L, S, T = self.L, self.S, self.T
        step = self.steps[t]
        first, last = self.P, event.pop("end")
        event |= {"step": t, "kl_nats": self.steps[last - L]["kl_nats"], "drift": [], "mean_drift": None}
        # S6.2: drift on [P, S.len), before the splice. Columns of other shapes have no distance.
        if not self.rebuild:
            for index, (own, other) in enumerate(zip(S.cache.layers, T.cache.layers)):
                for p in range(first, last):
                    row = {"layer": index, "position": p}
                    for name, a, b in (("k", own.keys, other.keys), ("v", own.values, other.values)):
                        difference, teacher = a[0, :, p] - b[0, :, p], b[0, :, p]
                        row[name + "_relative"] = float(difference.norm()) / max(float(teacher.norm()), 1e-12)
                        row[name + "_max_abs"] = float(difference.abs().max())
                    event["drift"].append(row)
            for p in range(first, last):
                values = [(d["k_relative"] + d["v_relative"]) / 2 for d in event["drift"] if d["position"] == p]
                self.steps[p - L + 1]["drift"] = sum(values) / len(values)
            event["mean_drift"] = sum(self.steps[p - L + 1]["drift"] for p in range(first, last)) / (last - first)
            self.last_drift = event["mean_drift"]
        # S3: the newest k columns, at equal absolute positions.
        k = last - first if self.window is None else min(self.window, last - first)
        if k > 0 and not self.rebuild:
            S.copy_columns(T, last - k, last)
        event["first_pos"], event["spliced"] = last - k, k
        self.P = last
        # With W = 0 as well: "tokens since the last splice" is S.len - P (S5, periodic), and P has moved.
        self.t_last = t
        step["refreshed"] = int(k > 0)
        event["token_before"] = self.pending
        if self.on_fire == "teacher_token":
            self.pending_row = self.teacher_rows[L + t - 1]
            self.pending = self.pick(self.pending_row)
        elif self.on_fire == "redraw":
            self.pending_row = S.reread(self.y[t], L + t - 1)
            self.pending = self.pick(self.pending_row)
        event["token_after"] = self.pending
        stops = self.job.get("stop_ids", [])
        event["end_taken_back"] = event["token_before"] in stops and event["token_after"] not in stops
        self.refreshes.append(event)

    # The loop, S3.

    def emit(self, token: int, row: torch.Tensor) -> str | None:
        """y_{t+1} joins the text; returns why the run ends, if it does."""
        if token in self.job.get("stop_ids", []) and "given_ids" not in self.job:  # a given text is read to its end
            return "stop_token"
        self.y.append(token)
        self.chosen_by.append(row)
        if len(self.y) - 1 == self.job["N"]:
            return "max_tokens"
        return "given_end" if self.text_ends() else None

    def run(self) -> dict:
        L, T, S = self.L, self.T, self.S
        # S1: who prefills; S2: y_1 = pick(row_T(L-1)), in mode student row_S(L-1).
        if self.mode == "student":
            row = S.extend(self.prompt)[-1]
        else:
            row = T.extend(self.prompt)[-1]
            self.teacher_rows[L - 1] = row
            if self.rebuild:
                S.extend(self.prompt)
            elif self.mode == "overfill":
                S.copy_columns(T, 0, L)
        ended = self.emit(self.pick(row), row)
        t = 0
        while ended is None and S.len < self.limit:
            t += 1
            row = S.extend([self.y[t]])[0]  # y_t at position L + t - 1; S.len = L + t
            assert S.len == L + t and L <= self.P <= max(T.len, L)
            self.student_rows[L + t - 1] = row
            if self.mode == "teacher":
                self.teacher_rows[L + t - 1] = row
            self.steps[t] = self.row_values(row) | {"kl_nats": None, "kl_mean_nats": None, "acceptance": None, "same_top1": None, "drift": None, "refreshed": 0,
                                                    "steps_since_refresh": S.len - self.P,
                                                    "last_kl_nats": self.last_kl, "last_drift": self.last_drift,
                                                    "teacher_unread": S.len - T.len if self.mode == "overfill" else None}
            self.measure_mc(t, row)
            self.pending, self.pending_row = self.pick(row), row
            if self.mode != "overfill":
                ended = self.emit(self.pending, row)
                continue
            if self.job.get("shadow"):
                self.teacher_pass(t, S.len, shadow=True)
            if self.on_fire == "keep":
                ended = self.emit(self.pending, row)
                if ended is None:  # a refresh due at the end is not run (S2)
                    self.at_boundary(t)
            else:
                self.at_boundary(t)
                ended = self.emit(self.pending, self.pending_row)
        return self.result(ended or "context_limit")

    def row_values(self, row: torch.Tensor) -> dict:
        top1 = float(log_softmax(row).max())
        best = torch.softmax(row, dim=-1).topk(min(max(self.job.get("top_k", 8), 2), row.numel()))
        return {
            "entropy_bits": entropy_bits(row),
            "top1_prob": math.exp(top1),
            "top1_surprisal_bits": -top1 / LN2,
            "varentropy_bits2": varentropy_bits2(row),
            "top2_margin": float(best.values[0] - best.values[1]),
            "topk": [[int(i), float(p)] for i, p in zip(best.indices, best.values)][:self.job.get("top_k", 8)],
            "mc_variance": None, "mc_entropy_bits": None, "mc_mutual_information_bits": None,
        }

    def measure_mc(self, t: int, row: torch.Tensor) -> None:
        """S5: at t mod every == 0. Other random numbers than the product's: a sample of each quantity, not its value."""
        wanted = self.mc.get("measure") or any(x["signal"].startswith("mc_") for x in self.triggers)
        if not wanted or t % self.mc.get("every", 16) != 0:
            return
        residual = float(getattr(self.S.config, "resid_dropout", 0) or 0) > 0
        samples = [mc_statistics(self.S.dropout_rows(self.y[t], self.L + t - 1, self.mc["samples"], self.mc["p"], residual))
                   for _ in range(self.mc.get("groups", 1))]
        self.steps[t] |= samples[0] | {"mc_groups": {key: [x[key] for x in samples] for key in samples[0]}}

    # S7.

    def result(self, ended: str) -> dict:
        L, N = self.L, len(self.y) - 1
        loop_passes = list(self.passes)
        # Missing teacher rows from a closing pass over [T.len, L+N-1); in mode student it reads the prompt as well.
        text = self.prompt + self.y[1:]
        first = self.T.len
        if first < L + N - 1:
            rows = self.T.extend(text[first:L + N - 1])
            self.teacher_rows |= {first + i: row for i, row in enumerate(rows)}
        steps = []
        for t in range(1, N + 1):
            teacher_row = self.teacher_rows[L + t - 2]  # predicts y_t
            steps.append({
                "step": t, "position": L + t - 1, "token_id": self.y[t],
                "logprob": float(log_softmax(self.chosen_by[t])[self.y[t]]),
                "top1_hit": int(int(self.chosen_by[t].argmax()) == self.y[t]),
                "teacher_logprob": float(log_softmax(teacher_row)[self.y[t]]),
                "teacher_agreement": int(int(teacher_row.argmax()) == self.y[t]),
                "teacher_rank": possible_ranks(teacher_row, self.y[t]),
                # Of a row that was fed; y_N has none (S2).
                "entropy_bits": None, "top1_prob": None, "top1_surprisal_bits": None, "kl_nats": None, "kl_mean_nats": None, "acceptance": None, "same_top1": None, "drift": None,
                "steps_since_refresh": None, "last_kl_nats": None, "last_drift": None, "refreshed": 0, "topk": [], "fed": t in self.steps,
            } | self.steps.get(t, {}))
        lp = [s["teacher_logprob"] for s in steps]
        tail = lp[-min(50, N):]
        grams = [tuple(self.y[i:i + 3]) for i in range(1, N - 1)]
        entropies = [s["entropy_bits"] for s in steps if s["fed"]]
        kls = sorted(s["kl_nats"] for s in steps if s["kl_nats"] is not None)
        quantile = lambda q: kls[math.floor(q * (len(kls) - 1))] + (q * (len(kls) - 1) % 1) * (
            kls[min(math.floor(q * (len(kls) - 1)) + 1, len(kls) - 1)] - kls[math.floor(q * (len(kls) - 1))]) if kls else None
        taken = [s["acceptance"] for s in steps if s["acceptance"] is not None]
        mean_taken = sum(taken) / len(taken) if taken else None
        own = [s["logprob"] for s in steps]
        tokenizer = load_tokenizer(self.job["teacher"])
        decoded = tokenizer.decode(self.y[1:], skip_special_tokens=True) if tokenizer else None
        return {
            "name": self.job.get("name", ""),
            "prompt_ids": self.prompt, "token_ids": self.y[1:],
            "steps": steps, "refreshes": self.refreshes, "passes": loop_passes,
            "rebuild": self.rebuild,
            "closest": {key: value if math.isfinite(value) else None for key, value in self.closest.items()},
            "summary": {
                "prompt_tokens": L, "tokens": N, "stop_reason": ended,
                "text": decoded, "characters": None if decoded is None else len(decoded),
                "refresh_count": sum(r["spliced"] > 0 for r in self.refreshes),
                "teacher_passes": len(loop_passes), "teacher_tokens": sum(p["tokens"] for p in loop_passes),
                "mean_entropy_bits": sum(entropies) / len(entropies) if entropies else None,
                "agreement": sum(s["teacher_agreement"] for s in steps) / N if N else None,
                "top1_hit": sum(s["top1_hit"] for s in steps) / N if N else None,
                "teacher_ppl": math.exp(-sum(lp) / N) if N else None,
                "tail_logprob": sum(tail) / len(tail) if tail else None,
                "kl_rows": len(kls), "kl_mean": sum(kls) / len(kls) if kls else None, "kl_median": quantile(0.5),
                "kl_p90": quantile(0.9), "kl_p99": quantile(0.99), "kl_max": kls[-1] if kls else None,
                "acceptance": mean_taken,
                "tokens_per_verify": [sum(mean_taken ** i for i in range(g + 1)) for g in range(1, 9)] if taken else None,
                "student_ppl": math.exp(-sum(own) / N) if N else None,
                "ppl_ratio": math.exp((sum(lp) - sum(own)) / N) if N else None,
                "repetition3": 1 - len(set(grams)) / len(grams) if grams else 0.0,
            },
        }


@functools.lru_cache(maxsize=None)
def load_tokenizer(folder: str) -> Tokenizer | None:
    file = pathlib.Path(folder) / "tokenizer.json"
    return Tokenizer.from_file(str(file)) if file.exists() else None


def prompt_ids(job: dict) -> list[int]:
    if "prompt_ids" in job:
        return list(job["prompt_ids"])
    if job.get("chat"):
        template = AutoTokenizer.from_pretrained(job["teacher"])
        text = template.apply_chat_template([{"role": "user", "content": job["prompt"]}], tokenize=False,
                                            add_generation_prompt=True)
        return load_tokenizer(job["teacher"]).encode(text, add_special_tokens=False).ids
    return load_tokenizer(job["teacher"]).encode(job["prompt"]).ids


def stop_ids(folder: str) -> list[int]:
    """What a checkpoint declares as end tokens."""
    for name in ("generation_config.json", "config.json"):
        file = pathlib.Path(folder) / name
        if file.exists():
            ids = json.loads(file.read_text()).get("eos_token_id")
            if ids is not None:
                return ids if isinstance(ids, list) else [ids]
    return []


def run_job(job: dict) -> dict:
    with torch.no_grad():
        return Session(job).run()


def main() -> None:
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    jobs = json.loads(pathlib.Path(sys.argv[1]).read_text())
    results = [run_job(job) for job in jobs] if isinstance(jobs, list) else run_job(jobs)
    pathlib.Path(sys.argv[2]).write_text(json.dumps(results, allow_nan=False))


if __name__ == "__main__":
    main()
