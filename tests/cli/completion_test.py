"""Completions and manual pages: what they say of each command is what its --help says. Usage: completion_test.py SATFORMER"""
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SATFORMER = sys.argv[1]


def run(*arguments, code=0):
    result = subprocess.run([SATFORMER, *arguments], capture_output=True, text=True, timeout=60)
    assert result.returncode == code, (arguments, result)
    return result.stdout if code == 0 else result.stderr


COMMANDS = re.findall(r"^  (\w+) ", run("--help"), re.M)
MODES = {"eval": ["--tasks"], "prepare": ["--synthetic"]}


@functools.cache
def options_of(command):
    """the long options that --help lists, in all modes"""
    names = set()
    for mode in [[], MODES.get(command, [])]:
        for words in re.findall(r"^  (-\S+)", run(command, *mode, "--help"), re.M):
            names.update(word for word in words.split(",") if re.fullmatch(r"--[a-z-]+", word))
    return names


class Pages(unittest.TestCase):
    def test_every_option_is_on_its_commands_page(self):
        docs = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs")
        for command in COMMANDS:
            pages = [f"{docs}/commands/{'completion' if command == 'man' else command}.md"]
            pages += [f"{docs}/synthetic.md"] * (command == "prepare")
            page = ""
            for path in pages:
                with open(path) as file:
                    page += file.read()
            named = lambda name: re.search(re.escape(name) + r"\b", page) or f"`{name[2:].replace('-', '_')}`" in page
            missing = [name for name in options_of(command) - {"--help"} if not named(name)]
            self.assertEqual(sorted(missing), [], pages)


class Completion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scripts = {shell: run("completion", shell) for shell in ("bash", "zsh", "fish")}

    def complete(self, *words):
        """what bash would offer for the last word"""
        program = self.scripts["bash"] + f"""
COMP_WORDS=({" ".join(f"'{word}'" for word in words)}); COMP_CWORD={len(words) - 1}
_satformer
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
        result = subprocess.run(["bash", "--norc"], input=program, capture_output=True, text=True, timeout=60)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout.split()

    def test_commands(self):
        self.assertEqual(set(self.complete("satformer", "")), {*COMMANDS, "--help", "--version"})
        self.assertEqual(self.complete("satformer", "gen"), ["generate"])

    def test_every_option_of_every_command(self):
        for command in COMMANDS:
            offered = {word for word in self.complete("satformer", command, "--") if not word.endswith("=")}
            self.assertEqual(offered, options_of(command), command)

    def test_values_fields_and_first_words(self):
        self.assertEqual(self.complete("satformer", "train", "--device", "c"), ["cpu", "cuda"])
        self.assertEqual(self.complete("satformer", "train", "--dtype", "=", "f"), ["float32"])
        self.assertEqual(self.complete("satformer", "export", "--dtype", "f"), ["float32", "float16"])
        self.assertEqual(self.complete("satformer", "train", "--training.gradient_a"), ["--training.gradient_accumulation_steps="])
        self.assertEqual(self.complete("satformer", "runs", "s"), ["show"])
        self.assertIn("ladder-cpu", self.complete("satformer", "compare", "ladder"))
        self.assertEqual(self.complete("satformer", "train", "--config", "x"), [])  # the shell's own: files
        self.assertEqual(self.complete("satformer", "nothing", "--"), [])

    def test_other_shells(self):
        for command in COMMANDS:
            self.assertIn(f"\n    {command})\n", self.scripts["zsh"])
            self.assertIn(f"__fish_use_subcommand -a {command} ", self.scripts["fish"])
            for name in options_of(command):
                self.assertTrue(re.search(rf"'\*{name}=?\[", self.scripts["zsh"]), name)
                self.assertTrue(re.search(rf"_from {command}' .*-l {name[2:]} ", self.scripts["fish"]), (command, name))
        for shell, check in (("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])):
            if shutil.which(shell):
                with tempfile.NamedTemporaryFile("w", suffix="." + shell) as file:
                    file.write(self.scripts[shell])
                    file.flush()
                    result = subprocess.run([*check, file.name], capture_output=True, text=True)
                    self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_unknown_shell(self):
        self.assertIn("Did you mean 'bash'?", run("completion", "bsh", code=2))


class Manual(unittest.TestCase):
    def test_every_page_has_every_option(self):
        for command in COMMANDS:
            page = run("man", command).replace("\\-", "-")
            self.assertTrue(page.startswith(f".TH SATFORMER-{command.upper()} 1 "), page[:60])
            for name in options_of(command):
                self.assertTrue(re.search(rf"(?m)^\\fB.*{name}\\fR", page), (command, name))
            for line in page.splitlines():
                if line.startswith((".", "'")):
                    self.assertRegex(line, r"^\.(TH|SH|TP|PP|br|nf|fi)\b", line)

    def test_the_program_names_its_commands_and_exit_codes(self):
        page = run("man").replace("\\-", "-")
        for command in COMMANDS:
            self.assertIn(f"\\fB{command}\\fR", page)
        codes = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "exit-codes.md")
        with open(codes) as file:
            for code in re.findall(r"^\| (\d+) \|", file.read(), re.M):
                self.assertIn(f".TP\n{code}\n", page)

    def test_all_pages_in_a_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            run("man", "--write", folder + "/man1")
            self.assertEqual(set(os.listdir(folder + "/man1")), {"satformer.1"} | {f"satformer-{c}.1" for c in COMMANDS})
            if shutil.which("groff"):
                for name in os.listdir(folder + "/man1"):
                    result = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-z", f"{folder}/man1/{name}"], capture_output=True, text=True)
                    self.assertEqual(result.stderr, "", name)

    def test_unknown_page(self):
        self.assertIn("Did you mean 'train'?", run("man", "trian", code=2))
        self.assertIn("leave out 'train'", run("man", "train", "--write", "x", code=2))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
