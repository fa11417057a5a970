"""A hive of its own for a suite, and how suites count.

As a program: hive.py SKEP COMMAND… starts SKEP on an empty home, where the rehearsal model
answers, and runs COMMAND with SKEP_URL and SKEP_TOKEN.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request


class Hive:
    """`with Hive(skep, files) as hive`: files are written into the home first."""

    def __init__(self, skep, files=None, environment=None):
        self.folder = tempfile.TemporaryDirectory(prefix="skep-suite-")
        self.home = pathlib.Path(self.folder.name, "home")
        for name, text in (files or {}).items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        kept = {k: v for k, v in os.environ.items() if not k.endswith(("_API_KEY", "_BASE_URL"))}
        kept.update(HOME=self.folder.name, **(environment or {}))
        self.log = open(pathlib.Path(self.folder.name, "out"), "w+")
        command = [skep, "up", "--home", str(self.home), "--port", "0"]
        self.process = subprocess.Popen(command, env=kept, stdout=self.log, stderr=self.log)

    def __enter__(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            shown = pathlib.Path(self.log.name).read_text()
            url = re.search(r"listening on (http://\S+)", shown)
            token = re.search(r"shown this once: (\S+)", shown)
            if url and token:
                self.url, self.token = url[1], token[1]
                return self
            time.sleep(0.05)
        shown = pathlib.Path(self.log.name).read_text()
        self.close()
        raise SystemExit(f"the hive did not start:\n{shown}")

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()
        self.folder.cleanup()

    def call(self, method, path, body=None):
        """The answer of a request: text of a stream, else JSON."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                text = answer.read().decode()
                is_json = "json" in answer.headers["content-type"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{error.code}: {error.read().decode()}") from None
        return json.loads(text) if is_json else text

    def ask(self, agent, message, session="main"):
        path = f"/api/v1/agents/{agent}/messages?wait=true&timeout=240"
        return self.call("POST", path, {"message": message, "session_key": session})

    def history(self, agent, session="main"):
        path = f"/api/v1/agents/{agent}/history?session_key={session}&view=full&limit=500"
        return self.call("GET", path)["messages"]


def play(cases):
    """Runs (name, function) pairs and ends the program with the counts."""
    failed = 0
    for name, case in cases:
        try:
            case()
            print("ok", name, flush=True)
        except Exception:
            failed += 1
            print("FAILED", name, flush=True)
            traceback.print_exc(file=sys.stdout)
    print(f"{len(cases) - failed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed or not cases else 0)


if __name__ == "__main__":
    with Hive(sys.argv[1]) as started:
        variables = {**os.environ, "SKEP_URL": started.url, "SKEP_TOKEN": started.token}
        code = subprocess.run(sys.argv[2:], env=variables).returncode
    sys.exit(code)
