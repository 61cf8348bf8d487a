#!/usr/bin/env python3
"""An agent under a mixed load for a while: scripts/soak-agent.sh SECONDS starts this.

Clients stream, hang up, send long prompts, ask for JSON, ask for what is refused, and send what is no request. All of it must be
answered, with a status that fits; memory, threads and files must not grow; and afterwards nothing may be left running.
"""

import argparse
import collections
import http.client
import json
import random
import socket
import statistics
import sys
import threading
import time

from program import Agent

CLIENTS, SLOTS, QUEUE = 6, 4, 3
TIMEOUT = 180
GROWTH = 0.03  # of the memory in use, from the second fifth of the run to the last
WORDS = "river stone light paper green table cloud seven house music".split()


class Soak:
    def __init__(self, agent: Agent, seed: int) -> None:
        self.agent, self.seed = agent, seed
        self.end = threading.Event()
        self.lock = threading.Lock()
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.faults: list[str] = []

    def count(self, kind: str, status: object, fits: bool, more: object = "") -> None:
        with self.lock:
            self.outcomes[f"{kind} {status}"] += 1
            if not fits:
                self.faults.append(f"{kind}: {status} {more}")

    def client(self, index: int) -> None:
        random_ = random.Random(self.seed * 1000 + index)
        kinds = [self.whole, self.streamed, self.hang_up_streaming, self.hang_up_waiting, self.long, self.as_json, self.completion,
                 self.refused, self.too_long, self.malformed, self.broken_off, self.no_http, self.look]
        weights = [3, 4, 3, 2, 2, 2, 1, 2, 1, 2, 1, 1, 2]
        while not self.end.is_set():
            (kind,) = random_.choices(kinds, weights)
            try:
                kind(random_)
            except Exception as error:  # whatever it is, this request has no answer
                self.count(kind.__name__, type(error).__name__, False, error)

    def chat(self, random_: random.Random, words: int = 12, **more: object) -> dict:
        text = " ".join(random_.choices(WORDS, k=words))
        return {"model": "m", "messages": [{"role": "user", "content": f"Write of this: {text}"}], "max_tokens": random_.randint(1, 40),
                "temperature": random_.choice([0, 0.8]), "seed": random_.randint(0, 9)} | more

    def post(self, body: object, path: str = "/v1/chat/completions") -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(self.agent.address, timeout=TIMEOUT)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, data, {"content-type": "application/json"})
        return connection, connection.getresponse()

    def answer(self, kind: str, body: object, allowed: tuple[int, ...], path: str = "/v1/chat/completions") -> None:
        connection, response = self.post(body, path)
        text = response.read()
        connection.close()
        fits = response.status in allowed
        if response.status == 200:
            fits &= json.loads(text)["choices"][0]["finish_reason"] in ("stop", "length")
        else:
            fits &= isinstance(json.loads(text)["error"]["code"], str)
        self.count(kind, response.status, fits, text[:200])

    # A full queue answers 429 whatever is asked.
    def whole(self, r: random.Random) -> None:
        self.answer("whole", self.chat(r), (200, 429))

    def long(self, r: random.Random) -> None:
        self.answer("long", self.chat(r, words=r.randint(200, 400)), (200, 429))

    def as_json(self, r: random.Random) -> None:
        # An agent that cannot promise JSON says so.
        self.answer("json", self.chat(r, response_format={"type": "json_object"}), (200, 422, 429))

    def completion(self, r: random.Random) -> None:
        self.answer("completion", {"model": "m", "prompt": "Once upon a time", "max_tokens": r.randint(1, 20)}, (200, 429), "/v1/completions")

    def refused(self, r: random.Random) -> None:
        more, status = r.choice([({"model": "gpt-9"}, 404), ({"temperature": 9}, 400), ({"messages": []}, 400),
                                 ({"messages": [{"role": "wizard", "content": "x"}]}, 400)])
        self.answer("refused", self.chat(r) | more, (status,))

    def too_long(self, r: random.Random) -> None:
        self.answer("too long", self.chat(r, words=3000), (422,))

    def malformed(self, r: random.Random) -> None:
        body = r.choice([b"", b"{", b"[" * 500, b'{"a":1,"a":2}', b"\xff\xfe", b'{"model":"m"} x', json.dumps(self.chat(r)).encode()[:-5]])
        self.answer("malformed", body, (400,))

    def streamed(self, r: random.Random) -> None:
        connection, response = self.post(self.chat(r, stream=True))
        last = b""
        for line in response:
            last = line.strip() or last
        connection.close()
        fits = response.status == 429 or response.status == 200 and last == b"data: [DONE]"
        self.count("streamed", response.status, fits, last[:200])

    def hang_up_streaming(self, r: random.Random) -> None:
        connection, response = self.post(self.chat(r, stream=True, max_tokens=400))
        for _ in range(r.randint(1, 12)):
            if not response.readline():
                break
        connection.sock and connection.sock.shutdown(socket.SHUT_RDWR)
        connection.close()
        self.count("hangs up streaming", response.status, response.status in (200, 429))

    def hang_up_waiting(self, r: random.Random) -> None:
        connection = http.client.HTTPConnection(self.agent.address, timeout=TIMEOUT)
        connection.request("POST", "/v1/chat/completions", json.dumps(self.chat(r, max_tokens=400)), {"content-type": "application/json"})
        self.end.wait(r.random() / 5)
        connection.close()
        self.count("hangs up waiting", "-", True)

    def broken_off(self, r: random.Random) -> None:
        """A body that ends before its length."""
        with socket.create_connection(self.agent.address.rsplit(":", 1), timeout=TIMEOUT) as s:
            s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"mo")
            if r.random() < 0.5:
                said = first_bytes(s)
                self.count("broken off", said[9:12].decode() or "closed", said[:12] in (b"", b"HTTP/1.1 400"), said)
            else:
                self.count("broken off", "-", True)

    def no_http(self, r: random.Random) -> None:
        with socket.create_connection(self.agent.address.rsplit(":", 1), timeout=TIMEOUT) as s:
            s.sendall(r.choice([b"\x16\x03\x01\x02\x00\x01\x00", b"HELO a\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", r.randbytes(200) + b"\r\n\r\n"]))
            said = first_bytes(s)
            self.count("no HTTP", said[9:12].decode("latin-1") or "closed", said[:10] in (b"", b"HTTP/1.1 4"), said)

    def look(self, r: random.Random) -> None:
        path, admin = r.choice([("/terrace/status", False), ("/v1/models", False), ("/metrics", True), ("/livez", True), ("/readyz", True)])
        status, text = self.agent.get(path, admin)
        self.count("looks", status, status == 200, text[:200])


def first_bytes(s: socket.socket) -> bytes:
    """Of the answer once nothing more is sent; none where the connection is closed, politely or not."""
    try:
        s.shutdown(socket.SHUT_WR)
        return s.recv(64)
    except OSError:  # it was closed first
        return b""


def slope(times: list[float], values: list[float]) -> float:
    t, v = statistics.fmean(times), statistics.fmean(values)
    return sum((a - t) * (b - v) for a, b in zip(times, values)) / sum((a - t) ** 2 for a in times)


def settled(agent: Agent, blocks: int, seconds: float) -> dict:
    """The load once nothing runs; as it is if that does not come."""
    deadline = time.monotonic() + seconds
    while True:
        load = agent.load()
        idle = load["running"] == load["queued"] == load["queuedPrefillTokens"] == 0
        if idle and load["freeKvBlocks"] == blocks or time.monotonic() > deadline:
            return load


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--model", required=True)
    arguments.add_argument("--seconds", type=float, required=True)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--out", required=True)
    a = arguments.parse_args()
    agent = Agent(a.model, 2, "--device", "cpu", "--max-sequences", str(SLOTS), "--queue-limit", str(QUEUE), "--context-tokens", "1024",
                  "--kv-cache", "128Mi")
    soak = Soak(agent, a.seed)
    blocks = agent.load()["totalKvBlocks"]
    clients = [threading.Thread(target=soak.client, args=(i,), daemon=True) for i in range(CLIENTS)]
    began = time.monotonic()
    [c.start() for c in clients]
    samples = []
    while (now := time.monotonic() - began) < a.seconds:
        if agent.process.poll() is not None:
            sys.exit(f"soak: the agent ended after {now:.0f} s: {agent.log.read_text()[-2000:]}")
        samples.append((now, agent.status("VmRSS"), agent.status("Threads"), agent.files()))
        if len(samples) % 60 == 0:
            print(f"{now:.0f} s: {sum(soak.outcomes.values())} requests, {samples[-1][1] / 1e6:.1f} MB", file=sys.stderr)
        soak.end.wait(max(0.25, a.seconds / 3600))
    soak.end.set()
    for client in clients:
        client.join(TIMEOUT)
        if client.is_alive():
            soak.faults.append("a client still waits for its answer")

    load = settled(agent, blocks, 60)
    metrics = agent.get("/metrics", admin=True)[1].decode()
    requests = sum(soak.outcomes.values())
    times, rss = [s[0] for s in samples], [s[1] for s in samples]
    fifth = len(rss) // 5
    first, last = statistics.median(rss[fifth:2 * fifth]), statistics.median(rss[-fifth:])
    checks = {
        "every request has its answer": not soak.faults,
        "nothing runs or waits afterwards": load["running"] == load["queued"] == load["queuedPrefillTokens"] == 0,
        "every block of the KV cache is free afterwards": load["freeKvBlocks"] == blocks,
        f"memory grows by less than {GROWTH:.0%} from the second fifth to the last": last - first < GROWTH * first,
        "no thread more than in the first fifth": max(s[2] for s in samples[-fifth:]) <= max(s[2] for s in samples[:fifth]),
        "alive": agent.get("/livez", admin=True)[0] == 200,
        "files are closed": agent.files() <= samples[0][3] + 2,
        "ends at SIGTERM with 0": agent.end() == 0,
    }
    document = {
        "bench": "soak-agent", "seconds": a.seconds, "seed": a.seed, "requests": requests, "outcomes": dict(sorted(soak.outcomes.items())),
        "rss": {"first_mb": first / 1e6, "last_mb": last / 1e6, "max_mb": max(rss) / 1e6, "slope_kb_per_minute": slope(times[fifth:], rss[fifth:]) * 60 / 1e3},
        "checks": checks, "faults": soak.faults[:20], "load": load, "metrics": [l for l in metrics.splitlines() if l.startswith("terrace_requests_total")],
    }
    with open(a.out, "w") as out:
        json.dump(document, out, indent=1)
    for what, held in checks.items():
        print(f"{'ok' if held else 'FAILED'}: {what}")
    for fault in soak.faults[:20]:
        print(f"fault: {fault}")
    print(f"{requests} requests in {a.seconds:.0f} s; memory {first / 1e6:.1f} -> {last / 1e6:.1f} MB, slope {document['rss']['slope_kb_per_minute']:.0f} kB/min: {a.out}")
    sys.exit(0 if all(checks.values()) else 1)


if __name__ == "__main__":
    main()
