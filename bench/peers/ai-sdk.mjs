// The smallest server one would write with the AI SDK: a prompt in, its words out as they come.
import { createServer } from "node:http";
import { createAnthropic } from "@ai-sdk/anthropic";
import { streamText } from "ai";

const model = createAnthropic({ baseURL: `${process.argv[2]}/v1`, apiKey: "bench-only" })("instant");
const server = createServer(async (request, response) => {
  let prompt = "";
  for await (const piece of request) prompt += piece;
  for await (const text of streamText({ model, prompt }).textStream) response.write(text);
  response.end();
});
server.listen(0, "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});
