"""LiteLLM's client drives a router over three APIs: litellm_sdk.py BASE_URL KEY."""

import json
import os
import sys

# Its list of prices is in the package; it would fetch a newer one.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm  # noqa: E402

base_url, key = sys.argv[1:]
TEXT = "The capital of France is Paris."
messages = [{"role": "user", "content": "What is the capital of France?"}]
tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]

# OpenAI's chat, and Anthropic's Messages behind the same call.
for model, base in [("openai/auto", base_url), ("anthropic/auto", base_url.removesuffix("/v1"))]:
    call = dict(model=model, api_base=base, api_key=key, messages=messages, max_tokens=64, num_retries=0)
    answer = litellm.completion(**call)
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == (TEXT, "stop"), answer
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (11, 7), answer.usage
    assert "".join(chunk.choices[0].delta.content or "" for chunk in litellm.completion(**call, stream=True)) == TEXT
    [use] = litellm.completion(**call, tools=tools).choices[0].message.tool_calls
    assert (use.function.name, json.loads(use.function.arguments)) == ("weather", {"city": "Paris"})
    try:
        litellm.completion(**{**call, "model": model.replace("auto", "huge")})
        raise AssertionError("a model that is not there")
    except litellm.NotFoundError as error:
        assert "use one of auto, small" in str(error), error

vectors = litellm.embedding(model="openai/auto", api_base=base_url, api_key=key, input=["one", "two words"], encoding_format="float")
assert [v["embedding"] for v in vectors.data] == [[0.0, 1.0], [1.0, 2.0]], vectors
response = litellm.responses(model="openai/auto", api_base=base_url, api_key=key, input="What is the capital of France?")
assert response.output[-1].content[0].text == TEXT, response

print("ok")
