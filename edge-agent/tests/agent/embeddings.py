"""Embeds texts as a user of the openai package would: embeddings.py BASE_URL MODEL."""

import math
import sys

import openai

base_url, model = sys.argv[1:]
client = openai.OpenAI(base_url=base_url, api_key="unused", max_retries=0)


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


texts = [
    "The cat sat on the mat and purred.",
    "A kitten was purring on the rug.",
    "Interest rates rose by half a percent in March.",
]
# Base64 goes over the wire here; the package makes numbers of it.
answer = client.embeddings.create(model=model, input=texts)
vectors = [entry.embedding for entry in answer.data]
assert [entry.index for entry in answer.data] == [0, 1, 2]
assert answer.model == model and answer.usage.prompt_tokens == answer.usage.total_tokens > 15, answer.usage
assert all(len(v) == 576 and math.isclose(dot(v, v), 1, abs_tol=1e-5) for v in vectors)
assert dot(vectors[0], vectors[1]) > dot(vectors[0], vectors[2]), "nearer in meaning, nearer in space"

one = client.embeddings.create(model=model, input=texts[0]).data[0].embedding
assert one == vectors[0], "the same text, the same vector"
floats = client.embeddings.create(model=model, input=texts[0], encoding_format="float").data[0].embedding
assert all(math.isclose(a, b, abs_tol=1e-6) for a, b in zip(floats, one, strict=True))
last = client.embeddings.create(model=model, input=texts, extra_body={"pooling": "last"}).data
assert last[0].embedding != one
tokens = client.embeddings.create(model=model, input=[[1, 2, 3], [4, 5]]).data
assert len(tokens) == 2 and tokens[0].embedding != tokens[1].embedding
assert client.embeddings.create(model=model, input="a", dimensions=576).data

for more, error in [
    ({"input": ""}, openai.BadRequestError),
    ({"input": [""]}, openai.BadRequestError),
    ({"input": "x " * 20000}, openai.UnprocessableEntityError),
    ({"input": "a", "dimensions": 8}, openai.UnprocessableEntityError),
    ({"input": "a", "extra_body": {"pooling": "first"}}, openai.BadRequestError),
    ({"input": "a", "model": "no-such-model"}, openai.NotFoundError),
]:
    try:
        client.embeddings.create(**{"model": model, **more})
    except error:
        continue
    raise AssertionError(f"no {error.__name__}")

print("ok")
