"""The code of docs/howto/python.md runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

page = Path(__file__).resolve().parents[2] / "docs/howto/python.md"


def test_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) == 7
    printed = []
    for block in blocks:
        exec(compile(block, str(page), "exec"), {"__name__": "__main__"})
        printed.append(capsys.readouterr().out.splitlines())
    a_run, traces, notebook, window, arrays, own, policy = printed
    assert re.match(r"\d+ .* entropy [\d.]+$", a_run[0]), a_run  # a refresh by the policy
    assert any(re.match(r"(step|token) \d+", line) for line in a_run), a_run  # where the two branches part
    assert (tmp_path / "signals.svg").stat().st_size > 5000 and len(traces) >= 6
    assert notebook == ["4.5 60"] and (tmp_path / "window.png").stat().st_size > 10000
    assert window[0].startswith("unix:")
    assert " True " in arrays[0] and "float16" in arrays[-1]
    assert float(own[0]) > 0 and re.fullmatch(r"\[\d+(, \d+){0,2}\] \[.*\]", own[1]), own
    assert policy == ["16 True", "{'policy': 'python:HeavyHitters(budget=16)'}"]
