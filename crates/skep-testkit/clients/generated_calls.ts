// Ten routes through openapi-fetch, with the types that openapi-typescript made of the document.
import createClient from "openapi-fetch";
import type { components, paths } from "./api";

type Message = components["schemas"]["Message"];

const client = createClient<paths>({
  baseUrl: process.env.SKEP_URL ?? "",
  headers: { Authorization: `Bearer ${process.env.SKEP_TOKEN}` },
});

function good<T>(name: string, answer: { data?: T; error?: unknown; response: Response }): T {
  if (answer.data === undefined) throw new Error(`${name}: ${JSON.stringify(answer.error)}`);
  console.log("called", name);
  return answer.data;
}

async function main(): Promise<void> {
  const path = { agent: "main" };
  good("health", await client.GET("/api/v1/health"));
  const { agents } = good("agents", await client.GET("/api/v1/agents"));
  if (agents[0]?.name !== "main") throw new Error(JSON.stringify(agents));
  const sent = good(
    "send",
    await client.POST("/api/v1/agents/{agent}/messages", {
      params: { path, query: { wait: true } },
      body: { message: "#rehearsal\nsay from typescript", session_key: "typescript" },
    }),
  );
  if (!("message_id" in sent)) throw new Error(JSON.stringify(sent));
  const id: string = sent.message_id;
  const followed = good(
    "follow",
    await client.GET("/api/v1/agents/{agent}/messages/{id}", { params: { path: { ...path, id } } }),
  );
  if (!("message_id" in followed) || followed.response?.content !== "from typescript") {
    throw new Error(JSON.stringify(followed));
  }
  const query = { session_key: "typescript", view: "full" as const };
  const history = good(
    "history",
    await client.GET("/api/v1/agents/{agent}/history", { params: { path, query } }),
  );
  const messages: Message[] = history.messages;
  if (messages.length !== 2) throw new Error(JSON.stringify(history));
  good("sessions", await client.GET("/api/v1/agents/{agent}/sessions", { params: { path } }));
  good("inbox", await client.GET("/api/v1/inbox", { params: { query: { agent: "main" } } }));
  good("state", await client.GET("/api/v1/state"));
  good("usage", await client.GET("/api/v1/usage", { params: { query: { by: "hour" } } }));
  const made = good("token", await client.POST("/api/v1/tokens", { body: { name: "generated" } }));
  good("tokens", await client.GET("/api/v1/tokens"));
  const gone = await client.DELETE("/api/v1/tokens/{id}", { params: { path: { id: made.id } } });
  if (!gone.response.ok) throw new Error(`${gone.response.status}`);
  console.log("called", "revoke");
  const wrong = await client.GET("/api/v1/inbox/{id}", { params: { path: { id: "nothing" } } });
  if (wrong.error?.code === undefined) throw new Error(JSON.stringify(wrong));
}

main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
