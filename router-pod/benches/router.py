#!/usr/bin/env python3
"""The router beside others: scripts/bench-router.sh has the programs and starts this.

Each round measures every router once, in turns; figures are medians of rounds. A ratio says how many times
less ours takes. What is asked and what answers share one core, the router has another to itself.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable

from peers import BARE, OTHER_CORE, Router, Unusable, bare, files, ours, peer

# Routers of LLM requests; the others are there for scale.
LLM = ("sglang-router", "smg", "vllm-router", "litellm")
WAYS = {"agent": "to an agent over mutual TLS and HTTP/2", "plain": "to a plain endpoint, as the others", "tls": "to an endpoint over TLS"}
CASES = {"small": "200 B", "large": "20 KB", "small-stream": "200 B, streamed", "large-stream": "20 KB, streamed",
         "small-paced": "200 B, streamed, an event each 2 ms"}
BOUNDS = {"small": 100.0, "large": 250.0, "small-stream": 100.0, "large-stream": 250.0}
STREAMS, RATE, SUSTAINED, SLOW = 1000, 2000, 10, 500
PROSE = ("On 12 March the river rose by 1.5 metres, and at 10:30 the old mill (built in 1874) was closed; 3 of its 16 windows broke. "
         "\"Nobody is in a hurry to go home,\" said the miller. In the report's table, `let total = items.len() * 2;` gives 412 where it should "
         "give 206: see part 4-b/2 of the notes, or ask for the long version, which has 37 pages. ")


def bodies(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """The requests, in files: prompts of 200 and 20,000 bytes."""
    made = {}
    for case in [*CASES, "held"]:
        prompt = (PROSE * 110)[:20_000 if case.startswith("large") else 200]
        body = {"model": "small", "messages": [{"role": "user", "content": prompt}], "max_tokens": 64}
        if case not in ("small", "large"):
            body["stream"] = True
        if case in ("small-paced", "held"):
            body["user"] = "paced" if case == "small-paced" else "held"
        made[case] = folder / f"{case}.json"
        made[case].write_text(json.dumps(body, separators=(",", ":")))
    return made


def ask(programs: pathlib.Path, to: str, body: pathlib.Path, seconds: float, connections: int = 8, rate: float = 0.0) -> dict:
    command = ["taskset", "-c", OTHER_CORE, str(programs / "examples/load"), "ask", "--to", to, "--body", str(body), "--seconds", str(seconds),
               "--connections", str(connections), "--rate", str(rate)]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=files)
    if done.returncode != 0:
        raise Unusable(f"asking ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)


class Bench:
    def __init__(self, a: argparse.Namespace, folder: pathlib.Path, tiers: dict) -> None:
        self.a, self.folder, self.tiers, self.bodies = a, folder, tiers, bodies(folder)
        self.programs, self.out = pathlib.Path(a.programs), pathlib.Path(a.out)
        self.figures, self.absent, self.notes, self.rates = [], {}, [], {}
        # By case and router: ticks in its own code and in the system's, and requests.
        self.split: dict[str, dict[str, list[int]]] = {}
        self.routers: dict[str, Router] = {}
        self.idle: dict[str, list[float]] = {}

    def start(self) -> None:
        """Ours must all start; a peer that does not is named."""
        small, collector = self.bodies["small"].read_bytes(), f"http://{self.tiers['plain']}"
        for name in [*WAYS, *self.a.peers.split()]:
            try:
                if name in WAYS:
                    self.routers[name] = ours(name, self.programs, self.folder, collector, small)
                elif name == BARE:
                    self.routers[name] = bare(self.programs, self.folder, self.tiers["plain"], small)
                else:
                    self.routers[name] = peer(name, pathlib.Path(self.a.cache), self.folder, self.tiers["plain"], small)
            except (Unusable, OSError) as why:
                if name in WAYS:
                    raise
                self.absent[name] = str(why)
                continue
            self.idle[name] = [self.routers[name].rss()]
            self.pause(name)

    def alone(self, what: str, name: str, measure):
        """Measures one router, the other programs stopped. Ours go on: their agents would be missed, and alone they do next to nothing."""
        print(f"bench-router: {what}: {name}", file=sys.stderr, flush=True)
        router = self.routers[name]
        router.send(signal.SIGCONT)
        try:
            return measure(router)
        except Unusable as why:
            self.absent[name] = str(why)
            return None
        finally:
            self.pause(name)

    def pause(self, name: str) -> None:
        if name not in WAYS:
            self.routers[name].send(signal.SIGSTOP)

    def there(self) -> list[str]:
        return [name for name in self.routers if name not in self.absent]

    def add(self, name: str, unit: str, mine: list[float], other: list[float] | None = None, of: str | None = None,
            goal: float | None = None, bound: float | None = None) -> None:
        """With a peer the goal is a ratio; without one, `bound` is what the median must not exceed."""
        median, theirs = statistics.median(mine), statistics.median(other) if other else None
        ratio = theirs / median if theirs is not None and median else None
        met = None
        if goal is not None:
            met = ratio is not None and ratio >= goal
        if bound is not None:
            goal, met = bound, median <= bound
        self.figures.append({"name": name, "unit": unit, "ours": median, "peer": theirs, "ratio": ratio, "goal": goal, "met": met, "peer_is": of,
                             "samples": {"ours": mine, "peer": other or []}, "command": self.a.command})

    def versus(self, name: str, unit: str, samples: dict[str, list[float]], bound: float | None, ratio: float | None) -> None:
        """Each of our ways against its bound, the best LLM router and the rest."""
        others = {n: s for n, s in samples.items() if n not in WAYS and s}
        llm = [n for n in others if n in LLM]
        best = min(llm, key=lambda n: statistics.median(others[n])) if llm else None
        for way in WAYS:
            if not samples.get(way):
                continue
            self.add(f"{name} {WAYS[way]}", unit, samples[way], bound=bound)
            for other in sorted(others, key=lambda n: statistics.median(others[n])):
                self.add(f"{name} {WAYS[way]}, {other}", unit, samples[way], others[other], other, goal=ratio if other == best else None)

    def processor(self, cases: list[str]) -> None:
        """Microseconds of processor time a request."""
        samples = {case: {name: [] for name in self.routers} for case in cases}
        for turn in range(self.a.rounds):
            for case in cases:
                for name in self.there() if turn % 2 == 0 else reversed(self.there()):
                    self.alone(f"{CASES[case]}, round {turn + 1}", name, lambda router: samples[case][name].append(self.sample(router, case)))
        tick = 1e6 / os.sysconf("SC_CLK_TCK")
        for case in cases:
            for name, (user, system, requests) in self.split.get(case, {}).items():
                self.notes.append(f"{CASES[case]}: {name}: {user * tick / requests:.0f} us a request in its own code, "
                                  f"{system * tick / requests:.0f} in the system's")
            self.versus(f"processor time of a request, {CASES[case]},", "us", samples[case], BOUNDS.get(case), 2.0 if case in BOUNDS else None)

    def sample(self, router: Router, case: str) -> float:
        connections = 64 if case == "small-paced" else 8
        ask(self.programs, router.address, self.bodies[case], 0.25, connections)
        before, split = router.cpu(), router.split()
        said = ask(self.programs, router.address, self.bodies[case], self.a.seconds, connections)
        used, now = router.cpu() - before, router.split()
        if said["errors"] or not said["answered"]:
            raise Unusable(f"{CASES[case]}: {said['answered']} answers and {said['errors']}")
        sums = self.split.setdefault(case, {}).setdefault(router.name, [0, 0, 0])
        for at, more in enumerate((now[0] - split[0], now[1] - split[1], said["answered"])):
            sums[at] += more
        if case == "small":
            self.rates.setdefault(router.name, []).append(said["answered"] / said["seconds"])
        return used / said["answered"] * 1e6

    def memory(self) -> None:
        held: dict[str, list[float]] = {}
        for name in self.there():
            self.alone("memory", name, lambda router: held.setdefault(name, []).append(self.held(router, name)))
        self.versus("memory after the start", "MiB", self.idle, 30.0, None)
        self.versus(f"memory with {STREAMS:,} open streams", "MiB", held, 64.0, None)

    def held(self, router: Router, name: str) -> float:
        command = ["taskset", "-c", OTHER_CORE, str(self.programs / "examples/load"), "ask", "--to", router.address, "--body",
                   str(self.bodies["held"]), "--connections", str(STREAMS), "--hold"]
        asking = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=files)
        late = threading.Timer(60, asking.kill)
        late.start()
        first = asking.stdout.readline()
        late.cancel()
        if not first:
            raise Unusable(f"{STREAMS} open streams: {asking.communicate()[1].strip()[-300:]}")
        rss = router.rss()
        release = self.tiers["tls_release" if name == "tls" else "release" if name == "agent" else "plain"]
        urllib.request.urlopen(urllib.request.Request(f"http://{release}/release", b"")).read()
        said = json.loads(asking.communicate("")[0])
        if said["ended_well"] != STREAMS:
            raise Unusable(f"of {STREAMS} open streams {said['ended_well']} ended well")
        return rss

    def added(self, name: str, rate_of: Callable[[Router], float]) -> None:
        """Milliseconds that a router adds at a rate: its 99th percentile less that of asking the tier itself at that rate."""
        samples: dict[str, list[float]] = {}

        def one(router: Router) -> float:
            rate = rate_of(router)
            ask(self.programs, router.address, self.bodies["small"], 0.25, 64, rate)
            p99 = lambda to: ask(self.programs, to, self.bodies["small"], 2 * self.a.seconds, 64, rate)["p99_us"]
            return (p99(router.address) - p99(self.tiers["plain"])) / 1000

        for turn in range(self.a.rounds):
            for router in self.there():
                self.alone(f"added latency, round {turn + 1}", router, lambda to: samples.setdefault(router, []).append(one(to)))
        self.versus(f"p99 added {name}, 200 B,", "ms", samples, 0.5, None)

    def latency(self) -> None:
        self.sustained()
        # Where half of what a router can answer fills the core of who asks and who answers, that core is what is measured.
        self.added(f"at {SLOW:,} a second", lambda _: SLOW)
        if self.rates:
            self.added("at half load", lambda router: statistics.median(self.rates[router.name]) / 2)

    def sustained(self) -> None:
        """2,000 requests a second on the router's one core, without an error."""
        for way in WAYS:
            said = self.alone("sustained", way, lambda router: (
                ask(self.programs, router.address, self.bodies["small"], 0.5, 64, RATE), router.cpu(),
                ask(self.programs, router.address, self.bodies["small"], SUSTAINED, 64, RATE), router.cpu()))
            if said is None:
                continue
            _, before, run, after = said
            failed = sum(run["errors"].values())
            # Exponential gaps of a fixed seed: their number is known to a few in a hundred.
            short = failed or run["answered"] < RATE * SUSTAINED * 0.97
            self.add(f"errors of {RATE * SUSTAINED:,} requests at {RATE:,} a second {WAYS[way]}", "requests", [float(failed)], bound=0.0)
            self.figures[-1]["met"] = not short
            self.notes.append(f"{way}: {run['answered']} answers at {RATE} a second, {(after - before) / run['seconds'] * 100:.0f} % of the core, "
                              f"p50 {run['p50_us']} us, p99 {run['p99_us']} us")

    def write(self) -> None:
        """What this run did not take again stays from the last one."""
        earlier = json.loads(self.out.read_text())["figures"] if self.out.exists() else []
        new = {f["name"] for f in self.figures}
        when = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M")
        kept = [f for f in earlier if f["name"] not in new]
        document = {"bench": "router", "machine": machine(), "absent": self.absent, "notes": self.notes,
                    "figures": [*({**f, "when": when} for f in self.figures), *kept]}
        self.out.write_text(json.dumps(document, indent=1) + "\n")

    def table(self) -> str:
        rows = [("figure", "unit", "ours", "peer", "ratio", "goal", "")]
        number = lambda x: "" if x is None else f"{x:.3g}" if abs(x) < 100 else f"{x:.0f}"
        for f in self.figures:
            met = {None: "", True: "met", False: "MISSED"}[f["met"]]
            rows.append((f["name"], f["unit"], *(number(f[n]) for n in ("ours", "peer", "ratio", "goal")), met))
        widths = [max(len(r[i]) for r in rows) for i in range(7)]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def machine() -> str:
    name = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return f"{name[1] if name else '?'}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end"


def main() -> None:
    arguments = argparse.ArgumentParser()
    for name in ("programs", "cache", "peers", "cases", "only", "out"):
        arguments.add_argument(f"--{name}", required=True)
    arguments.add_argument("--rounds", type=int, required=True)
    arguments.add_argument("--seconds", type=float, required=True)
    a = arguments.parse_args()
    cases = a.cases.split() or list(CASES)
    if unknown := set(cases) - set(CASES):
        sys.exit(f"bench-router: CASES: {', '.join(unknown)} is none of {', '.join(CASES)}")
    # Told to end, it still ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench-router: told to end"))
    if a.only not in ("", "cpu", "latency", "memory"):
        sys.exit("bench-router: ONLY is one of cpu, latency, memory")
    a.command = f"ROUNDS={a.rounds} SECONDS_EACH={a.seconds:g} make bench-router"
    with tempfile.TemporaryDirectory() as folder:
        command = ["taskset", "-c", OTHER_CORE, str(pathlib.Path(a.programs) / "examples/load"), "tiers", "--folder", folder]
        tiers = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=files)
        bench = None
        try:
            bench = Bench(a, pathlib.Path(folder), json.loads(tiers.stdout.readline()))
            bench.start()
            # The first gives the rates that the others need; what was measured is kept if a later one does not end.
            for part, measure in {"cpu": lambda: bench.processor(cases), "latency": bench.latency, "memory": bench.memory}.items():
                if part == "cpu" or a.only in ("", part):
                    measure()
                    bench.write()
            print(bench.table())
            print("\n".join(bench.notes))
        finally:
            for router in bench.routers.values() if bench else []:
                router.end()
            tiers.stdin.close()
            tiers.wait()
        for name, why in bench.absent.items():
            print(f"NOT MEASURED: {name}: {why}")
        print(f"{machine()}: {a.out}")


if __name__ == "__main__":
    main()
