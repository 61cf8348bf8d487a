// agent.mjs BASE_URL MODEL: drives an agent as a user of the openai npm package would. Twin of edge-agent/tests/agent/sdk.py.
import assert from "node:assert/strict";
import OpenAI from "openai";

const [baseURL, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "unused", maxRetries: 0, timeout: 240_000 });
const chat = (content, more = {}) =>
  client.chat.completions.create({ model, messages: [{ role: "user", content }], max_tokens: 24, temperature: 0, ...more });
const refused = async (status, param, call) => {
  const error = await call().then(() => assert.fail(`no ${status} for ${param}`), (e) => e);
  assert.ok(error instanceof OpenAI.APIError, String(error));
  assert.deepEqual([error.status, error.param], [status, param]);
};
const france = "What is the capital of France?";

assert.deepEqual((await client.models.list()).data.map((m) => m.id), [model]);

// Whole and streamed.
const whole = await chat(france);
const text = whole.choices[0].message.content;
let said = "", usage;
for await (const chunk of await chat(france, { stream: true, stream_options: { include_usage: true } })) {
  said += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}
assert.equal(said, text);
const counts = (u) => [u.prompt_tokens, u.completion_tokens, u.total_tokens];
assert.deepEqual(counts(usage), counts(whole.usage));
// The same question once more: its beginning was computed already.
assert.ok(usage.prompt_tokens_details.cached_tokens > 0, JSON.stringify(usage));

// Log-probabilities and several choices.
const tokens = (await chat(france, { logprobs: true, top_logprobs: 2 })).choices[0].logprobs.content;
assert.equal(Buffer.from(tokens.flatMap((t) => t.bytes)).toString(), text);
assert.ok(tokens.every((t) => t.top_logprobs.length === 2 && t.top_logprobs[0].token === t.token));
const many = await chat("Tell me a story.", { n: 2, temperature: 1.1, seed: 5, max_tokens: 12 });
assert.deepEqual(many.choices.map((c) => c.index), [0, 1]);
assert.notEqual(many.choices[0].message.content, many.choices[1].message.content);

// JSON Schema.
const schema = {
  type: "object", additionalProperties: false, required: ["answer", "sure"],
  properties: { answer: { type: "string", maxLength: 40 }, sure: { type: "boolean" } },
};
const structured = await chat(france, { max_tokens: 200, response_format: { type: "json_schema", json_schema: { name: "a", strict: true, schema } } });
const parsed = JSON.parse(structured.choices[0].message.content);
assert.deepEqual([Object.keys(parsed), typeof parsed.answer, typeof parsed.sure], [["answer", "sure"], "string", "boolean"]);

// A tool, streamed by the package's own helper, and its result given back.
const parameters = { type: "object", additionalProperties: false, required: ["city"], properties: { city: { type: "string", maxLength: 20 } } };
const tools = [{ type: "function", function: { name: "get_weather", description: "Weather of a city", parameters, strict: true } }];
const call = { model, max_tokens: 100, temperature: 0, tools, tool_choice: "required", parallel_tool_calls: false };
const messages = [{ role: "user", content: "What is the weather in Paris?" }];
const stream = client.chat.completions.stream({ ...call, messages });
const [choice] = (await stream.finalChatCompletion()).choices;
assert.equal(choice.finish_reason, "tool_calls");
const [asked] = choice.message.tool_calls;
assert.equal(asked.function.name, "get_weather");
assert.deepEqual(Object.keys(JSON.parse(asked.function.arguments)), ["city"]);
messages.push({ role: "assistant", content: null, tool_calls: [{ id: asked.id, type: "function", function: { name: asked.function.name, arguments: asked.function.arguments } }] });
messages.push({ role: "tool", tool_call_id: asked.id, content: "17 degrees and sunny" });
const told = await client.chat.completions.create({ ...call, messages, tool_choice: "none" });
assert.ok(told.choices[0].message.content);

// Text completions, and what is wrong.
const completion = await client.completions.create({ model, prompt: ["The capital of France is", "One, two,"], max_tokens: 4, temperature: 0, echo: true });
assert.ok(completion.choices[0].text.startsWith("The capital of France is") && completion.choices[1].index === 1);
await refused(404, "/model", () => chat(france, { model: "no-such-model" }));
await refused(422, "/functions", () => chat(france, { functions: [{ name: "f" }] }));
await refused(400, "/tools/0/function/name", () => chat(france, { tools: [{ type: "function", function: { name: "a b" } }] }));
console.log("ok");
