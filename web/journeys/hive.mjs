// A hive of its own for a journey: the real program on a temporary home, with the rehearsal model.
import { execFile, spawn } from "node:child_process";
import {
    existsSync,
    mkdirSync,
    mkdtempSync,
    readFileSync,
    rmSync,
    watch,
    writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const program = process.env.SKEP_BIN;
if (!program) throw new Error("SKEP_BIN names the program to test");

export class Hive {
    /** With these files in its home from the first start on. */
    static async start(files = {}) {
        const hive = new Hive();
        hive.home = mkdtempSync(join(tmpdir(), "skep-page-"));
        for (const [path, text] of Object.entries(files)) hive.write(path, text);
        await hive.up();
        return hive;
    }

    /** On the port it had, so that an open page finds it again. */
    async up() {
        const port = this.url ? new URL(this.url).port : "0";
        const log = join(this.home, "..", `${this.home.split("/").pop()}.log`);
        this.log = log;
        // Nor is a model server of this machine looked for.
        const environment = {
            PATH: process.env.PATH,
            HOME: this.user(),
            SKEP_LOG: "info",
            SKEP_LOCAL_SERVERS: "none",
        };
        this.child = spawn(program, ["up", "--home", this.home, "--port", port], {
            env: environment,
            stdio: ["ignore", "pipe", "pipe"],
        });
        let said = "";
        this.child.stderr.on("data", (piece) => writeFileSync(log, piece, { flag: "a" }));
        this.url = await new Promise((resolve, reject) => {
            this.child.once("exit", (code) =>
                reject(new Error(`skep ended with ${code}: ${said}`)),
            );
            this.child.stdout.on("data", (piece) => {
                said += piece;
                const found = /listening on (http:\S+)/.exec(said)?.[1];
                if (found) resolve(found);
            });
        });
    }

    /** The folder of the person: the key of the vault is there, outside the home. */
    user() {
        return `${this.home}.user`;
    }

    /** A command of the program on this home; its output as JSON. */
    async skep(...command) {
        const environment = { PATH: process.env.PATH, HOME: this.user() };
        const options = { env: environment, maxBuffer: 1 << 26 };
        const { stdout } = await run(program, [...command, "--home", this.home, "--json"], options);
        return stdout.trim() === "" ? undefined : JSON.parse(stdout);
    }

    async link() {
        return (await this.skep("link")).link;
    }

    /**
     * Changes rows, because time cannot be waited for. Before a kill, not after it: sqlite3 would
     * take a killed hive's log away, and the hive refuses to start without it.
     */
    async sql(text) {
        // The hive writes at the same time.
        const wait = ["-cmd", ".timeout 20000"];
        await run("sqlite3", [...wait, join(this.home, "run/skep.db"), text]);
    }

    /** Rows of the audit trail, newest first. */
    async rows() {
        return this.skep("audit", "list");
    }

    /** Once the file is there. */
    async until(path) {
        const file = join(this.home, path);
        while (!existsSync(file)) {
            await new Promise((resolve) => {
                const watcher = watch(dirname(file), () => {
                    watcher.close();
                    resolve();
                });
                if (existsSync(file)) {
                    watcher.close();
                    resolve();
                }
            });
        }
    }

    /** A conversation of these messages, of the person and of `main` in turn; gives its id. */
    async import(texts) {
        const id = (block, at) => `0197a000-0000-7000-${block}-${String(at).padStart(12, "0")}`;
        const sessionId = id("8000", 1);
        const lines = texts.map((text, at) =>
            JSON.stringify({
                type: "history",
                id: id("8000", at + 1),
                seq: at + 1,
                turn: id("9000", Math.ceil((at + 1) / 2)),
                agentId: "main",
                sessionId,
                timestamp: 1_760_000_000_000 + (at + 1) * 1000,
                role: at % 2 ? "assistant" : "user",
                content: [{ type: "text", text }],
            }),
        );
        this.write(`main-${sessionId}.jsonl`, `${lines.join("\n")}\n`);
        await this.skep("history", "import", join(this.home, `main-${sessionId}.jsonl`));
        return sessionId;
    }

    write(path, text) {
        const file = join(this.home, path);
        mkdirSync(dirname(file), { recursive: true });
        writeFileSync(file, text);
    }

    read(path) {
        return readFileSync(join(this.home, path), "utf8");
    }

    /** Of its log. */
    lastLines(number) {
        const log = existsSync(this.log) ? readFileSync(this.log, "utf8") : "";
        return log.split("\n").slice(-number).join("\n");
    }

    /** As a crash does it. */
    async kill() {
        const ended = new Promise((resolve) => this.child.once("exit", resolve));
        this.child.kill("SIGKILL");
        await ended;
    }

    async end() {
        if (this.child.exitCode === null && this.child.signalCode === null) {
            const ended = new Promise((resolve) => this.child.once("exit", resolve));
            this.child.kill("SIGTERM");
            await ended;
        }
        // What a killed hive had started may still write.
        rmSync(this.home, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
        rmSync(this.user(), { recursive: true, force: true });
        rmSync(this.log, { force: true });
    }
}

/** A script for the rehearsal model. */
export function script(...lines) {
    return ["#rehearsal", ...lines].join("\n");
}
