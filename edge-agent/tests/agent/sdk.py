"""Drives an agent as a user of the openai package would: sdk.py BASE_URL MODEL."""

import sys

import openai

base_url, model = sys.argv[1:]
client = openai.OpenAI(base_url=base_url, api_key="unused", max_retries=0)
messages = [{"role": "user", "content": "What is the capital of France?"}]

assert [m.id for m in client.models.list()] == [model]

whole = client.chat.completions.create(model=model, messages=messages, max_tokens=24, temperature=0)
text = whole.choices[0].message.content
assert text
assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens

stream = client.chat.completions.create(
    model=model, messages=messages, max_tokens=24, temperature=0, stream=True, stream_options={"include_usage": True}
)
pieces, usage, finish = [], None, None
for chunk in stream:
    usage = chunk.usage or usage
    for choice in chunk.choices:
        pieces.append(choice.delta.content or "")
        finish = choice.finish_reason or finish
assert "".join(pieces) == text

def counts(usage):
    return usage.prompt_tokens, usage.completion_tokens, usage.total_tokens


assert counts(usage) == counts(whole.usage), (usage, whole.usage)
# The same question once more: its beginning was computed already.
assert usage.prompt_tokens_details.cached_tokens > 0, usage
assert finish == whole.choices[0].finish_reason

completion = client.completions.create(model=model, prompt="The capital of France is", max_tokens=4, temperature=0)
assert "Paris" in completion.choices[0].text

for body, error in [
    ({"model": "no-such-model", "messages": messages}, openai.NotFoundError),
    ({"model": model, "messages": [{"role": "wizard", "content": "x"}]}, openai.BadRequestError),
    ({"model": model, "messages": [{"role": "user", "content": "x " * 20000}]}, openai.UnprocessableEntityError),
]:
    try:
        client.chat.completions.create(**body)
    except error:
        continue
    raise AssertionError(f"no {error.__name__}")

print("ok")
