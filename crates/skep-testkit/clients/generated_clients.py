"""Clients that others' programs make of our OpenAPI document: SKEP_URL, SKEP_TOKEN, and the
folder of the npm packages.

The document is valid; openapi-python-client and openapi-typescript make a whole client of it,
which compiles and calls ten routes. And Prometheus' own parser reads /metrics.
"""

import compileall
import importlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.request

from openapi_spec_validator import validate
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from hive import play

HERE = pathlib.Path(__file__).resolve().parent
URL, TOKEN = os.environ["SKEP_URL"], os.environ["SKEP_TOKEN"]
# Families that only grow.
COUNTERS = ["skep_http_requests", "skep_store_commits", "skep_store_writes", "skep_turns"]


def get(path):
    request = urllib.request.Request(URL + path, headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def run(command, folder, **more):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, **more)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


class Suite:
    def __init__(self, folder, node):
        self.folder, self.node = pathlib.Path(folder), pathlib.Path(node).resolve()
        self.document = self.folder / "openapi.json"
        self.document.write_text(get("/api/v1/openapi.json"))

    def document_is_valid(self):
        validate(json.loads(self.document.read_text()))

    def python_client(self):
        programs = pathlib.Path(sys.executable).parent
        command = [str(programs / "openapi-python-client"), "generate", "--meta", "none"]
        command += ["--path", str(self.document), "--output-path", str(self.folder / "made")]
        command += ["--config", str(HERE / "generated.yml"), "--fail-on-warning"]
        path = f"{programs}:{os.environ['PATH']}"
        said = run(command, self.folder, env={**os.environ, "PATH": path})
        assert "arning" not in said, said
        assert compileall.compile_dir(self.folder / "made", quiet=1)
        sys.path.insert(0, str(self.folder))
        self.call_python()

    def call_python(self):
        made = importlib.import_module("made")
        models = importlib.import_module("made.models")
        client = made.AuthenticatedClient(base_url=URL, token=TOKEN, timeout=60)
        called = []

        def call(module, *given, **named):
            route = importlib.import_module(f"made.api.{module}")
            answer = route.sync_detailed(*given, client=client, **named)
            assert answer.status_code < 300, (module, answer.content)
            called.append(module)
            return answer.parsed

        call("hive.get_api_health")
        assert call("agents.get_api_agents").agents[0].name == "main"
        body = models.NewMessage(message="#rehearsal\nsay from python", session_key="python")
        sent = call("messages.post_api_agents_agent_messages", "main", body=body, wait=True)
        followed = call("messages.get_api_agents_agent_messages_id", "main", sent.message_id)
        assert followed.response.content == "from python", followed
        history = call("history.get_api_agents_agent_history", "main", session_key="python")
        assert history.messages, history
        call("sessions.get_api_agents_agent_sessions", "main")
        call("history.get_api_search", q="python")
        call("inbox.get_api_inbox")
        call("hive.get_api_state")
        call("hive.get_api_usage")
        token = call("tokens.post_api_tokens", body=models.NewToken(name="made"))
        call("tokens.get_api_tokens")
        call("tokens.delete_api_tokens_id", token.id)
        assert len(called) >= 10, called

    def typescript_client(self):
        folder = self.folder / "typescript"
        folder.mkdir()
        shutil.copy(HERE / "generated_calls.ts", folder / "calls.ts")
        (folder / "node_modules").symlink_to(self.node / "node_modules")
        programs = folder / "node_modules" / ".bin"
        run([str(programs / "openapi-typescript"), str(self.document), "-o", "api.d.ts"], folder)
        command = [str(programs / "tsc"), "--strict", "--target", "es2022", "--module", "nodenext"]
        command += ["--types", "node", "--outDir", "made", "calls.ts"]
        run(command, folder)
        (folder / "made" / "package.json").write_text('{"type": "commonjs"}')
        said = run(["node", "made/calls.js"], folder)
        assert said.count("called ") >= 10, said

    def metrics_are_counters(self):
        def read():
            families = list(text_string_to_metric_families(get("/metrics")))
            kinds = {family.name: family.type for family in families}
            values = {
                (sample.name, tuple(sorted(sample.labels.items()))): sample.value
                for family in families if family.type == "counter" for sample in family.samples
            }
            return kinds, values

        kinds, before = read()
        assert {kinds.get(name) for name in COUNTERS} == {"counter"}, kinds
        get("/api/v1/state")
        _, after = read()
        assert all(after[name] >= value for name, value in before.items()), (before, after)
        assert sum(after.values()) > sum(before.values())


def main():
    with tempfile.TemporaryDirectory(prefix="skep-generated-") as folder:
        suite = Suite(folder, sys.argv[1])
        steps = [suite.document_is_valid, suite.python_client, suite.typescript_client]
        play([(step.__name__, step) for step in [*steps, suite.metrics_are_counters]])


if __name__ == "__main__":
    main()
