"""Sends a message over WebSocket and prints what comes back: websocket.py URL [PROXY-PORT]"""
import base64
import hashlib
import os
import socket
import ssl
import sys
import urllib.parse

url, *proxy = sys.argv[1:]
parts = urllib.parse.urlsplit(url)
secure = parts.scheme == "wss"
port = parts.port or (443 if secure else 80)
if proxy:
    stream = socket.create_connection(("127.0.0.1", int(proxy[0])), 10)
    stream.sendall(f"CONNECT {parts.hostname}:{port} HTTP/1.1\r\nHost: {parts.hostname}:{port}\r\n\r\n".encode())
    answer = stream.recv(4096)
    assert b" 200 " in answer.split(b"\r\n")[0], answer
else:
    stream = socket.create_connection((parts.hostname, port), 10)
if secure:
    stream = ssl.create_default_context().wrap_socket(stream, server_hostname=parts.hostname)
key = base64.b64encode(os.urandom(16))
stream.sendall(
    f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key.decode()}\r\n\r\n".encode()
)
answers = stream.makefile("rb")
head = b""
while not head.endswith(b"\r\n\r\n"):
    line = answers.readline()
    assert line, head
    head += line
assert b" 101 " in head.split(b"\r\n")[0], head
accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
assert accept in head, head
for message in (b"first message", b"second message"):
    mask = os.urandom(4)
    stream.sendall(
        bytes([0x81, 0x80 | len(message)]) + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(message))
    )
    kind, length = answers.read(2)
    assert kind == 0x81, kind
    print("echoed", answers.read(length).decode())
