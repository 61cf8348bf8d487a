#!/usr/bin/env python3
"""The agent against llama.cpp, in turns within one run: scripts/bench-agent.sh has the files and starts this.

Rates are of the networks alone (edge-agent/examples/rates.rs and peer.py beside this do the same work, for the processor only); first
token, memory, start and the figures "through the server" are of the program on any device, asked as an SDK asks. A ratio says how many
times better ours is: of medians, never of single samples.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import threading
import time

from program import ROOT, Agent

HERE = pathlib.Path(__file__).parent
STREAMS, ANSWER, PREFIX, PROMPT = 8, 96, 400, 512
KV_CACHE = 64 << 20
SPARE = 150_000_000
MB = 1e6


def run(command: list[str]) -> dict:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench-agent: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


class Figures:
    def __init__(self, command: str) -> None:
        self.command, self.system, self.all = command, None, []

    def add(self, name: str, unit: str, ours: list[float], peer: list[float] | None = None, goal: float | None = None,
            lower: bool = False, bound: float | None = None, of: str | None = None) -> None:
        """With a peer the goal is a ratio; without one, `bound` is what ours must not exceed."""
        mine = statistics.median(ours)
        theirs = statistics.median(peer) if peer else None
        ratio = None if theirs is None else (theirs / mine if lower else mine / theirs)
        met = None
        if goal is not None:
            met = ratio is not None and ratio >= goal
        if bound is not None:
            goal, met = bound, max(ours) <= bound
        self.all.append({"name": name, "unit": unit, "ours": mine, "peer": theirs, "ratio": ratio, "goal": goal, "met": met,
                         "peer_is": of, "samples": {"ours": ours, "peer": peer or []}, "command": self.command})

    def table(self) -> str:
        rows = [("figure", "ours", "peer", "ratio", "goal", "")]
        for f in self.all:
            number = lambda x: "" if x is None else f"{x:.3g}" if abs(x) < 100 else f"{x:.0f}"
            met = {None: "", True: "met", False: "MISSED"}[f["met"]]
            rows.append((f"{f['name']} ({f['unit']})", number(f["ours"]), number(f["peer"]), number(f["ratio"]), number(f["goal"]), met))
        widths = [max(len(r[i]) for r in rows) for i in range(6)]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def start(a: argparse.Namespace) -> Agent:
    flags = ["--device", a.device, "--max-sequences", str(STREAMS), "--kv-cache", str(KV_CACHE), "--context-tokens", "1024"]
    return Agent(a.model, a.threads, *flags, *(["--cpu", a.cpu] if a.cpu else []))


def prose(words: int) -> str:
    """Of the same length each time, and begun as nothing before: no block of it can be cached."""
    some = "river stone light paper green table cloud seven house music".split()
    return f"{time.time_ns()} " + " ".join(some[i * 7 % 10] for i in range(words))


def prefix(agent: Agent) -> tuple[float, float]:
    """Seconds to the first token of a prompt whose beginning nobody sent before, and of one that shares it."""
    system, times = prose(PREFIX), []
    for question in ["Name a colour.", "Name an animal."]:
        pieces, usage = agent.stream(system, question, 4)
        if usage["prompt_tokens"] < PREFIX:
            sys.exit(f"bench-agent: the prompt has {usage['prompt_tokens']} tokens, not {PREFIX}")
        times.append(pieces[0])
    if usage["prompt_tokens_details"]["cached_tokens"] < PREFIX - 16:
        sys.exit(f"bench-agent: only {usage['prompt_tokens_details']['cached_tokens']} tokens were cached")
    return times[0], times[1]


def one(agent: Agent) -> tuple[float, float]:
    """Tokens a second of a cold prompt until its first piece, and pieces a second from there to the answer's end."""
    times, usage = agent.stream(prose(PROMPT), "Write a long story.", ANSWER)
    return usage["prompt_tokens"] / times[0], (len(times) - 1) / (times[-1] - times[0])


def streams(agent: Agent) -> float:
    """Pieces a second of eight answers at once, while all eight run."""
    answers: list[tuple[float, list[float]]] = []

    def one(index: int) -> None:
        began = time.perf_counter()
        times, _ = agent.stream("You write long stories.", f"Write a long story about {index} ships and a storm.", ANSWER)
        answers.append((began, times))

    threads = [threading.Thread(target=one, args=(i,)) for i in range(STREAMS)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    times = [[began + t for t in times] for began, times in answers]
    begin, end = max(t[0] for t in times), min(t[-1] for t in times)
    return sum(begin < t <= end for one in times for t in one) / (end - begin)


def machine() -> str:
    info = pathlib.Path("/proc/cpuinfo").read_text()
    name = re.search(r"^model name\s*: (.*)$", info, re.M)
    wide = [f for f in ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "amx_int8", "asimddp") if re.search(rf"\b{f}\b", info)]
    return f"{name[1] if name else platform.machine()}, {os.cpu_count()} cores, {' '.join(wide)}, load {os.getloadavg()[0]:.1f} at the start"


def networks(a: argparse.Namespace, f: Figures) -> None:
    """The networks alone, ours and llama.cpp's, one after the other in each round; every other round in the other order."""
    built = ROOT / "target/release/examples"
    rates = lambda file: run([str(built / "rates"), file, str(a.threads), *([a.cpu] if a.cpu else [])])
    peer = lambda file: run([sys.executable, str(HERE / "peer.py"), file, str(a.threads)])
    speed = lambda _: run([str(built / "bandwidth"), str(a.threads)])
    ours, same, best, gemma, gemma_peer, memory = [], [], [], [], [], []
    turns = [(memory, speed, ""), (ours, rates, a.model), (best, peer, a.best), (same, peer, a.model),
             (gemma, rates, a.gemma), (gemma_peer, peer, a.gemma)]
    for index in range(a.rounds):
        print(f"round {index + 1} of {a.rounds}", file=sys.stderr)
        for samples, measure, file in turns if index % 2 == 0 else reversed(turns):
            samples.append(measure(file))
    of = lambda samples, key: [s[key] for s in samples]
    f.system = best[0]["system"]

    rate, batch = "tokens/s", of(ours, "decode_batch_8")
    f.add("decode, 1 sequence, against its best format (Q4_0)", rate, of(ours, "decode"), of(best, "decode"), 1.3, of=a.peer)
    f.add("decode, 1 sequence, same file (Q4_1)", rate, of(ours, "decode"), of(same, "decode"), 1.6, of=a.peer)
    f.add("prefill of 512, against its best format (Q4_0)", rate, of(ours, "prefill"), of(best, "prefill"), 1.0, of=a.peer)
    f.add("prefill of 512, same file (Q4_1)", rate, of(ours, "prefill"), of(same, "prefill"), 1.9, of=a.peer)
    f.add("decode, 8 sequences, against its best format (Q4_0)", rate, batch, of(best, "batch"), 1.2, of=a.peer)
    f.add("decode, 8 sequences, same file (Q4_1)", rate, batch, of(same, "batch"), of=a.peer)
    f.add("decode, 8 sequences, against our own prefill", rate, batch, of(ours, "prefill"), 0.8, of="our prefill of 512")
    f.add("Gemma 3 270M Q4_K_M: decode, 1 sequence", rate, of(gemma, "decode"), of(gemma_peer, "decode"), 1.0, of=a.peer)
    f.add("Gemma 3 270M Q4_K_M: prefill of 512", rate, of(gemma, "prefill"), of(gemma_peer, "prefill"), 1.0, of=a.peer)
    f.add("Gemma 3 270M Q4_K_M: decode, 8 sequences", rate, of(gemma, "decode_batch_8"), of(gemma_peer, "batch"), of=a.peer)
    weights = pathlib.Path(a.model).stat().st_size / 1e9
    f.add("weights read while decoding, of what the memory gives", "GB/s", [weights * s["decode"] for s in ours],
          [s["bytes_per_second"] / 1e9 for s in memory], of="plain reads by as many threads, same run")


def program(a: argparse.Namespace, f: Figures) -> None:
    start(a).end()  # the file is in the page cache from here on
    ready, rss, peak, cold, cached, eight, prefill, decode = [], [], [], [], [], [], [], []
    for _ in range(a.rounds):
        agent = start(a)
        ready.append(agent.ready)
        for samples, value in zip([cold, cached, prefill, decode], [*prefix(agent), *one(agent)]):
            samples.append(value)
        eight.append(streams(agent))
        rss.append(agent.status("VmRSS") / MB)
        peak.append(agent.status("VmHWM") / MB)
        agent.end()
    f.add("first token, 400-token prefix in the cache, against a cold one", "s", cached, cold, 10.0, lower=True, of="the same agent, cold")
    f.add("prefill of 512 through the server, to the first piece", "tokens/s", prefill)
    f.add("decode through the server, 1 stream", "pieces/s", decode)
    f.add("decode through the server, 8 streams, while all run", "pieces/s", eight)
    bound = (pathlib.Path(a.model).stat().st_size + KV_CACHE + SPARE) / MB
    f.add("memory in use after 8 streams; at most file + KV cache + 150 MB", "MB", rss, bound=bound)
    f.add("memory at its peak, loading included", "MB", peak)
    f.add("from start to ready, file in the page cache; at most 2 s", "s", ready, bound=2.0)


def main() -> None:
    arguments = argparse.ArgumentParser()
    for name in ("model", "best", "gemma", "peer", "cpu", "device", "out"):
        arguments.add_argument(f"--{name}", required=True)
    arguments.add_argument("--threads", type=int, required=True)
    arguments.add_argument("--rounds", type=int, required=True)
    a = arguments.parse_args()
    a.threads = a.threads or len(os.sched_getaffinity(0))
    if a.rounds < 5:
        sys.exit("bench-agent: a median of fewer than 5 samples says little: ROUNDS=5 or more")
    chosen = f"{f'CPU={a.cpu} ' if a.cpu else ''}{f'DEVICE={a.device} ' if a.device != 'cpu' else ''}"
    f, where = Figures(f"{chosen}THREADS={a.threads} ROUNDS={a.rounds} make bench-agent"), machine()
    if a.device == "cpu":
        networks(a, f)
    program(a, f)
    document = {"bench": "agent", "peer": a.peer, "peer_system": f.system, "threads": a.threads, "device": a.device,
                "cpu": a.cpu or "the widest", "machine": where, "figures": f.all}
    pathlib.Path(a.out).write_text(json.dumps(document, indent=1) + "\n")
    print(f.table())
    print(f"{where}; {a.threads} threads; {a.peer}: {a.out}")


if __name__ == "__main__":
    main()
