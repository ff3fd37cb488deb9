"""The package as it is installed: build/python (PYTHONPATH) has its layout."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import refreshlab as rl
from refreshlab._installed import environment, program

PROMPT = "Write a chronicle of 6 companies."


@pytest.fixture(scope="session")
def pair() -> rl.Pair:
    return rl.Pair.open()


@pytest.fixture(scope="session")
def program_run() -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([program, *arguments], env=environment(), capture_output=True, text=True, timeout=120)
        assert done.returncode == status, done.stderr
        return done
    return run


@pytest.fixture(scope="session")
def python_run() -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Runs a script in an interpreter of its own."""
    def run(script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env=dict(os.environ))
    return run


@pytest.fixture(scope="session")
def recorded(pair: rl.Pair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of a run with refreshes by the policy and by hand, probes, layer values and a rewind."""
    path = tmp_path_factory.mktemp("trace") / "run.rlt"
    with pair.session(PROMPT, policy="entropy", max_tokens=40, record=path,
                      settings={"entropy.threshold": 3, "entropy.every": 1, "entropy.cooldown": 4, "capture.attention_entropy": True}) as session:
        session.run(12)
        session.refresh()
        session.run(8)
        session.rewind(15)
        session.set("entropy.threshold", 5)
        session.run()
    return path
