"""KV-cache refresh with a teacher and a student, live and recorded.

A trace is read without the engine::

    trace = refreshlab.read_trace("run.rlt")
    frame = trace.runs[0].to_pandas()

A run is made with it::

    pair = refreshlab.Pair.open()                                   # the bundled pair
    with pair.session("Write a chronicle of 6 companies.", policy="entropy") as session:
        for step in session:
            print(step.token.text, step["entropy_bits"], step.refresh)

docs/howto/python.md has the whole of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._command import Figure, Window, figure, landscape, sweep
    from ._live import LiveView, live
    from .errors import BadInput, Error, Failure
    from .policy import CachePolicy, PolicyModel, pooled, top
    from .recording import (Attention, Candidate, Drift, Landscape, Recording, Refresh, SignalInfo, Step, Token, Trace, policy_presets,
                            published_models, read_trace, settings)
    from .session import Cache, Cost, Entries, OwnSignal, Pair, PolicyView, Server, Session, StepView, refresh_when, signal

# A name loads its module when it is first used: the command starts without NumPy, and traces are read without libtorch.
_modules = {
    "_command": ["Figure", "Window", "figure", "landscape", "sweep"],
    "_live": ["LiveView", "live"],
    "errors": ["BadInput", "Error", "Failure"],
    "recording": ["Attention", "Candidate", "Drift", "Landscape", "Recording", "Refresh", "SignalInfo", "Step", "Token", "Trace",
                  "policy_presets", "published_models", "read_trace", "settings"],
    "policy": ["CachePolicy", "PolicyModel", "pooled", "top"],
    "session": ["Cache", "Cost", "Entries", "OwnSignal", "Pair", "PolicyView", "Server", "Session", "StepView", "refresh_when", "signal"],
}
_module_of = {name: module for module, names in _modules.items() for name in names}

__all__ = ["Attention", "BadInput", "Cache", "CachePolicy", "Candidate", "Cost", "Drift", "Entries", "Error", "Failure", "Figure", "Landscape",
           "LiveView", "OwnSignal", "Pair", "PolicyModel", "PolicyView", "Recording", "Refresh", "Server", "Session", "SignalInfo", "Step", "StepView",
           "Token", "Trace", "Window", "figure", "landscape", "live", "policy_presets", "pooled", "published_models", "read_trace", "refresh_when",
           "settings", "signal", "sweep", "top"]


def __getattr__(name: str) -> Any:
    if name in _module_of:
        return getattr(importlib.import_module(f".{_module_of[name]}", __name__), name)
    raise AttributeError(f"module 'refreshlab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
