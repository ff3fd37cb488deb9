"""A session that windows see live and steer: a client of the protocol in place of the window, and the window itself as a picture."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import refreshlab as rl
from refreshlab._command import Window

from conftest import PROMPT

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app" / "serve"))
from link_client import Engine  # noqa: E402

ENTROPY = {"entropy.threshold": 6, "entropy.every": 1}


class Client(Engine):
    def do(self, **command: object) -> None:
        """Returns when the command was answered."""
        ticket = self.command(**command)
        self.until(lambda: self.status.get("answered", 0) >= ticket)

    @property
    def steps(self) -> list[list[object]]:
        return self.tables.get("steps", [])

    def state(self, state: str) -> None:
        self.until(lambda: self.status["state"] == state)


@pytest.fixture
def connected(pair):
    """Sessions that are served, and a client of each."""
    opened = []

    def connect(drive: bool = False, **options: object) -> tuple[rl.Session, Client]:
        session = pair.session(PROMPT, **{"max_tokens": 40, **options})
        client = Client(session.serve("127.0.0.1:0", drive=drive).address, "window")
        client.until(lambda: "applied" in client.status)
        opened.append((session, client))
        return session, client
    yield connect
    for session, client in opened:
        client.link.socket.close()
        session._server.close()
        session.close()


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_steps_of_python_arrive_and_commands_of_the_window_act(pair, connected, program_run, tmp_path):
    @rl.signal
    def twice(step):
        return 2 * step.step

    session, client = connected(policy="entropy", settings=ENTROPY, signals=[twice], record=tmp_path / "run.rlt")
    assert client.status["student"]["layers"] == pair.student["layers"] and "Python" in client.status["note"] and client.status["recorded"]
    session.run(7)
    client.until(lambda: len(client.steps) == 7)
    client.do(command="set_parameter", key="entropy.threshold", value="2.5")
    client.do(command="refresh_now")
    assert session["entropy.threshold"] == "2.5"
    session.run(3)
    client.until(lambda: len(client.steps) == 10 and "refreshes" in client.tables)
    session.set("entropy.threshold", 4)  # the window sees what Python does
    client.until(lambda: client.status["applied"]["policy"]["when"]["any"][0]["above"] == 4)
    session.run()
    client.state("finished")
    recording = session.recording
    assert [row[3] for row in client.steps] == [step.token.id for step in recording]
    commands = recording.columns("commands")
    assert list(commands["step"]) == [8, 8, 11] and recording[8].refresh.reason.startswith("manual")
    session.close()
    client.until(lambda: "closed" in client.status["note"])
    with pair.session(PROMPT, max_tokens=40, policy="entropy", settings=ENTROPY, signals=[twice]) as same:
        same.run(7)
        same.set("entropy.threshold", 2.5)
        same.refresh()
        same.run(3)
        same.set("entropy.threshold", 4)
        same.run()
        assert same.recording.difference(recording) is None


def test_the_window_pauses_steps_and_rewinds_what_python_runs(connected):
    session, client = connected()
    client.do(command="step", steps=3)  # so many, then it holds
    thread = in_thread(session.run)
    client.state("paused")
    assert len(session.recording) == 3 and thread.is_alive()
    first = session.recording
    client.do(command="rewind", step=1)
    client.do(command="branch", run_id=session.recording.id, step=1, changes=[{"command": "refresh_now"}], goes_on=True)
    client.state("finished")
    thread.join()
    assert session.recording.id != first.id and len(session.recording) == 40 and session.recording[2].refresh is not None
    client.do(command="rewind", step=38)
    client.do(command="set_pace", tokens_per_second=500)
    thread = in_thread(session.run)
    client.link.socket.close()  # a window that goes holds nothing back
    thread.join()
    assert len(session.recording) == 40


def test_a_held_step_ends_with_ctrl_c_and_with_the_server(connected):
    session, client = connected()
    client.do(command="pause")
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        session.step()
    assert len(session.recording) == 0
    thread = in_thread(lambda: session.run(2))
    session._server.close()
    thread.join()
    assert len(session.recording) == 2


def test_a_window_drives_a_session_that_python_does_not(connected):
    def fragile(step):
        return 1 / (step.step - 5)

    session, client = connected(drive=True, signals=[rl.signal(fragile)])
    client.state("paused")
    client.do(command="step", steps=2)
    client.until(lambda: len(client.steps) == 2)
    client.state("paused")
    client.do(command="resume")
    client.until(lambda: client.status.get("errors", 0) == 1)  # the function's exception holds the run
    assert "fragile: ZeroDivisionError" in client.status["refusals"][-1]
    client.until(lambda: len(client.steps) == 5)
    client.state("paused")
    assert len(session.recording) == 5
    client.do(command="resume")
    client.state("finished")
    assert len(session.recording) == 40


def test_what_a_session_of_python_cannot_do_is_one_line(connected, pair):
    session, client = connected()
    session.run(2)
    for command, said in (({"command": "start_run", "config": client.status["applied"], "paused": True}, "pair.session"),
                          ({"command": "compute_landscape"}, "refreshlab.landscape"), ({"command": "compute_scope"}, "session of Python"),
                          ({"command": "check_exactness"}, "session of Python"), ({"command": "rewind", "step": 9}, "steps 0 to 2"),
                          ({"command": "branch", "run_id": "another", "step": 1}, "session.branch"),
                          ({"command": "set_parameter", "key": "max_tokens", "value": "9"}, "max_tokens")):
        client.do(**command)
        assert said in client.status["refusals"][-1] and "\n" not in client.status["refusals"][-1]
    assert session.run() == 38
    client.do(command="resume")
    assert "has ended" in client.status["refusals"][-1]
    server = session.serve()
    assert server.viewers == 1 and server is session._server
    with pytest.raises(rl.BadInput, match="is served at"):
        session.serve(drive=True)
    with pytest.raises(TypeError, match="is not pickled"):
        pickle.dumps(server)
    session.close()
    client.do(command="refresh_now")
    assert "was closed in Python" in client.status["refusals"][-1]
    for address, said in (("nowhere:x", "the address"), ("0.0.0.0:0", "token"), ("unix:/no/such/folder/x", "listening on")):
        with pair.session(PROMPT, max_tokens=4) as other, pytest.raises(rl.BadInput, match=said):
            other.serve(address)
    server.close()
    with pytest.raises(rl.BadInput, match="it is closed"):
        session.serve("127.0.0.1:0")


def test_the_window_itself_shows_the_session(pair, tmp_path):
    picture = tmp_path / "live.png"
    with pair.session(PROMPT, max_tokens=30, policy="entropy", settings=ENTROPY) as session:
        window = Window(["--connect", session.serve().address], {"screenshot": picture, "size": "900x600"}, [session])
        session.run()  # the picture is taken when the run has ended
        window.wait()
        assert picture.stat().st_size > 10000 and session._server.viewers == 0
        assert "unix:" in session._server.address and Path(session._server.address[5:]).parent.stat().st_mode & 0o077 == 0


def test_a_server_that_ends_tells_the_newest_steps(connected):
    session, client = connected(max_tokens=300)
    session.run()
    thread = in_thread(session._server.close)
    with pytest.raises(SystemExit, match="closed the connection"):
        client.until(lambda: False)
    client.link.socket.close()
    thread.join()
    assert [row[3] for row in client.steps] == [step.token.id for step in session.recording] and client.status["state"] == "finished"


def test_python_ends_in_the_middle_of_what_a_window_drives(python_run):
    done = python_run(f"""
import sys
sys.path[:0] = [{str(Path(__file__).parents[1] / "app" / "serve")!r}]
from link_client import Engine
import refreshlab as rl
pair = rl.Pair.open()
session = pair.session({PROMPT!r}, max_tokens=2000, signals=[rl.signal(name="one")(lambda step: 1.0)])
client = Engine(session.serve("127.0.0.1:0", drive=True).address, "window")
recording = session.recording
del session  # the server drives it
client.command(command="resume")
client.until(lambda: len(client.tables.get("steps", [])) > 3)
held = pair.session({PROMPT!r}, max_tokens=20)
held.serve("127.0.0.1:0")
sys.exit(7)
""")
    assert done.returncode == 7 and done.stderr == "", done.stderr
