"""A web server of the tests, over HTTP and HTTPS on two ports of 127.0.0.1: what real clients ask for.

    web.py CERTIFICATE KEY LOG [REPOSITORIES]

writes `ports HTTP HTTPS` and serves until it is killed. A line about each request goes to LOG before it is answered.

    /hello            one line that names the host that was asked for
    /redirect?URL     a redirect there
    /bytes/N          N bytes
    /upload           answers how many bytes the body had
    /events/ID        server-sent events: the second one is sent only after /go/ID was asked for
    /websocket        echoes text messages
    /git/...          REPOSITORIES, by git's own server program
"""

import base64
import contextlib
import hashlib
import http.server
import os
import ssl
import struct
import subprocess
import sys
import threading

PATIENCE = 20
BLOCK = bytes(1 << 18)
WEBSOCKET = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
released = {}
lock = threading.Lock()


def gate(name):
    with lock:
        return released.setdefault(name, threading.Event())


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 600

    def log_message(self, *_):
        pass

    def answer(self):
        with lock, open(LOG, "a") as log:
            log.write(f"{self.command} {self.headers.get('host', '')} {self.path}\n")
        path, _, query = self.path.partition("?")
        first, _, rest = path.strip("/").partition("/")
        if first == "redirect":
            self.head(302, {"Location": query, "Content-Length": "0"})
        elif first == "bytes":
            self.bytes(int(rest))
        elif first == "upload":
            self.text(f"got {sum(map(len, self.body()))}\n")
        elif first == "events":
            self.events(rest)
        elif first == "go":
            gate(rest).set()
            self.text("gone\n")
        elif first == "websocket":
            self.websocket()
        elif first == "git":
            self.git("/" + rest, query)
        else:
            self.text(f"hello from {self.headers.get('host', '').split(':')[0]}\n")

    do_GET = do_POST = do_PUT = do_HEAD = answer

    def head(self, status, fields):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()

    def text(self, text):
        self.head(200, {"Content-Type": "text/plain", "Content-Length": str(len(text))})
        self.wfile.write(text.encode())

    def bytes(self, left):
        self.head(200, {"Content-Type": "application/octet-stream", "Content-Length": str(left)})
        while left:
            left -= self.connection.send(BLOCK[:left])

    def body(self):
        """The body in pieces, none of which is kept."""
        if self.headers.get("transfer-encoding", "") == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers.get("content-length", 0))
        while left:
            piece = self.rfile.read(min(left, len(BLOCK)))
            if not piece:
                return
            left -= len(piece)
            yield piece

    def events(self, name):
        self.head(200, {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "Connection": "close"})
        self.close_connection = True
        self.wfile.write(b"event: first\ndata: one\n\n")
        if gate(name).wait(PATIENCE):
            self.wfile.write(b"event: second\ndata: two\n\n")

    def websocket(self):
        key = self.headers["sec-websocket-key"].encode()
        accept = base64.b64encode(hashlib.sha1(key + WEBSOCKET).digest()).decode()
        self.head(101, {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": accept})
        self.close_connection = True
        while True:
            start = self.rfile.read(2)
            if len(start) < 2:
                return
            kind, length = start[0] & 15, start[1] & 127
            if length == 126:
                (length,) = struct.unpack(">H", self.rfile.read(2))
            mask = self.rfile.read(4)
            data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(length)))
            size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + struct.pack(">H", len(data))
            self.wfile.write(bytes([0x80 | kind]) + size + data)
            if kind == 8:
                return

    def git(self, path, query):
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": REPOSITORIES,
            "GIT_HTTP_EXPORT_ALL": "1",
            # Whoever the repositories belong to, they are the test's.
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "GIT_CONFIG_KEY_1": "http.receivepack",
            "GIT_CONFIG_VALUE_1": "true",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("content-type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
            "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
        }
        body = b"".join(self.body())
        environment["CONTENT_LENGTH"] = str(len(body))
        run = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True)
        head, _, content = run.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        status = int(fields.pop("Status", "200").split()[0])
        self.head(status, {**fields, "Content-Length": str(len(content))})
        self.wfile.write(content)


class Server(http.server.ThreadingHTTPServer):
    # Many clients at once are nothing unusual here.
    request_queue_size = 1024
    context = None

    def finish_request(self, request, address):
        # The handshake is made by the connection's own thread: a client that never begins it holds up nobody.
        if self.context:
            request = self.context.wrap_socket(request, server_side=True)
        super().finish_request(request, address)
        if self.context:
            # The end is said in TLS too, for clients that insist on it.
            request.settimeout(1)
            with contextlib.suppress(OSError):
                request.unwrap()

    def handle_error(self, request, address):
        # A client that goes away, or does not trust the certificate, is no failure of the server.
        pass


if __name__ == "__main__":
    certificate, key, LOG, REPOSITORIES, *_ = [*sys.argv[1:], ""]
    plain, secure = (Server(("127.0.0.1", 0), Handler) for _ in range(2))
    secure.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.context.load_cert_chain(certificate, key)
    for server in (plain, secure):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ports", plain.server_port, secure.server_port, flush=True)
    threading.Event().wait()
