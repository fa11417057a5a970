"""schemathesis over a hive's own OpenAPI document: SKEP_URL, SKEP_TOKEN.

Whatever the document allows and forbids is tried at every route: no server error, no answer that
is not declared, what the document forbids is refused. The seed is fixed, so that a run can be
repeated; SKEP_TEST_ALL tries more. Counts routes; prints `N passed, M failed` last.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# These do not end by themselves.
ENDLESS = ["/api/v1/events", "/ws"]


def main():
    examples = "50" if os.environ.get("SKEP_TEST_ALL") else "8"
    command = [str(pathlib.Path(sys.executable).with_name("st"))]
    command += ["--config-file", str(HERE / "schemathesis.toml")]
    command += ["run", os.environ["SKEP_URL"] + "/api/v1/openapi.json"]
    command += ["-H", "Authorization: Bearer " + os.environ["SKEP_TOKEN"]]
    command += ["--phases", "examples,coverage,fuzzing", "--max-examples", examples]
    command += ["--seed", "7", "--generation-database", "none", "--request-timeout", "60"]
    command += ["--no-color", "--continue-on-failure"]
    for path in ENDLESS:
        command += ["--exclude-path", path]
    hooks = {"SCHEMATHESIS_HOOKS": "own_addresses", "PYTHONPATH": str(HERE)}
    with tempfile.TemporaryDirectory(prefix="skep-openapi-") as folder:
        variables = {**os.environ, **hooks}
        done = subprocess.run(command, cwd=folder, env=variables, text=True, capture_output=True)
    failing = set(re.findall(r"^_+ ([A-Z]+ /\S*) _+$", done.stdout, re.MULTILINE))
    tested = re.search(r"^  Tested: (\d+)$", done.stdout, re.MULTILINE)
    tested = int(tested[1]) if tested else 0
    failed = len(failing) or (0 if done.returncode == 0 and tested else 1)
    if failed:
        print(done.stdout, done.stderr)
    else:
        cases = re.search(r"^  (\d+) generated.*$", done.stdout, re.MULTILINE)
        print(f"{cases[0].strip() if cases else ''} at {tested} routes")
    print(f"{max(tested - failed, 0)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
