"""A model of lm-eval that asks `satformer score`. Tokenisation, splitting of context and continuation, truncation and
windows are lm-eval's way of doing it, with Python's sentencepiece; the program only sees token ids."""
import json
import os
import subprocess
import tempfile

from lm_eval import utils
from lm_eval.api.model import TemplateLM
from lm_eval.models.utils import handle_stop_sequences, normalize_gen_kwargs


class ByteTokenizer:
    bos, eos = 1, 2

    def encode(self, text):
        return [3 + b for b in text.encode("utf-8")]


class SentencePieceTokenizer:
    def __init__(self, path):
        import sentencepiece

        self.model = sentencepiece.SentencePieceProcessor(model_file=path)
        self.bos, self.eos = self.model.bos_id(), self.model.eos_id()

    def encode(self, text):
        return self.model.encode(text)


class Satformer(TemplateLM):
    backend = "causal"

    def __init__(self, program, model, folder, options=()):
        super().__init__()
        self.program, self.model, self.options = program, model, list(options)
        path = os.path.join(folder, "tokenizer.model")
        self.tokenizer = SentencePieceTokenizer(path) if os.path.exists(path) else ByteTokenizer()
        with open(os.path.join(folder, "config.json")) as f:
            self.max_length = json.load(f)["max_position_embeddings"]

    @property
    def eot_token_id(self):
        return self.tokenizer.eos

    @property
    def prefix_token_id(self):
        return self.tokenizer.bos if self.tokenizer.bos >= 0 else self.tokenizer.eos

    @property
    def tokenizer_name(self):
        return "satformer"

    def tok_encode(self, string, add_special_tokens=None, **kwargs):
        return self.tokenizer.encode(string)

    def ask(self, lines):
        with tempfile.TemporaryDirectory() as folder:
            asked, answered = os.path.join(folder, "in.jsonl"), os.path.join(folder, "out.jsonl")
            with open(asked, "w") as f:
                f.writelines(json.dumps(line) + "\n" for line in lines)
            subprocess.run([self.program, "score", "--model", self.model, asked, "-o", answered, *self.options],
                           check=True, stderr=subprocess.DEVNULL)
            with open(answered) as f:
                return [json.loads(line) for line in f]

    def _loglikelihood_tokens(self, requests, disable_tqdm=False, **kwargs):
        lines = []
        for _, context, continuation in requests:
            assert context and 0 < len(continuation) <= self.max_length
            whole = (context + continuation)[-(self.max_length + 1):]
            split = len(whole) - len(continuation)
            lines.append({"context_ids": whole[:split], "continuation_ids": whole[split:]})
        return [(answer["loglikelihood"], answer["is_greedy"]) for answer in self.ask(lines)]

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        results = []
        for (text,) in [request.args for request in requests]:
            windows = utils.get_rolling_token_windows(token_list=self.tok_encode(text),
                                                      prefix_token=self.prefix_token_id,
                                                      max_seq_len=self.max_length, context_len=1)
            windows = [(None, *utils.make_disjoint_window(window)) for window in windows]
            results.append(sum(value for value, _ in self._loglikelihood_tokens(windows)))
        return results

    def generate_until(self, requests, disable_tqdm=False):
        lines = []
        for context, arguments in [request.args for request in requests]:
            arguments = normalize_gen_kwargs(arguments, 256)
            tokens = arguments["max_gen_toks"]
            assert tokens < self.max_length
            stop = [text for text in handle_stop_sequences(arguments["until"], eos=None)]
            ids = self.tok_encode(context)[-(self.max_length - tokens):]
            lines.append({"context_ids": ids, "until": stop, "max_gen_toks": tokens})
        return [answer["text"] for answer in self.ask(lines)]
