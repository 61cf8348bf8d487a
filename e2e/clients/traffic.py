#!/usr/bin/env python3
"""traffic.py: mixed traffic through the openai package until a file appears; one line of JSON a request, in a file.

    traffic.py --base-url URL --key KEY --out FILE --stop FILE [--seed N] [--retries N] [--timeout S]

Four kinds of client, each a thread or two that asks, waits a little and asks again:

    plain       whole answers, unlabelled
    streamed    the same as a stream
    sensitive   whole answers, half of them labelled Restricted, half with a card number: they may never leave the network
    public      whole answers, labelled Public and wanting quality: the endpoint's, and anyone's while it fails

{"at", "kind", "ok", "took", "tier", "reason", "status", "code", "begun"}; `begun`: some of a stream had come before it failed. Every prompt of
`sensitive` holds the word kept-inside, every one of `public` the word may-leave: what the endpoint received can be counted by them."""
import argparse, json, pathlib, random, sys, threading, time

import openai

CLIENTS = {"plain": 2, "streamed": 1, "sensitive": 2, "public": 1}
QUESTIONS = ["What is a lighthouse?", "Name three colours.", "Why is the sea salt?", "Say hello.", "What do bees eat?", "Tell me of the moon."]


def prompt(kind, dice):
    text = dice.choice(QUESTIONS)
    if kind == "sensitive":
        return text + (" kept-inside" if dice.random() < 0.5 else " kept-inside, and charge 4111 1111 1111 1111")
    return text + (" may-leave" if kind == "public" else "")


def one(client, kind, dice, started):
    text = prompt(kind, dice)
    headers = {}
    if kind == "public":
        headers = {"x-terrace-class": "Public", "x-terrace-prefer": "quality"}
    elif kind == "sensitive" and "4111" not in text:
        headers = {"x-terrace-class": "Restricted"}
    call = dict(model="auto", messages=[{"role": "user", "content": text}], max_tokens=dice.choice([4, 8, 16]), temperature=0, extra_headers=headers)
    begun, began = False, time.monotonic()
    record = {"at": round(began - started, 2), "kind": kind}
    try:
        if kind == "streamed":
            raw = client.chat.completions.with_raw_response.create(stream=True, **call)
            finish = None
            for event in raw.parse():
                begun = begun or any(c.delta.content for c in event.choices)
                finish = next((c.finish_reason for c in event.choices if c.finish_reason), finish)
            ok = finish in ("stop", "length")
            record |= {} if ok else {"code": f"finish_{finish}"}
        else:
            raw = client.chat.completions.with_raw_response.create(**call)
            ok = bool(raw.parse().choices[0].message.content)
            record |= {} if ok else {"code": "empty"}
        record |= {"ok": ok, "tier": raw.headers.get("x-terrace-tier"), "reason": raw.headers.get("x-terrace-reason")}
    except openai.APIStatusError as error:
        body = error.body if isinstance(error.body, dict) else {}
        told = error.response.headers
        record |= {"ok": False, "status": error.status_code, "code": body.get("code"), "tier": told.get("x-terrace-tier"), "reason": told.get("x-terrace-reason")}
    except (openai.APIError, OSError) as error:
        record |= {"ok": False, "status": 0, "code": type(error).__name__}
    except Exception as error:  # what httpx raises while a stream is read is no error of openai's
        record |= {"ok": False, "status": 0, "code": type(error).__name__}
    return record | {"took": round(time.monotonic() - began, 2), "begun": begun}


def main():
    parser = argparse.ArgumentParser()
    for name in ("base-url", "key", "out", "stop"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--retries", type=int, default=4)
    parser.add_argument("--timeout", type=float, default=30)
    options = parser.parse_args()
    stop, started, lock = pathlib.Path(options.stop), time.monotonic(), threading.Lock()

    def run(kind, number):
        dice = random.Random(f"{options.seed} {kind} {number}")
        client = openai.OpenAI(base_url=options.base_url, api_key=options.key, max_retries=options.retries, timeout=openai.Timeout(options.timeout, connect=5.0))
        while not stop.exists():
            record = one(client, kind, dice, started)
            with lock:
                print(json.dumps(record), file=out, flush=True)
            time.sleep(dice.uniform(0.2, 1.0))

    with open(options.out, "w") as out:
        threads = [threading.Thread(target=run, args=(kind, number)) for kind, count in CLIENTS.items() for number in range(count)]
        [t.start() for t in threads]
        [t.join() for t in threads]


if __name__ == "__main__":
    sys.exit(main())
