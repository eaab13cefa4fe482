"""A small trained model and a running `satformer serve` for the tests of this folder."""
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "eval", "fixtures")
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1")
ENVIRONMENT.pop("SATFORMER_API_KEY", None)


def run(satformer, *arguments):
    subprocess.run([satformer, *map(str, arguments)], check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=300)


def make_model(satformer, folder, context=512, steps=30, layers=3):
    """A SATFormer on bytes that has seen a little English."""
    data, config, text = (os.path.join(folder, name) for name in ("data", "config.json", "text.jsonl"))
    with open(os.path.join(FIXTURES, "prose.txt")) as f, open(text, "w") as out:
        for paragraph in f.read().split("\n\n") * 20:
            out.write(json.dumps({"text": paragraph}) + "\n")
    run(satformer, "prepare", text, "--tokenizer", "byte", "--val-fraction", "0.1", "-o", data)
    model = os.path.join(folder, "small-model")
    with open(config, "w") as f:
        json.dump({
            "model": {"class_name": "SATFormerForCausalLM", "config_overrides": dict(
                vocab_size=259, hidden_size=32, num_hidden_layers=layers, num_heads=2, qk_norm=True,
                intermediate_size=48, tie_word_embeddings=True, max_position_embeddings=context)},
            "data": {"data_dir": data, "seq_length": 32},
            "training": {"batch_size": 4, "gradient_accumulation_steps": 1, "learning_rate": 5e-3, "min_lr": 1e-3,
                         "warmup_tokens": 1e-6, "max_tokens": 128 * steps / 1e9, "dtype": "float32"},
            "checkpointing": {"checkpoint_dir": model, "checkpoint_interval": 0},
            "logging": {"log_interval": 20, "eval_interval": 0}}, f)
    run(satformer, "train", "--config", config)
    return model


class Server:
    def __init__(self, satformer, model, *options, environment=None):
        self.process = subprocess.Popen([satformer, "serve", "--model", model, "--port", "0", *map(str, options)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=dict(ENVIRONMENT, **(environment or {})))
        line = self.process.stdout.readline().decode()
        found = re.match(r"listening on http://(.*):(\d+)$", line.strip())
        if not found:
            raise AssertionError(f"no address but {line!r}: {self.process.stderr.read().decode()}")
        self.host, self.port = found[1].strip("[]"), int(found[2])
        self.url = f"http://{found[1]}:{found[2]}"
        self.stderr = b""
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        self.stderr = self.process.stderr.read()

    def wait_ready(self, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.get("/health")[0] == 200:
                return self
            time.sleep(0.02)
        raise AssertionError("the server is not ready")

    def request(self, path, body=None, headers=None, method=None, timeout=60):
        """status, headers, body as JSON where it is"""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, dict(
            {} if data is None else {"Content-Type": "application/json"}, **(headers or {})), method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                status, head, text = response.status, response.headers, response.read()
        except urllib.error.HTTPError as error:
            status, head, text = error.code, error.headers, error.read()
        try:
            return status, head, json.loads(text)
        except ValueError:
            return status, head, text.decode(errors="replace")

    def get(self, path, **options):
        return self.request(path, **options)

    def post(self, path, body, **options):
        return self.request(path, body, **options)

    def complete(self, **body):
        status, _, answer = self.post("/v1/completions", body)
        assert status == 200, answer
        return answer

    def events(self, path, body):
        """the data of a stream's events"""
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as response:
            assert response.headers["Content-Type"] == "text/event-stream"
            parts = response.read().decode().split("\n\n")
        assert parts[-1] == "" and parts[-2] == "data: [DONE]", parts[-2:]
        return [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]

    def metrics(self):
        values = {}
        for line in self.get("/metrics")[2].splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name.removeprefix("satformer_")] = float(value)
        return values

    def wait_idle(self, seconds):
        """seconds until nothing runs or waits"""
        start = time.monotonic()
        while time.monotonic() - start < seconds:
            metrics = self.metrics()
            if metrics["sequences_running"] + metrics["sequences_waiting"] == 0:
                return time.monotonic() - start
            time.sleep(0.01)
        raise AssertionError(f"still busy after {seconds} s: {metrics}")

    def stop(self, number=signal.SIGTERM):
        """exit code"""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return code
