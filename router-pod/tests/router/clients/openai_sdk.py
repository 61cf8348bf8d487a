"""The openai package drives a router: openai_sdk.py BASE_URL KEY."""

import json
import sys

import openai
import pydantic

base_url, key = sys.argv[1:]
client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0)
TEXT = "The capital of France is Paris."
messages = [{"role": "user", "content": "What is the capital of France?"}]


def refused(error, param, call):
    try:
        call()
    except error as e:
        assert e.param == param, (e.param, param, e.message)
        return
    raise AssertionError(f"no {error.__name__} for {param}")


class City(pydantic.BaseModel):
    city: str


assert [m.id for m in client.models.list().data] == ["auto", "small"]

# Chat: whole, streamed, n, log-probabilities, tools, a schema.
raw = client.chat.completions.with_raw_response.create(model="auto", messages=messages)
assert (raw.headers["x-terrace-tier"], raw.headers["x-terrace-quality"]) == ("edge", "full")
whole = raw.parse()
assert (whole.choices[0].message.content, whole.model, whole.usage.total_tokens) == (TEXT, "small", 18)
said, usage = "", None
for chunk in client.chat.completions.create(model="auto", messages=messages, stream=True, stream_options={"include_usage": True}):
    said += "".join(choice.delta.content or "" for choice in chunk.choices)
    usage = chunk.usage or usage
assert (said, usage.completion_tokens) == (TEXT, 7)
many = client.chat.completions.create(model="auto", messages=messages, n=2, logprobs=True, user="u", metadata={"feature": "x"})
assert [c.index for c in many.choices] == [0, 1]
assert "".join(t.token for t in many.choices[1].logprobs.content) == TEXT
parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
tools = [{"type": "function", "function": {"name": "weather", "parameters": parameters}}]
with client.chat.completions.stream(model="auto", messages=messages, tools=tools) as stream:
    call = stream.get_final_completion().choices[0].message.tool_calls[0]
assert (call.function.name, json.loads(call.function.arguments)) == ("weather", {"city": "Paris"})
asked = client.chat.completions.create(model="auto", messages=messages, tools=tools).choices[0].message
told = client.chat.completions.create(
    model="auto", tools=tools, messages=[*messages, asked, {"role": "tool", "tool_call_id": asked.tool_calls[0].id, "content": "sunny"}])
assert told.choices[0].message.content == "The tool said: sunny"
assert client.chat.completions.parse(model="auto", messages=messages, response_format=City).choices[0].message.parsed == City(city="Paris")

# Text completions, and embeddings in both encodings: the package asks for base64 by itself.
assert client.completions.create(model="auto", prompt="The capital").choices[0].text == TEXT
assert "".join(c.choices[0].text for c in client.completions.create(model="auto", prompt="The capital", stream=True)) == TEXT
for encoding in ({}, {"encoding_format": "float"}):
    vectors = client.embeddings.create(model="auto", input=["one", "two words"], **encoding)
    assert [v.embedding for v in vectors.data] == [[0.0, 1.0], [1.0, 2.0]], vectors
    assert vectors.usage.prompt_tokens == 5

# Responses: whole, streamed, functions, a schema, log-probabilities, and a conversation that the caller keeps.
response = client.responses.create(model="auto", input="What is the capital of France?", instructions="Be brief.", store=False)
assert (response.output_text, response.status, response.store) == (TEXT, "completed", False)
assert (response.usage.input_tokens, response.usage.input_tokens_details.cached_tokens, response.usage.total_tokens) == (11, 4, 18)
kinds, said = [], ""
with client.responses.stream(model="auto", input="What is the capital of France?") as stream:
    for event in stream:
        kinds.append(event.type)
        said += event.delta if event.type == "response.output_text.delta" else ""
    final = stream.get_final_response()
assert said == final.output_text == TEXT and kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds
functions = [{"type": "function", "name": "weather", "parameters": parameters, "strict": True}]
talk = [{"role": "user", "content": "What is the weather?"}]
with client.responses.stream(model="auto", input=talk, tools=functions) as stream:
    arguments = "".join(event.delta for event in stream if event.type == "response.function_call_arguments.delta")
    [item] = stream.get_final_response().output
assert (item.type, item.name, json.loads(item.arguments), arguments) == ("function_call", "weather", {"city": "Paris"}, item.arguments)
talk += [item, {"type": "function_call_output", "call_id": item.call_id, "output": "sunny"}]
assert client.responses.create(model="auto", input=talk, tools=functions).output_text == "The tool said: sunny"
assert client.responses.parse(model="auto", input="Where?", text_format=City).output_parsed == City(city="Paris")
likely = client.responses.create(model="auto", input="hi", include=["message.output_text.logprobs"]).output[0].content[0].logprobs
assert "".join(t.token for t in likely) == TEXT

# What is wrong is named by its place.
for error, param, call in [
    (openai.NotFoundError, "/model", lambda: client.chat.completions.create(model="huge", messages=messages)),
    (openai.BadRequestError, "/messages/0/role", lambda: client.chat.completions.create(model="auto", messages=[{"role": "wizard", "content": "x"}])),
    (openai.BadRequestError, "/store", lambda: client.responses.create(model="auto", input="hi", store=True)),
    (openai.BadRequestError, "/previous_response_id", lambda: client.responses.create(model="auto", input="hi", previous_response_id="resp_1")),
    (openai.BadRequestError, "/tools/0/type", lambda: client.responses.create(model="auto", input="hi", tools=[{"type": "web_search"}])),
    (openai.BadRequestError, "/input", lambda: client.embeddings.create(model="auto", input=[])),
    (openai.AuthenticationError, None, lambda: client.with_options(api_key="wrong").models.list()),
]:
    refused(error, param, call)

print("ok")
