// satformer completion: scripts that complete commands, options, their values and configuration fields.
#include "cli/completion.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "base/config.h"
#include "base/error.h"
#include "base/unicode.h"
#include "cli/command.h"
#include "cli/option_table.h"
#include "cli/options.h"
#include "compare/spec.h"
#include "train/run_config.h"

namespace satformer::cli {
namespace {

using Words = std::vector<std::string>;

// All that a command and its modes take.
struct Completed {
  const Command* command = nullptr;
  std::vector<OptionRow> options;  // without positionals, each name once
  Words first;                     // what the first positional may be; empty: files
  Words fields;                    // "--training.batch_size="
};

Words command_names() {
  Words names;
  for (const Command& command : commands()) names.push_back(command.name);
  return names;
}

Words first_words(const std::string& command) {
  if (command == "checkpoint") return {"ls", "verify", "prune", "diff"};
  if (command == "runs") return {"ls", "show", "compare"};
  if (command == "completion") return {"bash", "zsh", "fish"};
  if (command == "man") return command_names();
  if (command != "compare") return {};
  Words presets;
  for (const Preset& preset : compare_presets()) presets.emplace_back(preset.name);
  return presets;
}

// Values of an option where they are few; empty: anything.
Words values_of(const OptionRow& row) {
  static const std::map<std::string, Words> known = {
      {"--device", {"cpu", "cuda"}},
      {"--dtype", {"float32", "bfloat16"}},
      {"--weights", {"full", "int8", "int4"}},
      {"--phase", {"train", "prefill", "decode"}},
      {"--scale", {"tiny", "mini", "small", "medium", "large", "xl"}},
  };
  if (row.help.find("q8_0") != std::string::npos) return {"stored", "float32", "bfloat16", "float16", "q8_0"};
  if (row.help.find("pure-bfloat16") != std::string::npos) return {"float32", "bfloat16", "pure-bfloat16"};
  const auto it = known.find(row.names.front());
  return it == known.end() ? Words() : it->second;
}

// Modes may have an option in common, under more names in one of them.
void add_option(std::vector<OptionRow>& options, const OptionRow& row) {
  const auto same = [&](const OptionRow& known) { return known.names.front() == row.names.front(); };
  const auto it = std::find_if(options.begin(), options.end(), same);
  if (it == options.end()) {
    options.push_back(row);
    return;
  }
  for (const std::string& name : row.names) {
    if (std::find(it->names.begin(), it->names.end(), name) == it->names.end()) it->names.push_back(name);
  }
}

std::vector<Completed> everything() {
  RunConfig config;
  Words fields;
  const ConfigBinding binding(config);
  for (const Field& field : binding.fields()) fields.push_back("--" + field.path + "=");
  std::vector<Completed> all;
  for (const Command& command : commands()) {
    Completed c{&command, {}, first_words(command.name), {}};
    for (const OptionTable& table : option_tables(command)) {
      for (const OptionRow& row : table.rows) {
        if (!row.positional) add_option(c.options, row);
      }
    }
    if (command.name == "train" || command.name == "compare") c.fields = fields;
    all.push_back(std::move(c));
  }
  return all;
}

std::string joined(const Words& words, const char* between = " ") {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

// The first sentence of a help text, in a shell's single quotes.
std::string quoted_help(const std::string& help) {
  std::string text = one_line(help.substr(0, std::min(help.find(". "), help.find('\n'))));
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string bash_script(const std::vector<Completed>& all) {
  std::string values, options;
  std::map<std::string, std::string> patterns;  // of commands and options, by the words that may follow
  for (const Completed& c : all) {
    Words names;
    for (const OptionRow& row : c.options) {
      for (const std::string& name : row.names) {
        if (name.starts_with("--")) names.push_back(name);
        const Words words = values_of(row);
        if (words.empty()) continue;
        std::string& pattern = patterns[joined(words)];
        pattern += concat(pattern.empty() ? "" : "|", c.command->name, ':', name);
      }
    }
    names.insert(names.end(), c.fields.begin(), c.fields.end());
    options += concat("    ", c.command->name, ")\n      options='", joined(names), "'\n      first='",
                      joined(c.first), "' ;;\n");
  }
  for (const auto& [words, pattern] : patterns) {
    values += concat("    ", pattern, ") COMPREPLY=($(compgen -W '", words, "' -- \"$word\")); return ;;\n");
  }
  return concat(
      "# bash completion of satformer: source it, or install it as bash-completion/completions/satformer.\n"
      "_satformer() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options first\n"
      "  COMPREPLY=()\n"
      "  if [ \"$word\" = = ]; then word=; fi\n"
      "  if [ \"$before\" = = ]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W '",
      joined(command_names()),
      " --help --version' -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case ${COMP_WORDS[1]}:$before in\n",
      values,
      "  esac\n"
      "  case ${COMP_WORDS[1]} in\n",
      options,
      "    *) return ;;\n"
      "  esac\n"
      "  if [[ $word == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$options --help\" -- \"$word\"))\n"
      "    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi\n"
      "  elif [ \"$COMP_CWORD\" -eq 2 ]; then\n"
      "    COMPREPLY=($(compgen -W \"$first\" -- \"$word\"))\n"
      "  fi\n"
      "}\n"
      "complete -o default -F _satformer satformer\n");
}

// Inside the single quotes of an _arguments specification.
std::string zsh_help(const std::string& help) {
  std::string text;
  const std::string quoted = quoted_help(help);
  for (const char c : quoted.substr(1, quoted.size() - 2)) {
    if (c == '[' || c == ']' || c == ':') text += '\\';
    text += c;
  }
  return text;
}

std::string zsh_script(const std::vector<Completed>& all) {
  std::string names, cases;
  for (const Completed& c : all) {
    names += concat("    '", c.command->name, ':', zsh_help(c.command->summary), "'\n");
    cases += concat("    ", c.command->name, ")\n      _arguments -s");
    for (const OptionRow& row : c.options) {
      const Words words = values_of(row);
      for (const std::string& name : row.names) {
        const bool glued = name.starts_with("--") && !row.value.empty();
        cases += concat(" \\\n        '*", name, glued ? "=" : "", '[', zsh_help(row.help), ']',
                        row.value.empty()
                            ? std::string()
                            : concat(':', row.value, ':', words.empty() ? "_files" : concat('(', joined(words), ')')),
                        "'");
      }
    }
    for (const std::string& field : c.fields) cases += concat(" \\\n        '*", field, "[configuration]:value:'");
    if (!c.first.empty()) cases += concat(" \\\n        '1:what:(", joined(c.first), ")'");
    cases += " \\\n        '*:file:_files' ;;\n";
  }
  return concat(
      "#compdef satformer\n"
      "# zsh completion of satformer: install it as _satformer in a folder of $fpath.\n"
      "_satformer() {\n"
      "  local -a names\n"
      "  names=(\n",
      names,
      "  )\n"
      "  if (( CURRENT == 2 )); then _describe command names; return; fi\n"
      "  local name=$words[2]\n"
      "  shift words\n"
      "  (( CURRENT-- ))\n"
      "  case $name in\n",
      cases,
      "  esac\n"
      "}\n"
      "_satformer \"$@\"\n");
}

std::string fish_script(const std::vector<Completed>& all) {
  std::string text = "# fish completion of satformer: install it as completions/satformer.fish.\n";
  for (const Completed& c : all) {
    text += concat("complete -c satformer -f -n __fish_use_subcommand -a ", c.command->name, " -d ",
                   quoted_help(c.command->summary), "\n");
  }
  for (const Completed& c : all) {
    const std::string when = concat("complete -c satformer -n '__fish_seen_subcommand_from ", c.command->name, "'");
    for (const OptionRow& row : c.options) {
      text += when;
      for (const std::string& name : row.names)
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      const Words words = values_of(row);
      if (!row.value.empty()) text += words.empty() ? " -r" : concat(" -x -a '", joined(words), "'");
      text += concat(" -d ", quoted_help(row.help), "\n");
    }
    for (const std::string& field : c.fields) text += concat(when, " -a '", field, "'\n");
    if (!c.first.empty()) text += concat(when, " -a '", joined(c.first), "'\n");
  }
  return text;
}

}  // namespace

std::string completion_script(const std::string& shell) {
  if (shell == "bash") return bash_script(everything());
  if (shell == "zsh") return zsh_script(everything());
  if (shell == "fish") return fish_script(everything());
  fail(ExitCode::usage, "no completion for '", shell, "', only for: bash, zsh, fish.",
       did_you_mean(shell, first_words("completion")));
}

int run_completion(std::span<const std::string> arguments) {
  std::string shell;
  Options options("completion", "A script that completes commands, options and configuration fields in a shell.");
  options.add("shell", shell, "bash, zsh or fish", true)
      .footer(
          "For this session: source <(satformer completion bash). 'make install' puts all three in their places.");
  if (!options.parse(arguments)) return 0;
  const std::string script = completion_script(shell);
  std::fwrite(script.data(), 1, script.size(), stdout);
  return 0;
}

}  // namespace satformer::cli
