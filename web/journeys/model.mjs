// A model on the Anthropic wire that says what the journey gave it, in order, and remembers what
// it was asked. Asked more often than it has answers, it says so: a turn that asks again is seen.
import { once } from "node:events";
import { createServer } from "node:http";

export class Model {
    static async start() {
        const model = new Model();
        model.answers = [];
        model.requests = [];
        model.server = createServer((request, response) => void model.#serve(request, response));
        await new Promise((resolve) => model.server.listen(0, "127.0.0.1", resolve));
        model.url = `http://127.0.0.1:${model.server.address().port}`;
        return model;
    }

    /** Blocks of one answer: `say`, `think` and `call` below. */
    push(...blocks) {
        this.answers.push(() => blocks);
    }

    /** An answer that depends on the request: `answer(request)` gives its blocks. */
    pushBy(answer) {
        this.answers.push(answer);
    }

    /** From now on every request is answered by this one. */
    answerWith(answer) {
        this.otherwise = answer;
    }

    /** An answer as a vendor refuses: a status and the type and words of its error. */
    pushError(status, type, message, headers = {}) {
        const error = { type: "error", error: { type, message } };
        this.answers.push(() => ({ status, error, headers }));
    }

    /** Keeps the last answer back until what this gives is called. */
    hold() {
        const answer = this.answers.pop();
        let release;
        const released = new Promise((resolve) => (release = resolve));
        this.answers.push((request) => released.then(() => answer(request)));
        return release;
    }

    /** Once it was asked so often. */
    async asked(times) {
        while (this.requests.length < times) await once(this.server, "asked");
    }

    /** The beginning of an answer, and then the connection is gone. */
    pushCut(...blocks) {
        this.answers.push(() => ({ cut: blocks }));
    }

    /** An answer without a word, ended for this reason. */
    pushEmpty(reason) {
        this.answers.push(() => ({ cut: [], reason }));
    }

    /** `providers.yaml` for a hive whose models this is. */
    profiles(price = "{input: 3, output: 15, cache_read: 0.3, cache_write: 3.75}") {
        return [
            "profiles:",
            "  default:",
            "    provider: anthropic",
            "    model: claude-sonnet-4-5",
            `    api_url: ${this.url}`,
            "    api_key: key-of-a-journey",
            "    context_window: 200000",
            `    price: ${price}`,
            "",
        ].join("\n");
    }

    end() {
        this.server.closeAllConnections();
        this.server.close();
    }

    async #serve(request, response) {
        let body = "";
        for await (const piece of request) body += piece;
        this.requests.push(JSON.parse(body));
        this.server.emit("asked");
        const none = () => [say("I have no answer left.")];
        const answer = this.answers.shift() ?? this.otherwise ?? none;
        const asked = this.requests.at(-1);
        const given = await answer(asked);
        if (given.status) {
            const headers = { "content-type": "application/json", ...given.headers };
            response.writeHead(given.status, headers);
            return void response.end(JSON.stringify(given.error));
        }
        const blocks = given.cut ?? given;
        const { model } = asked;
        const prompt = Math.round(body.length / 4);
        const usage = {
            input_tokens: Math.round(prompt / 10),
            cache_read_input_tokens: prompt - Math.round(prompt / 10),
            cache_creation_input_tokens: 0,
            output_tokens: 1,
        };
        response.writeHead(200, { "content-type": "text/event-stream" });
        const send = (type, data) => {
            response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
        };
        const id = `msg_${this.requests.length}`;
        const message = { id, type: "message", role: "assistant", content: [], model };
        const open = { stop_reason: null, stop_sequence: null, usage };
        send("message_start", { message: { ...message, ...open } });
        blocks.forEach((block, index) => {
            send("content_block_start", { index, content_block: block.start });
            for (const delta of block.deltas) send("content_block_delta", { index, delta });
            send("content_block_stop", { index });
        });
        // What was written goes out before the end that comes too early.
        if (given.cut && !given.reason) return void response.socket.end();
        const calls = blocks.some((block) => block.start.type === "tool_use");
        const reason = given.reason ?? (calls ? "tool_use" : "end_turn");
        const delta = { stop_reason: reason, stop_sequence: null };
        const output = Math.round(JSON.stringify(blocks).length / 4);
        send("message_delta", { delta, usage: { output_tokens: output } });
        send("message_stop", {});
        response.end();
    }
}

export function say(text) {
    const deltas = text.match(/.{1,12}/gs) ?? [];
    return {
        start: { type: "text", text: "" },
        deltas: deltas.map((piece) => ({ type: "text_delta", text: piece })),
    };
}

export function think(text) {
    return {
        start: { type: "thinking", thinking: "", signature: "" },
        deltas: [
            { type: "thinking_delta", thinking: text },
            { type: "signature_delta", signature: "c2lnbmVk" },
        ],
    };
}

let calls = 0;
export function call(name, input) {
    calls += 1;
    return {
        start: { type: "tool_use", id: `toolu_${calls}`, name, input: {} },
        deltas: [{ type: "input_json_delta", partial_json: JSON.stringify(input) }],
    };
}
