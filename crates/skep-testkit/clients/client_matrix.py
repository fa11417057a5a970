"""One call, one turn, for the libraries people use: client_matrix.py RIG NODE_MODULES [PYTHON]

Each library meets an answer that is slow, its own time-out, an abort, a proxy that answers 504 or
cuts the connection, and a turn that fails at once or late. Each of these leaves exactly one item.
The rig has short times for clients. With PYTHON, one that has litellm, that is tried as well.
Prints one line a case and `N passed, M failed`.
"""

import http.client
import http.server
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

from hive import Hive, play

RIG, NODE_MODULES = sys.argv[1:3]
HERE = pathlib.Path(__file__).parent
# Grace, join, headers, white space, in milliseconds.
TIMES = "5000 60000 3500 100"
# Seconds. A client that times out does so before the headers come.
CLIENT_TIMEOUT, PROXY_TIMEOUT, SLOW = 2.5, 1.5, 4.5

# What the model does, whether the client has an answer, and how the only item ends.
CASES = {
    "quick": ("answer", True, "done"),
    "slow": ("slow", True, "done"),
    "time-out": ("hang", False, "client_gone"),
    "abort": ("hang", False, "client_gone"),
    "proxy-504": ("slow", True, "done"),
    "proxy-cut": ("slow", True, "done"),
    "failed": ("fail", False, "provider_rejected"),
    "failed-late": ("fail-late", False, "provider_rejected"),
}


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_):
        pass  # Clients that go away are what this is about.


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        return self.rfile.read(int(self.headers["content-length"]))

    def send(self, status, kind, data):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Model(Handler):
    """Does what the last word of the last message says."""

    def do_POST(self):
        content = json.loads(self.body())["messages"][-1]["content"]
        if not isinstance(content, str):
            content = content[-1]["text"]
        what = content.split()[-1]
        if what in ("slow", "fail-late"):
            time.sleep(SLOW)
        if what == "hang":
            self.connection.settimeout(120)
            self.connection.recv(1)  # Until the hive gives up.
            return
        if what.startswith("fail"):
            error = {"error": {"message": "no such thing", "type": "invalid_request_error"}}
            self.send(400, "application/json", json.dumps(error).encode())
            return
        choice = {"index": 0, "delta": {"role": "assistant", "content": "here"},
                  "finish_reason": "stop"}
        usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                 "choices": [choice], "usage": usage}
        data = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"
        self.send(200, "text/event-stream", data.encode())


def relay(hive):
    """A proxy that gives up on a call when it meets it for the first time."""
    host = hive.url.removeprefix("http://")
    met = set()

    class Relay(Handler):
        def do_POST(self):
            body = self.body()
            headers = {k: v for k, v in self.headers.items()
                       if k.lower() not in ("host", "connection")}
            first = body not in met
            met.add(body)
            upstream = http.client.HTTPConnection(host, timeout=60)
            upstream.request("POST", self.path, body, headers)
            if not first:
                answer = upstream.getresponse()
                self.send(answer.status, answer.headers["content-type"], answer.read())
                return
            time.sleep(PROXY_TIMEOUT)
            upstream.close()
            if b"proxy-504" in body:
                self.send(504, "text/html", b"<h1>504 Gateway Time-out</h1>")
            else:
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True

    return Server(Relay)


def libraries():
    """Name of each, and the program that uses it."""
    python = str(HERE / "matrix_client.py")
    node = ["node", str(HERE / "matrix_client.mjs"), NODE_MODULES]
    found = {"openai-py": [sys.executable, python, "openai"],
             "langchain": [sys.executable, python, "langchain"],
             "openai-npm": [*node, "openai"],
             "ai-sdk": [*node, "ai-sdk"]}
    if len(sys.argv) > 3:
        found["litellm"] = [sys.argv[3], python, "litellm"]
    return found


def start(library, command, hive, proxy):
    calls = [{"case": case, "text": f"{library} {case} {CASES[case][0]}",
              "url": (proxy.url if case.startswith("proxy") else hive.url) + "/v1",
              "timeout": CLIENT_TIMEOUT if case == "time-out" else 60}
             for case in CASES]
    variables = {**os.environ, "SKEP_TOKEN": hive.token, "LANGSMITH_TRACING": "false",
                 "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    process = subprocess.Popen(command, env=variables, text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    process.stdin.write(json.dumps(calls))
    process.stdin.close()
    return process


def outcomes(process):
    """What the client had of each case: {case: {"answer": …} or {"error": …}}."""
    lines = [json.loads(line) for line in process.stdout if line.startswith("{")]
    process.wait(60)
    return {line.pop("case"): line for line in lines}


def items(hive):
    """The items by their text, all of them ended."""
    deadline = time.monotonic() + 60
    while True:
        found = hive.call("GET", "/api/v1/inbox?limit=500")["items"]
        if all(item.get("finished_at") for item in found):
            break
        assert time.monotonic() < deadline, [item for item in found if not item.get("finished_at")]
        time.sleep(0.1)
    by_text = {}
    for item in found:
        by_text.setdefault(item["preview"].strip(), []).append(item)
    return by_text


def check(case, outcome, kept):
    _, answered, end = CASES[case]
    assert outcome is not None, "the client did not come to an end"
    if answered:
        assert outcome.get("answer") == "here", outcome
    if not answered:
        assert "error" in outcome, outcome
    assert len(kept) == 1, f"{len(kept)} items: {kept}"
    ended = kept[0]["error"]["code"] if kept[0].get("error") else kept[0]["state"]
    assert ended == end, kept


def main():
    model = Server(Model)
    profile = (f"  default: {{provider: openai, model: m, api_url: '{model.url}/v1', "
               "api_key: '${OUTSIDE_KEY}', price: {input: 1, output: 2}}\n")
    files = {"providers.yaml": "profiles:\n" + profile,
             "teams/main/config.yaml": "profile: default\nallowed_tools: [read]\n"}
    environment = {"OUTSIDE_KEY": "key-for-the-outside-model", "RIG_CALL_TIMES": TIMES}
    with Hive(RIG, files, environment) as hive:
        proxy = relay(hive)
        started = {name: start(name, command, hive, proxy)
                   for name, command in libraries().items()}
        told = {name: outcomes(process) for name, process in started.items()}
        kept = items(hive)
        cases = []
        for library in started:
            for case, (what, _, _) in CASES.items():
                found = kept.get(f"{library} {case} {what}", [])
                cases.append((f"{library}: {case}", lambda c=case, k=found, t=told[library]:
                              check(c, t.get(c), k)))
        play(cases)


main()
