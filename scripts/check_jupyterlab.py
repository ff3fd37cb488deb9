"""A run in a real JupyterLab: a headless browser opens a notebook, runs it, drags the threshold's line, and waits for a refresh.

    make jupyterlab        ->  build/jupyterlab.png

CI does without it: JupyterLab and what it needs are 400 MB. What the browser sends and shows is tested there on the widget alone (tests/python_package).
"""
import asyncio
import base64
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

checkout = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(checkout / "tests/python_package"), str(checkout / "build/python")]
from test_live_in_browser import Browser  # noqa: E402

CELL = """import refreshlab as rl
session = rl.Pair.open().session("Write a chronicle of 6 companies.", policy="entropy", max_tokens=3000,
                                 settings={"entropy.threshold": 9, "entropy.every": 1})
rl.live(session, signals=["entropy_bits", "steps_since_refresh"])"""
LINE = "document.querySelector('[drag-helper] path')"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def watch(browser: Browser, address: str) -> str:
    await browser.open(f"{address}/doc/tree/run.ipynb")
    await browser.ask("Emulation.setDeviceMetricsOverride", width=1200, height=1100, deviceScaleFactor=1, mobile=False)
    await browser.value("window.jupyterapp && document.querySelector('.jp-Notebook .jp-Cell') && 1")
    # Once the kernel is there: a command before that asks which one to take.
    await browser.value("jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.connectionStatus === 'connected' && 1")
    await browser.ask("Runtime.evaluate", expression="jupyterapp.commands.execute('notebook:run-all-cells')")
    await browser.value(f"{LINE} && document.querySelector('.refreshlab-prose').textContent.length > 400 && 1")
    x, y, width = await browser.value(f"(b => [b.x, b.y, b.width])({LINE}.getBoundingClientRect())")
    await browser.drag(x + 0.4 * width, y, 60)
    number = await browser.value("[...document.querySelectorAll('input[type=number]')].map(e => e.value).find(v => v && v != '9')")
    assert 3 < float(number) < 9, number
    said = await browser.value("[...document.querySelectorAll('.widget-label')].map(e => e.textContent).find(t => /, [1-9]\\d* refreshes/.test(t))")
    return f"threshold {number}, {said}"


async def shown(browser: Browser, address: str, picture: Path) -> None:
    """A picture comes of it, also where something fails."""
    try:
        print(f"jupyterlab: {await asyncio.wait_for(watch(browser, address), 60)}; {picture}")
    finally:
        picture.write_bytes(base64.b64decode((await browser.ask("Page.captureScreenshot"))["data"]))


def main() -> None:
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        cell = {"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "execution_count": None, "source": CELL}
        (Path(folder) / "run.ipynb").write_text(json.dumps({"cells": [cell], "metadata": {"kernelspec": {
            "name": "python3", "display_name": "Python 3", "language": "python"}}, "nbformat": 4, "nbformat_minor": 5}))
        environment = dict(os.environ, HOME=folder, PYTHONPATH=os.pathsep.join([str(checkout / "build/python"), *sys.path]))
        with open(Path(folder) / "log", "w") as log:
            lab = subprocess.Popen([checkout / ".deps/jupyterlab/bin/jupyter", "lab", "--no-browser", "--allow-root", f"--port={port}",
                                    "--IdentityProvider.token=", "--expose-app-in-browser", f"--ServerApp.root_dir={folder}"],
                                   env=environment, stdout=log, stderr=log, start_new_session=True)
        browser = Browser(Path(folder) / "profile")
        try:
            while lab.poll() is None:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
            asyncio.run(shown(browser, f"http://127.0.0.1:{port}", checkout / "build/jupyterlab.png"))
        except BaseException:
            print((Path(folder) / "log").read_text()[-3000:], file=sys.stderr)
            raise
        finally:
            browser.close()
            os.killpg(lab.pid, signal.SIGTERM)
            lab.wait()


if __name__ == "__main__":
    main()
