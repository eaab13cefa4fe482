#include "eval/results.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include "base/error.h"
#include "base/unicode.h"
#include "eval/answer_log.h"
#include "eval/python_text.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

std::string time_stamp() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto micro = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() % 1000000;
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[64], whole[96];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H-%M-%S", &parts);
  std::snprintf(whole, sizeof whole, "%s.%06lld", text, static_cast<long long>(micro));
  return whole;
}

std::string aggregation_name(Aggregation kind) {
  switch (kind) {
    case Aggregation::mean:
    case Aggregation::plain_mean:
      return "mean";
    case Aggregation::perplexity:
      return "perplexity";
    case Aggregation::weighted_perplexity:
      return "weighted_perplexity";
    case Aggregation::bits_per_byte:
      return "bits_per_byte";
  }
  return {};
}

Json task_config(const TaskResult& result) {
  const Task& task = result.task;
  Json config = {{"task", task.name}, {"dataset_path", task.names.empty() ? task.name : task.names[0]}};
  config[task.split + "_split"] = task.split;
  config["description"] = task.description;
  config["target_delimiter"] = task.delimiter;
  config["fewshot_delimiter"] = task.example_delimiter;
  config["num_fewshot"] = result.num_fewshot;
  config["metric_list"] = Json::array();
  for (const Metric& metric : task.metrics) {
    config["metric_list"].push_back({{"metric", metric.name},
                                     {"aggregation", aggregation_name(metric.aggregation)},
                                     {"higher_is_better", metric.higher_is_better}});
  }
  config["output_type"] = output_type(task.kind);
  if (task.kind == RequestKind::generate) config["generation_kwargs"] = task.generation.logged;
  config["repeats"] = 1;
  config["metadata"] = {{"version", task.version}};
  if (!result.settings.is_null()) config["metadata"]["synthetic"] = result.settings;
  return config;
}

std::string likelihood_text(double value) { return float_repr(value); }

// Accuracy against how far back the answer stands, in powers of two of tokens.
Json by_distance(const TaskResult& result) {
  Json rows = Json::array();
  for (std::int64_t from = 1; from < (std::int64_t{1} << 40); from *= 2) {
    std::int64_t count = 0, beyond = 0;
    double sum = 0;
    for (const Sample& sample : result.samples) {
      if (!sample.answer_distance) continue;
      if (*sample.answer_distance >= 2 * from) ++beyond;
      if (*sample.answer_distance < from || *sample.answer_distance >= 2 * from) continue;
      ++count;
      sum += sample.scores.at(0).value;
    }
    if (count > 0) {
      rows.push_back({{"from", from},
                      {"to", 2 * from - 1},
                      {"documents", count},
                      {result.task.metrics[0].name, sum / static_cast<double>(count)}});
    }
    if (beyond == 0) break;
  }
  return rows;
}

// Unweighted means of what all tasks of a group have; "score" is the mean of each task's first metric.
Json group_entry(const TaskGroup& group, const std::vector<const TaskResult*>& members) {
  Json entry = {{"alias", group.name}, {"name", group.name}};
  std::int64_t documents = 0;
  for (const TaskResult* member : members) documents += static_cast<std::int64_t>(member->samples.size());
  entry["sample_len"] = documents;
  const auto average = [&](const std::string& name, const auto& pick) {
    double sum = 0, squares = 0;
    bool errors = true;
    for (const TaskResult* member : members) {
      const std::optional<Aggregate> value = pick(*member);
      if (!value) return;
      sum += value->value;
      errors = errors && value->stderr_value.has_value();
      squares += value->stderr_value.value_or(0) * value->stderr_value.value_or(0);
    }
    const auto count = static_cast<double>(members.size());
    entry[name + ",none"] = sum / count;
    entry[name + "_stderr,none"] = errors ? Json(std::sqrt(squares) / count) : Json("N/A");
  };
  for (const Metric& metric : members.at(0)->task.metrics) {
    average(metric.name, [&](const TaskResult& member) -> std::optional<Aggregate> {
      for (std::size_t m = 0; m < member.task.metrics.size(); ++m) {
        if (member.task.metrics[m].name == metric.name) return member.metrics[m];
      }
      return std::nullopt;
    });
  }
  average("score", [](const TaskResult& member) { return member.metrics.at(0); });
  return entry;
}

}  // namespace

std::string metric_key(const Task& task, const std::string& metric, bool stderr_value) {
  return concat(metric, stderr_value ? "_stderr," : ",", task.filter);
}

Json sample_json(const TaskResult& result, const Sample& sample) {
  const Task& task = result.task;
  Json json;
  json["doc_id"] = sample.id;
  json["doc"] = sample.question.document;
  json["target"] = sample.question.target;
  json["arguments"] = Json::object();
  std::size_t count = 0;
  for (const auto& [context, continuation] : sample.arguments) {
    Json argument = {{"arg_0", context}};
    if (task.kind == RequestKind::generate) {
      argument["arg_1"] = task.generation.logged;
    } else if (task.kind != RequestKind::rolling) {
      argument["arg_1"] = continuation;
    }
    json["arguments"][concat("gen_args_", count++)] = argument;
  }
  Json responses = Json::array(), filtered = Json::array();
  if (task.kind == RequestKind::generate) {
    const std::string& text = sample.response.text;
    responses.push_back({text});
    filtered.push_back(task.strip_output ? std::string(strip(text)) : text);
  } else if (task.kind == RequestKind::rolling) {
    const std::string total = likelihood_text(sample.response.total());
    responses.push_back({total});
    filtered.push_back(total);
  } else {
    for (const auto& [value, greedy] : sample.response.likelihoods) {
      const Json pair = {likelihood_text(value), greedy ? "True" : "False"};
      responses.push_back(Json::array({pair}));
      filtered.push_back(pair);
    }
  }
  json["resps"] = responses;
  json["filtered_resps"] = filtered;
  json["filter"] = task.filter;
  json["metrics"] = Json::array();
  for (const Metric& metric : task.metrics) json["metrics"].push_back(metric.name);
  json["doc_hash"] = sha256_text(sample.question.document.dump(2));
  json["prompt_hash"] = sha256_text(sample.arguments.at(0).first);
  json["target_hash"] = sha256_text(sample.question.target);
  for (std::size_t m = 0; m < task.metrics.size(); ++m) {
    const Score& score = sample.scores.at(m);
    if (score.weight == 0) continue;
    const bool weighted = task.kind == RequestKind::rolling;
    json[task.metrics[m].name] = weighted ? Json({score.value, score.weight}) : Json(score.value);
  }
  if (sample.answer_distance) json["answer_distance"] = *sample.answer_distance;
  if (sample.truncated) json["truncated"] = true;
  return json;
}

Json results_json(const std::vector<TaskResult>& results, const std::vector<TaskGroup>& groups,
                  const EvaluationInfo& info) {
  Json json;
  for (const char* key : {"results", "groups", "group_subtasks", "configs", "versions", "n-shot", "higher_is_better",
                          "n-samples", "config"}) {
    json[key] = Json::object();
  }
  Json hashes = Json::object(), bad = Json::object(), distances = Json::object(), truncated = Json::object();
  for (const TaskResult& r : results) {
    Json& entry = json["results"][r.task.name];
    entry = {{"name", r.task.name}, {"alias", r.task.name}, {"sample_len", r.samples.size()}};
    for (std::size_t m = 0; m < r.task.metrics.size(); ++m) {
      if (!r.metrics[m]) continue;
      const std::string& name = r.task.metrics[m].name;
      entry[metric_key(r.task, name, false)] = r.metrics[m]->value;
      entry[metric_key(r.task, name, true)] =
          r.metrics[m]->stderr_value ? Json(*r.metrics[m]->stderr_value) : Json("N/A");
      json["higher_is_better"][r.task.name][name] = r.task.metrics[m].higher_is_better;
    }
    json["configs"][r.task.name] = task_config(r);
    json["versions"][r.task.name] = r.task.version;
    json["n-shot"][r.task.name] = r.num_fewshot;
    json["n-samples"][r.task.name] = {{"original", r.documents}, {"effective", r.samples.size()}};
    std::string all;
    for (const Sample& sample : r.samples) {
      const Json line = sample_json(r, sample);
      for (const char* key : {"doc_hash", "prompt_hash", "target_hash"}) all += line[key].get<std::string>();
    }
    hashes[r.task.name] = sha256_text(all);
    const auto cut = std::count_if(r.samples.begin(), r.samples.end(), [](const Sample& s) { return s.truncated; });
    if (cut > 0) truncated[r.task.name] = cut;
    for (const BadDocument& document : r.bad) {
      bad[r.task.name].push_back({{"doc_id", document.id}, {"reason", document.reason}});
    }
    if (const Json rows = by_distance(r); !rows.empty()) distances[r.task.name] = rows;
  }
  for (const TaskGroup& group : groups) {
    std::vector<const TaskResult*> members;
    for (const std::string& name : group.tasks) {
      for (const TaskResult& r : results) {
        if (r.task.name == name) members.push_back(&r);
      }
    }
    json["groups"][group.name] = group_entry(group, members);
    json["results"][group.name] = json["groups"][group.name];
    json["group_subtasks"][group.name] = group.tasks;
    json["versions"][group.name] = 1;
    json["n-shot"][group.name] = results.at(0).num_fewshot;
  }
  if (groups.empty()) json.erase("groups");
  json["config"] = info.config;
  json["git_hash"] = nullptr;
  json["date"] = info.start_time;
  json["eot_token_id"] = info.eot_token;
  json["max_length"] = info.max_length;
  json["task_hashes"] = hashes;
  if (!bad.empty()) json["left_out"] = bad;
  if (!truncated.empty()) json["truncated"] = truncated;
  if (!distances.empty()) json["recall_by_distance"] = distances;
  json["model_source"] = "satformer";
  json["model_name"] = info.model_name;
  json["model_name_sanitized"] = safe_file_name(info.model_name);
  json["start_time"] = info.start_time;
  json["end_time"] = info.start_time + info.seconds;
  json["total_evaluation_time_seconds"] = float_repr(info.seconds);
  return json;
}

std::string results_folder(const std::string& output, const std::string& model_name) {
  if (output.ends_with(".json")) {
    const fs::path parent = fs::path(output).parent_path();
    return parent.empty() ? "." : parent.string();
  }
  return (fs::path(output) / safe_file_name(model_name)).string();
}

std::string write_results(const std::string& output, const std::vector<TaskResult>& results, const Json& json,
                          const EvaluationInfo& info, bool samples) {
  const fs::path folder = results_folder(output, info.model_name);
  make_directories(folder.string());
  const std::string stamp = time_stamp();
  const std::string stem = output.ends_with(".json") ? fs::path(output).stem().string() : "results";
  if (samples) {
    for (const TaskResult& r : results) {
      AtomicFile file((folder / concat("samples_", safe_file_name(r.task.name), "_", stamp, ".jsonl")).string());
      for (const Sample& sample : r.samples) file.write(sample_json(r, sample).dump() + "\n");
      file.commit();
    }
  }
  const std::string path = (folder / concat(stem, "_", stamp, ".json")).string();
  write_file_atomic(path, json.dump(2) + "\n");
  std::error_code ignored;
  for (const TaskResult& r : results) {
    for (const std::string& log : r.log_paths) fs::remove(log, ignored);
  }
  return path;
}

std::string results_table(const Json& results) {
  std::vector<std::vector<std::string>> rows = {{"Task", "Version", "n-shot", "Metric", "", "Value", "", "Stderr"}};
  const auto number = [](const Json& value) {
    char text[64];
    if (!value.is_number()) return std::string("N/A");
    std::snprintf(text, sizeof text, "%.4f", value.get<double>());
    return std::string(text);
  };
  for (const auto& [name, entry] : results.at("results").items()) {
    bool first = true;
    for (const auto& [key, value] : entry.items()) {
      const auto comma = key.find(',');
      if (comma == std::string::npos || key.substr(0, comma).ends_with("_stderr")) continue;
      const std::string metric = key.substr(0, comma);
      const std::string error_key = metric + "_stderr" + key.substr(comma);
      std::string arrow;
      if (results["higher_is_better"].contains(name) && results["higher_is_better"][name].contains(metric)) {
        arrow = results["higher_is_better"][name][metric].get<bool>() ? "\xE2\x86\x91" : "\xE2\x86\x93";
      }
      const Json& version = results["versions"][name];
      rows.push_back({first ? name : "",
                      first ? (version.is_string() ? version.get<std::string>() : version.dump()) : "",
                      results["n-shot"][name].dump(), metric, arrow, number(value), "\xC2\xB1",
                      entry.contains(error_key) ? number(entry[error_key]) : "N/A"});
      first = false;
    }
  }
  std::vector<std::size_t> widths(rows[0].size(), 1);
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      widths[c] = std::max(widths[c], static_cast<std::size_t>(count_characters(row[c])));
    }
  }
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t c = 0; c < widths.size(); ++c) {
      const std::string pad(widths[c] - static_cast<std::size_t>(count_characters(rows[r][c])), ' ');
      const bool right = c == 2 || c == 5 || c == 7;
      text += concat("|", right ? pad + rows[r][c] : rows[r][c] + pad);
    }
    text += "|\n";
    if (r > 0) continue;
    for (std::size_t c = 0; c < widths.size(); ++c) text += "|" + std::string(widths[c], '-');
    text += "|\n";
  }
  return text;
}

}  // namespace satformer
