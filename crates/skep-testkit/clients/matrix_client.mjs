// The calls of client_matrix.py with a library for Node: matrix_client.mjs NODE_MODULES LIBRARY
//
// Reads the calls from standard input, makes the first and then all others at once, and prints a
// line for each.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [modules, library] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const key = process.env.SKEP_TOKEN;

async function withOpenAi(call, abort) {
  const { OpenAI } = require("openai");
  const client = new OpenAI({ baseURL: call.url, apiKey: key, timeout: call.timeout * 1000 });
  const asked = { model: "main", messages: [{ role: "user", content: call.text }] };
  if (abort) {
    const { signal } = abort;
    const stream = await client.chat.completions.create({ ...asked, stream: true }, { signal });
    abort.abort();
    for await (const _ of stream);
    // The library ends an aborted stream in silence.
    signal.throwIfAborted();
  }
  const done = await client.chat.completions.create(asked);
  return done.choices[0].message.content;
}

async function withAiSdk(call, abort) {
  const { generateText, streamText } = require("ai");
  const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");
  const provider = createOpenAICompatible({ name: "skep", baseURL: call.url, apiKey: key });
  const asked = { model: provider("main"), prompt: call.text };
  if (abort) {
    const { signal } = abort;
    const result = streamText({ ...asked, abortSignal: signal, onError: () => {} });
    for await (const part of result.fullStream) {
      // The answer has begun.
      if (part.type === "start-step") abort.abort();
    }
    signal.throwIfAborted();
  }
  const time = AbortSignal.timeout(call.timeout * 1000);
  return (await generateText({ ...asked, abortSignal: time })).text;
}

async function make(call) {
  const use = library === "openai" ? withOpenAi : withAiSdk;
  const told = { case: call.case };
  try {
    const abort = call.case === "abort" ? new AbortController() : undefined;
    told.answer = await use(call, abort);
  } catch (error) {
    told.error = String(error).slice(0, 500);
  }
  console.log(JSON.stringify(told));
}

const [first, ...calls] = JSON.parse(readFileSync(0, "utf8"));
// What is loaded at the first call is no part of a time-out.
await make(first);
await Promise.all(calls.map(make));
process.exit(0);
