"""A running agent, and how an SDK asks it. For the bench and the soak beside this."""

import http.client
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parent.parent.parent


class Agent:
    """One that is ready, `ready` seconds after it was started."""

    def __init__(self, model: str, threads: int, *flags: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        ports = pathlib.Path(self.folder.name, "ports")
        self.log = pathlib.Path(self.folder.name, "log")
        command = [str(ROOT / "target/release/terrace-agent"), "--model", model, "--model-sha256", pathlib.Path(model).stem,
                   "--model-name", "m", "--plain-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--port-file", str(ports),
                   "--end-with-parent", "--threads", str(threads), *flags]
        began = time.perf_counter()
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.log.open("w"))
        while not ports.exists() or not ports.read_bytes():
            try:
                self.process.wait(0.002)
                ended = True
            except subprocess.TimeoutExpired:
                ended = False
            if ended or time.perf_counter() - began > 60:
                self.process.kill()
                sys.exit(f"the agent is not ready: {self.log.read_text()[-1000:]}")
        self.ready = time.perf_counter() - began
        addresses = json.loads(ports.read_bytes())
        self.address, self.admin = addresses["plain"], addresses["admin"]

    def status(self, field: str) -> float:
        """A line of /proc/PID/status: VmRSS and the like in bytes, Threads as a number."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        number, unit = re.search(rf"^{field}:\s+(\d+)( kB)?$", text, re.M).groups()
        return int(number) * (1024.0 if unit else 1.0)

    def files(self) -> int:
        """Files and sockets that it has open."""
        return len(list(pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def get(self, path: str, admin: bool = False) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.admin if admin else self.address, timeout=60)
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, body

    def load(self) -> dict:
        return json.loads(self.get("/terrace/status")[1])["load"]

    def stream(self, system: str, question: str, tokens: int) -> tuple[list[float], dict]:
        """Seconds from the request until each piece of the answer, and the answer's usage."""
        body = {"model": "m", "stream": True, "temperature": 0, "max_tokens": tokens, "stream_options": {"include_usage": True},
                "messages": [{"role": "system", "content": system}, {"role": "user", "content": question}]}
        connection = http.client.HTTPConnection(self.address, timeout=120)
        began = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            sys.exit(f"the agent answers {response.status}: {response.read()[:500]}")
        times, usage = [], {}
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            usage = event.get("usage") or usage
            if event["choices"] and event["choices"][0]["delta"].get("content"):
                times.append(time.perf_counter() - began)
        connection.close()
        return times, usage

    def end(self, timeout: float = 60) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)
