// ask.mjs BASE_URL PROMPT: a plain and a streamed answer through the openai npm package, as one JSON document.
import OpenAI from "openai";

const [baseURL, prompt] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: process.env.OPENAI_API_KEY ?? "none", maxRetries: 0, timeout: 60_000 });
const messages = [{ role: "user", content: prompt }];
const call = { model: "auto", messages, max_tokens: 16, temperature: 0 };
const { data, response } = await client.chat.completions.create(call).withResponse();
let streamed = "", chunks = 0;
for await (const event of await client.chat.completions.create({ ...call, stream: true })) {
  const piece = event.choices[0]?.delta?.content ?? "";
  streamed += piece;
  if (piece) chunks += 1;
}
const models = (await client.models.list()).data.map((m) => m.id);
console.log(JSON.stringify({ plain: data.choices[0].message.content, streamed, chunks, tier: response.headers.get("x-terrace-tier"), models }));
