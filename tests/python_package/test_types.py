"""The package's types hold, and catch what a person gets wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import refreshlab

root = Path(__file__).resolve().parents[2]

RIGHT = """
import refreshlab as rl
import numpy as np
from numpy.typing import NDArray

@rl.signal(unit="bits")
def again(step: rl.StepView) -> float | None:
    return step.signal("entropy_bits")

@rl.refresh_when
def unsure(step: rl.StepView) -> bool:
    return (step.signal("entropy_bits") or 0.0) > 4

class Newest(rl.CachePolicy):
    row = True
    prompt_rows = 3
    shared = ("table",)

    def read_prompt(self, view: rl.PolicyView) -> None:
        view.keep(0, rl.top(view.attention(0)[-1], 8))

    def before_attention(self, view: rl.PolicyView) -> list[NDArray[np.int64]]:
        return [view.held(head)[-9:] for head in range(self.model.kv_heads)]

pair: rl.Pair = rl.Pair.open()
with pair.session("x", policy={"at": [3]}, settings={"top_k": 3}, signals=[again, unsure], cache=Newest()) as session:
    for step in session:
        value: float = step["entropy_bits"]
        text: str = step.token.text
        reason: str | None = step.refresh.reason if step.refresh else None
    session.set("entropy.threshold", 4)
    made: int = session.run(200)
column: NDArray[np.float32] = session.recording["entropy_bits"]
"""
WRONG = ["session.set(4)", "session.run('all')", "session.step().token", "pair.session()", "rl.read_trace(3)", "rl.signal(3)",
         "session.recording[2.5]", "pair.session('x', cache=3)"]


def mypy(*arguments: str) -> subprocess.CompletedProcess[str]:
    package = Path(refreshlab.__file__).parent
    environment = dict(os.environ, MYPYPATH=str(package.parent))
    return subprocess.run([sys.executable, "-m", "mypy", "--config-file", str(root / "pyproject.toml"), "--cache-dir",
                           str(package.parent / ".mypy_cache"), *arguments], capture_output=True, text=True, env=environment, cwd=package.parent)


def test_types_of_the_package_and_of_its_users(tmp_path):
    done = mypy("-p", "refreshlab")
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(RIGHT + "\n".join(WRONG) + "\n")
    said = mypy(str(tmp_path / "right.py"), str(tmp_path / "wrong.py")).stdout
    assert "right.py" not in said, said
    first = RIGHT.count("\n") + 1
    assert said.count("error:") >= len(WRONG)
    for line, wrong in enumerate(WRONG, first):
        assert f"wrong.py:{line}: error" in said, (wrong, said)
    assert not [row for row in said.splitlines() if "wrong.py:" in row and int(row.split(":")[1]) < first], said


def test_the_help_as_pages_has_every_public_name(tmp_path):
    done = subprocess.run([sys.executable, str(root / "scripts/python_pages.py"), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    page = (tmp_path / "refreshlab.html").read_text(encoding="utf-8")
    for name in refreshlab.__all__:
        assert f'id="{name}"' in page, name
    assert 'id="Session.rewind"' in page and "[kv_heads, length, head_dim]" in page


def test_every_public_name_has_a_page_in_the_help():
    import inspect
    for name in refreshlab.__all__:
        thing = getattr(refreshlab, name)
        if not callable(thing):
            continue
        assert inspect.getdoc(thing), name
        if inspect.isclass(thing) and thing.__module__.startswith("refreshlab") and not name.endswith(("StepView", "Error", "Failure")):
            for member, value in vars(thing).items():
                if inspect.isfunction(value) and not member.startswith("_") and member not in ("token",):
                    assert inspect.getdoc(value), f"{name}.{member}"
