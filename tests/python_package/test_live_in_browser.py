"""A threshold's line is dragged in a browser, and the session has the new threshold: Plotly's own script on the state that the view sends."""

from __future__ import annotations

import asyncio
import functools
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import plotly
import pytest
from tornado.websocket import websocket_connect

import refreshlab as rl

from conftest import PROMPT

#: What a notebook's page does with a widget: it hands the script a model, and sends back what the script sets.
PAGE = """<!doctype html><meta charset=utf-8><body><div id=plot style="width:900px"></div><script type=module>
import widget from './widgetbundle.js';
const state = await (await fetch('state.json')).json(), listeners = {};
window.sent = [];
const model = {get: key => state[key],
               set: (key, value) => { state[key] = value; if (value) sent.push([key, structuredClone(value)]); (listeners['change:' + key] || []).forEach(f => f()); },
               on: (events, f) => events.split(' ').forEach(e => (listeners[e] ||= []).push(f)), off: () => {}, save_changes: () => {}, send: () => {}};
const made = typeof widget === 'function' ? await widget() : widget;
if (made.initialize) await made.initialize({model});
await made.render({model, el: document.getElementById('plot')});
window.drawn = true;
</script>"""


class Browser:
    """A page of Chromium, by its debugging protocol."""

    def __init__(self, profile: Path) -> None:
        self._process = subprocess.Popen(["chromium-headless-shell", "--no-sandbox", "--remote-debugging-port=0", f"--user-data-dir={profile}",
                                          "--window-size=1000,700", "about:blank"], stderr=subprocess.PIPE, text=True, start_new_session=True)
        for line in self._process.stderr:
            if found := re.search(r"listening on ws://([\d.]+:\d+)/", line):
                self._address = found[1]
                break
        self._number = 0

    async def open(self, url: str) -> None:
        from tornado.httpclient import AsyncHTTPClient
        pages = json.loads((await AsyncHTTPClient().fetch(f"http://{self._address}/json")).body)
        self._socket = await websocket_connect(next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page"))
        await self.ask("Page.enable")
        await self.ask("Page.navigate", url=url)

    async def ask(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        await self._socket.write_message(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(await self._socket.read_message())
            if answer.get("id") == self._number:
                return answer["result"]

    async def value(self, script: str) -> Any:
        """Of a script, as soon as it is a true one."""
        while True:
            found = (await self.ask("Runtime.evaluate", expression=script, returnByValue=True))["result"].get("value")
            if found:
                return found
            await asyncio.sleep(0.05)

    async def drag(self, x: float, y: float, by: float) -> None:
        await self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        await self.ask("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", buttons=1, clickCount=1)
        for part in range(1, 11):
            await self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y + by * part / 10, button="left", buttons=1)
        await self.ask("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y + by, button="left", clickCount=1)

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)  # its helpers too, which hold the pipe
        self._process.wait()
        self._process.stderr.close()


@pytest.fixture
def served(tmp_path):
    handler = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/page.html"
    server.shutdown()


def state_of(view: rl.LiveView) -> str:
    figure = view.figure
    drawn = json.loads(figure.to_json(engine="json"))
    for trace, own in zip(drawn["data"], figure.data):
        trace["uid"] = own.uid
    return json.dumps({"_config": figure._config, "_widget_data": drawn["data"], "_widget_layout": drawn["layout"], "_last_layout_edit_id": 0,
                       "_last_trace_edit_id": 0})


async def dragged(browser: Browser, url: str) -> dict[str, Any]:
    await browser.open(url)
    await browser.value("window.drawn")
    line = "document.querySelector('[drag-helper] path')"
    x, y, width = await browser.value(f"{line} && (b => [b.x, b.y, b.width])({line}.getBoundingClientRect())")
    await browser.drag(x + 0.4 * width, y, -30)
    return await browser.value("(sent.find(([key]) => key === '_js2py_relayout') || [])[1]")


def test_a_line_dragged_in_a_browser_moves_the_threshold(pair, served, tmp_path):
    shutil.copy(Path(plotly.__file__).parent / "package_data" / "widgetbundle.js", tmp_path)
    (tmp_path / "page.html").write_text(PAGE)
    with pair.session(PROMPT, policy="entropy", max_tokens=40, settings={"entropy.threshold": 3}) as session:
        session.run(30)
        view = rl.live(session, paused=True)
        (tmp_path / "state.json").write_text(state_of(view))
        browser = Browser(tmp_path / "profile")
        try:
            message = asyncio.run(asyncio.wait_for(dragged(browser, served), 60))
        finally:
            browser.close()
        view.figure._js2py_relayout = message
        assert 3.2 < float(session["entropy.threshold"]) < 6
        assert view.figure.layout.shapes[0].y0 == float(session["entropy.threshold"])
        view.close()
