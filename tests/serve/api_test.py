"""The API of `satformer serve` with Python's own clients, on a small trained model: what it answers, and what it
refuses. Usage: api_test.py SATFORMER"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server import ENVIRONMENT, Server, make_model

SATFORMER = sys.argv[1]


class Api(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="satformer-serve-")
        cls.model = make_model(SATFORMER, cls.folder)
        cls.server = Server(SATFORMER, cls.model).wait_ready()
        cls.complete = cls.server.complete

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        shutil.rmtree(cls.folder)
        assert code == 0, (code, cls.server.stderr)

    def score(self, context, continuation):
        path = os.path.join(self.folder, "score.jsonl")
        with open(path, "w") as f:
            f.write(json.dumps({"context_ids": context, "continuation_ids": continuation}) + "\n")
        out = subprocess.run([SATFORMER, "score", "--model", self.model, path], capture_output=True, env=ENVIRONMENT,
                             check=True).stdout
        return json.loads(out)

    def test_health_models_and_tokenizer(self):
        self.assertEqual(self.server.get("/health")[2], {"status": "ok"})
        (model,) = self.server.get("/v1/models")[2]["data"]
        self.assertEqual((model["id"], model["max_model_len"], model["architecture"]), ("small-model", 512, "satformer"))
        self.assertEqual(self.server.get("/v1/models/small-model")[2], model)
        self.assertEqual(self.server.get("/v1/models/other")[0], 404)
        info = self.server.get("/tokenizer_info")[2]
        self.assertEqual((info["eos_token"], info["bos_token"]), ("</s>", "<s>"))
        ask = lambda path, body: self.server.post(path, body)[2]
        self.assertEqual(ask("/tokenize", {"prompt": "</s>", "add_special_tokens": False})["tokens"], [2])
        for text in ("", "a</s>b", "é😀", " two  spaces "):
            ids = ask("/tokenize", {"content": text})["tokens"]
            if "<" not in text:
                self.assertEqual(ids, [3 + b for b in text.encode()])
                self.assertEqual(ask("/detokenize", {"tokens": ids})["prompt"], text)
            else:
                self.assertEqual(ids, [3 + ord("a"), 2, 3 + ord("b")])
                self.assertEqual(len(ask("/tokenize", {"content": text, "parse_special": False})["tokens"]), 6)
        self.assertEqual(ask("/detokenize", {"tokens": [3 + 0xE2]})["content"], "\ufffd")

    def test_echoed_logprobs_are_those_of_score(self):
        prompt, ids = "The river and the sea", [3 + b for b in b"The river and the sea"]
        answer = self.complete(prompt=[ids, ids[:7]], temperature=0, max_tokens=1, logprobs=1, seed=1234, echo=True)
        self.assertEqual([c["index"] for c in answer["choices"]], [0, 1])
        for choice, length in zip(answer["choices"], (len(ids), 7)):
            lists = choice["logprobs"]
            self.assertEqual({len(values) for values in lists.values()}, {length + 1})
            self.assertIsNone(lists["token_logprobs"][0])
            self.assertIsNone(lists["top_logprobs"][0])
            self.assertEqual(lists["text_offset"], list(range(length + 1)))
            self.assertEqual("".join(lists["tokens"][:length]), prompt[:length])
            expected = self.score(ids[:4], ids[4:length])
            self.assertAlmostEqual(sum(lists["token_logprobs"][4:-1]), expected["loglikelihood"], places=4)
            greedy = all(v == max(top.values()) for v, top in zip(lists["token_logprobs"][4:-1], lists["top_logprobs"][4:-1]))
            self.assertEqual(greedy, expected["is_greedy"])
            self.assertEqual(lists["token_logprobs"][-1], max(lists["top_logprobs"][-1].values()))
        self.assertEqual(answer["usage"], {"prompt_tokens": len(ids) + 7, "completion_tokens": 2, "total_tokens": len(ids) + 9})

    def test_forms_of_prompts_agree(self):
        text = "In the morning"
        ids = [3 + b for b in text.encode()]
        options = dict(max_tokens=12, temperature=0)
        (expected,) = [c["text"] for c in self.complete(prompt=text, **options)["choices"]]
        for prompt in (ids, [text], [ids]):
            self.assertEqual(self.complete(prompt=prompt, **options)["choices"][0]["text"], expected)
        both = self.complete(prompt=[text, text + " light"], n=2, **options)["choices"]
        self.assertEqual([c["index"] for c in both], [0, 1, 2, 3])
        self.assertEqual([c["text"] for c in both[:2]], [expected] * 2)
        self.assertEqual(self.complete(prompt=text, echo=True, **options)["choices"][0]["text"], text + expected)
        self.assertEqual(self.complete(prompt=text, echo=True, max_tokens=0)["choices"][0]["text"], text)

    def test_seeds_give_their_text_whatever_runs_beside(self):
        options = dict(prompt="Once", max_tokens=40, temperature=1.0, ignore_eos=True)
        alone = [self.complete(seed=seed, **options)["choices"][0]["text"] for seed in range(16)]
        self.assertGreater(len(set(alone)), 12)
        together = [None] * 16

        def ask(seed):
            together[seed] = self.complete(seed=seed, **options)["choices"][0]["text"]

        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(together, alone)
        self.assertEqual([c["text"] for c in self.complete(seed=0, n=3, **options)["choices"]], alone[:3])

    def test_streams_add_up_to_the_answer(self):
        for options in (dict(temperature=0), dict(temperature=1.5, seed=5), dict(temperature=0, echo=True),
                        dict(temperature=1, seed=2, stop=["e", "th"]), dict(temperature=2, seed=7, ignore_eos=True)):
            options = dict(prompt=["Where the", "é"], max_tokens=40, logprobs=2, **options)
            whole = self.complete(**options)
            events = self.server.events("/v1/completions", dict(options, stream=True, stream_options={"include_usage": True}))
            self.assertEqual(events[-1]["usage"], whole["usage"])
            self.assertEqual(events[-1]["choices"], [])
            for index in (0, 1):
                parts = [e["choices"][0] for e in events[:-1] if e["choices"][0]["index"] == index]
                self.assertEqual("".join(p["text"] for p in parts), whole["choices"][index]["text"])
                for name, values in whole["choices"][index]["logprobs"].items():
                    joined = sum((p["logprobs"][name] for p in parts), [])
                    if name == "token_logprobs":
                        for a, b in zip(joined[1:], values[1:], strict=True):
                            self.assertAlmostEqual(a, b, places=4)
                    elif name != "top_logprobs":
                        self.assertEqual(joined, values, name)
                self.assertEqual([p["finish_reason"] for p in parts[:-1]], [None] * (len(parts) - 1))
                self.assertEqual(parts[-1]["finish_reason"], whole["choices"][index]["finish_reason"])

    def test_stop_strings_end_the_text_before_them(self):
        options = dict(prompt="The", max_tokens=60, temperature=1, seed=4, ignore_eos=True)
        whole = self.complete(**options)["choices"][0]["text"]
        stop = whole[20:24]
        answer = self.complete(stop=[stop, "never"], **options)["choices"][0]
        self.assertGreater(len(answer["text"]), 5)
        self.assertEqual(answer["text"], whole[:whole.index(stop)])
        self.assertEqual(answer["finish_reason"], "stop")

    def test_chat(self):
        messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
        options = dict(messages=messages, max_tokens=20, temperature=0)
        answer = self.server.post("/v1/chat/completions", dict(options, logprobs=True, top_logprobs=2))[2]
        message = answer["choices"][0]["message"]
        self.assertEqual(message["role"], "assistant")
        plain = self.complete(prompt="Be short.\nUser: Hi\nAssistant:", max_tokens=20, temperature=0, stop="\nUser:")
        self.assertEqual(message["content"], plain["choices"][0]["text"].removeprefix(" "))
        for token in answer["choices"][0]["logprobs"]["content"]:
            self.assertEqual(len(token["top_logprobs"]), 2)
            self.assertEqual(token["logprob"], token["top_logprobs"][0]["logprob"])
        events = self.server.events("/v1/chat/completions", dict(options, stream=True))
        deltas = [e["choices"][0]["delta"] for e in events]
        self.assertEqual(deltas[0], {"role": "assistant", "content": ""})
        self.assertEqual("".join(d.get("content", "") for d in deltas), message["content"])

    def test_a_template_from_a_file(self):
        path = os.path.join(self.folder, "chat.jinja")
        with open(path, "w") as f:
            f.write("{% for m in messages %}{{ raise_exception('no ' ~ m.role) if m.role == 'system' }}"
                    "[{{ m.role }}] {{ m.content | trim }}\n{% endfor %}{{ '[assistant]' if add_generation_prompt }}")
        server = Server(SATFORMER, self.model, "--chat-template", path).wait_ready()
        try:
            options = dict(max_tokens=20, temperature=0)
            ask = lambda role: server.post("/v1/chat/completions", dict(options, messages=[{"role": role, "content": " Hi "}]))
            answer = ask("user")[2]["choices"][0]["message"]["content"]
            self.assertEqual(answer, self.complete(prompt="[user] Hi\n[assistant]", **options)["choices"][0]["text"])
            status, _, refused = ask("system")
            self.assertEqual((status, refused["error"]["message"]), (400, "no system"))
            self.assertIn("raise_exception", server.get("/tokenizer_info")[2]["chat_template"])
        finally:
            self.assertEqual(server.stop(), 0)

    def test_gates_and_interventions(self):
        options = dict(prompt="The sun", max_tokens=10, temperature=0, ignore_eos=True)
        plain = self.complete(gates=True, **options)["choices"][0]
        gates = plain["gates"]
        self.assertEqual([e["layer"] for e in gates["entries"]], [1, 2])
        self.assertEqual((len(gates["values"]), gates["heads"]), (7 + 9, 2))
        edited = self.complete(gates=True, intervention="zero@layers=1+scale=2@layers=2", **options)["choices"][0]["gates"]
        self.assertEqual({v for token in edited["values"] for v in token[0]}, {0.0})
        parts = self.server.events("/v1/completions", dict(options, stream=True, gates=True))
        values, first = [], []
        for part in parts:
            first.append(part["choices"][0]["gates"]["first_token"])
            values += part["choices"][0]["gates"]["values"]
        self.assertEqual(first[0:2], [0, 7])
        for a, b in zip(sum(sum(values, []), []), sum(sum(gates["values"], []), []), strict=True):
            self.assertAlmostEqual(a, b, places=3)
        for bad in ("zro", "zero@layers=0", "mean", "shuffle", "lambda1-zero", "zero@heads=7"):
            status, _, answer = self.server.post("/v1/completions", dict(options, intervention=bad))
            self.assertEqual(status, 400, bad)
            self.assertIn("message", answer["error"])

    def test_context_is_used_to_the_last_token_and_not_passed(self):
        ids = [5] * 500
        self.assertEqual(self.complete(prompt=ids, max_tokens=12, ignore_eos=True)["usage"]["total_tokens"], 512)
        status, _, answer = self.server.post("/v1/completions", dict(prompt=ids, max_tokens=13))
        self.assertEqual((status, answer["error"]["code"]), (400, "context_length_exceeded"))
        for number in ("500", "13", "512"):
            self.assertIn(number, answer["error"]["message"])

    def test_wrong_fields_are_refused_with_their_name(self):
        wrong = {"prompt": (1, {}, [], [[]], [["a"]], [1, "a"], ["a", [1]], [-1], [259], [2**31], [2**70], [1.5], [True], None),
                 "max_tokens": (-1, 1.5, "3", 2**40, 2**70, [], True), "temperature": (-1, "1", [], 1e9, True),
                 "top_p": (-0.1, 1.1, "x"), "top_k": (-2, 1.5, "x", 2**70), "min_p": (2, "x"), "n": (0, 129, 1.0, "1"),
                 "stop": (1, [1], {}, ["a"] * 65, "x" * 2000), "seed": (1.5, "x", 2**70), "stream": ("yes", 1),
                 "stream_options": (1, {"usage": True}, {"include_usage": True}), "logprobs": (-1, 21, True, "1"),
                 "echo": ("x", 0), "logit_bias": ([], {"x": 1}, {"300": 1}, {"5": "x"}, {"5": 101}),
                 "repetition_penalty": (0, -1, "x"), "presence_penalty": (3, "x"), "frequency_penalty": (-3, []),
                 "suffix": ("x", 1), "best_of": (2, "x"), "model": (1, []), "user": (1,), "ignore_eos": (1,),
                 "gates": ("x",), "intervention": (1, "nonsense"), "unknown": (1,)}
        for name, values in wrong.items():
            for value in values:
                status, _, answer = self.server.post("/v1/completions", {"prompt": "x", "max_tokens": 1, name: value})
                self.assertEqual(status, 400, (name, value, answer))
                self.assertEqual(answer["error"]["type"], "invalid_request_error")
                self.assertIsInstance(answer["error"]["message"], str)
        for messages in (None, [], {}, [1], [{}], [{"role": "user"}], [{"role": "tool", "content": "x"}],
                         [{"role": "user", "content": 1}], [{"role": "user", "content": [{"type": "image_url"}]}],
                         [{"role": "user", "content": "x", "more": 1}]):
            self.assertEqual(self.server.post("/v1/chat/completions", {"messages": messages})[0], 400, messages)
        for path, body in (("/tokenize", {}), ("/tokenize", {"prompt": 1}), ("/tokenize", {"prompt": "a", "content": "b"}),
                           ("/detokenize", {"tokens": [259]}), ("/detokenize", {"tokens": "x"}), ("/detokenize", {})):
            self.assertEqual(self.server.post(path, body)[0], 400, (path, body))
        self.assertEqual(self.server.get("/health")[0], 200)

    def test_bodies_that_are_no_json(self):
        for body in (b"", b"{", b"[]", b"null", b'{"prompt": "\xff"}', b'{"prompt": "\xed\xa0\x80"}', b'{"prompt": "\\ud800"}',
                     b"[" * 100000, b'{"a":' * 100000, b'{"prompt":"x","prompt":"y"}', b'{"prompt": 1e999}', b"\x00",
                     b'{"prompt":"x"}x', b"{" + b",".join(b'"k%d":1' % i for i in range(100000)) + b"}"):
            start = time.monotonic()
            status, _, answer = self.server.post("/v1/completions", body)
            self.assertEqual(status, 400, body[:40])
            self.assertIn("error", answer)
            self.assertLess(time.monotonic() - start, 5)

    def test_paths_methods_and_types(self):
        self.assertEqual(self.server.get("/nothing")[0], 404)
        status, head, _ = self.server.get("/v1/completions")
        self.assertEqual((status, head["Allow"]), (405, "POST"))
        self.assertEqual(self.server.post("/health", {})[0], 405)
        self.assertEqual(self.server.post("/v1/completions", {"prompt": "x"}, headers={"Content-Type": "text/plain"})[0], 415)
        self.assertEqual(self.server.get("/health", method="HEAD")[0], 200)
        for path, kind in (("/", "text/html"), ("/assets/app.js", "text/javascript"), ("/assets/app.css", "text/css")):
            status, head, text = self.server.get(path)
            self.assertEqual(status, 200)
            self.assertTrue(head["Content-Type"].startswith(kind))
            self.assertNotIn("http://", text.replace("http://www.w3.org", ""))

    def test_keys_loading_and_the_queue(self):
        keys = os.path.join(self.folder, "keys")
        with open(keys, "w") as f:
            f.write("# of two people\none-key\n\nother-key\n")
        server = Server(SATFORMER, self.model, "--api-key-file", keys, "--max-batch", "1", "--max-queue", "2",
                        environment={"SATFORMER_API_KEY": "third"})
        status, _, answer = server.get("/health")
        if status == 503:  # it may be quicker
            self.assertEqual(answer, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}})
        server.wait_ready()
        self.assertEqual(server.get("/v1/models")[0], 401)
        for key, status in (("one-key", 200), ("other-key", 200), ("third", 200), ("one-ke", 401), ("one-key2", 401), ("", 401)):
            self.assertEqual(server.get("/v1/models", headers={"Authorization": "Bearer " + key})[0], status, key)
        self.assertEqual([server.get(path)[0] for path in ("/", "/metrics", "/health")], [200] * 3)
        body = dict(prompt="x", max_tokens=500, ignore_eos=True)
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(server.post("/v1/completions", body, headers={
            "Authorization": "Bearer third"}))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        statuses = [status for status, _, _ in answers]
        self.assertEqual(set(statuses), {200, 429}, statuses)
        self.assertGreaterEqual(statuses.count(200), 3)
        refused = next(answer for answer in answers if answer[0] == 429)
        self.assertEqual((refused[1]["Retry-After"], refused[2]["error"]["type"]), ("1", "rate_limit_error"))
        self.assertEqual(server.stop(), 0)

    def test_quantised_weights_and_speculation(self):
        body = dict(prompt="the horse the horse the", max_tokens=100, temperature=0, ignore_eos=True)
        texts = []
        for options in (("--weights", "int8"), ("--weights", "int8", "--speculate", "8")):
            server = Server(SATFORMER, self.model, *options).wait_ready()
            texts.append(server.complete(**body)["choices"][0]["text"])
            metrics = server.metrics()
            self.assertEqual(metrics["speculated_tokens_total"] > 0, "--speculate" in options)
            self.assertGreaterEqual(metrics["speculated_tokens_total"], metrics["speculated_tokens_accepted_total"])
            self.assertEqual(server.stop(), 0)
        self.assertEqual(texts[0], texts[1])

    def test_sigterm_lets_running_requests_end(self):
        server = Server(SATFORMER, self.model).wait_ready()
        answers = []
        thread = threading.Thread(target=lambda: answers.append(server.complete(prompt="x", max_tokens=500, ignore_eos=True)))
        thread.start()
        while server.metrics()["sequences_running"] == 0:
            time.sleep(0.005)
        self.assertEqual(server.stop(), 0)
        thread.join()
        self.assertEqual(answers[0]["usage"]["completion_tokens"], 500)

    def test_a_second_signal_or_the_deadline_breaks_off(self):
        for options, signals in (((), 2), (("--drain-timeout", "0.1"), 1)):
            server = Server(SATFORMER, self.model, *options).wait_ready()
            body = dict(prompt=["x"] * 200, max_tokens=500, ignore_eos=True)

            def ask():
                try:
                    server.post("/v1/completions", body)
                except OSError:
                    pass  # cut off

            thread = threading.Thread(target=ask)
            thread.start()
            while server.metrics()["sequences_running"] == 0:
                time.sleep(0.005)
            for _ in range(signals):
                server.process.send_signal(signal.SIGTERM)
                time.sleep(0.1)
            start = time.monotonic()
            self.assertEqual(server.process.wait(timeout=10), 143)
            self.assertLess(time.monotonic() - start, 3)
            thread.join()
            server.stop()

    def test_bad_options(self):
        bad = os.path.join(self.folder, "bad.jinja")
        with open(bad, "w") as f:
            f.write("fine\n{% if %}")
        for options, code, word in ((("--port", "70000"), 2, "port"), (("--chat-template", bad), 4, "bad.jinja: line 2"), (("--host", "nowhere"), 2, "nowhere"),
                                    (("--chat-template", "chatlm"), 2, "chatml"), (("--max-batch", "0"), 2, "max-batch"),
                                    (("--speculate", "16"), 2, "15"), (("--weights", "int3"), 2, "int4"),
                                    (("--api-key", ""), 2, "key"), (("--port", str(self.server.port)), 6, "bind"),
                                    (("--api-key-file", "/nonexistent"), 6, "nonexistent")):
            result = subprocess.run([SATFORMER, "serve", "--model", self.model, *options], capture_output=True,
                                    env=ENVIRONMENT, timeout=60)
            self.assertEqual(result.returncode, code, (options, result.stderr))
            self.assertIn(word, result.stderr.decode())
            self.assertEqual(len(result.stderr.decode().strip().splitlines()), 1)
        result = subprocess.run([SATFORMER, "serve", "--model", "/nonexistent", "--port", "0"], capture_output=True, timeout=60)
        self.assertNotEqual(result.returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
