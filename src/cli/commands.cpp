#include "cli/command.h"

namespace satformer::cli {

const std::vector<Command>& commands() {
  static const std::vector<Command> list = {
      {"prepare", "turn text into token shards", run_prepare, false, {"--synthetic"}},
      {"train", "train a model from a config", run_train, true},
      {"eval", "validation loss, perplexity and tasks", run_eval, true, {"--tasks"}},
      {"score", "log-likelihoods of JSON lines", run_score, true},
      {"generate", "continue a prompt", run_generate, true},
      {"serve", "an HTTP server with OpenAI's API, and a page", run_serve, true},
      {"gates", "gate statistics of a model, per layer", run_gates, true},
      {"analyze", "take a model apart: gates, interventions, probes", run_analyze, true},
      {"bench", "speed and memory of the architectures, in pairs", run_bench, true},
      {"compare", "train, evaluate and measure a grid of models, and report", run_compare},
      {"runs", "list, show and compare training runs", run_runs},
      {"checkpoint", "list, verify, prune and compare checkpoints", run_checkpoint},
      {"export", "write a model for transformers, and prove it", run_export, true},
      {"import", "make a model folder from one of Hugging Face", run_import, true},
      {"retrofit", "add gates to a trained model", run_retrofit, true},
      {"info", "parameters, FLOPs and memory of a config or checkpoint", run_info},
      {"tokenize", "text to token ids and back", run_tokenize},
      {"completion", "a script that completes commands and options in a shell", run_completion},
      {"man", "manual pages", run_man},
      {"verify", "compare against reference cases", run_verify},
  };
  return list;
}

}  // namespace satformer::cli
