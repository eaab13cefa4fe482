#!/usr/bin/env python3
"""Renders the templates of tests/data/jinja, and many expressions, with jinja2 as transformers sets it up, and records
what comes out.

usage: make_jinja_cases.py   (needs the package jinja2; writes tests/data/jinja/expected.jsonl)

The first line has the variables; each other one a template ("file" or "template") and what comes of it: "text", the
message that it "raised", the line of a "syntax" error, or the kind of an "error". The time is fixed.
"""

import datetime
import json
import pathlib

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).resolve().parent / "jinja"
NOW = datetime.datetime(2026, 5, 3, 12, 34, 56)


class Raised(Exception):
    pass


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


def raise_exception(message):
    raise Raised(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = NOW.strftime
    for name in ("lipsum", "cycler", "joiner"):
        del made.globals[name]
    return made


def message(role, content, **more):
    return {"role": role, "content": content, **more}


WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather <now> of a \"city\" & more\nsecond line",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "naïve"},
                "days": {"type": "array", "items": {"type": "integer"}},
                "more": {"type": "object", "properties": {"b": {}, "a": {}}},
            },
            "required": ["city"],
        },
    },
}
CLOCK = {"type": "function", "function": {"name": "clock", "description": "", "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}, "required": []}, "return": {"type": "string"}}}
CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "weather", "arguments": {"city": "Zürich 😀", "days": [1, 2.5, None, True]}}}
CONVERSATIONS = [
    [message("user", "Hello")],
    [message("system", " Be kind. "), message("user", " What's up?\n")],
    [message("user", "a"), message("assistant", " b "), message("user", "c 'd' \"e\"")],
    [message("system", "S"), message("user", "u1"), message("assistant", "<think>\nhm\n</think>\n\nyes"), message("user", "u2 ünï 日本 😀")],
    [message("assistant", "first"), message("user", "then")],
    [message("user", "w?"), message("assistant", "", tool_calls=[CALL]), message("tool", "sunny"), message("assistant", "It is sunny.")],
    [message("user", "w?"), message("assistant", "Let me see.", tool_calls=[CALL, {**CALL, "id": "x"}]), message("tool", {"content": 3}), message("tool", "rain")],
    [message("user", [{"type": "text", "text": " see "}, {"type": "image"}, {"type": "text", "text": "this"}])],
    [message("user", "x"), message("assistant", None), message("user", "y")],
    [message("teacher", "odd role")],
    [],
]
SETTINGS = [
    {"add_generation_prompt": True},
    {"add_generation_prompt": False, "tools": [WEATHER, CLOCK]},
    {"add_generation_prompt": True, "tools": None, "enable_thinking": False},
    {},
]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

DATA = {
    "s": "Some Text",
    "u": "éÉß 日本 😀",
    "n": 7,
    "f": 2.5,
    "none": None,
    "yes": True,
    "l": [3, 1, 2],
    "w": ["b", "A", "c", "a"],
    "d": {"b": 1, "a": 2, "items": "key", "deep": {"x": [1, {"y": "z"}]}},
    "people": [{"name": "Ann", "age": 30, "tags": ["x"]}, {"name": "bob", "age": 25}, {"name": "Cy", "age": 30, "tags": []}],
    "empty": [],
    "spaces": "  a  b\tc\n d ",
    "lines": "one\ntwo\r\n\nthree\n",
}
EXPRESSIONS = (HERE / "expressions.txt").read_text(encoding="utf-8").splitlines()


def render(made, source, variables):
    try:
        return {"text": made.from_string(source).render(**variables)}
    except Raised as error:
        return {"raised": str(error)}
    except jinja2.TemplateSyntaxError as error:
        return {"syntax": error.lineno}
    except Exception as error:  # what a template does wrong
        return {"error": type(error).__name__}


def main():
    made = environment()
    with open(HERE / "expected.jsonl", "w", encoding="utf-8") as out:

        def put(line):
            out.write(json.dumps(line, ensure_ascii=False) + "\n")

        put({"data": DATA, "conversations": CONVERSATIONS, "settings": [{**s, **TOKENS} for s in SETTINGS]})
        for path in sorted(HERE.glob("*.jinja")):
            source = path.read_text(encoding="utf-8")
            for i, messages in enumerate(CONVERSATIONS):
                for j, settings in enumerate(SETTINGS):
                    got = render(made, source, {"messages": messages, **settings, **TOKENS})
                    put({"file": path.name, "conversation": i, "setting": j, **got})
        for line in EXPRESSIONS:
            if line:
                source = json.loads(line) if line.startswith('"') else "{{ " + line + " }}"
                put({"template": source, **render(made, source, DATA)})


main()
