#include "compare/spec.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/plain_name.h"
#include "data/token_marks.h"
#include "train/step_clock.h"

namespace satformer {
namespace {

// An object of the spec whose keys are all asked for: any other is an error.
class Reader {
 public:
  Reader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json_.is_object()) fail(ExitCode::config, where_, " must be an object, not ", json_.type_name());
  }

  template <class T>
  void get(const std::string& key, T& value) {
    if (const Json* found = find(key)) value = convert<T>(*found, path(key));
  }
  std::string need_text(const std::string& key) {
    const Json* found = find(key);
    if (!found) fail(ExitCode::config, where_, " lacks '", key, "'");
    return convert<std::string>(*found, path(key));
  }
  // Nested configuration.
  void get_config(const std::string& key, Json& value) {
    const Json* found = find(key);
    if (!found) return;
    if (!found->is_object()) fail(ExitCode::config, path(key), " must be an object of configuration keys");
    merge_config(value, *found);
    refuse_own_keys(value, path(key));
  }
  // Calls use(element, its place) for each of a list.
  template <class Use>
  bool each(const std::string& key, const Use& use) {
    const Json* found = find(key);
    if (!found) return false;
    if (!found->is_array()) fail(ExitCode::config, path(key), " must be a list");
    for (std::size_t i = 0; i < found->size(); ++i) use((*found)[i], concat(path(key), '[', i, ']'));
    return true;
  }
  const Json* find(const std::string& key) {
    known_.push_back(key);
    const auto it = json_.find(key);
    return it == json_.end() ? nullptr : &*it;
  }
  void finish() const {
    for (const auto& [key, value] : json_.items()) {
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      fail(ExitCode::config, where_, ": unknown key '", key, "'.", did_you_mean(key, known_));
    }
  }
  std::string path(const std::string& key) const { return concat(where_, ", ", key); }

 private:
  template <class T>
  static T convert(const Json& json, const std::string& where) {
    try {
      if constexpr (std::is_same_v<T, std::int64_t>) {
        if (!json.is_number_integer()) fail(ExitCode::config, where, " must be a whole number, not ", json.dump());
      } else if constexpr (std::is_same_v<T, double>) {
        if (!json.is_number()) fail(ExitCode::config, where, " must be a number, not ", json.dump());
      } else if constexpr (std::is_same_v<T, std::string>) {
        if (!json.is_string()) fail(ExitCode::config, where, " must be text, not ", json.dump());
      }
      return json.get<T>();
    } catch (const Json::exception&) {
      fail(ExitCode::config, where, " must be a list of texts, not ", json.dump());
    }
  }

  const Json& json_;
  std::string where_;
  std::vector<std::string> known_;
};

void check_range(const std::string& where, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most) {
    fail(ExitCode::config, where, " = ", value, " must be between ", least, " and ", most);
  }
}

// Names become folders and file names.
void check_name(const std::string& where, const std::string& name) {
  if (!is_plain_name(name)) fail(ExitCode::config, where, ": '", name, "' must be ", plain_name_rule);
}

template <class Axis>
void check_distinct(const std::string& where, const std::vector<Axis>& axes) {
  std::set<std::string> seen;
  for (const Axis& axis : axes) {
    if (!seen.insert(axis.name).second) fail(ExitCode::config, where, ": the name '", axis.name, "' stands twice");
  }
}

CompareArm read_arm(const Json& json, const std::string& where, const std::string& folder) {
  CompareArm arm;
  arm.set = Json::object();
  if (json.is_string()) {
    arm.name = json.get<std::string>();
    arm.set["model"]["class_name"] = arm.name;
  } else {
    Reader reader(json, where);
    std::string architecture;
    reader.get("architecture", architecture);
    arm.name = architecture;
    reader.get("name", arm.name);
    reader.get("config", arm.config);
    reader.get("against", arm.against);
    if (!architecture.empty()) arm.set["model"]["class_name"] = architecture;
    reader.get_config("set", arm.set);
    reader.finish();
    if (arm.name.empty()) fail(ExitCode::config, where, " lacks 'name' or 'architecture'");
    if (architecture.empty() && arm.config.empty() && !arm.set.contains("model")) {
      fail(ExitCode::config, where, " ('", arm.name, "') lacks 'architecture' or 'config': nothing says what it is");
    }
    if (!arm.config.empty() && !std::filesystem::path(arm.config).is_absolute()) {
      const std::filesystem::path beside = std::filesystem::path(folder) / arm.config;
      if (std::filesystem::exists(beside)) arm.config = beside.string();
    }
  }
  check_name(where, arm.name);
  return arm;
}

CompareData read_data(const Json& json, const std::string& where) {
  CompareData data;
  data.set = Json::object();
  Reader reader(json, where);
  data.name = reader.need_text("name");
  reader.get("prepare", data.prepare);
  reader.get_config("set", data.set);
  reader.finish();
  check_name(where, data.name);
  for (const std::string& argument : data.prepare) {
    if (argument == "--output" || argument == "-o" || argument.starts_with("--output=")) {
      fail(ExitCode::config, where, ", prepare: --output is the comparison's own folder and cannot be given");
    }
  }
  return data;
}

CompareAxis read_size(const Json& json, const std::string& where) {
  CompareAxis size;
  size.set = Json::object();
  Reader reader(json, where);
  size.name = reader.need_text("name");
  reader.get_config("set", size.set);
  reader.finish();
  check_name(where, size.name);
  return size;
}

void read_target(const Json& json, const std::string& where, CompareTarget& target) {
  Reader reader(json, where);
  reader.get("metric", target.metric);
  target.higher_is_better = target.metric.find("accuracy") != std::string::npos;
  if (reader.find("value")) {
    double value = 0;
    reader.get("value", value);
    target.value = value;
  }
  reader.finish();
  check_metric(target.metric, where + ", metric", true);
}

void read_measurement(const Json& json, const std::string& where, CompareMeasurement& m) {
  Reader reader(json, where);
  m.phases = {"train"};
  reader.get("phases", m.phases);
  reader.get("batch_size", m.batch_size);
  reader.get("context", m.context);
  reader.get("rounds", m.rounds);
  reader.get("seconds", m.seconds);
  reader.get("dtype", m.dtype);
  reader.finish();
  check_range(where + ", batch_size", m.batch_size, 1, 1 << 20);
  check_range(where + ", context", m.context, 1, 1 << 24);
  check_range(where + ", rounds", m.rounds, 1, 1000);
  if (!(m.seconds > 0 && m.seconds <= 3600)) fail(ExitCode::config, where, ", seconds must be above 0");
  const std::vector<std::string> phases = {"train", "prefill", "decode"};
  for (const std::string& phase : m.phases) {
    if (std::find(phases.begin(), phases.end(), phase) == phases.end()) {
      fail(ExitCode::config, where, ": phase '", phase, "' is not one of train, prefill, decode.",
           did_you_mean(phase, phases));
    }
  }
}

std::vector<std::string> arm_names(const CompareSpec& spec) {
  std::vector<std::string> names;
  for (const CompareArm& arm : spec.arms) names.push_back(arm.name);
  return names;
}

void check_arm(const CompareSpec& spec, const std::string& name, const std::string& where) {
  const std::vector<std::string> names = arm_names(spec);
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  fail(ExitCode::config, where, " '", name, "' is not the name of an arm.", did_you_mean(name, names));
}

}  // namespace

void refuse_own_keys(const Json& config, const std::string& where) {
  struct Own {
    const char *section, *key, *way;
  };
  for (const Own& own :
       {Own{"system", "seed", "'seeds' (--seeds) chooses it"},
        Own{"system", "threads", "'threads' (--threads) chooses it"}, Own{"system", "device", "--devices chooses it"},
        Own{"checkpointing", "checkpoint_dir", "each run has its folder under --output"},
        Own{"checkpointing", "save_final_model", "the final model is always saved"}}) {
    const auto section = config.find(own.section);
    if (section == config.end() || !section->is_object() || !section->contains(own.key)) continue;
    fail(ExitCode::config, where, ": ", own.section, '.', own.key,
         " is set for each run by the comparison: ", own.way);
  }
}

void check_metric(const std::string& metric, const std::string& where, bool validation) {
  std::vector<std::string> names = {"val/loss", "val/perplexity", "val/accuracy"};
  for (const std::string_view kind : token_kind_names) names.push_back(concat("val/accuracy/", kind));
  if (!validation) {
    names.insert(names.end(), {"train/loss", "train/lr", "train/grad_norm", "perf/tokens_per_sec", "perf/mfu",
                               "perf/peak_memory_bytes"});
    for (const char* part : step_part_names) names.push_back(concat("perf/step_seconds/", part));
    if (metric.starts_with("gates/layer_")) return;
  }
  if (std::find(names.begin(), names.end(), metric) != names.end()) return;
  fail(ExitCode::config, where, ": '", metric, "' is not a metric ", validation ? "of validation" : "that runs log",
       ", such as val/loss.", did_you_mean(metric, names));
}

void merge_config(Json& into, const Json& set) {
  if (!into.is_object()) into = Json::object();
  for (const auto& [key, value] : set.items()) {
    Json* node = &into;
    std::size_t start = 0;
    for (auto dot = key.find('.'); dot != std::string::npos; start = dot + 1, dot = key.find('.', start)) {
      node = &(*node)[key.substr(start, dot - start)];
      if (!node->is_object()) *node = Json::object();
    }
    Json& leaf = (*node)[key.substr(start)];
    if (value.is_object()) {
      merge_config(leaf, value);
    } else {
      leaf = value;
    }
  }
}

CompareSpec parse_compare_spec(const Json& json, const std::string& origin) {
  CompareSpec spec;
  spec.base = Json::object();
  Reader reader(json, origin);
  const std::string folder = std::filesystem::path(origin).parent_path().string();
  spec.name = reader.need_text("name");
  check_name(origin + ", name", spec.name);
  spec.title = spec.name;
  reader.get("title", spec.title);
  reader.get("description", spec.description);
  reader.get_config("base", spec.base);
  reader.each("arms",
              [&](const Json& arm, const std::string& where) { spec.arms.push_back(read_arm(arm, where, folder)); });
  reader.each("data",
              [&](const Json& data, const std::string& where) { spec.data.push_back(read_data(data, where)); });
  reader.each("sizes",
              [&](const Json& size, const std::string& where) { spec.sizes.push_back(read_size(size, where)); });
  spec.seeds = {1};
  std::vector<std::int64_t> seeds;
  const bool given = reader.each("seeds", [&](const Json& seed, const std::string& where) {
    if (!seed.is_number_integer()) fail(ExitCode::config, where, " must be a whole number, not ", seed.dump());
    seeds.push_back(seed.get<std::int64_t>());
    if (seeds.size() > 1000) fail(ExitCode::config, origin, ": more than 1000 seeds");
  });
  if (given) spec.seeds = seeds;
  reader.get("baseline", spec.baseline);
  if (const Json* target = reader.find("target")) read_target(*target, reader.path("target"), spec.target);
  reader.get("curves", spec.curves);
  for (const std::string& metric : spec.curves) check_metric(metric, origin + ", curves", false);
  if (const Json* evaluation = reader.find("evaluate")) {
    Reader inner(*evaluation, reader.path("evaluate"));
    inner.get("tasks", spec.evaluation.tasks);
    inner.get("data_dir", spec.evaluation.data_dir);
    inner.get("arguments", spec.evaluation.arguments);
    inner.finish();
  }
  if (const Json* measure = reader.find("measure")) {
    read_measurement(*measure, reader.path("measure"), spec.measurement);
  }
  reader.each("reported", [&](const Json& entry, const std::string& where) {
    Reader inner(entry, where);
    spec.reported.push_back({inner.need_text("claim"), inner.need_text("reported")});
    inner.finish();
  });
  reader.get("threads", spec.threads);
  reader.get("parallel", spec.parallel);
  reader.get("matched_within", spec.matched_within);
  reader.finish();

  if (spec.arms.empty()) fail(ExitCode::config, origin, ": 'arms' must name at least one architecture");
  if (spec.data.empty()) spec.data.push_back({{"data", Json::object()}, {}});
  if (spec.sizes.empty()) spec.sizes.push_back({"", Json::object()});
  if (spec.seeds.empty()) fail(ExitCode::config, origin, ": 'seeds' must hold at least one number");
  if (std::set<std::int64_t>(spec.seeds.begin(), spec.seeds.end()).size() != spec.seeds.size()) {
    fail(ExitCode::config, origin, ": a seed stands twice in 'seeds'");
  }
  for (const std::int64_t seed : spec.seeds) check_range(origin + ", seeds", seed, 0, std::int64_t{1} << 53);
  check_range(origin + ", threads", spec.threads, 0, 1024);
  if (!(spec.matched_within >= 0)) fail(ExitCode::config, origin, ", matched_within must not be negative");
  check_range(origin + ", parallel", spec.parallel, 0, 1024);
  check_distinct(origin + ", arms", spec.arms);
  check_distinct(origin + ", data", spec.data);
  check_distinct(origin + ", sizes", spec.sizes);
  if (spec.baseline.empty()) spec.baseline = spec.arms.front().name;
  check_arm(spec, spec.baseline, origin + ": baseline");
  for (const CompareArm& arm : spec.arms) {
    if (arm.against == arm.name) fail(ExitCode::config, origin, ": arm '", arm.name, "' is against itself");
    if (!arm.against.empty()) check_arm(spec, arm.against, concat(origin, ": arm '", arm.name, "', against"));
  }
  if (spec.curves.empty()) {
    spec.curves = {"val/loss"};
    if (spec.target.metric != "val/loss") spec.curves.insert(spec.curves.begin(), spec.target.metric);
  }
  return spec;
}

CompareSpec read_compare_spec(const std::string& source) {
  std::vector<std::string> names;
  for (const Preset& preset : compare_presets()) {
    if (preset.name == source) return parse_compare_spec(parse_json(preset.text, source), source);
    names.emplace_back(preset.name);
  }
  std::error_code error;
  if (!std::filesystem::exists(source, error)) {
    fail(ExitCode::config, "'", source, "' is neither a file nor a preset (--list shows those).",
         did_you_mean(source, names));
  }
  return parse_compare_spec(read_json_file(source), source);
}

const CompareArm& CompareSpec::arm(std::string_view arm_name) const {
  const auto it = std::find_if(arms.begin(), arms.end(), [&](const CompareArm& a) { return a.name == arm_name; });
  if (it == arms.end()) fail(ExitCode::internal, "no arm '", arm_name, "'");
  return *it;
}

Json CompareSpec::to_json() const {
  Json json = {{"name", name}, {"title", title}, {"description", description}, {"base", base}};
  for (const CompareArm& a : arms) {
    Json entry = {{"name", a.name}, {"set", a.set}};
    if (!a.config.empty()) entry["config"] = a.config;
    if (!a.against.empty()) entry["against"] = a.against;
    json["arms"].push_back(entry);
  }
  for (const CompareData& d : data) {
    Json entry = {{"name", d.name}, {"set", d.set}};
    if (!d.prepare.empty()) entry["prepare"] = d.prepare;
    json["data"].push_back(entry);
  }
  for (const CompareAxis& s : sizes) {
    if (!s.name.empty()) json["sizes"].push_back({{"name", s.name}, {"set", s.set}});
  }
  json["seeds"] = seeds;
  json["baseline"] = baseline;
  json["target"] = {{"metric", target.metric}};
  if (target.value) json["target"]["value"] = *target.value;
  json["curves"] = curves;
  if (!evaluation.tasks.empty()) {
    json["evaluate"] = {
        {"tasks", evaluation.tasks}, {"data_dir", evaluation.data_dir}, {"arguments", evaluation.arguments}};
  }
  if (!measurement.phases.empty()) {
    json["measure"] = {{"phases", measurement.phases},   {"batch_size", measurement.batch_size},
                       {"context", measurement.context}, {"rounds", measurement.rounds},
                       {"seconds", measurement.seconds}, {"dtype", measurement.dtype}};
  }
  for (const ReportedClaim& claim : reported) {
    json["reported"].push_back({{"claim", claim.claim}, {"reported", claim.reported}});
  }
  json["threads"] = threads;
  json["parallel"] = parallel;
  json["matched_within"] = matched_within;
  return json;
}

}  // namespace satformer
