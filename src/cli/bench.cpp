// satformer bench: speed and memory of the architectures, in interleaved pairs.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/progress.h"
#include "bench/compare_arms.h"
#include "bench/machine.h"
#include "cli/command.h"
#include "cli/options.h"
#include "eval/tasks/list.h"
#include "io/file.h"
#include "models/registry.h"
#include "nn/device.h"
#include "report/bar_chart.h"

namespace satformer::cli {
namespace {

struct Scale {
  const char* name;
  std::int64_t hidden_size, layers, heads, ffn;
};
// The authors' sizes, and two that a laptop runs.
constexpr Scale scales[] = {{"tiny", 128, 6, 4, 384},      {"mini", 512, 8, 8, 2048},
                            {"small", 768, 11, 12, 3072},  {"medium", 1024, 18, 16, 4096},
                            {"large", 1536, 19, 24, 6144}, {"xl", 2048, 24, 32, 5632}};

struct BenchOptions {
  std::vector<std::string> architectures;
  std::string scale = "mini", phase = "train", baseline = "transformer", dtype = "float32", device = "cpu",
              weights = "full";
  std::string peer, output, worker;
  std::int64_t batch = 4, context = 512, rounds = 9, threads = 0;
  double seconds = 2, max_foreign = 0.1;
  bool recompute = false;
};

struct Row {
  std::string name, against;
  PairResult pair;
  double flops = 0;  // model FLOP/s of this arm
  double bytes = 0;  // decode: bytes read a second
  double share = 0;  // of what the machine can do at most; 0: unknown
  double parameters = 0;
};

Json shape(const BenchOptions& o, const std::vector<std::string>& overrides) {
  std::vector<std::string> names;
  const Scale* chosen = nullptr;
  for (const Scale& s : scales) {
    names.emplace_back(s.name);
    if (s.name == o.scale) chosen = &s;
  }
  if (!chosen) {
    fail(ExitCode::usage, "--scale '", o.scale, "' is not one of: tiny, mini, small, medium, large, xl.",
         did_you_mean(o.scale, names));
  }
  ModelConfig config;
  config.hidden_size = chosen->hidden_size;
  config.num_hidden_layers = chosen->layers;
  config.num_heads = chosen->heads;
  config.intermediate_size = chosen->ffn;
  config.qk_norm = config.tie_word_embeddings = true;
  Json json = {{"hidden_size", chosen->hidden_size},
               {"num_hidden_layers", chosen->layers},
               {"num_heads", chosen->heads},
               {"intermediate_size", chosen->ffn},
               {"qk_norm", true},
               {"tie_word_embeddings", true}};
  ConfigBinding binding(config);
  for (const std::string& override : overrides) {
    std::string key = override.substr(0, override.find('='));
    key = key.substr(key.rfind('.') + 1);
    std::replace(key.begin(), key.end(), '-', '_');
    try {
      binding.apply_override(concat(key, override.substr(override.find('='))));
    } catch (const Error& error) {  // the binding knows the model's fields alone
      std::string message = error.what();
      if (message.starts_with("--")) message.replace(0, 2, "--model.");
      throw Error(error.code(), message);
    }
    json[key] = binding.to_json().at(key);
  }
  return json;
}

std::string peer_command(const std::string& pattern, const std::string& architecture) {
  std::string command = pattern;
  for (auto at = command.find("{arch}"); at != std::string::npos; at = command.find("{arch}", at)) {
    command.replace(at, 6, architecture);
    at += architecture.size();
  }
  return command;
}

void check(const BenchOptions& o) {
  if (o.rounds < 1 || o.rounds > 1000) fail(ExitCode::usage, "--rounds ", o.rounds, " must be between 1 and 1000");
  if (!(o.seconds > 0 && o.seconds <= 3600)) fail(ExitCode::usage, "--seconds ", o.seconds, " must be above 0");
  if (!(o.max_foreign >= 0 && o.max_foreign <= 1)) {
    fail(ExitCode::usage, "--max-foreign ", o.max_foreign, " must be between 0 and 1");
  }
  if (o.threads < 0 || o.threads > 1024)
    fail(ExitCode::usage, "--threads ", o.threads, " must be between 0 and 1024");
}

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * share);
  return text;
}

// Decoding is bound by memory, so its rate stands beside that of reading.
void print_row(const Row& row) {
  const PairResult& p = row.pair;
  const double rate = row.bytes > 0 ? row.bytes : row.flops;
  std::printf("%-18s %10.1f %10.1f   %6.3f [%.3f, %.3f]   %10s %7s %10s   %9.1f %6s\n", row.name.c_str(), p.a, p.b,
              p.ratio, p.interval.low, p.interval.high, human_bytes(p.a_peak_bytes).c_str(),
              p.b_peak_bytes > 0 ? concat(std::round(100 * p.a_peak_bytes / p.b_peak_bytes) / 100).c_str() : "-",
              p.a_saved_bytes > 0 ? human_bytes(p.a_saved_bytes).c_str() : "-", rate / 1e9,
              row.share > 0 ? percent(row.share).c_str() : "-");
}

Json row_json(const Row& row) {
  const PairResult& p = row.pair;
  Json json = {{"arm", row.name},
               {"against", row.against},
               {"tokens_per_second", p.a},
               {"against_tokens_per_second", p.b},
               {"ratio", p.ratio},
               {"ratio_low", p.interval.low},
               {"ratio_high", p.interval.high},
               {"peak_bytes", p.a_peak_bytes},
               {"against_peak_bytes", p.b_peak_bytes},
               {"saved_bytes", p.a_saved_bytes},
               {"against_saved_bytes", p.b_saved_bytes},
               {"model_flops_per_second", row.flops},
               {"bytes_read_per_second", row.bytes},
               {"share_of_peak", row.share},
               {"parameters", row.parameters},
               {"rounds_dropped", p.dropped},
               {"rounds_clean_enough", p.clean_enough}};
  for (const Round& round : p.rounds) {
    json["rounds"].push_back({{"a", round.a}, {"b", round.b}, {"foreign", round.foreign}, {"clean", round.clean}});
    if (round.limit > 0) json["rounds"].back()["read_bytes_per_second"] = round.limit;
  }
  return json;
}

// Rounds that the figures come from.
std::size_t counted(const PairResult& p) {
  const auto clean = static_cast<std::size_t>(
      std::count_if(p.rounds.begin(), p.rounds.end(), [](const Round& round) { return round.clean; }));
  return p.clean_enough ? clean : p.rounds.size();
}

// "9", or "5 to 9", and what the numbers are worth.
std::string counted_rounds(const std::vector<Row>& rows) {
  std::size_t least = counted(rows[0].pair), most = least;
  bool clean = true;
  for (const Row& row : rows) {
    least = std::min(least, counted(row.pair));
    most = std::max(most, counted(row.pair));
    clean = clean && row.pair.clean_enough;
  }
  return concat(least, least == most ? "" : concat(" to ", most), clean ? "" : " (others used the machine)");
}

void write_results(const BenchOptions& o, const std::vector<Row>& rows, const MachineLimits& limits,
                   const Json& model) {
  Json json = {{"phase", o.phase},     {"batch_size", o.batch}, {"context", o.context},    {"dtype", o.dtype},
               {"weights", o.weights}, {"device", o.device},    {"scale", o.scale},        {"model", model},
               {"seconds", o.seconds}, {"rounds", o.rounds},    {"recompute", o.recompute}};
  json["machine"] = {{"cpu", limits.cpu},
                     {"threads", limits.threads},
                     {"fma_flops", limits.fma_flops},
                     {"gemm_flops", limits.gemm_flops},
                     {"gemm_bf16_flops", limits.gemm_bf16_flops},
                     {"read_bytes_per_second", limits.read_bytes}};
  std::string csv =
      "arm,against,tokens_per_second,against_tokens_per_second,ratio,ratio_low,ratio_high,peak_bytes,"
      "against_peak_bytes,model_flops_per_second,parameters,rounds,clean\n";
  BarChart chart;
  chart.title = concat("Tokens per second relative to ", rows[0].against);
  chart.subtitle =
      concat(o.phase, ", ", o.scale, ", batch ", o.batch, ", context ", o.context, ", ", o.dtype, ", ",
             limits.threads, " threads; medians of ", counted_rounds(rows), " paired rounds, 95 % intervals");
  chart.reference = 1;
  for (const Row& row : rows) {
    const PairResult& p = row.pair;
    json["arms"].push_back(row_json(row));
    csv += concat(row.name, ',', row.against, ',', p.a, ',', p.b, ',', p.ratio, ',', p.interval.low, ',',
                  p.interval.high, ',', static_cast<std::int64_t>(p.a_peak_bytes), ',',
                  static_cast<std::int64_t>(p.b_peak_bytes), ',', row.flops, ',',
                  static_cast<std::int64_t>(row.parameters), ',', counted(p), ',', p.clean_enough ? "true" : "false",
                  '\n');
    char text[96];
    std::snprintf(text, sizeof text, "%.2f  (%s tok/s, %s)", p.ratio, human_count(p.a).c_str(),
                  human_bytes(p.a_peak_bytes).c_str());
    chart.bars.push_back({row.name, p.ratio, p.interval.low, p.interval.high, text});
  }
  make_directories(o.output);
  write_file_atomic(o.output + "/bench.json", json.dump(2) + "\n");
  write_file_atomic(o.output + "/bench.csv", csv);
  write_file_atomic(o.output + "/bench.svg", bar_chart_svg(chart));
}

}  // namespace

int run_bench(std::span<const std::string> arguments) {
  BenchOptions o;
  Options options("bench",
                  "Training, prefill or decoding speed and peak memory of architectures on random tokens, each in "
                  "turn with a baseline (A-B-B-A): medians and 95 % intervals of the paired ratios, beside what this "
                  "machine can do at most.");
  options
      .add("--architectures,-a", o.architectures,
           "Which, as transformer,satformer; \"all\" (the default) for all six")
      .add("--scale", o.scale, "tiny, mini (512 wide, 8 layers), or the authors' small, medium, large, xl")
      .add("--phase", o.phase, "train (forward, backward, update), prefill or decode")
      .add("--batch-size,-b", o.batch, "Rows")
      .add("--context", o.context, "Tokens of a row (decode: in the cache before the first timed token)")
      .add("--baseline", o.baseline, "What the others are compared with")
      .add("--peer", o.peer,
           "Compare with a command instead: run for each measurement, {arch} replaced by the architecture; its last "
           "line is JSON with tok_s and rss_mib")
      .add("--rounds", o.rounds, "Clean rounds of each pair")
      .add("--seconds", o.seconds, "Least time of one measurement")
      .add("--max-foreign", o.max_foreign, "A round in which others took more of the CPU time is measured again")
      .add("--dtype", o.dtype, "float32, bfloat16 or pure-bfloat16 (without fp32 masters)")
      .add("--weights", o.weights, "prefill, decode: full (as --dtype), int8 or int4")
      .add("--device", o.device, "cpu, cuda or cuda:N")
      .add("--threads", o.threads, "CPU threads (0: all)")
      .flag("--recompute", o.recompute, "train: with gradient checkpointing")
      .add("--output,-o", o.output, "Folder for bench.json, bench.csv and bench.svg")
      .add_hidden("--worker", o.worker);  // serves measurements to the bench that started it
  options.allow_overrides().footer(
      "Model fields may be set as --model.KEY=VALUE, for instance --model.num_kv_heads=2.\n");
  if (!options.parse(arguments)) return 0;
  if (!o.worker.empty()) return serve_worker(o.worker);
  check(o);
  o.architectures = split_names(o.architectures, "--architectures");
  if (o.architectures.empty() || o.architectures == std::vector<std::string>{"all"}) {
    o.architectures.clear();
    for (const Architecture& architecture : architectures()) o.architectures.push_back(architecture.name);
  }
  WorkloadSpec spec;
  const Json model_shape = shape(o, options.overrides());
  spec.phase = o.phase;
  spec.batch_size = o.batch;
  spec.context = o.context;
  spec.dtype = o.dtype;
  spec.weights = o.weights;
  spec.device = o.device;
  spec.threads = static_cast<int>(o.threads);
  spec.recompute = o.recompute;
  const auto spec_of = [&](const std::string& name) {
    WorkloadSpec own = spec;
    own.architecture = architecture_by_name(name).name;
    // What only some architectures read is left to them.
    Json overrides = model_shape;
    for (const std::string& key : unread_model_keys(default_model_config(architecture_by_name(name)))) {
      overrides.erase(key);
    }
    own.overrides = overrides.dump();
    own.validate();
    return own;
  };
  std::vector<WorkloadSpec> specs;
  for (const std::string& name : o.architectures) specs.push_back(spec_of(name));
  const WorkloadSpec base_spec = spec_of(o.baseline);
  if (o.peer.empty()) {
    std::erase_if(specs, [&](const WorkloadSpec& s) { return s.architecture == base_spec.architecture; });
    // Alone, the baseline is measured against itself: the noise of the machine.
    if (specs.empty()) specs.push_back(base_spec);
  }
  if (!o.output.empty()) make_directories(o.output);

  std::optional<ProgressLine> progress(std::in_place);  // one for each arm: its end clears the line
  progress->update("bench: measuring what the machine can do");
  set_num_threads(spec.threads);
  const MachineLimits limits = measure_limits(num_threads());
  const bool decode = o.phase == "decode" && o.device == "cpu";
  const double peak = o.dtype != "float32" ? limits.gemm_bf16_flops : limits.fma_flops;
  // Reading is measured beside each round: it changes with what else the memory has to do.
  std::optional<ReadingRate> reading;
  if (decode) reading.emplace(num_threads());
  progress->finish(concat("machine: ", limits.cpu, ", ", limits.threads, " threads; multiply-add peak ",
                          human_count(limits.fma_flops), "FLOP/s, product ", human_count(limits.gemm_flops),
                          "FLOP/s (bfloat16 ", human_count(limits.gemm_bf16_flops), "), read ",
                          human_bytes(limits.read_bytes), "/s"));
  std::unique_ptr<Arm> baseline;
  if (o.peer.empty()) baseline = start_worker(base_spec.architecture, base_spec);

  std::vector<Row> rows;
  for (const WorkloadSpec& s : specs) {
    const std::unique_ptr<Arm> arm = start_worker(s.architecture, s);
    std::unique_ptr<Arm> peer;
    if (!o.peer.empty()) peer = command_arm("the peer", peer_command(o.peer, s.architecture));
    progress.emplace();
    PairOptions pair;
    pair.rounds = static_cast<int>(o.rounds);
    pair.seconds = o.seconds;
    pair.max_foreign = o.max_foreign;
    if (reading) pair.limit = [&] { return reading->measure(); };
    pair.progress = [&](const Round& round, int done) {
      progress->update(concat("bench: ", s.architecture, " round ", done, "/", o.rounds, ", ratio ",
                              std::round(1000 * round.a / round.b) / 1000,
                              round.clean ? "" : concat(", others took ", percent(round.foreign), " of the CPU")));
    };
    Row row{s.architecture, peer ? "peer" : base_spec.architecture,
            compare_arms(*arm, peer ? *peer : *baseline, pair)};
    const std::unique_ptr<Model> model = make_workload_model(s, at::Device(at::kMeta));
    row.flops = row.pair.a * workload_flops_per_token(s, *model);
    const double bytes_per_token = workload_bytes_per_token(s, *model);
    if (decode) row.bytes = row.pair.a * bytes_per_token;
    row.share = decode ? row.pair.per_limit * bytes_per_token : peak > 0 ? row.flops / peak : 0;
    row.parameters = static_cast<double>(model->parameters().count());
    progress.reset();
    if (rows.empty()) {
      std::printf("%-18s %10s %10s   %-23s   %10s %7s %10s   %9s %6s\n", "", "tok/s",
                  o.peer.empty() ? "baseline" : "peer", "ratio [95 %]", "memory", "ratio", "saved",
                  decode ? "read GB/s" : "GFLOP/s", row.share > 0 ? "peak" : "");
    }
    print_row(row);
    if (!row.pair.clean_enough) {
      std::printf("%-18s others used the machine in too many rounds (above %s): all %zu count\n", "",
                  percent(o.max_foreign).c_str(), row.pair.rounds.size());
    } else if (row.pair.dropped > 0) {
      std::printf("%-18s %d rounds with other load were dropped\n", "", row.pair.dropped);
    }
    std::fflush(stdout);
    rows.push_back(std::move(row));
  }
  if (!o.output.empty()) write_results(o, rows, limits, model_shape);
  return 0;
}

}  // namespace satformer::cli
