#include "cli/prepare_synthetic.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/field_options.h"
#include "cli/options.h"
#include "cli/rank_session.h"
#include "data/synthetic/task.h"
#include "data/synthetic/write.h"

namespace satformer::cli {
namespace {

std::string task_list() {
  std::string text = "Tasks (docs/synthetic.md) and the options that each reads:\n";
  for (const SyntheticTask& task : synthetic_tasks()) {
    std::string read;
    for (const std::string& option : task.options) read += (read.empty() ? "" : ", ") + option;
    text += concat("  ", task.name, std::string(16 - std::min<std::size_t>(15, task.name.size()), ' '), task.summary,
                   "\n", std::string(18, ' '), read, "\n");
  }
  return text +
         "\n  satformer prepare --synthetic mqar -o data --vocab-size 512 --seq-length 64 --pairs 8 --examples "
         "100000";
}

void print_summary(const SyntheticPrepareOptions& prepare, const SyntheticPrepareResult& result) {
  const SyntheticOptions& synthetic = prepare.synthetic;
  const Json manifest = parse_json(result.manifest, "manifest.json");
  std::printf("%s\n", prepare.output_dir.c_str());
  for (const Json& file : manifest["files"]) {
    std::printf("  %-16s %14lld tokens  sha256 %.12s  marks %.12s\n", file["name"].get<std::string>().c_str(),
                static_cast<long long>(file["tokens"].get<std::int64_t>()), file["sha256"].get<std::string>().c_str(),
                file["marks"]["sha256"].get<std::string>().c_str());
  }
  std::printf("  task             %s\n", manifest["synthetic"].dump().c_str());
  std::printf("  examples         %lld train, %lld validation of %lld tokens\n",
              static_cast<long long>(synthetic.examples), static_cast<long long>(synthetic.val_examples),
              static_cast<long long>(synthetic.seq_length));
  std::string ids;
  for (std::size_t i = 0; i < std::min<std::size_t>(result.example.size(), 24); ++i) {
    ids += concat(' ', result.example[i]);
  }
  std::printf("  the first       %s ...\n", ids.c_str());
}

}  // namespace

bool asks_for_synthetic(std::span<const std::string> arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const std::string& argument) {
    return argument.substr(0, argument.find('=')) == "--synthetic";
  });
}

int run_prepare_synthetic(std::span<const std::string> arguments) {
  SyntheticPrepareOptions prepare;
  SyntheticOptions& synthetic = prepare.synthetic;
  std::string task;
  double timeout = default_rank_timeout;
  Options options("prepare --synthetic", "Generate examples of a task as token shards with marks beside them.");
  options.add("--synthetic", task, "the task", true)
      .add("--output,-o", prepare.output_dir, "folder for the shards", true)
      .add("--seed", synthetic.seed, "what the examples are drawn with");
  ConfigBinding binding(synthetic);
  FieldOptions fields(options, binding, {"task", "example_seed"});
  options.add("--tokenizer", prepare.tokenizer, "tasks of text: 'byte', a SentencePiece model, or a folder with one")
      .add("--train-tokenizer", prepare.train_tokenizer,
           "tasks of text: train a SentencePiece BPE tokenizer of this many ids on such text")
      .add("--shard-tokens", prepare.shard_tokens, "most tokens in a shard")
      .flag("--overwrite", prepare.overwrite, "replace shards that are in the folder")
      .add("--timeout", timeout,
           "with several ranks: seconds until one that is stopped, stuck or missing is given up")
      .footer(task_list());
  const bool help = std::any_of(arguments.begin(), arguments.end(),
                                [](const std::string& a) { return a == "--help" || a == "-h"; });
  const std::vector<std::string> only_help = {"--help"};
  if (!options.parse(help ? std::span<const std::string>(only_help) : arguments)) return 0;
  synthetic.task = task;
  const SyntheticTask& chosen = synthetic_task(synthetic);
  if (synthetic.seed < 0) fail(ExitCode::usage, "--seed ", synthetic.seed, " must be at least 0");
  for (const std::string& path : fields.apply()) {
    if (task_reads(chosen, path)) continue;
    std::string option = path;
    std::replace(option.begin(), option.end(), '_', '-');
    fail(ExitCode::usage, "--", option, " has no effect on ", chosen.name,
         "; 'satformer prepare --synthetic --help' says what each task reads");
  }
  // Examples are made faster than they could be shared: one rank writes, the others wait for it.
  RankSession session(timeout);
  return session.run([&](Communicator& ranks) {
    const LongWork waiting(ranks);
    if (ranks.rank() == 0) print_summary(prepare, prepare_synthetic(prepare));
    ranks.barrier();
    return 0;
  });
}

}  // namespace satformer::cli
