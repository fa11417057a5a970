// Server-sent events by fetch: `EventSource` cannot send the key.

export interface Sent {
  event: string;
  id?: string;
  data: string;
}

/** Cuts a byte stream into events. Kept pure of the network, so that it can be tested. */
export class Cutter {
  private rest = "";
  private lines: string[] = [];

  push(text: string): Sent[] {
    const sent: Sent[] = [];
    const parts = (this.rest + text).split("\n");
    this.rest = parts.pop() ?? "";
    for (const raw of parts) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line !== "") {
        this.lines.push(line);
        continue;
      }
      const event = assemble(this.lines);
      this.lines = [];
      if (event) sent.push(event);
    }
    return sent;
  }
}

function assemble(lines: string[]): Sent | undefined {
  const data: string[] = [];
  let event = "message";
  let id: string | undefined;
  for (const line of lines) {
    if (line.startsWith(":")) continue;
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") data.push(value);
    else if (name === "event") event = value;
    else if (name === "id") id = value;
  }
  if (data.length === 0) return undefined;
  const sent: Sent = { event, data: data.join("\n") };
  return id === undefined ? sent : { ...sent, id };
}

/** Reads a response to its end, one event after the other. */
export async function* events(response: Response): AsyncGenerator<Sent> {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const cutter = new Cutter();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* cutter.push(value);
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}
