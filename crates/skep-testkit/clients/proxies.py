"""A hive behind the proxies of packaging/proxies, with TLS: proxies.py SKEP PROXIES-FOLDER.

The files are used as they are; only ports, paths of the certificate and the name are replaced.
Through each: page, sign-in with cookie and key, WebSocket, a stream that is not held back, files.
Then requests that proxy and hive could read differently: none hides in another.
"""

import base64
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
import zlib

import websocket

from hive import Hive, play

NAME = "localhost"
# A stream that a proxy holds back comes in one piece at its end. A word waits for its own end.
STREAMED = "#rehearsal\nsay first word\nwait 1500\nsay last"
# After this long without a byte a connection has said what it had to say.
QUIET = 0.3
# What follows the first line of a request: one body for one reader, another for another.
BLANK = b'{"message":" "}'
CHUNKED = b"f\r\n" + BLANK + b"\r\n0\r\n\r\n"
CHUNKS = b"Transfer-Encoding: chunked\r\n"
LENGTH = b"Content-Length: 15\r\n"
DOUBTFUL = [
    (LENGTH, BLANK),
    (CHUNKS, CHUNKED),
    (LENGTH + CHUNKS, CHUNKED),
    (CHUNKS + LENGTH, CHUNKED),
    (b"Content-Length: 4\r\n" + CHUNKS, CHUNKED),
    (b"Content-Length: 0\r\n" + CHUNKS, CHUNKED),
    (LENGTH + b"Content-Length: 3\r\n", BLANK),
    (LENGTH + LENGTH, BLANK),
    (b"Content-Length: 15, 15\r\n", BLANK),
    (b"Content-Length: +15\r\n", BLANK),
    (b"Content-Length: 0xf\r\n", BLANK),
    (b"Content-Length: 15 \r\n", BLANK),
    (b"Content-Length : 15\r\n", BLANK),
    (b"Content-Length:\r\n 15\r\n", BLANK),
    (b"Content_Length: 15\r\n", BLANK),
    (LENGTH + b"Transfer-Encoding: xchunked\r\n", CHUNKED),
    (LENGTH + b"Transfer-Encoding : chunked\r\n", CHUNKED),
    (LENGTH + b"Transfer-Encoding:\tchunked\r\n", CHUNKED),
    (LENGTH + b"Transfer-Encoding:\x0bchunked\r\n", CHUNKED),
    (LENGTH + b"Transfer-Encoding\r\n: chunked\r\n", CHUNKED),
    (LENGTH + b"X: y\nTransfer-Encoding: chunked\r\n", CHUNKED),
    (LENGTH + b"X: y\rTransfer-Encoding: chunked\r\n", CHUNKED),
    (LENGTH + b"Transfer-Encoding: chunked, identity\r\n", CHUNKED),
    (LENGTH + b"Transfer-Encoding: identity, chunked\r\n", CHUNKED),
    (LENGTH + b"Transfer-Encoding: gzip, chunked\r\n", CHUNKED),
    (LENGTH + CHUNKS + b"Transfer-Encoding: x\r\n", CHUNKED),
    (LENGTH + b'Transfer-Encoding: "chunked"\r\n', CHUNKED),
    (CHUNKS, b"f;\n" + BLANK + b"\r\n0\r\n\r\n"),
    (CHUNKS, b"f\n" + BLANK + b"\n0\n\n"),
    (CHUNKS, b"0xf\r\n" + BLANK + b"\r\n0\r\n\r\n"),
    (CHUNKS, b"1000000000000000f\r\n" + BLANK + b"\r\n0\r\n\r\n"),
    (CHUNKS, b"f\r\n" + BLANK + b"\r\n0\r\nContent-Length: 99\r\n\r\n"),
    (b"Expect: 100-continue\r\n" + LENGTH, BLANK),
    (b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n", b""),
    (b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n", b""),
    (b"Connection: Content-Length\r\n" + LENGTH, BLANK),
    (b"Connection: Transfer-Encoding\r\n" + CHUNKS, CHUNKED),
]


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def certificate(folder):
    pem, key = folder / "hive.pem", folder / "hive.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"]
    command += ["-keyout", str(key), "-out", str(pem)]
    subprocess.run(command, check=True, capture_output=True)
    (folder / "both.pem").write_text(pem.read_text() + key.read_text())


def replaced(text, pairs):
    for old, new in pairs:
        assert old in text, f"the file has no {old!r} any more"
        text = text.replace(old, new)
    return text


def nginx(files, folder, port, hive):
    text = replaced((files / "nginx.conf").read_text(), [
        ("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
        ("hive.example", NAME),
        ("/etc/ssl/hive.pem", str(folder / "hive.pem")),
        ("/etc/ssl/hive.key", str(folder / "hive.key")),
        ("127.0.0.1:7537", f"127.0.0.1:{hive}"),
    ])
    (folder / "site.conf").write_text(text)
    paths = "".join(
        f"{name}_temp_path {folder}/{name};"
        for name in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    )
    around = f"daemon off; pid {folder}/pid; error_log stderr;\nevents {{}}\n"
    around += f"http {{ access_log off; {paths} include {folder}/site.conf; }}\n"
    if os.getuid() == 0:
        around = "user root;\n" + around
    (folder / "nginx.conf").write_text(around)
    return ["nginx", "-e", "stderr", "-p", str(folder), "-c", str(folder / "nginx.conf")]


def caddy(files, folder, port, hive):
    text = replaced((files / "Caddyfile").read_text(), [
        ("https://hive.example", f"https://{NAME}:{port}"),
        ("/etc/ssl/hive.pem", str(folder / "hive.pem")),
        ("/etc/ssl/hive.key", str(folder / "hive.key")),
        ("127.0.0.1:7537", f"127.0.0.1:{hive}"),
    ])
    # Around the file: no port of its own for its commands, none for plain HTTP.
    options = "{\n\tadmin off\n\tauto_https disable_redirects\n\tdefault_bind 127.0.0.1\n}\n"
    (folder / "Caddyfile").write_text(options + text)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


def haproxy(files, folder, port, hive):
    text = replaced((files / "haproxy.cfg").read_text(), [
        ("bind :443", f"bind 127.0.0.1:{port}"),
        ("/etc/ssl/hive-with-key.pem", str(folder / "both.pem")),
        ("127.0.0.1:7537", f"127.0.0.1:{hive}"),
    ])
    (folder / "haproxy.cfg").write_text(text)
    return ["haproxy", "-db", "-f", str(folder / "haproxy.cfg")]


class Behind:
    """A hive behind one proxy, and a browser that has signed in."""

    def __init__(self, skep, files, make):
        self.folder = tempfile.TemporaryDirectory(prefix="skep-proxy-")
        folder = pathlib.Path(self.folder.name)
        certificate(folder)
        self.port = free_port()
        self.origin = f"https://{NAME}:{self.port}"
        self.trust = ssl.create_default_context(cafile=str(folder / "hive.pem"))
        config = f"server:\n  public_url: {self.origin}\n"
        self.hive = Hive(skep, {"skep.yaml": config}).__enter__()
        inner = int(self.hive.url.rsplit(":", 1)[1])
        self.log = open(folder / "log", "w+")
        environment = {**os.environ, "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
        command = make(files, folder, self.port, inner)
        self.proxy = subprocess.Popen(
            command, stdout=self.log, stderr=self.log, env=environment, cwd=folder
        )
        self.skep = skep
        self.cookie, self.key = None, None
        deadline = time.monotonic() + 20
        while True:
            try:
                assert self.ask("GET", "/api/v1/health")[0] == 200
                return
            except OSError:
                if time.monotonic() > deadline or self.proxy.poll() is not None:
                    self.log.flush()
                    shown = pathlib.Path(self.log.name).read_text()
                    self.close()
                    raise AssertionError(f"the proxy does not answer:\n{shown}") from None
                time.sleep(0.05)

    def close(self):
        self.proxy.terminate()
        self.proxy.wait(10)
        self.log.close()
        self.hive.close()
        self.folder.cleanup()

    def begin(self, method, path, body=None, extra=None):
        connection = http.client.HTTPSConnection(NAME, self.port, context=self.trust, timeout=60)
        headers = {"Origin": self.origin, **(extra or {})}
        if self.key:
            headers.update({"Cookie": self.cookie, "X-Skep-Key": self.key})
        if body is not None:
            body = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        connection.request(method, path, body, headers)
        return connection.getresponse()

    def ask(self, method, path, body=None, extra=None):
        answer = self.begin(method, path, body, extra)
        return answer.status, answer.read(), answer

    def sign_in(self):
        command = [self.skep, "link", "--home", str(self.hive.home)]
        shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        link = re.search(r"(https?://\S+)/#once=(\S+)", shown)
        assert link and link[1] == self.origin, shown
        status, body, answer = self.ask("POST", "/api/v1/session", {"once": link[2]})
        assert status == 201, body
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie, cookie
        self.cookie, self.key = cookie.split(";")[0], json.loads(body)["key"]
        status, body, _ = self.ask("GET", "/api/v1/agents")
        assert status == 200 and b"main" in body, body
        kept, self.key = self.key, "wrong"
        status, _, _ = self.ask("GET", "/api/v1/agents")
        self.key = kept
        assert status == 401, status

    def page(self):
        status, body, _ = self.ask("GET", "/")
        assert status == 200 and b"<script" in body, body[:200]
        status, body, _ = self.ask("GET", "/api/v1/health", extra={"Origin": "https://evil.example"})
        assert status == 403, body

    def socket(self):
        return websocket.create_connection(
            f"wss://{NAME}:{self.port}/ws?stream=true",
            sslopt={"context": self.trust}, origin=self.origin, cookie=self.cookie,
            subprotocols=["skep.v1", f"skep-key.{self.key}"], timeout=60,
        )

    def web_socket(self):
        link = self.socket()
        link.send(json.dumps({"content": "#rehearsal\nsay over the socket", "id": "m-1"}))
        self.answered(link, "over the socket")
        link.close()

    def answered(self, link, text):
        while True:
            frame = json.loads(link.recv())
            assert frame["type"] != "error", frame
            if frame["type"] == "response":
                assert frame["content"] == text, frame
                return

    def stream(self):
        path = "/api/v1/agents/main/messages?stream=true"
        answer = self.begin("POST", path, {"message": STREAMED, "session_key": "stream"})
        assert answer.status == 200, answer.read()
        seen = {}
        for line in answer:
            for word in [b"first", b"last"]:
                if word in line:
                    seen.setdefault(word, time.monotonic())
        assert seen[b"last"] - seen[b"first"] > 1, seen

    def files(self):
        data = base64.b64encode(picture(3 << 20)).decode()
        files = [{"name": "bee.png", "data": data}]
        body = {"message": "#rehearsal\nsay seen", "session_key": "files", "attachments": files}
        status, body, _ = self.ask("POST", "/api/v1/agents/main/messages?wait=true", body)
        assert status == 200 and b"seen" in body, body[:400]
        link = self.socket()
        frame = {"content": "#rehearsal\nsay seen too", "id": "m-2", "attachments": files}
        link.send(json.dumps(frame))
        self.answered(link, "seen too")
        link.close()
        status, body, _ = self.ask("GET", "/api/v1/agents/main/history?session_key=files&view=full")
        file = re.search(rb'"hash":"([0-9a-f]+)"', body) or re.search(rb'"sha256":"([0-9a-f]+)"', body)
        assert file, body[:600]
        status, body, _ = self.ask("GET", "/api/v1/files/" + file[1].decode())
        assert status == 200 and len(body) > 3 << 20, (status, len(body))


    def answered_by_hive(self):
        """How many requests the hive has answered, but for those that ask this."""
        lines = self.hive.call("GET", "/metrics").splitlines()
        counts = [line for line in lines if line.startswith("skep_http_requests_total{")]
        return sum(float(line.split()[-1]) for line in counts if 'route="/metrics"' not in line)

    def raw(self, data, quiet):
        """Everything that comes back for these bytes, until nothing has come for so long."""
        told = b""
        with socket.create_connection((NAME, self.port)) as plain:
            with self.trust.wrap_socket(plain, server_hostname=NAME) as link:
                link.settimeout(quiet)
                try:
                    link.sendall(data)
                    while piece := link.recv(65536):
                        told += piece
                except OSError:
                    pass
        return told

    def smuggling(self):
        """The hive answers no more than whoever sent it sees: nothing is left for the next one."""
        host = f"Host: {NAME}:{self.port}\r\n"
        hidden = f"GET /hidden HTTP/1.1\r\n{host}\r\n".encode()
        first = f"POST /api/v1/agents/main/messages HTTP/1.1\r\n{host}".encode()
        first += f"Authorization: Bearer {self.hive.token}\r\n".encode()
        first += b"Content-Type: application/json\r\n"
        passed = 0
        for number, (lines, body) in enumerate(DOUBTFUL):
            # A machine with much to do may take longer.
            for quiet in [QUIET, 10 * QUIET]:
                before = self.answered_by_hive()
                told = self.raw(first + lines + b"\r\n" + body + hidden, quiet)
                answered = self.answered_by_hive() - before
                # A proxy that gives up answers by itself; the hive may have answered before.
                least = told.lower().count(b"x-request-id: ")
                most = len(re.findall(rb"HTTP/1\.[01] [2-5]", told))
                if least <= answered <= most:
                    break
            assert least <= answered <= most, (number, lines, answered, told)
            # The proxy may use the same connection for these.
            for _ in range(2):
                status, body, _ = self.ask("GET", "/api/v1/health")
                assert status == 200, (number, lines, status, body)
            passed += answered
        assert passed > 2, "nothing came through: the proxy refuses all of it"
        print(f"{len(DOUBTFUL)} doubtful requests, {passed:.0f} of their parts answered by the hive")


def picture(size):
    """A PNG of about this many bytes: noise does not get smaller."""
    width = 1024
    rows = b"".join(b"\0" + os.urandom(width * 3) for _ in range(size // (width * 3) + 1))
    chunk = lambda kind, data: (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    )
    head = struct.pack(">IIBBBBB", width, size // (width * 3) + 1, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def main():
    skep, files = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    cases, open_ones = [], []
    for make in [nginx, caddy, haproxy]:
        assert shutil.which(make.__name__), f"{make.__name__} is not installed"
        behind = Behind(skep, files, make)
        open_ones.append(behind)
        steps = [behind.page, behind.sign_in, behind.web_socket, behind.stream, behind.files]
        steps += [behind.smuggling]
        cases += [(f"{make.__name__}: {step.__name__}", step) for step in steps]
    try:
        play(cases)
    finally:
        for behind in open_ones:
            behind.close()


if __name__ == "__main__":
    main()
