"""Drives an agent as a user of the openai package would: sdk.py BASE_URL MODEL."""

import json
import sys

import jsonschema
import openai

base_url, model = sys.argv[1:]
client = openai.OpenAI(base_url=base_url, api_key="unused", max_retries=0)
messages = [{"role": "user", "content": "What is the capital of France?"}]


def chat(text=None, **more):
    call = dict(model=model, messages=[{"role": "user", "content": text}] if text else messages, max_tokens=24, temperature=0)
    return client.chat.completions.create(**{**call, **more})


def refused(error, param, call):
    try:
        call()
    except error as e:
        assert e.param == param, (e.param, param, e.message)
        return
    raise AssertionError(f"no {error.__name__} for {param}")


listed = client.models.list().data
assert [m.id for m in listed] == [model]
assert listed[0].digest.startswith("sha256:") and listed[0].context_length > 0, listed

# Whole and streamed.
whole = chat()
text = whole.choices[0].message.content
assert text
assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens

pieces, usage, finish = [], None, None
for chunk in chat(stream=True, stream_options={"include_usage": True}):
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

# Log-probabilities: the sampled token is the likeliest, and its bytes are the text's.
likely = chat(logprobs=True, top_logprobs=3).choices[0].logprobs.content
spelt = b"".join(bytes(t.bytes) for t in likely).decode()
assert spelt == text, (spelt, text)
for token in likely:
    assert len(token.top_logprobs) == 3 and token.top_logprobs[0].token == token.token, token
    assert token.logprob <= 0 and abs(token.logprob - token.top_logprobs[0].logprob) < 1e-6
streamed = [t for c in chat(logprobs=True, top_logprobs=3, stream=True) for choice in c.choices if choice.logprobs for t in choice.logprobs.content]
assert streamed == likely

# Several choices: indexed, usage summed over them, the prompt counted once; a seed is a text.
many = chat("Tell me a story.", n=3, temperature=1.1, seed=5, max_tokens=12)
assert [c.index for c in many.choices] == [0, 1, 2]
texts = [c.message.content for c in many.choices]
assert len(set(texts)) == 3, texts
one = chat("Tell me a story.", n=1, temperature=1.1, seed=5, max_tokens=12)
assert (one.choices[0].message.content, one.usage.prompt_tokens) == (texts[0], many.usage.prompt_tokens)
assert 3 * 12 >= many.usage.completion_tokens > one.usage.completion_tokens
again, ends = ["", "", ""], {}
for chunk in chat("Tell me a story.", n=3, temperature=1.1, seed=5, max_tokens=12, stream=True):
    for choice in chunk.choices:
        again[choice.index] += choice.delta.content or ""
        ends[choice.index] = choice.finish_reason or ends.get(choice.index)
assert again == texts and set(ends.values()) <= {"stop", "length"}, (again, texts, ends)

# A bias decides, whatever the model would say.
biased = [chat(q, max_tokens=1, logit_bias={"2000": 100}).choices[0].message.content for q in ("What is 2 + 2?", "Who are you?")]
assert biased[0] and biased[0] == biased[1], biased

# JSON mode and JSON Schema.
answer = chat("Describe a cat in JSON.", response_format={"type": "json_object"}, max_tokens=200)
if answer.choices[0].finish_reason == "stop":
    assert isinstance(json.loads(answer.choices[0].message.content), dict)

schema = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "colours": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 1, "maxItems": 3},
        "home": {"$ref": "#/$defs/home"},
    },
    "required": ["name", "age", "colours", "home"],
    "additionalProperties": False,
    "$defs": {"home": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "flat": {"type": "boolean"}},
                       "required": ["city", "flat"], "additionalProperties": False}},
}
structured = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": schema}}
for question, more in [("Invent a person.", {}), ("Who are you?", {"temperature": 1.0, "seed": 3}), ("2 + 2?", {"temperature": 1.3, "seed": 9})]:
    answer = chat(question, response_format=structured, max_tokens=300, **more).choices[0]
    assert answer.finish_reason == "stop", answer
    jsonschema.validate(json.loads(answer.message.content), schema)
assert chat("Invent a person.", response_format=structured, max_tokens=5).choices[0].finish_reason == "length"
broken = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string", "pattern": "(?=x)y"}}}
refused(openai.UnprocessableEntityError, "/response_format/json_schema/schema/properties/[1]/pattern",
        lambda: chat(response_format={"type": "json_schema", "json_schema": {"name": "b", "schema": broken}}))
for nothing in ({"name": "b"}, {"name": "b", "schema": None}, {"name": "b", "schema": True}):
    refused(openai.BadRequestError, "/response_format/json_schema/schema",
            lambda: chat(response_format={"type": "json_schema", "json_schema": nothing}))

# Tools: forced, streamed, and their results given back.
parameters = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["celsius", "fahrenheit"]}},
              "required": ["city", "unit"], "additionalProperties": False}
tools = [{"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters": parameters, "strict": True}},
         {"type": "function", "function": {"name": "now", "description": "The time"}}]
named = {"type": "function", "function": {"name": "get_weather"}}
question = "What is the weather in Paris in celsius?"
forced = chat(question, tools=tools, tool_choice=named, parallel_tool_calls=False, max_tokens=100).choices[0]
assert forced.finish_reason == "tool_calls" and not forced.message.content, forced
[call] = forced.message.tool_calls
assert call.function.name == "get_weather"
jsonschema.validate(json.loads(call.function.arguments), parameters)
begun, arguments, finish = [], "", None
for chunk in chat(question, tools=tools, tool_choice=named, parallel_tool_calls=False, max_tokens=100, stream=True):
    for choice in chunk.choices:
        finish = choice.finish_reason or finish
        for delta in choice.delta.tool_calls or []:
            assert delta.index == 0
            if delta.id:
                begun.append((delta.id, delta.function.name))
            arguments += delta.function.arguments or ""
assert [name for _, name in begun] == ["get_weather"] and begun[0][0].startswith("call_"), begun
assert (arguments, finish) == (call.function.arguments, "tool_calls")
# A small model repeats itself: where one call will do, one is made.
for choice, more in [(named, {}), (named, {"parallel_tool_calls": False}), ("required", {}), ("required", {"parallel_tool_calls": False})]:
    for words in (question, "What time is it?"):
        made = chat(words, tools=tools, tool_choice=choice, max_tokens=300, **more).choices[0]
        assert made.finish_reason == "tool_calls" and len(made.message.tool_calls) == 1, (choice, more, words, made)
talk = [{"role": "user", "content": question}, forced.message,
        {"role": "tool", "tool_call_id": call.id, "content": "17 degrees and sunny"}]
told = client.chat.completions.create(model=model, messages=talk, tools=tools, max_tokens=40, temperature=0)
assert told.choices[0].message.content or told.choices[0].message.tool_calls
assert not chat(question, tools=tools, tool_choice="none").choices[0].message.tool_calls

# Text completions.
prompt = "The capital of France is"
completion = client.completions.create(model=model, prompt=prompt, max_tokens=4, temperature=0)
assert "Paris" in completion.choices[0].text
echoed = client.completions.create(model=model, prompt=prompt, max_tokens=4, temperature=0, echo=True)
assert echoed.choices[0].text == prompt + completion.choices[0].text
listed = client.completions.create(model=model, prompt=[prompt, "One, two,"], n=2, max_tokens=4, temperature=0)
assert [c.index for c in listed.choices] == [0, 1, 2, 3] and listed.choices[1].text == completion.choices[0].text
likely = client.completions.create(model=model, prompt=prompt, max_tokens=4, temperature=0, logprobs=2).choices[0].logprobs
assert "".join(likely.tokens) == completion.choices[0].text and likely.text_offset[0] == 0
assert all(len(top) == 2 and max(top.values()) == p for top, p in zip(likely.top_logprobs, likely.token_logprobs)), likely

# What is wrong, or not built, is named by its place.
for error, param, call in [
    (openai.NotFoundError, "/model", lambda: chat(model="no-such-model")),
    (openai.BadRequestError, "/messages/0/role", lambda: chat(messages=[{"role": "wizard", "content": "x"}])),
    (openai.UnprocessableEntityError, "/messages", lambda: chat("x " * 20000)),
    (openai.UnprocessableEntityError, "/functions", lambda: chat(functions=[{"name": "f"}])),
    (openai.UnprocessableEntityError, "/store", lambda: chat(store=True)),
    (openai.UnprocessableEntityError, "/suffix", lambda: client.completions.create(model=model, prompt="a", suffix="b")),
    (openai.BadRequestError, "/[4]", lambda: chat(extra_body={"no_such_field": 1})),
    (openai.BadRequestError, "/logit_bias/[0]", lambda: chat(logit_bias={"9999999": 1})),
    (openai.BadRequestError, "/prompt/1", lambda: client.completions.create(model=model, prompt=[1, 9999999])),
    (openai.BadRequestError, "/tool_choice", lambda: chat(tool_choice="required")),
]:
    refused(error, param, call)

print("ok")
