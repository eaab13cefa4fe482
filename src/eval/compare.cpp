#include "eval/compare.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/bootstrap.h"
#include "base/error.h"
#include "eval/rows.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

struct Document {
  std::string hash;
  std::map<std::string, std::pair<double, double>> values;  // metric: value, weight
  std::vector<std::string> order;                           // metrics as the file lists them
};
using Documents = std::map<std::int64_t, Document>;

Documents read_samples(const std::string& path) {
  Documents documents;
  for (const Row& row : read_rows(std::vector<std::string>{path})) {
    if (!row.error.empty()) fail(ExitCode::data, row.error);
    const Columns columns(row);
    Document document;
    document.hash = columns.text("doc_hash") + columns.text("target_hash");
    for (const std::string& metric : columns.texts("metrics")) {
      if (!columns.has(metric)) continue;
      const Json& value = columns.at(metric);
      if (value.is_array() && value.size() == 2 && value[0].is_number() && value[1].is_number()) {
        document.values[metric] = {value[0].get<double>(), value[1].get<double>()};
      } else if (value.is_number() || value.is_boolean()) {
        document.values[metric] = {value.is_boolean() ? double(value.get<bool>()) : value.get<double>(), 1.0};
      } else {
        continue;
      }
      document.order.push_back(metric);
    }
    documents[columns.integer("doc_id")] = std::move(document);
  }
  return documents;
}

// Task name to samples file.
std::map<std::string, std::string> samples_of(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  if (name.ends_with(".jsonl") || name.ends_with(".jsonl.gz")) {
    const std::string stem = name.substr(0, name.find(".jsonl"));
    const auto stamp = stem.rfind('_');
    const bool usual = stem.starts_with("samples_") && stamp != std::string::npos && stamp > 8;
    return {{usual ? stem.substr(8, stamp - 8) : stem, path}};
  }
  const Json json = read_json_file(path, ExitCode::data);
  if (!json.is_object() || !json.contains("configs") || !json["configs"].is_object()) {
    fail(ExitCode::data, path, ": neither a samples file (.jsonl) nor a results file of an evaluation");
  }
  const std::string stem = fs::path(path).stem().string(), stamp = stem.substr(stem.rfind('_') + 1);
  std::map<std::string, std::string> files;
  for (const auto& [task, config] : json["configs"].items()) {
    const fs::path samples = fs::path(path).parent_path() / concat("samples_", task, "_", stamp, ".jsonl");
    if (!fs::exists(samples)) {
      fail(ExitCode::data, path, ": ", samples.string(), " is missing; evaluate with --log-samples");
    }
    files[task] = samples.string();
  }
  return files;
}

struct Pair {
  double first, first_weight, second, second_weight;
};

PairedDifference difference_of(std::string task, std::string metric, const std::vector<Pair>& pairs,
                               std::int64_t resamples) {
  PairedDifference result;
  const auto means = [&](const auto& index) {
    double a = 0, aw = 0, b = 0, bw = 0;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const Pair& p = pairs[index(i)];
      a += p.first;
      aw += p.first_weight;
      b += p.second;
      bw += p.second_weight;
    }
    return std::pair{a / aw, b / bw};
  };
  std::tie(result.first, result.second) = means([](std::size_t i) { return i; });
  result.difference = result.second - result.first;
  for (const Pair& p : pairs) {
    const double a = p.first / p.first_weight, b = p.second / p.second_weight;
    result.better += b > a;
    result.worse += b < a;
  }
  const Interval interval = bootstrap_interval(pairs.size(), resamples, Philox(hash_name(task + "/" + metric), 0),
                                               [&](std::span<const std::size_t> draw) {
                                                 const auto [a, b] = means([&](std::size_t i) { return draw[i]; });
                                                 return b - a;
                                               });
  result.low = interval.low;
  result.high = interval.high;
  result.documents = static_cast<std::int64_t>(pairs.size());
  result.task = std::move(task);
  result.metric = std::move(metric);
  return result;
}

}  // namespace

std::vector<PairedDifference> compare_samples(const std::string& first, const std::string& second,
                                              std::int64_t resamples) {
  const auto first_files = samples_of(first), second_files = samples_of(second);
  std::vector<PairedDifference> result;
  for (const auto& [task, path] : first_files) {
    const auto other = second_files.find(task);
    if (other == second_files.end()) continue;
    const Documents a = read_samples(path), b = read_samples(other->second);
    std::vector<std::string> order;
    std::map<std::string, std::vector<Pair>> pairs;
    for (const auto& [id, document] : a) {
      const auto found = b.find(id);
      if (found == b.end()) continue;
      if (found->second.hash != document.hash) {
        fail(ExitCode::data, task, ": document ", id, " of ", path, " and of ", other->second, " are not the same");
      }
      for (const std::string& metric : document.order) {
        const auto value = found->second.values.find(metric);
        if (value == found->second.values.end()) continue;
        if (!pairs.contains(metric)) order.push_back(metric);
        const auto& [x, xw] = document.values.at(metric);
        pairs[metric].push_back({x, xw, value->second.first, value->second.second});
      }
    }
    if (order.empty()) fail(ExitCode::data, path, " and ", other->second, " have no document in common");
    for (const std::string& metric : order) result.push_back(difference_of(task, metric, pairs[metric], resamples));
  }
  if (result.empty()) fail(ExitCode::data, first, " and ", second, " have no task in common");
  return result;
}

std::string comparison_table(const std::vector<PairedDifference>& differences) {
  std::string text =
      "|Task|Metric|Documents|First|Second|Second - first|95 % interval|Second above|below|\n"
      "|-|-|-:|-:|-:|-:|-|-:|-:|\n";
  for (const PairedDifference& d : differences) {
    char numbers[160];
    std::snprintf(numbers, sizeof numbers, "%.4f|%.4f|%+.4f|[%+.4f, %+.4f]%s", d.first, d.second, d.difference, d.low,
                  d.high, d.low <= 0 && d.high >= 0 ? " includes 0" : "");
    text += concat("|", d.task, "|", d.metric, "|", d.documents, "|", numbers, "|", d.better, "|", d.worse, "|\n");
  }
  return text;
}

}  // namespace satformer
