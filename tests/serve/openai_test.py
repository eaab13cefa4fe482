"""The openai package against `satformer serve`. Needs `pip install openai`. Usage: openai_test.py SATFORMER"""
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server import Server, make_model

try:
    import openai
except ImportError as error:
    print(f"skipped: {error} (pip install openai)")
    sys.exit(77)


def main():
    with tempfile.TemporaryDirectory() as folder:
        server = Server(sys.argv[1], make_model(sys.argv[1], folder), "--api-key", "secret").wait_ready()
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="secret", max_retries=0)
        (model,) = client.models.list().data
        assert client.models.retrieve(model.id).id == model.id == "small-model"
        answer = client.completions.create(model=model.id, prompt=["The sea", "A ship"], n=2, max_tokens=9, logprobs=2,
                                           seed=3, stop=["."], temperature=0.7, logit_bias={"40": 1})
        assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
        assert answer.usage.completion_tokens == sum(len(choice.logprobs.tokens) for choice in answer.choices)
        text = "".join(part.choices[0].text for part in client.completions.create(
            model=model.id, prompt="The sea", max_tokens=20, temperature=0, stream=True))
        whole = client.completions.create(model=model.id, prompt="The sea", max_tokens=20, temperature=0)
        assert text == whole.choices[0].text and text
        messages = [{"role": "user", "content": "Hello"}]
        chat = client.chat.completions.create(model=model.id, messages=messages, max_completion_tokens=15, temperature=0,
                                              logprobs=True, top_logprobs=3, response_format={"type": "text"})
        assert chat.choices[0].logprobs.content[0].top_logprobs[0].bytes is not None
        parts, usage = "", None
        for part in client.chat.completions.create(model=model.id, messages=messages, max_completion_tokens=15, stream=True,
                                                   temperature=0, stream_options={"include_usage": True}):
            usage = part.usage or usage
            parts += part.choices[0].delta.content or "" if part.choices else ""
        assert parts == chat.choices[0].message.content and usage == chat.usage
        gates = client.completions.create(model=model.id, prompt="The sea", max_tokens=5, temperature=0,
                                          extra_body={"gates": True, "intervention": "zero"}).choices[0].gates
        assert {value for token in gates["values"] for entry in token for value in entry} == {0.0}
        for error, options in ((openai.BadRequestError, dict(prompt=[-1])), (openai.BadRequestError, dict(prompt="x", max_tokens=10**6))):
            try:
                client.completions.create(model=model.id, **options)
            except error as caught:
                assert caught.body["type"] == "invalid_request_error", caught.body
            else:
                raise AssertionError(options)
        try:
            openai.OpenAI(base_url=server.url + "/v1", api_key="wrong", max_retries=0).models.list()
        except openai.AuthenticationError:
            pass
        else:
            raise AssertionError("a wrong key was accepted")
        assert server.stop() == 0
    print(f"openai {openai.__version__}: all as expected")


main()
