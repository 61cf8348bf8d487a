"""LangChain drives a router: langchain_sdk.py BASE_URL KEY."""

import sys

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel

base_url, key = sys.argv[1:]
TEXT = "The capital of France is Paris."
question = "What is the capital of France?"


class City(BaseModel):
    """A city."""

    city: str


@tool
def weather(city: str) -> str:
    """Weather of a city."""
    return f"sunny in {city}"


# Over both of OpenAI's APIs.
for options in ({}, {"use_responses_api": True}):
    model = ChatOpenAI(model="auto", base_url=base_url, api_key=key, max_retries=0, **options)
    answer = model.invoke(question)
    assert answer.text == TEXT, answer
    assert (answer.usage_metadata["input_tokens"], answer.usage_metadata["output_tokens"]) == (11, 7), answer
    pieces = [chunk.text for chunk in model.stream(question)]
    assert "".join(pieces) == TEXT and len([piece for piece in pieces if piece]) > 1, pieces
    bound = model.bind_tools([weather])
    talk = [HumanMessage(question)]
    called = bound.invoke(talk)
    [call] = called.tool_calls
    assert (call["name"], call["args"]) == ("weather", {"city": "Paris"}), called
    talk += [called, ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"])]
    assert bound.invoke(talk).text == "The tool said: sunny in Paris"
    assert model.with_structured_output(City).invoke(question) == City(city="Paris")

vectors = OpenAIEmbeddings(model="auto", base_url=base_url, api_key=key, check_embedding_ctx_length=False, max_retries=0)
assert vectors.embed_documents(["one", "two words"]) == [[0.0, 1.0], [1.0, 2.0]]

print("ok")
