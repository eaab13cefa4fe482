// satformer analyze: takes a trained model apart.
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "analysis/gate_history.h"
#include "analysis/mark_kinds.h"
#include "analysis/report.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/unicode.h"
#include "checkpoint/run_folder.h"
#include "cli/command.h"
#include "cli/window_options.h"

namespace satformer::cli {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t most_gate_bytes = std::int64_t{1} << 30;

struct AnalyzeArguments {
  ModelOptions model;
  WindowOptions windows;
  std::string studies, kinds, run, seed;
  std::optional<std::string> prompt;
  std::vector<std::string> edits, contrast;
  std::int64_t resamples = 10000;
};

std::string study_list() {
  std::string text = "Studies:\n";
  for (const Study& study : studies()) {
    text += concat("  ", study.name, std::string(15 - std::string(study.name).size(), ' '), study.what, "\n");
  }
  return text;
}

void check_text(std::string_view text, const std::string& what) {
  if (text.empty()) fail(ExitCode::usage, what, ": the text is empty");
  if (replace_invalid_utf8(text) != text) fail(ExitCode::usage, what, ": the text is not valid UTF-8");
}

// Texts of a file, one a line; empty lines are passed over.
std::vector<std::string> read_texts(const std::string& path) {
  const std::string all = read_file(path);
  std::vector<std::string> texts;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find('\n', begin), all.size());
    const std::string_view line = strip(std::string_view(all).substr(begin, end - begin));
    if (!line.empty()) {
      check_text(line, concat("--contrast '", path, "', text ", texts.size() + 1));
      texts.emplace_back(line);
    }
    begin = end + 1;
  }
  if (texts.size() < 2) {
    fail(ExitCode::data, "--contrast: '", path, "' holds ", texts.size(),
         " texts (one a line); at least 2 are needed");
  }
  return texts;
}

// The seed that training began with.
std::uint64_t seed_of(const AnalyzeArguments& a, const LoadedModel& loaded) {
  if (!a.seed.empty()) {
    if (a.seed.find_first_not_of("0123456789") != std::string::npos || a.seed.size() > 18) {
      fail(ExitCode::usage, "--seed '", a.seed, "' is not a number of at most 18 digits");
    }
    return std::stoull(a.seed);
  }
  const std::string path = (fs::path(loaded.directory) / "run_config.json").string();
  if (!fs::exists(path)) return 42;
  const Json json = read_json_file(path, ExitCode::checkpoint);
  const Json::json_pointer pointer("/system/seed");
  return json.contains(pointer) && json[pointer].is_number_unsigned() ? json[pointer].get<std::uint64_t>() : 42;
}

at::Tensor read_windows(const TokenWindows& windows, std::int64_t count) {
  const std::int64_t width = windows.seq_length() + 1;
  const at::Tensor tokens = at::empty({count, width}, at::kLong);
  for (std::int64_t w = 0; w < count; ++w) {
    windows.read(w, {tokens.mutable_data_ptr<std::int64_t>() + w * width, static_cast<std::size_t>(width)});
  }
  return tokens;
}

std::vector<std::int64_t> count_tokens(const WindowOptions& options, std::int64_t vocab_size) {
  const TokenShards shards(options.data_dir, options.prefix);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(vocab_size), 0), buffer;
  constexpr std::int64_t chunk = 1 << 16;
  for (std::size_t shard = 0; shard < shards.num_shards(); ++shard) {
    const std::int64_t total = shards.shard_tokens(shard);
    for (std::int64_t begin = 0; begin < total; begin += chunk) {
      buffer.resize(static_cast<std::size_t>(std::min(chunk, total - begin)));
      shards.read(shard, begin, buffer);
      for (const std::int64_t id : buffer) ++counts[static_cast<std::size_t>(id)];
    }
  }
  return counts;
}

// Before the work: what would fail after it.
void check_output(const std::string& directory) {
  if (directory.empty()) return;
  if (fs::exists(directory) && !fs::is_directory(directory)) {
    fail(ExitCode::usage, "--output '", directory, "' is a file; a folder is expected");
  }
  make_directories(directory);
  const AtomicFile probe(directory + "/analysis.json");
}

// As many as asked for and as their gates leave room for: the gates of all tokens are held in memory.
std::int64_t windows_to_use(const WindowOptions& options, const TokenWindows& windows, const ModelConfig& config,
                            ProgressLine& progress) {
  const std::int64_t count = options.limit > 0 ? std::min(options.limit, windows.size()) : windows.size();
  const std::int64_t bytes = std::max<std::int64_t>(1, gate_bytes(config, windows.seq_length()));
  const std::int64_t room = std::max<std::int64_t>(1, most_gate_bytes / bytes);
  if (count <= room) return count;
  progress.print(concat("analyze: only ", room, " of ", count, " windows: the gates of more do not fit into 1 GiB"));
  return room;
}

void print_summary(const AnalysisReport& report, const std::string& directory) {
  for (const auto& [name, value] : report.facts) std::printf("%-10s %s\n", name.c_str(), value.c_str());
  for (const StudyResult& study : report.studies) {
    for (std::size_t i = 0; i < study.summary.size(); ++i) {
      std::printf("%-14s %s\n", i == 0 ? study.name.c_str() : "", study.summary[i].c_str());
    }
  }
  if (!directory.empty())
    std::printf("written to %s/analysis.html, analysis.json and CSV files\n", directory.c_str());
}

}  // namespace

int run_analyze(std::span<const std::string> arguments) {
  AnalyzeArguments a;
  a.windows.limit = 32;
  Options options("analyze",
                  "Take a trained model apart: gates by layer, head, token and kind, interventions, the strength of "
                  "early values, probes of the streams. Writes JSON, CSV and one HTML page.");
  a.model.add_to(options, true);
  a.windows.add_to(options, false, "Folder for analysis.html, analysis.json and CSV files");
  options.add("--studies", a.studies, "Only these studies, separated by commas (default: all that apply)")
      .add("--edit", a.edits, "An intervention more, as \"zero@layers=3-5,heads=0\"; may be repeated")
      .add("--kinds", a.kinds, "JSON file with rules for the kinds of token")
      .add("--prompt", a.prompt, "A text to look at token by token")
      .add("--contrast", a.contrast, "Two files with texts, one a line, to contrast")
      .add("--run", a.run, "Run folder with the metrics that training logged")
      .add("--seed", a.seed, "Seed of the model before training (default: the run's, else 42)")
      .add("--resamples", a.resamples, "Draws of bootstrap intervals");
  options.footer(study_list());
  if (!options.parse(arguments)) return 0;

  a.windows.check();
  if (a.resamples < 100 || a.resamples > 1'000'000) {
    fail(ExitCode::usage, "--resamples ", a.resamples, " must be at least 100 and at most 1000000");
  }
  if (!a.contrast.empty() && a.contrast.size() != 2) {
    fail(ExitCode::usage, "--contrast takes two files, not ", a.contrast.size());
  }
  if (a.prompt) check_text(*a.prompt, "--prompt");
  const LoadedModel loaded = a.model.load();
  Model& model = *loaded.model;
  const auto missing = [&](Needs needs) -> std::string {
    if (needs == Needs::data) return a.windows.data_dir.empty() ? "--data is required" : "";
    if (needs == Needs::prompt) return !a.prompt ? "--prompt is required" : "";
    if (needs == Needs::contrast) return a.contrast.empty() ? "--contrast is required" : "";
    return a.run.empty() ? "--run is required" : "";
  };
  const std::vector<const Study*> chosen = chosen_studies(a.studies, model, missing);
  const auto chose = [&](const char* name) {
    return std::any_of(chosen.begin(), chosen.end(),
                       [&](const Study* s) { return std::string_view(s->name) == name; });
  };
  ProgressLine progress;
  std::optional<TokenWindows> windows;
  std::int64_t count = 0;
  if (std::any_of(chosen.begin(), chosen.end(), [](const Study* s) { return s->needs == Needs::data; })) {
    windows = a.windows.open(loaded);
    count = windows_to_use(a.windows, *windows, model.config(), progress);
  }
  // What is no text has no tokenizer; its shards say what each token is.
  const bool of_text = a.prompt || !a.contrast.empty() || !a.kinds.empty();
  const bool marked = windows && windows->has_marks() && !of_text;
  std::unique_ptr<Tokenizer> tokenizer;
  if (!marked || !a.model.tokenizer.empty() || has_tokenizer(loaded.directory)) {
    tokenizer = a.model.load_tokenizer_for(loaded);
  }
  const std::unique_ptr<TokenKinds> kinds =
      marked            ? make_mark_kinds(*windows, count)
      : a.kinds.empty() ? make_rule_kinds(*tokenizer, default_kind_rules(), "the default rules")
                        : make_rule_kinds(*tokenizer, read_json_file(a.kinds), a.kinds);
  StudyInput input;
  for (const std::string& spec : a.edits) {
    input.interventions.push_back(parse_intervention(spec, edit_space(model, kinds->names())));
  }
  if (!a.edits.empty() && !chose("interventions")) {
    fail(ExitCode::usage, "--edit needs the study 'interventions', which is not among those chosen",
         a.windows.data_dir.empty() ? " without --data" : "");
  }
  const auto needs_study = [&](bool given, const char* option, const char* study) {
    if (given && !chose(study)) fail(ExitCode::usage, option, " is for the study '", study, "', which is not chosen");
  };
  needs_study(a.prompt.has_value(), "--prompt", "prompt");
  needs_study(!a.contrast.empty(), "--contrast", "contrast");
  needs_study(!a.run.empty(), "--run", "training");
  for (const std::string& path : a.contrast) {
    input.contrast.push_back(read_texts(path));
    input.contrast_names.push_back(fs::path(path).stem().string());
  }
  if (!a.run.empty()) {
    input.metrics_path = RunFolder(a.run).metrics_path();
    if (chose("training")) read_gate_history(input.metrics_path);
  }
  check_output(a.windows.output);

  input.model = &model;
  input.tokenizer = tokenizer.get();
  input.kinds = kinds.get();
  input.document_end = trained_document_end(loaded);
  input.batch_size = a.windows.batch_size;
  input.seed = seed_of(a, loaded);
  input.prompt = a.prompt.value_or("");
  input.resamples = a.resamples;
  AnalysisReport report;
  report.title = "Analysis of a " + model.architecture();
  report.facts = {{"model", loaded.directory}, {"architecture", model.architecture()}};
  report.about = {{"model", loaded.directory}, {"architecture", model.architecture()}, {"seed", input.seed}};

  input.progress = [&](const std::string& text) { progress.update(text); };
  Measurement measured;
  std::vector<std::int64_t> counts;
  if (windows) {
    counts = count_tokens(a.windows, model.config().vocab_size);
    measured = measure(model, read_windows(*windows, count), *kinds, input.pass("measuring"));
    input.measured = &measured;
    input.token_counts = counts;
    const double loss = measured.losses_WT.to(at::kDouble).mean().item<double>();
    report.about["data"] = {{"folder", a.windows.data_dir}, {"prefix", a.windows.prefix},      {"windows", count},
                            {"tokens", measured.tokens()},  {"seq_length", measured.length()}, {"loss", loss}};
    report.facts.emplace_back("data", concat(a.windows.data_dir, " (", a.windows.prefix, "): ", count, " windows of ",
                                             measured.length(), " tokens"));
    if (marked) report.facts.emplace_back("kinds", "the shards' own marks");
    report.facts.emplace_back("loss", concat(loss, " nats a token"));
  }
  for (const Study* study : chosen) {
    StudyResult result;
    result.name = study->name;
    result.title = study->name;
    result.title[0] = static_cast<char>(result.title[0] - 'a' + 'A');
    study->run(input, result);
    report.studies.push_back(std::move(result));
  }
  progress.finish(concat("analyze: ", chosen.size(), " studies done"));
  if (!a.windows.output.empty()) write_report(report, a.windows.output);
  print_summary(report, a.windows.output);
  return 0;
}

}  // namespace satformer::cli
