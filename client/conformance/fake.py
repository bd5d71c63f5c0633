"""A server of asynchronous solves for the clients' tests, with all that a
network may do wrong on the way. Standard library alone.

    fake.py RESULT.json

It prints its address, and ends when its standard input does. The first part of a path says
what goes wrong; the rest is the path of Hare:

    plain   nothing
    lossy   the first two answers of each method and path break off half-way
    busy    the first two calls of each method and path are refused with 503
    away    every call is refused with 503, Retry-After: 3600
    proxy   the first call of each method and path gets a page of 502
    cut     a stream carries two events a connection, the first seen before
    quiet   the first stream sends nothing and stays open
    slow    solves do not end before they are cancelled

GET /NAME/_stats says what happened there.
"""

import collections
import http.server
import json
import sys
import threading
import time
import urllib.parse

EVENTS = 9  # the last is done


class State:
    def __init__(self):
        self.lock = threading.Lock()
        self.calls = collections.Counter()
        self.ids = {}
        self.resumed = []
        self.cancelled = set()
        self.headers = {}


STATES = collections.defaultdict(State)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def handle_any(self):
        _, self.mode, rest = self.path.split("/", 2)
        path, _, query = ("/" + rest).partition("?")
        self.state = STATES[self.mode]
        self.query = query
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if path == "/_stats":
            s = self.state
            return self.answer(
                200,
                {
                    "solved": len(s.ids),
                    "calls": s.calls,
                    "resumed": s.resumed,
                    "cancelled": sorted(s.cancelled),
                    "headers": s.headers,
                },
            )
        name = self.command + " " + path
        with self.state.lock:
            self.state.calls[name] += 1
            seen = self.state.calls[name]
            self.state.headers = {k.lower(): v for k, v in self.headers.items()}
        self.lose = self.mode == "lossy" and seen <= 2
        if self.mode == "away" or self.mode == "busy" and seen <= 2:
            return self.problem(503, "busy", "3600" if self.mode == "away" else "0")
        if self.mode == "proxy" and seen <= 1:
            return self.send(502, "text/html", b"<html>no</html>")
        self.route(path, body)

    do_GET = do_POST = do_DELETE = handle_any

    def route(self, path, body):
        parts = path.strip("/").split("/")
        if path == "/v1/solves" and self.command == "POST":
            return self.submit(body)
        if path == "/v1/solves":
            page = int(urllib.parse.parse_qs(self.query).get("after", ["0"])[0])
            return self.answer(
                200,
                {
                    "solves": [self.solve(f"l{page}a"), self.solve(f"l{page}b")],
                    **({"next": str(page + 1)} if page < 2 else {}),
                },
            )
        if path == "/v1/sessions":
            return self.answer(201, {"id": "x"})
        if path == "/v1/what-if":
            lines = [{"id": "more", "value": 1}, {"id": "less", "value": 2, "new": True}]
            return self.send(200, "application/x-ndjson", b"".join(json.dumps(x).encode() + b"\n" for x in lines))
        if path == "/v1/simulations":
            if "ndjson" not in self.headers["Accept"]:
                return self.answer(200, {"status": "deadline", "asked": 2, "runs": [], "later": 1})
            lines = [{"line": "progress"}, {"line": "run", "run": {"policy": "srtf"}}]
            if self.mode == "cut":
                lines.append({"line": "error", "error": {"status": 422, "code": "stalled", "detail": "kueue"}})
            elif self.mode != "half":
                lines.append({"line": "summary", "summary": {"status": "succeeded"}})
            return self.send(200, "application/x-ndjson", b"".join(json.dumps(x).encode() + b"\n" for x in lines))
        solve = parts[2] if len(parts) > 2 else ""
        if parts[:2] != ["v1", "solves"] or solve not in self.state.ids.values():
            return self.problem(404, "no_solve")
        part = parts[3] if len(parts) > 3 else ""
        if part == "events":
            return self.events()
        if part == "result":
            return self.send(200, "application/json", RESULT)
        if part == "schedule":
            return self.send(200, self.headers["Accept"], b"job,round\nbert,0\n")
        if part == "cancel":
            self.state.cancelled.add(solve)
            return self.answer(202, self.solve(solve))
        if self.command == "DELETE":
            return self.send(204, None, b"")
        if self.mode == "slow" and "wait=" in self.query and solve not in self.state.cancelled:
            time.sleep(0.05)
        self.answer(200, self.solve(solve))

    def solve(self, id):
        running = self.mode == "slow" and id not in self.state.cancelled
        s = {
            "id": id,
            "status": "running" if running else "succeeded",
            "created": "2026-11-21T10:00:00.123456789Z",
            "value": 3.5,
            "bound": 3,
            "gap": None,
            "events": EVENTS,
            "later": {"servers": ["say more"]},
        }
        if not running:
            s["termination"] = "gap"
        return s

    def submit(self, body):
        key = self.headers["Idempotency-Key"]
        with self.state.lock:
            self.state.ids.setdefault(key, f"s{len(self.state.ids) + 1}")
        id = self.state.ids[key]
        if "respond-async" in (self.headers["Prefer"] or "") or self.mode == "slow":
            return self.answer(202, self.solve(id), {"Location": f"/v1/solves/{id}", "Retry-After": "1"})
        self.send(200, "application/json", RESULT, {"Hare-Solve-Id": id})

    def events(self):
        last = int(self.headers["Last-Event-ID"] or 0)
        self.state.resumed.append(last)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"retry: 1000\n\n: alive\n\n")
        self.wfile.flush()
        if self.mode == "quiet" and len(self.state.resumed) == 1:
            time.sleep(2)
        for sent, id in enumerate(range(max(1, last), EVENTS + 1)):
            fields = {"seq": id, "at_s": id + 0.5, "type": "incumbent", "value": 100 - id, "é": "ü"}
            event, data = "incumbent", json.dumps(fields, ensure_ascii=False)
            if id == EVENTS:
                event, data = "done", '{"status":"succeeded",\ndata: "termination":"gap"}'
            text = f"id: {id}\r\nevent: {event}\r\ndata: {data}\r\n\r\n".encode()
            if self.mode == "cut" and sent == 2:
                self.wfile.write(text[: len(text) // 2])  # half an event counts for nothing
                break
            self.wfile.write(text)
            self.wfile.flush()
        self.close_connection = True

    def answer(self, status, value, headers=None):
        self.send(status, "application/json", json.dumps(value).encode(), headers)

    def problem(self, status, code, after=None):
        text = {
            "type": "about:blank",
            "title": "t",
            "status": status,
            "code": code,
            "detail": "told so",
            "request_id": "r1",
        }
        self.send(
            status, "application/problem+json", json.dumps(text).encode(), {"Retry-After": after} if after else {}
        )

    def send(self, status, kind, body, headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if kind:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if getattr(self, "lose", False):
            body, self.close_connection = body[: len(body) // 2], True
        self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as f:
        RESULT = f.read()
    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
