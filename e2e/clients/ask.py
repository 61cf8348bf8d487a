#!/usr/bin/env python3
"""ask.py: one or many questions through the openai package; prints one JSON document a question, one a line.

    ask.py --base-url URL [--key KEY] [--model auto] [--stream] [--header K=V]... [--parallel N] [--retries N] [--timeout S] [--max-tokens N] PROMPT

{"ok": true, "text", "chunks", "finish", "usage", "headers"} or {"ok": false, "status", "code", "message", "headers"}."""
import argparse, concurrent.futures, json, sys

import openai


def headers_of(response):
    return {k: v for k, v in response.headers.items() if k.startswith("x-") or k in ("traceparent", "retry-after", "retry-after-ms")}


def ask(client, options, prompt):
    call = dict(model=options.model, messages=[{"role": "user", "content": prompt}], max_tokens=options.max_tokens, temperature=0,
                extra_headers=dict(h.split("=", 1) for h in options.header))
    try:
        if not options.stream:
            raw = client.chat.completions.with_raw_response.create(**call)
            answer = raw.parse()
            choice = answer.choices[0]
            return {"ok": True, "text": choice.message.content, "chunks": 1, "finish": choice.finish_reason,
                    "usage": answer.usage.model_dump() if answer.usage else None, "model": answer.model, "headers": headers_of(raw)}
        raw = client.chat.completions.with_raw_response.create(stream=True, stream_options={"include_usage": True}, **call)
        text, chunks, finish, usage, model = "", 0, None, None, None
        for event in raw.parse():
            model = event.model or model
            usage = event.usage.model_dump() if event.usage else usage
            for choice in event.choices:
                finish = choice.finish_reason or finish
                if choice.delta.content:
                    text += choice.delta.content
                    chunks += 1
        return {"ok": True, "text": text, "chunks": chunks, "finish": finish, "usage": usage, "model": model, "headers": headers_of(raw)}
    except openai.APIStatusError as error:
        body = error.body if isinstance(error.body, dict) else {}
        return {"ok": False, "status": error.status_code, "code": body.get("code"), "message": body.get("message") or str(error), "headers": headers_of(error.response)}
    except openai.APIError as error:
        return {"ok": False, "status": 0, "code": type(error).__name__, "message": str(error), "headers": {}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--key", default="none")
    parser.add_argument("--model", default="auto")
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--header", action="append", default=[])
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--retries", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--max-tokens", type=int, default=16)
    parser.add_argument("prompt")
    options = parser.parse_args()
    client = openai.OpenAI(base_url=options.base_url, api_key=options.key, max_retries=options.retries, timeout=options.timeout)
    with concurrent.futures.ThreadPoolExecutor(options.parallel) as pool:
        prompts = [options.prompt if options.parallel == 1 else f"{options.prompt} ({i})" for i in range(options.parallel)]
        for answer in pool.map(lambda p: ask(client, options, p), prompts):
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    sys.exit(main())
