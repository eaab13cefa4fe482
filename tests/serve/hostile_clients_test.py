"""Clients that send too much, too little, too slowly or nonsense to `satformer serve`, over raw sockets. The server must
answer 4xx or close, stay quick for others, and get everything back. Usage: hostile_clients_test.py SATFORMER"""
import json
import os
import random
import select
import shutil
import socket
import struct
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server import Server, make_model

SATFORMER = sys.argv[1]
SCALE = int(os.environ.get("SATFORMER_TEST_SCALE", "1"))  # more clients, for runs by hand
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
LONG = dict(prompt="x", max_tokens=3000, ignore_eos=True)


def request(body, head=HEAD):
    body = json.dumps(body).encode()
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


class HostileClients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="satformer-serve-")
        model = make_model(SATFORMER, cls.folder, context=4096)
        cls.server = Server(SATFORMER, model, "--head-timeout", 3, "--idle-timeout", 3, "--body-timeout", 3, "--write-timeout", 3, "--max-body", 1,
                            "--max-queue", 4000, "--max-unsent", 1).wait_ready()

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        shutil.rmtree(cls.folder)
        assert code == 0, (code, cls.server.stderr)

    def tearDown(self):
        self.assertEqual(self.server.get("/health")[0], 200)

    def connect(self, timeout=10):
        return socket.create_connection((self.server.host, self.server.port), timeout=timeout)

    def send(self, data, timeout=10):
        """first line of the answer, and the whole of it; empty if the connection was closed without one"""
        with self.connect(timeout) as client:
            try:
                client.sendall(data)
            except OSError:
                pass  # it has heard enough
            answer = b""
            try:
                while part := client.recv(65536):
                    answer += part
                    if b"\r\n\r\n" in answer and b"Connection: keep-alive" in answer:
                        break
            except ConnectionResetError:
                pass
        return answer.split(b"\r\n")[0].decode(), answer

    def assert_refused(self, data, *statuses):
        line, answer = self.send(data)
        self.assertIn(line[9:12], [str(status) for status in statuses], (data[:60], line))
        self.assertEqual(json.loads(answer.partition(b"\r\n\r\n")[2])["error"].keys(), {"message", "type", "param", "code"})

    def test_bodies_over_the_limit_in_three_framings(self):
        big = b"x" * (2 << 20)
        self.assert_refused(HEAD + b"Content-Length: %d\r\n\r\n" % len(big) + big, 413)
        self.assert_refused(HEAD + b"Content-Length: 99999999999999999999\r\n\r\n", 400, 413)
        self.assert_refused(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"10000\r\n" + b"x" * 65536 + b"\r\n" * 1 +
                            (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 40, 413)
        self.assert_refused(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"200000\r\n" + big, 413)
        # Without a length there is no body; what follows is another request, and none.
        self.assert_refused(HEAD.replace(b"1.1", b"1.0") + b"\r\n" + big, 400)

    def test_heads_over_the_limit(self):
        self.assert_refused(HEAD + b"".join(b"X-%d: y\r\n" % i for i in range(10000)) + b"\r\n", 431)
        self.assert_refused(HEAD + b"X: " + b"y" * 100000 + b"\r\n\r\n", 431)
        self.assert_refused(b"GET /" + b"y" * 100000 + b" HTTP/1.1\r\n\r\n", 431, 414, 400)

    def test_broken_framing(self):
        for size in (b"-2", b"zz", b"", b"FFFFFFFFFFFFFFFFF", b"0x5"):
            self.assert_refused(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + size + b"\r\nabcde\r\n0\r\n\r\n", 400, 413)
        for length in (b"-1", b"abc", b"5, 6", b"1e3"):
            self.assert_refused(HEAD + b"Content-Length: " + length + b"\r\n\r\n", 400)
        self.assert_refused(HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400)
        self.assert_refused(HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400)
        for line in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                     b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x00" * 100 + b"\r\n\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n"):
            status = self.send(line)[0]
            self.assertTrue(status == "" or status[9:10] == "4", (line[:40], status))

    def test_random_bytes(self):
        choice = random.Random(1)
        valid = request(dict(prompt="a", max_tokens=1))
        for i in range(150):
            data = bytearray(valid)
            for _ in range(choice.randrange(1, 8)):
                data[choice.randrange(len(data))] = choice.randrange(256)
            with self.connect(5) as client:
                client.sendall(bytes(data))
                client.shutdown(socket.SHUT_WR)
                try:
                    answer = client.recv(65536)
                except ConnectionResetError:
                    answer = b""
            self.assertFalse(answer.startswith(b"HTTP/1.1 5"), (bytes(data), answer))

    def test_expect_and_pipelining_and_http10(self):
        body = json.dumps(dict(prompt="a", max_tokens=1)).encode()
        with self.connect() as client:
            client.sendall(HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
            self.assertTrue(client.recv(100).startswith(b"HTTP/1.1 100"))
            client.sendall(body)
            self.assertTrue(client.recv(100).startswith(b"HTTP/1.1 200"))
        with self.connect() as client:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 3 + b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
            answer = b""
            while part := client.recv(65536):
                answer += part
        self.assertEqual(answer.count(b"HTTP/1.1 200"), 4)
        stream = self.send(request(dict(prompt="a", max_tokens=3, stream=True), HEAD.replace(b"1.1", b"1.0")))[1]
        self.assertTrue(stream.startswith(b"HTTP/1.0 200") and stream.endswith(b"data: [DONE]\n\n"))
        self.assertNotIn(b"chunked", stream)

    def test_slow_clients_are_closed_and_others_do_not_notice(self):
        each = 100 * SCALE
        before = self.server.metrics()
        clients, closed = [], []
        for kind in ("head", "body", "read") * each:
            client = self.connect()
            if kind == "read":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                client.sendall(request(dict(prompt="The sea " * 60, max_tokens=1, echo=True, logprobs=20)))
            elif kind == "body":
                client.sendall(HEAD + b"Content-Length: 1000\r\n\r\n{")
            else:
                client.sendall(b"POST /v1/comp")
            clients.append((kind, client))
        start = time.monotonic()
        trickle = {"head": b"X", "body": b" "}
        latencies, open_clients = [], list(clients)
        while open_clients and time.monotonic() - start < 25:
            still = []
            for kind, client in open_clients:
                try:
                    if kind != "read":
                        client.send(trickle[kind])
                    client.setblocking(False)
                    state = client.recv(1, socket.MSG_PEEK) if kind != "read" else None
                    if state is not None:  # an answer (408) or the end
                        closed.append(time.monotonic() - start)
                        continue
                except BlockingIOError:
                    pass
                except OSError:
                    closed.append(time.monotonic() - start)
                    continue
                still.append((kind, client))
            asked = time.monotonic()
            self.assertEqual(self.server.get("/health")[0], 200)
            latencies.append(time.monotonic() - asked)
            open_clients = [(kind, client) for kind, client in still if kind != "read"]
            time.sleep(0.02)
        self.assertEqual(len(closed), 2 * each)
        latencies.sort()
        print(f"{3 * each} slow clients: /health p50 {latencies[len(latencies) // 2] * 1e3:.1f} ms, "
              f"p99 {latencies[int(len(latencies) * 0.99)] * 1e3:.1f} ms; closed after {max(closed):.1f} s at most", flush=True)
        self.assertLess(max(closed), 20)
        while time.monotonic() - start < 60 and self.server.metrics()["connections"] > 2:
            time.sleep(0.05)
        for _, client in clients:
            client.close()
        self.server.wait_idle(30)
        after = self.server.metrics()
        self.assertLess(after["connections"], 5)
        self.assertLessEqual(after["open_descriptors"], before["open_descriptors"] + 3)

    def test_a_reader_that_stops_is_closed(self):
        cancelled = self.server.metrics()["sequences_cancelled_total"]
        with self.connect() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            # More than sockets and --max-unsent hold: the server closes it for the time or, if it is quick, for the size.
            client.sendall(request(dict(LONG, stream=True, logprobs=20, max_tokens=4000, n=8)))
            start = time.monotonic()
            while self.server.metrics()["sequences_running"] == 0:
                time.sleep(0.005)
            client.recv(100)
            self.server.wait_idle(40)
            print(f"a stream whose client stopped reading ended after {time.monotonic() - start:.1f} s", flush=True)
            self.assertGreater(self.server.metrics()["sequences_cancelled_total"], cancelled)

    def test_clients_that_leave_give_everything_back(self):
        self.server.complete(prompt="x", max_tokens=1)
        rounds, times = [], []
        for _ in range(4):
            for part in range(3 * SCALE):
                clients = []
                for i in range(25):
                    client = self.connect()
                    # 16 run, the others wait in the queue; half of them stream.
                    client.sendall(request(dict(LONG, stream=i % 2 == 0)))
                    clients.append(client)
                self.assertTrue(select.select(clients[::2], [], [], 10)[0])  # a stream has begun, whichever came first
                for i, client in enumerate(clients):
                    if i % 3 == 0:
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
                    client.close()
                times.append(self.server.wait_idle(5))
            metrics = self.server.metrics()
            rounds.append((metrics["open_descriptors"], metrics["resident_memory_bytes"], metrics["connections"]))
        print(f"{300 * SCALE} disconnects: idle again after {sorted(times)[len(times) // 2] * 1e3:.0f} ms (median), {max(times) * 1e3:.0f} ms "
              f"at most; memory {[round(r[1] / 2**20, 1) for r in rounds]} MiB", flush=True)
        self.assertLess(sorted(times)[len(times) // 2], 0.5)
        self.assertLess(rounds[-1][0], rounds[0][0] + 5)
        self.assertLess(rounds[-1][1], rounds[0][1] + (12 << 20))  # memory comes in huge pages

    def test_many_mixed_requests_leak_nothing(self):
        choice = random.Random(2)
        kinds = [dict(prompt="a", max_tokens=1), dict(prompt=["a", "bc"], max_tokens=2, logprobs=3, echo=True),
                 dict(prompt="a", max_tokens=3, stream=True), dict(prompt=[-1]), dict(prompt="x", nonsense=1),
                 dict(prompt="a", max_tokens=2, gates=True, intervention="zero"), dict(prompt="x" * 5000)]
        before = self.server.metrics()

        def some(count, seed):
            local = random.Random(seed)
            with self.connect(60) as client:
                for _ in range(count):
                    body = local.choice(kinds)
                    client.sendall(request(body))
                    answer = b""
                    while b"\r\n\r\n" not in answer:
                        answer += client.recv(65536)
                    head, _, rest = answer.partition(b"\r\n\r\n")
                    statuses.append(head[9:12])
                    if b"chunked" in head:
                        while not rest.endswith(b"0\r\n\r\n"):
                            rest += client.recv(65536)
                    else:
                        length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
                        while len(rest) < length:
                            rest += client.recv(65536)

        memory = []
        statuses = []
        for block in range(4):
            threads = [threading.Thread(target=some, args=(60 * SCALE, choice.random())) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            memory.append(self.server.metrics()["resident_memory_bytes"])
        self.assertEqual(len(statuses), 4 * 480 * SCALE)
        self.assertEqual({status[:1] for status in statuses}, {b"2", b"4"})
        growth = (memory[-1] - memory[1]) / (2 * 480 * SCALE) * 10000 / 2**20
        print(f"{1920 * SCALE} mixed requests: memory {[round(m / 2**20, 1) for m in memory]} MiB, {growth:.2f} MiB per 10,000", flush=True)
        self.assertLess(memory[-1] - memory[1], 4 << 20)
        after = self.server.metrics()
        self.assertEqual(after['responses_total{class="5xx"}'], before['responses_total{class="5xx"}'])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
