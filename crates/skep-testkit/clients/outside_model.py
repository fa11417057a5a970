"""A model server by others (aimock) behind a hive, on every wire: outside_model.py SKEP AIMOCK_CLI

What the scripted model of the testkit believes about a wire is checked here against somebody
else's reading of it. Prints one line a case and `N passed, M failed`.
"""

import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from hive import Hive, play

SKEP, AIMOCK = sys.argv[1:3]
WIRES = {"anthropic": "", "openai": "/v1", "openai-responses": "/v1"}
LONG = "The queen lays the eggs, the workers do the rest. " * 20


def read(path):
    return {"name": "read", "arguments": {"file_path": path}}


def fixture(said, response, **more):
    return {"match": {"userMessage": said, **more}, "response": response}


# Each wire has its own words for the same count.
USAGE = {"input_tokens": 1000, "output_tokens": 200, "prompt_tokens": 1000,
         "completion_tokens": 200}

FIXTURES = [
    fixture("hello", {"content": "Hello from outside.", "usage": USAGE}),
    fixture("tell me all", {"content": LONG}),
    fixture("look it up", {"toolCalls": [read("note.txt")]}, hasToolResult=False),
    fixture("look it up", {"content": "It says bees."}, hasToolResult=True),
    fixture("look twice", {"toolCalls": [read("note.txt"), read("other.txt")]},
            hasToolResult=False),
    fixture("look twice", {"content": "Bees and wasps."}, hasToolResult=True),
    fixture("what did I say", {"content": "You said hello."}),
]


class Model:
    """aimock on a free port."""

    def __init__(self, *options):
        self.folder = tempfile.TemporaryDirectory(prefix="skep-aimock-")
        fixtures = pathlib.Path(self.folder.name, "fixtures.json")
        fixtures.write_text(json.dumps({"fixtures": FIXTURES}))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = ["node", AIMOCK, "-p", str(self.port), "-f", str(fixtures), "--strict",
                   "--log-level", "warn", *options]
        self.process = subprocess.Popen(command)
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                time.sleep(0.05)
        raise SystemExit("aimock did not start")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)
        self.folder.cleanup()

    def requests(self):
        with urllib.request.urlopen(f"{self.url}/v1/_requests", timeout=10) as answer:
            return json.load(answer)


def home(model):
    """One agent for each wire."""
    profiles = []
    files = {}
    for wire, base in WIRES.items():
        profiles.append(
            f"  {wire}: {{provider: {wire}, model: outside, api_url: '{model.url}{base}', "
            f"api_key: '${{OUTSIDE_KEY}}', price: {{input: 1, output: 2}}}}\n")
        files[f"teams/{wire}/config.yaml"] = f"profile: {wire}\nallowed_tools: [read]\n"
        files[f"teams/{wire}/work/note.txt"] = "bees\n"
        files[f"teams/{wire}/work/other.txt"] = "wasps\n"
    profiles.append(profiles[0].replace("  anthropic:", "  default:"))
    files["providers.yaml"] = "profiles:\n" + "".join(profiles)
    return files


def answered(done, text):
    assert done["state"] == "done", done
    assert done["response"]["content"] == text, done


def texts(rows, role):
    return ["".join(block.get("text", "") for block in row["content"])
            for row in rows if row["role"] == role]


def first_message(hive, wire):
    answered(hive.ask(wire, "hello"), "Hello from outside.")
    meta = hive.history(wire)[-1]["meta"]
    assert meta["provider"] == wire, meta
    usage = meta["usage"]
    assert (usage["input"], usage["output"], usage["cost"]) == (1000, 200, 0.0014), meta


def stream(hive, wire):
    path = f"/api/v1/agents/{wire}/messages?stream=true"
    body = {"message": "tell me all", "session_key": "stream"}
    shown = ""
    for event in hive.call("POST", path, body).split("\n\n"):
        data = [line[5:] for line in event.splitlines() if line.startswith("data:")]
        parsed = json.loads("".join(data)) if data else {}
        if parsed.get("part") == "text":
            shown += parsed["text"]
    assert shown == LONG, shown
    assert texts(hive.history(wire, "stream"), "assistant") == [LONG]


def tool_call(hive, wire):
    answered(hive.ask(wire, "look it up", "tool"), "It says bees.")
    assert texts(hive.history(wire, "tool"), "toolResult") == ["     1\tbees\n"]


def parallel_tools(hive, wire):
    answered(hive.ask(wire, "look twice", "tools"), "Bees and wasps.")
    results = texts(hive.history(wire, "tools"), "toolResult")
    assert sorted(results) == ["     1\tbees\n", "     1\twasps\n"], results


def history(hive, wire, model):
    answered(hive.ask(wire, "hello", "past"), "Hello from outside.")
    answered(hive.ask(wire, "what did I say?", "past"), "You said hello.")
    sent = json.dumps(model.requests()[-1])
    for part in ("hello", "Hello from outside.", "what did I say?"):
        assert part in sent, (part, sent)


def chaos(hive, wire):
    for number in range(4):
        answered(hive.ask(wire, "hello", f"chaos-{number}"), "Hello from outside.")
        # What broke off left nothing behind.
        assert texts(hive.history(wire, f"chaos-{number}"), "assistant") == ["Hello from outside."]


def main():
    key = {"OUTSIDE_KEY": "key-for-the-outside-model"}
    with Model("-c", "7") as model, Hive(SKEP, home(model), key) as hive:
        rough = ("--chaos-ratelimit", "0.2", "--chaos-disconnect", "0.15")
        with Model(*rough) as broken, Hive(SKEP, home(broken), key) as tried:
            cases = []
            for wire in WIRES:
                for case in (first_message, stream, tool_call, parallel_tools):
                    cases.append((f"{wire}: {case.__name__}", lambda c=case, w=wire: c(hive, w)))
                cases.append((f"{wire}: history", lambda w=wire: history(hive, w, model)))
                cases.append((f"{wire}: chaos", lambda w=wire: chaos(tried, w)))
            play(cases)


main()
