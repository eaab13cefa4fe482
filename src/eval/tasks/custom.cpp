#include "eval/tasks/custom.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/error.h"
#include "base/plain_name.h"
#include "base/unicode.h"
#include "eval/grade.h"
#include "eval/python_text.h"
#include "eval/tasks/drop_metric.h"
#include "eval/tasks/tasks.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

std::string scalar_text(const Json& value, const std::string& what) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return float_repr(value.get<double>());
  if (value.is_number() || value.is_boolean()) return value.dump();
  fail(ExitCode::data, what, " must be text or a number, not ", value.type_name());
}

// The value at a path, and what to call it in messages.
const Json& follow(const Row& row, const std::vector<std::string>& path, std::string& name) {
  const Json* value = &Columns(row).at(path[0]);
  name = concat(row.origin, ": column '", path[0], "'");
  for (std::size_t i = 1; i < path.size(); ++i) {
    if (value->is_array()) {
      std::size_t index = 0;
      const auto parsed = std::from_chars(path[i].data(), path[i].data() + path[i].size(), index);
      if (parsed.ec != std::errc() || index >= value->size()) {
        fail(ExitCode::data, name, " has ", value->size(), " items, so no '", path[i], "'");
      }
      value = &value->at(index);
    } else {
      value = &Columns(*value, name).at(path[i]);
    }
    name += "." + path[i];
  }
  return *value;
}

}  // namespace

Template::Template(std::string text, std::string origin) : text_(std::move(text)) {
  std::string_view rest = text_;
  while (!rest.empty()) {
    const auto open = rest.find("{{");
    if (open != 0) {
      parts_.push_back({std::string(rest.substr(0, open)), {}, false});
      if (open == std::string_view::npos) break;
      rest.remove_prefix(open);
    }
    const auto close = rest.find("}}");
    if (close == std::string_view::npos) fail(ExitCode::config, origin, ": '{{' is not closed by '}}'");
    std::string_view inside = strip(rest.substr(2, close - 2));
    Part part;
    if (const auto bar = inside.find('|'); bar != std::string_view::npos) {
      const std::string_view filter = strip(inside.substr(bar + 1));
      if (filter != "strip") fail(ExitCode::config, origin, ": '|", filter, "' is unknown; there is only '|strip'");
      part.strip = true;
      inside = strip(inside.substr(0, bar));
    }
    for (;;) {
      const auto dot = inside.find('.');
      part.path.emplace_back(inside.substr(0, dot));
      if (part.path.back().empty()) fail(ExitCode::config, origin, ": '{{...}}' must name a column");
      if (dot == std::string_view::npos) break;
      inside.remove_prefix(dot + 1);
    }
    parts_.push_back(std::move(part));
    rest.remove_prefix(close + 2);
  }
}

std::string Template::render(const Row& row) const {
  std::string result;
  for (const Part& part : parts_) {
    if (part.path.empty()) {
      result += part.text;
      continue;
    }
    std::string name;
    const Json& value = follow(row, part.path, name);
    const std::string text = scalar_text(value, name);
    result += part.strip ? strip(text) : std::string_view(text);
  }
  return result;
}

std::vector<std::string> Template::render_list(const Row& row) const {
  if (parts_.size() == 1 && !parts_[0].path.empty()) {
    std::string name;
    const Json& value = follow(row, parts_[0].path, name);
    if (value.is_array()) {
      std::vector<std::string> result;
      for (const Json& item : value) {
        const std::string text = scalar_text(item, name);
        result.emplace_back(parts_[0].strip ? strip(text) : std::string_view(text));
      }
      return result;
    }
  }
  return {render(row)};
}

namespace {

const std::vector<std::string> known_keys = {
    "task", "version",    "data",      "examples", "template",          "choices", "label",       "target",
    "stop", "max_tokens", "delimiter", "metric",   "example_delimiter", "kind",    "description", "summary"};

struct MetricChoice {
  const char* name;
  RequestKind kind;
  Aggregation aggregation;
  bool higher_is_better;
};
constexpr MetricChoice metric_choices[] = {
    {"acc", RequestKind::choice, Aggregation::mean, true},
    {"acc_norm", RequestKind::choice, Aggregation::mean, true},
    {"acc_bytes", RequestKind::choice, Aggregation::mean, true},
    {"exact_match", RequestKind::choice, Aggregation::mean, true},
    {"perplexity", RequestKind::likelihood, Aggregation::perplexity, false},
    {"acc", RequestKind::likelihood, Aggregation::mean, true},
    {"word_perplexity", RequestKind::rolling, Aggregation::weighted_perplexity, false},
    {"byte_perplexity", RequestKind::rolling, Aggregation::weighted_perplexity, false},
    {"token_perplexity", RequestKind::rolling, Aggregation::weighted_perplexity, false},
    {"bits_per_byte", RequestKind::rolling, Aggregation::bits_per_byte, false},
    {"exact_match", RequestKind::generate, Aggregation::mean, true},
    {"contains", RequestKind::generate, Aggregation::mean, true},
    {"f1", RequestKind::generate, Aggregation::mean, true},
};

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), json_(read_json_file(path)) {
    if (!json_.is_object()) fail(ExitCode::config, path_, ": a task must be a JSON object");
    for (const auto& [key, value] : json_.items()) {
      if (std::find(known_keys.begin(), known_keys.end(), key) == known_keys.end()) {
        fail(ExitCode::config, path_, ": key '", key, "' is unknown.", did_you_mean(key, known_keys));
      }
    }
  }
  bool has(const char* key) const { return json_.contains(key); }
  std::string at(const char* key) const { return concat(path_, ": '", key, "'"); }
  std::string text(const char* key, const char* otherwise = nullptr) const {
    if (!has(key)) {
      if (otherwise) return otherwise;
      fail(ExitCode::config, path_, ": key '", key, "' is missing");
    }
    if (!json_[key].is_string()) fail(ExitCode::config, at(key), " must be text, not ", json_[key].type_name());
    return json_[key].get<std::string>();
  }
  std::vector<std::string> texts(const char* key) const {
    if (!has(key)) return {};
    if (json_[key].is_string()) return {json_[key].get<std::string>()};
    std::vector<std::string> result;
    const bool list = json_[key].is_array();
    for (const Json& item : json_[key]) {
      if (!list || !item.is_string()) fail(ExitCode::config, at(key), " must be a text or a list of texts");
      result.push_back(item.get<std::string>());
    }
    if (result.empty()) fail(ExitCode::config, at(key), " must not be empty");
    return result;
  }
  std::int64_t integer(const char* key, std::int64_t otherwise) const {
    if (!has(key)) return otherwise;
    if (!json_[key].is_number_integer() || json_[key] < 1) {
      fail(ExitCode::config, at(key), " must be a whole number of at least 1, not ", json_[key].dump());
    }
    return json_[key].get<std::int64_t>();
  }
  // Paths are relative to the task's file.
  std::vector<std::string> paths(const char* key) const {
    std::vector<std::string> result = texts(key);
    for (std::string& path : result) path = (fs::path(path_).parent_path() / path).string();
    return result;
  }
  RequestKind kind() const {
    if (!has("kind")) {
      if (has("choices")) return RequestKind::choice;
      if (!has("target")) return RequestKind::rolling;
      return has("stop") || has("max_tokens") ? RequestKind::generate : RequestKind::likelihood;
    }
    const std::string name = text("kind");
    std::vector<std::string> names;
    for (const RequestKind kind :
         {RequestKind::choice, RequestKind::likelihood, RequestKind::rolling, RequestKind::generate}) {
      names.push_back(output_type(kind));
      if (name == names.back()) return kind;
    }
    fail(ExitCode::config, at("kind"), " '", name, "' is not one of: ", names[0], ", ", names[1], ", ", names[2],
         ", ", names[3], ".", did_you_mean(name, names));
  }
  std::vector<Metric> metrics(RequestKind kind) const {
    std::vector<std::string> possible;
    std::string list;
    for (const MetricChoice& m : metric_choices) {
      if (m.kind != kind) continue;
      possible.push_back(m.name);
      list += concat(list.empty() ? "" : ", ", m.name);
    }
    std::vector<std::string> names = texts("metric");
    if (names.empty()) names = kind == RequestKind::rolling ? possible : std::vector<std::string>{possible[0]};
    std::vector<Metric> result;
    for (const std::string& name : names) {
      const auto found = std::find_if(std::begin(metric_choices), std::end(metric_choices),
                                      [&](const MetricChoice& m) { return m.kind == kind && name == m.name; });
      if (found == std::end(metric_choices)) {
        fail(ExitCode::config, at("metric"), " '", name, "' is not one that ", output_type(kind), " has: ", list, ".",
             did_you_mean(name, possible));
      }
      if (std::count(names.begin(), names.end(), name) > 1) {
        fail(ExitCode::config, at("metric"), " names '", name, "' twice");
      }
      result.push_back({found->name, found->aggregation, found->higher_is_better});
    }
    return result;
  }
  void needs(const char* key, RequestKind kind, bool wanted) const {
    if (has(key) != wanted) {
      fail(ExitCode::config, at(key), wanted ? " is missing: " : " has no meaning: ", output_type(kind),
           wanted ? " needs it" : " does not use it");
    }
  }

 private:
  std::string path_;
  Json json_;
};

double span_f1(const std::string& text, const std::vector<std::string>& answers) {
  double best = 0;
  for (const std::string& answer : answers) best = std::max(best, tasks::drop_score({text}, {answer}).f1);
  return best;
}

// It also stands in lists between commas.
void check_task_name(const std::string& name, const std::string& path) {
  if (is_plain_name(name) && name.find(',') == std::string::npos) return;
  fail(ExitCode::config, path, ": 'task' ", Json(name).dump(-1, ' ', false, Json::error_handler_t::replace),
       " is no name: ", plain_name_rule, ", and without commas");
}

}  // namespace

Task load_custom_task(const std::string& path) {
  const Reader reader(path);
  Task task;
  task.kind = reader.kind();
  task.name = reader.text("task", fs::path(path).stem().c_str());
  check_task_name(task.name, path);
  task.version = reader.integer("version", 1);
  task.summary = reader.text("summary", "a task of your own");
  task.files = reader.paths("data");
  if (task.files.empty()) fail(ExitCode::config, path, ": key 'data' is missing: the file of the documents");
  task.example_files = reader.paths("examples");
  if (task.example_files.empty()) task.example_files = task.files;
  task.exclude_document = true;
  task.description = reader.text("description", "");
  task.delimiter = reader.text("delimiter", " ");
  task.example_delimiter = reader.text("example_delimiter", "\n\n");
  task.metrics = reader.metrics(task.kind);
  const bool choice = task.kind == RequestKind::choice, generate = task.kind == RequestKind::generate;
  reader.needs("choices", task.kind, choice);
  reader.needs("label", task.kind, choice);
  reader.needs("target", task.kind, generate || task.kind == RequestKind::likelihood);
  reader.needs("template", task.kind, true);
  if (!generate) {
    for (const char* key : {"stop", "max_tokens"}) {
      if (reader.has(key)) reader.needs(key, task.kind, false);
    }
  }
  task.generation.max_tokens = reader.integer("max_tokens", 256);
  task.generation.stop = reader.texts("stop");
  if (generate && task.generation.stop.empty()) task.generation.stop = {task.example_delimiter};
  task.generation.logged = {{"until", task.generation.stop}, {"max_gen_toks", task.generation.max_tokens}};

  const Template text(reader.text("template"), reader.at("template"));
  const Template target(reader.text("target", ""), reader.at("target"));
  const Template label(reader.text("label", ""), reader.at("label"));
  std::vector<Template> choices;
  for (const std::string& item : reader.texts("choices")) choices.emplace_back(item, reader.at("choices"));
  task.ask = [kind = task.kind, delimiter = task.delimiter, text, target, label, choices](const Row& row) {
    Question q;
    q.document = row.columns;
    q.text = text.render(row);
    if (kind == RequestKind::choice) {
      for (const Template& item : choices) {
        for (std::string& one : item.render_list(row)) q.choices.push_back(std::move(one));
      }
      tasks::check_choices(q.choices, row.origin);
      // The label is the number of a choice from 0, or a choice itself.
      const std::string given = label.render(row);
      std::size_t index = 0;
      const auto parsed = std::from_chars(given.data(), given.data() + given.size(), index);
      const auto found = std::find(q.choices.begin(), q.choices.end(), given);
      if (parsed.ec == std::errc() && parsed.ptr == given.data() + given.size() && index < q.choices.size()) {
        q.gold = index;
      } else if (found != q.choices.end()) {
        q.gold = static_cast<std::size_t>(found - q.choices.begin());
      } else {
        fail(ExitCode::data, row.origin, ": the label '", given, "' is neither one of the ", q.choices.size(),
             " choices nor the number of one, from 0");
      }
      q.example = q.choices[q.gold];
      q.target = std::to_string(q.gold);
    } else if (kind == RequestKind::rolling) {
      q.choices = {q.text};
      q.target = q.text;
    } else {
      q.answers = target.render_list(row);
      if (q.answers.empty() || q.answers[0].empty()) fail(ExitCode::data, row.origin, ": the target is empty");
      q.example = q.answers[0];
      q.target = q.answers.size() > 1 ? list_repr(q.answers) : q.answers[0];
      if (kind == RequestKind::likelihood) q.choices = {delimiter + q.answers[0]};
    }
    return q;
  };
  if (generate) {
    task.strip_output = true;
    task.grade = [metrics = task.metrics](const Question& q, const Response& r) {
      Scores scores;
      for (const Metric& metric : metrics) {
        scores.push_back({metric.name == "exact_match" ? exact_match(r.text, q.answers, false)
                          : metric.name == "contains"  ? contains_any(r.text, q.answers)
                                                       : span_f1(r.text, q.answers)});
      }
      return scores;
    };
  }
  return task;
}

}  // namespace satformer
