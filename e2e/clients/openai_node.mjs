// What a user does with the openai package for Node against a router. Prints one JSON object; any surprise is an exception.
//
//     openai_node.mjs BASE_URL [API_KEY]
import OpenAI from "openai";

const [, , baseURL, apiKey = "none"] = process.argv;
const client = new OpenAI({ baseURL, apiKey, maxRetries: 2, timeout: 120_000 });
const messages = [
  { role: "system", content: "Answer briefly." },
  { role: "user", content: "What is the capital of France?" },
];

const { data, response } = await client.chat.completions
  .create({ model: "auto", messages, max_tokens: 24, temperature: 0 })
  .withResponse();
const stream = await client.chat.completions.create({ model: "auto", messages, max_tokens: 24, temperature: 0, stream: true });
let text = "";
for await (const chunk of stream) text += chunk.choices[0]?.delta?.content ?? "";

console.log(JSON.stringify({ plain: data.choices[0].message.content, tier: response.headers.get("x-terrace-tier"), stream: text }));
