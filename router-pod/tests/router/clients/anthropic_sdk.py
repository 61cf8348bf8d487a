"""The anthropic package drives a router: anthropic_sdk.py BASE_URL KEY."""

import sys

import anthropic

base_url, key = sys.argv[1:]
client = anthropic.Anthropic(base_url=base_url.removesuffix("/v1"), api_key=key, max_retries=0)
TEXT = "The capital of France is Paris."
messages = [{"role": "user", "content": "What is the capital of France?"}]


def ask(**more):
    return client.messages.create(**{"model": "auto", "max_tokens": 64, "messages": messages, **more})


def refused(error, kind, place, call):
    try:
        call()
    except error as e:
        assert e.body["error"]["type"] == kind and place in e.body["error"]["message"], e.body
        assert e.request_id == e.body["request_id"], e.body
        return
    raise AssertionError(f"no {error.__name__} for {place}")


# Whole: by key and by token, with what else a message may ask.
raw = client.messages.with_raw_response.create(model="auto", max_tokens=64, messages=messages)
assert (raw.headers["x-terrace-tier"], raw.headers["x-terrace-boundary"]) == ("edge", "Device")
answer = raw.parse()
assert (answer.content[0].text, answer.stop_reason, answer.model) == (TEXT, "end_turn", "small")
assert (answer.usage.input_tokens, answer.usage.cache_read_input_tokens, answer.usage.output_tokens) == (7, 4, 7)
assert answer._request_id == raw.headers["x-terrace-request-id"]
bearer = anthropic.Anthropic(base_url=base_url.removesuffix("/v1"), auth_token=key, api_key=None, max_retries=0)
assert bearer.messages.create(model="small", max_tokens=64, messages=messages).content[0].text == TEXT
system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
assert ask(system=system, stop_sequences=["END"], metadata={"user_id": "u"}, extra_body={"temperature": 0.5}).content[0].text == TEXT

# Streamed: the events in their order, and what the package makes of them.
with client.messages.stream(model="auto", max_tokens=64, messages=messages) as stream:
    assert "".join(stream.text_stream) == TEXT
    final = stream.get_final_message()
assert (final.content[0].text, final.stop_reason, final.usage.input_tokens, final.usage.output_tokens) == (TEXT, "end_turn", 7, 7)
kinds = [event.type for event in ask(stream=True)]
assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"], kinds

# Tools: called whole and streamed, and their results given back.
tools = [{"name": "weather", "description": "d", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}]
called = ask(tools=tools, tool_choice={"type": "any"})
[use] = called.content
assert (use.type, use.name, use.input, called.stop_reason) == ("tool_use", "weather", {"city": "Paris"}, "tool_use")
with client.messages.stream(model="auto", max_tokens=64, messages=messages, tools=tools) as stream:
    [streamed] = stream.get_final_message().content
assert (streamed.name, streamed.input) == (use.name, use.input)
result = {"type": "tool_result", "tool_use_id": use.id, "content": [{"type": "text", "text": "sunny"}]}
told = ask(tools=tools, messages=[*messages, {"role": "assistant", "content": called.content}, {"role": "user", "content": [result]}])
assert told.content[0].text == "The tool said: sunny"

# Counted without being sent.
counted = client.messages.count_tokens(model="auto", messages=messages, system="Be brief.", tools=tools).input_tokens
assert counted > client.messages.count_tokens(model="auto", messages=messages).input_tokens > 0

# What is wrong, in Anthropic's shape and by its place.
for error, kind, place, call in [
    (anthropic.NotFoundError, "not_found_error", "use one of auto, small", lambda: ask(model="huge")),
    (anthropic.BadRequestError, "invalid_request_error", "/thinking", lambda: ask(thinking={"type": "enabled", "budget_tokens": 1024})),
    (anthropic.BadRequestError, "invalid_request_error", "/tools/0/type", lambda: ask(tools=[{"type": "web_search_20250305", "name": "web_search"}])),
    (anthropic.AuthenticationError, "authentication_error", "API key", lambda: client.with_options(api_key="wrong").messages.create(model="auto", max_tokens=1, messages=messages)),
]:
    refused(error, kind, place, call)

print("ok")
