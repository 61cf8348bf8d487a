"""What a user does with the openai package against a router. Prints one JSON object; any surprise is an exception.

    openai_python.py BASE_URL [API_KEY]
"""
import json
import sys

import openai

base, key = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "none"
client = openai.OpenAI(base_url=base, api_key=key, max_retries=2, timeout=120)
question = [{"role": "system", "content": "Answer briefly."}, {"role": "user", "content": "What is the capital of France?"}]
out = {"models": [m.id for m in client.models.list().data]}

raw = client.chat.completions.with_raw_response.create(model="auto", messages=question, max_tokens=24, temperature=0)
plain = raw.parse()
out["plain"] = {
    "text": plain.choices[0].message.content,
    "finish": plain.choices[0].finish_reason,
    "usage": plain.usage.model_dump(include={"prompt_tokens", "completion_tokens", "total_tokens"}),
    "headers": {k: v for k, v in raw.headers.items() if k.startswith("x-terrace-") or k == "traceparent"},
}

text, finish, usage, chunks = "", None, None, 0
stream = client.chat.completions.create(
    model="auto", messages=question, max_tokens=24, temperature=0, stream=True, stream_options={"include_usage": True}
)
for chunk in stream:
    chunks += 1
    usage = chunk.usage or usage
    for choice in chunk.choices:
        text += choice.delta.content or ""
        finish = choice.finish_reason or finish
out["stream"] = {"text": text, "finish": finish, "chunks": chunks, "usage": usage and usage.total_tokens}

named = client.chat.completions.create(model=out["models"][-1], messages=question, max_tokens=4, temperature=0)
out["named"] = named.model

stopped = client.chat.completions.create(model="auto", messages=question, max_tokens=24, temperature=0, stop=["France"])
out["stopped"] = stopped.choices[0].message.content


def fails(**arguments):
    try:
        client.with_options(max_retries=0).chat.completions.create(**arguments)
    except openai.APIStatusError as error:
        return {"status": error.status_code, "code": error.code, "type": type(error).__name__, "message": error.message}
    return None


out["unknown_model"] = fails(model="no-such-model", messages=question)
out["unknown_role"] = fails(model="auto", messages=[{"role": "wizard", "content": "x"}])
out["no_messages"] = fails(model="auto", messages=[])
out["too_long"] = fails(model="auto", messages=[{"role": "user", "content": "word " * 60_000}])
print(json.dumps(out))
