// router.mjs BASE_URL KEY: drives a router as a user of the openai npm package would. Twin of router-pod/tests/router/clients/openai_sdk.py.
import assert from "node:assert/strict";
import OpenAI from "openai";

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 60_000 });
const TEXT = "The capital of France is Paris.";
const messages = [{ role: "user", content: "What is the capital of France?" }];
const refused = async (status, param, call) => {
  const error = await call().then(() => assert.fail(`no ${status} for ${param}`), (e) => e);
  assert.ok(error instanceof OpenAI.APIError, String(error));
  assert.deepEqual([error.status, error.param], [status, param]);
};

assert.deepEqual((await client.models.list()).data.map((m) => m.id), ["auto", "small"]);

// Chat and embeddings.
const { data, response } = await client.chat.completions.create({ model: "auto", messages }).withResponse();
assert.deepEqual([data.choices[0].message.content, response.headers.get("x-terrace-tier")], [TEXT, "edge"]);
let said = "";
for await (const chunk of await client.chat.completions.create({ model: "auto", messages, stream: true })) said += chunk.choices[0]?.delta?.content ?? "";
assert.equal(said, TEXT);
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const tools = [{ type: "function", function: { name: "weather", parameters } }];
const called = await client.chat.completions.stream({ model: "auto", messages, tools }).finalChatCompletion();
assert.deepEqual(JSON.parse(called.choices[0].message.tool_calls[0].function.arguments), { city: "Paris" });
for (const encoding of [{}, { encoding_format: "float" }]) {
  const vectors = await client.embeddings.create({ model: "auto", input: ["one", "two words"], ...encoding });
  assert.deepEqual(vectors.data.map((v) => [...v.embedding]), [[0, 1], [1, 2]]);
}

// Responses: whole, streamed, functions, a schema.
const whole = await client.responses.create({ model: "auto", input: "hi", store: false });
assert.deepEqual([whole.output_text, whole.status, whole.usage.total_tokens], [TEXT, "completed", 18]);
const stream = client.responses.stream({ model: "auto", input: "hi" });
let text = "";
for await (const event of stream) if (event.type === "response.output_text.delta") text += event.delta;
assert.deepEqual([text, (await stream.finalResponse()).output_text], [TEXT, TEXT]);
const functions = [{ type: "function", name: "weather", parameters, strict: true }];
const [call] = (await client.responses.create({ model: "auto", input: "hi", tools: functions })).output;
assert.deepEqual([call.type, JSON.parse(call.arguments)], ["function_call", { city: "Paris" }]);
const input = [{ role: "user", content: "hi" }, call, { type: "function_call_output", call_id: call.call_id, output: "sunny" }];
assert.equal((await client.responses.create({ model: "auto", input, tools: functions })).output_text, "The tool said: sunny");
const format = { type: "json_schema", name: "city", schema: parameters, strict: true };
assert.deepEqual(JSON.parse((await client.responses.create({ model: "auto", input: "hi", text: { format } })).output_text), { city: "Paris" });

// What is wrong is named by its place.
await refused(404, "/model", () => client.chat.completions.create({ model: "huge", messages }));
await refused(400, "/store", () => client.responses.create({ model: "auto", input: "hi", store: true }));
await refused(400, "/input/0/type", () => client.responses.create({ model: "auto", input: [{ type: "item_reference", id: "x" }] }));

console.log("ok");
