"""A client of `refreshlab serve` (docs/reference/protocol.md): connects, starts a run, changes a threshold, and prints what came of it.

    link_client.py HOST:PORT TOKENS    ->  JSON: {"run", "steps", "tokens", "refreshes", "text", "stop_reason"}
"""
import json
import socket
import struct
import sys

import cbor2

VERSION = 3
MESSAGES, HEAVY, RECEIVED = 0, 1, 2


class Link:
    """One connection. recv() gives the messages in the order in which they are complete."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=120)
        self.received = 0
        self.heavy = b""
        self.socket.sendall(b"RLabLink" + struct.pack("<I", VERSION))
        magic, version = struct.unpack("<8sI", self.read(12))
        if magic != b"RLabLink" or version != VERSION:
            raise SystemExit(f"the server speaks version {version}, this client version {VERSION}")

    def read(self, count):
        parts = []
        while count > 0:
            part = self.socket.recv(count)
            if not part:
                raise SystemExit("the server has closed the connection")
            parts.append(part)
            count -= len(part)
            self.received += len(part)
        return b"".join(parts)

    def frame(self, channel, body):
        self.socket.sendall(struct.pack("<IBB", len(body), channel, 0) + body)

    def send(self, **message):
        self.frame(MESSAGES, cbor2.dumps(message))

    def recv(self):
        while True:
            size, channel, more = struct.unpack("<IBB", self.read(6))
            body = self.read(size)
            if channel == RECEIVED:
                continue
            if channel == HEAVY:
                self.heavy += body
                if more:
                    continue
                body, self.heavy = self.heavy, b""
            self.frame(RECEIVED, struct.pack("<Q", self.received))  # without it the server waits
            return cbor2.loads(body)


class Engine:
    """What the server has told: its status, and the rows of the tables of a trace."""

    def __init__(self, address, name):
        self.link = Link(address)
        self.status, self.tables, self.ticket = {}, {}, 0
        self.link.send(type="hello", name=name, key=name)

    def command(self, **command):
        self.ticket += 1
        self.link.send(type="command", ticket=self.ticket, command=command)
        return self.ticket

    def take(self):
        message = self.link.recv()
        if message["type"] == "refused":
            raise SystemExit(message["problem"])
        if message["type"] == "status":
            for key, value in message["changed"].items():
                self.status.pop(key, None)
                if value is not None:
                    self.status[key] = value
        elif message["type"] == "rows":
            for name, rows in message["tables"].items():
                self.tables.setdefault(name, []).extend(rows)
        elif message["type"] == "taken" and "problem" in message:
            raise SystemExit(message["problem"])

    def until(self, condition):
        while not condition():
            self.take()


def main():
    engine = Engine(sys.argv[1], "link_client.py")
    engine.until(lambda: "applied" in engine.status)
    config = dict(engine.status["applied"], prompt="Write a chronicle of 3 companies.", max_tokens=int(sys.argv[2]))
    started = engine.command(command="start_run", config=config, paused=True)
    engine.until(lambda: engine.status["answered"] >= started and engine.status["state"] == "paused")
    engine.command(command="set_parameter", key="entropy.threshold", value="3")
    engine.command(command="resume")
    steps = lambda: engine.tables.get("steps", [])
    # The last record of a run that has come to its length chooses no token. Rows of a run that is far behind may come after the status.
    engine.until(lambda: engine.status["state"] in ("finished", "failed") and steps() and steps()[-1][4] == -1)
    if engine.status["state"] == "failed":
        raise SystemExit(engine.status["message"])
    engine.link.send(type="bye")
    text = {row[1]: row[2] for row in engine.tables["tokens"]}
    tokens = [row[3] for row in steps()]
    print(json.dumps({"run": engine.tables["runs"][0][1], "steps": len(steps()), "tokens": tokens,
                      "refreshes": len(engine.tables.get("refreshes", [])),
                      "commands": len(engine.tables.get("commands", [])),
                      "text": b"".join(text[token] for token in tokens).decode(errors="replace"),
                      "stop_reason": engine.status["stop_reason"]}))


if __name__ == "__main__":
    main()
