"""Cache policies written in Python: a paper's idea in twenty lines, before it is written in C++."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _records
from .errors import BadInput

if TYPE_CHECKING:
    from . import _engine

_longest_name = 200


@dataclass(frozen=True, slots=True)
class PolicyModel:
    """What a cache policy may know of the model whose cache it keeps, and of the run."""
    layers: int
    """Of the model."""
    heads: int
    """Query heads."""
    kv_heads: int
    """Of a layer."""
    head_dim: int
    """Numbers in a key, and in a value, of one KV head."""
    prompt_length: int
    """Tokens of the prompt."""
    seed: int
    """Of the run, for policies that draw."""

    @property
    def group(self) -> int:
        """Query heads of a KV head."""
        return self.heads // self.kv_heads


class CachePolicy:
    """Which entries a cache keeps and attention reads, written in Python; ``pair.session(cache=MyPolicy())`` runs it.

    Derive from it, say what it needs to be shown, and override what it uses. The engine calls the functions in the terms of its own policies
    (docs/reference/cache-definitions.md, section 2), one layer at a time, and with a ``PolicyView``: positions that each KV head holds; keys,
    values, queries and attention rows as tensors over the engine's memory; ``evict()``, ``keep()``, ``rewrite()``. A view is of use during its
    call alone, and so are its tensors: take ``.clone()`` of what should stay. They are not to be written to: ``rewrite()`` changes entries, so that a
    rewind takes it back.

    - State lies in the object. A run works on a copy of it and copies it again at every step, so that ``rewind()`` and branches find it as it
      was. Attributes named in ``shared`` are not copied.
    - An exception ends the step and closes the session; what was recorded stays, and ``pair.branch()`` goes on from there.
    """

    edits: bool = True
    """It evicts or rewrites entries; False: every entry stays, and ``before_attention()`` alone chooses."""
    prompt_rows: int = 0
    """Attention rows of the last so many queries of the prompt: ``view.attention()`` in ``read_prompt()``."""
    prompt_sums: bool = False
    """Attention that each key received from all queries of the prompt: ``view.sums()``."""
    prompt_queries: int = 0
    """The last so many queries of the prompt: ``view.queries()`` in ``read_prompt()``."""
    output_norms: bool = False
    """How large a value is behind the output projection: ``view.output_norms()``, of the prompt."""
    prompt_band: int = 0
    """Tokens of the prompt see the newest so many entries; 0: all. Not where another model reads the prompt."""
    row: bool = False
    """At each step the attention row of the new token: ``view.attention()`` in ``after_attention()``."""
    query: bool = False
    """At each step its queries: ``view.queries()``."""
    raw_queries: bool = False
    """Queries are those before RoPE."""
    shared: Sequence[str] = ()
    """Attributes that copies share: weights, tables, whatever never changes during a run."""
    model: PolicyModel
    """Set before ``start()``."""

    @property
    def name(self) -> str:
        """What the trace and the window call it: the class, and the fields of a dataclass."""
        label = type(self).__name__
        if dataclasses.is_dataclass(self):
            fields = [field for field in dataclasses.fields(self) if field.init and field.repr]
            label += "(" + ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields) + ")"
        return label

    def start(self) -> None:
        """Once, before anything is read. ``self.model`` is known."""

    def read_prompt(self, view: _engine.PolicyView) -> None:
        """The layer has read the prompt, and every entry is held: what stays of it."""

    def finish_prompt(self, views: list[_engine.PolicyView]) -> None:
        """All layers have read it: for budgets that need all of them."""

    def before_attention(self, view: _engine.PolicyView) -> ArrayLike | Sequence[ArrayLike] | None:
        """A step, before its token reads the cache, which has the token's own entry already. Room may be made here.

        :return: positions that attention reads: one array for all KV heads, or a list with one for each; None: all that is held. The new
            position is read in any case
        """
        return None

    def after_attention(self, view: _engine.PolicyView) -> None:
        """The same step, when the token has read."""

    def refreshed(self, view: _engine.PolicyView) -> None:
        """A refresh has written other content into ``view.written()``; entries are not changed here."""

    def signals(self) -> Mapping[str, Iterable[float | None] | NDArray[Any] | None]:
        """Numbers that are recorded at each step, by name: a value for each layer, None where there is none. They are plotted and exported like
        ``cache_held``, and trigger nothing. Asked once before the first step, for the names, and behind each; the names stay."""
        return {}

    def __deepcopy__(self, memo: dict[int, Any]) -> CachePolicy:
        twin = object.__new__(type(self))
        kept = {"model", *self.shared}
        for name, value in self.__dict__.items():
            object.__setattr__(twin, name, value if name in kept else copy.deepcopy(value, memo))
        return twin


_needs = {"edits": bool, "prompt_rows": int, "prompt_sums": bool, "prompt_queries": int, "output_norms": bool, "prompt_band": int, "row": bool,
          "query": bool, "raw_queries": bool}


def _needs_of(policy: CachePolicy) -> dict[str, bool | int]:
    needs: dict[str, bool | int] = {}
    for name, kind in _needs.items():
        value = getattr(policy, name)
        if kind is bool and not isinstance(value, bool):
            raise BadInput(f"cache policy {policy.name}: {name} is True or False, not {value!r}")
        if kind is int and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise BadInput(f"cache policy {policy.name}: {name} is a whole number from 0 on, not {value!r}")
        needs[name] = value
    return needs


def _name_of(policy: CachePolicy) -> str:
    name = policy.name
    if not name or not name.isprintable() or len(name.encode()) > _longest_name:
        raise BadInput(f"the name of a cache policy is one printable line of at most {_longest_name} bytes, not {name[:40]!r}; "
                       "a field of a dataclass with repr=False stays out of it")
    return name


def _begin(template: CachePolicy) -> Callable[..., tuple[CachePolicy, dict[str, bool | int]]]:
    def begin(*facts: int) -> tuple[CachePolicy, dict[str, bool | int]]:
        policy = copy.deepcopy(template)
        object.__setattr__(policy, "model", PolicyModel(*facts))
        policy.start()
        return policy, _needs_of(policy)
    return begin


def top(scores: ArrayLike, k: int) -> NDArray[np.int64]:
    """Indices of the k largest scores, ascending, as the built-in policies choose: of equal ones the newer stays."""
    return _records.top(np.ascontiguousarray(scores, np.float32), k)


def pooled(scores: ArrayLike, kernel: int, how: str = "max") -> NDArray[np.float32]:
    """Scores pooled over ``kernel`` (odd) neighbours, ``max`` or ``mean``, as the built-in policies do: a mean counts zeros behind the ends."""
    if kernel < 1 or kernel % 2 == 0 or how not in ("max", "mean"):
        raise BadInput(f"pooling takes an odd kernel and max or mean, not {kernel} and {how!r}")
    return _records.pooled(np.ascontiguousarray(scores, np.float32), kernel, how == "mean")
