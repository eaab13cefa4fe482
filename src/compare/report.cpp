#include "compare/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/count_of.h"
#include "base/error.h"
#include "base/progress.h"
#include "io/file.h"
#include "report/page.h"
#include "report/table.h"

namespace satformer {
namespace {

std::string short_number(double value) {
  if (!std::isfinite(value)) return "–";
  char text[48];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json estimate_json(const SeedEstimate& e) {
  return {{"n", e.n},
          {"value", number_or_null(e.mean)},
          {"low", number_or_null(e.low)},
          {"high", number_or_null(e.high)}};
}

std::string csv_number(double value) {
  if (!std::isfinite(value)) return "";
  char text[48];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

std::string within(const CompareGroup& group) {
  const std::string title = group_title(group);
  return title.empty() ? "" : concat(title, ": ");
}

// One sentence on steps to a target, for an arm against another.
std::string steps_finding(const Comparison& c, const ArmSummary& a) {
  const ArmSummary& b = c.arm(a.group, a.against);
  const ToTarget &own = *a.target, &other = *b.target;
  if (own.runs == 0 || other.runs == 0) return {};
  const auto told = [](const std::string& arm, const ToTarget& t) {
    if (t.reached == 0) return concat(arm, " did not reach the target in ", short_number(t.longest), " steps");
    return concat(arm, " reached the target in ", t.reached, " of ", count_of(t.runs, "run"), ", ",
                  std::isfinite(t.steps.mean) ? concat("in ", short_number(t.steps.mean), " steps (median)")
                                              : concat("half of them not in ", short_number(t.longest), " steps"));
  };
  const std::string head = concat(within(a.group), told(a.arm, own), "; ", told(b.arm, other), ". ");
  if (own.runs < 2 || other.runs < 2) return head + "One seed shows no difference.";
  if (own.steps.high < other.steps.low) return head + "The intervals do not overlap: fewer steps.";
  if (own.steps.low > other.steps.high) return head + "The intervals do not overlap: more steps.";
  return head + "The intervals overlap: no difference shown.";
}

std::string value_finding(const Comparison& c, const ArmSummary& a) {
  if (a.difference.n == 0) return {};
  const CompareTarget& target = c.plan->spec.target;
  return concat(within(a.group), a.arm, " less ", a.against, " in ", target.metric, ": ",
                short_number(a.difference.mean),
                std::isfinite(a.difference.low)
                    ? concat(" [", short_number(a.difference.low), ", ", short_number(a.difference.high), "]")
                    : std::string(),
                " over ", count_of(a.difference.n, "seed"), ": ", a.verdict(target.higher_is_better), ".");
}

Json arm_json(const Comparison& c, const ArmSummary& a) {
  const ArmCost& cost = c.plan->cost(a.group, a.arm);
  Json json = {{"data", a.group.data},
               {"size", a.group.size},
               {"arm", a.arm},
               {"against", a.against},
               {"architecture", cost.architecture},
               {"parameters", cost.parameters},
               {"flops_per_token", cost.flops_per_token},
               {"estimated_memory_bytes", cost.memory_bytes},
               {"steps", cost.steps},
               {"tokens_per_step", cost.tokens_per_step},
               {"planned", a.planned},
               {"final", estimate_json(a.final)},
               {"difference", estimate_json(a.difference)},
               {"verdict", a.verdict(c.plan->spec.target.higher_is_better)}};
  if (a.target) {
    json["target"] = {{"value", a.target->value},
                      {"runs", a.target->runs},
                      {"reached", a.target->reached},
                      {"longest_without", a.target->longest},
                      {"steps", estimate_json(a.target->steps)},
                      {"tokens", estimate_json(a.target->tokens)},
                      {"seconds", estimate_json(a.target->seconds)},
                      {"flops", estimate_json(a.target->flops)}};
  }
  for (const auto& [task, estimate] : a.tasks) {
    json["tasks"][task] = estimate_json(estimate);
    json["tasks"][task]["standard_error"] = number_or_null(a.task_errors.at(task));
    json["tasks"][task]["difference"] = estimate_json(a.task_differences.at(task));
  }
  return json;
}

std::size_t trained_runs(const Comparison& c) {
  return static_cast<std::size_t>(
      std::count_if(c.runs.begin(), c.runs.end(), [](const auto& entry) { return entry.second.trained; }));
}

std::vector<std::pair<std::string, std::string>> facts(const Comparison& c) {
  const Plan& plan = *c.plan;
  std::string arms, seeds;
  for (const CompareArm& arm : plan.spec.arms) arms += (arms.empty() ? "" : ", ") + arm.name;
  for (const std::int64_t seed : plan.spec.seeds) seeds += (seeds.empty() ? "" : ", ") + std::to_string(seed);
  std::vector<std::pair<std::string, std::string>> list = {
      {"arms", arms},
      {"seeds", seeds},
      {"runs", concat(trained_runs(c), " of ", plan.runs.size(), " trained")},
      {"at once", concat(count_of(plan.parallel, "run"), " of ", count_of(plan.threads, "thread"), ", on ",
                         plan.devices.front())},
      {"planned training FLOPs", human_count(plan.flops())}};
  return list;
}

std::vector<std::string> failures(const Comparison& c) {
  std::vector<std::string> list;
  for (const PlannedRun& run : c.plan->runs) {
    const RunResult& result = c.runs.at(run.folder);
    if (!result.failure.empty()) list.push_back(concat(run.name(), ": ", result.failure));
  }
  return list;
}

std::string page(const Comparison& c, const std::vector<NamedTable>& tables, const std::vector<NamedFigure>& figures,
                 const std::string& command) {
  const CompareSpec& spec = c.plan->spec;
  Page page(spec.title, spec.description);
  page.facts(facts(c));
  if (!command.empty()) page.code(command);
  page.heading("Findings");
  for (const std::string& sentence : comparison_findings(c)) page.paragraph(sentence);
  const auto figure = [&](const NamedFigure& f) { page.figure(f.svg, f.caption); };
  for (const NamedTable& t : tables) {
    if (t.name == "results") page.heading("Results");
    if (t.name == "results" || t.name == "target") page.table(t.table);
  }
  for (const CompareGroup& group : c.plan->groups) {
    const std::string title = group_title(group);
    bool first = true;
    for (const NamedFigure& f : figures) {
      const bool own = title.empty()
                           ? f.group.empty() && !f.name.starts_with("speed") && !f.name.starts_with("pareto")
                           : f.group == title;
      if (!own) continue;
      if (first) page.heading(title.empty() ? "Training" : concat("Training: ", title));
      first = false;
      figure(f);
    }
  }
  for (const NamedTable& t : tables) {
    if (t.name == "tasks") {
      page.heading("Tasks");
      page.table(t.table);
    }
    if (t.name == "speed") {
      page.heading("Speed and memory");
      page.table(t.table);
    }
  }
  bool other = false;
  for (const NamedFigure& f : figures) {
    const bool whole = f.name.starts_with("speed") || f.name.starts_with("pareto") || f.name.ends_with("-sizes");
    const bool shown = group_title(c.plan->groups.front()).empty() && f.name.ends_with("-sizes");
    if (!whole || shown) continue;
    if (!other && c.speeds.empty()) page.heading("Sizes");
    other = true;
    figure(f);
  }
  for (const NamedTable& t : tables) {
    if (t.name != "reported") continue;
    page.heading("Reported elsewhere");
    page.table(t.table);
  }
  if (const auto failed = failures(c); !failed.empty()) {
    page.heading("Runs that failed");
    for (const std::string& line : failed) page.paragraph(line);
  }
  return page.html();
}

std::string markdown(const Comparison& c, const std::vector<NamedTable>& tables,
                     const std::vector<NamedFigure>& figures, const std::string& command) {
  const CompareSpec& spec = c.plan->spec;
  std::string text = concat("# ", spec.title, "\n\n");
  if (!spec.description.empty()) text += spec.description + "\n\n";
  if (!command.empty()) text += concat("    ", command, "\n\n");
  for (const auto& [name, value] : facts(c)) text += concat("- ", name, ": ", value, "\n");
  text += "\n## Findings\n\n";
  for (const std::string& sentence : comparison_findings(c)) text += concat("- ", sentence, "\n");
  for (const NamedTable& t : tables) {
    Table table = t.table;
    text += concat("\n## ", table.caption, "\n\n");
    table.caption.clear();
    text += table_markdown(table);
  }
  text += "\n## Figures\n";
  for (const NamedFigure& f : figures) text += concat("\n![", f.name, "](figures/", f.name, ".svg)\n");
  if (const auto failed = failures(c); !failed.empty()) {
    text += "\n## Runs that failed\n\n";
    for (const std::string& line : failed) text += concat("- ", line, "\n");
  }
  return text;
}

}  // namespace

std::vector<std::string> comparison_findings(const Comparison& c) {
  std::vector<std::string> list;
  for (const ArmSummary& a : c.arms) {
    if (a.against.empty()) continue;
    const std::string sentence = c.plan->spec.target.value && a.target ? steps_finding(c, a) : value_finding(c, a);
    if (!sentence.empty()) list.push_back(sentence);
  }
  const std::size_t trained = trained_runs(c);
  if (trained < c.plan->runs.size()) {
    list.push_back(concat(c.plan->runs.size() - trained, " of ", c.plan->runs.size(),
                          " runs are not trained: what stands here is preliminary."));
  }
  return list;
}

std::string runs_csv(const Comparison& c) {
  std::vector<std::string> metrics, tasks;
  for (const auto& [folder, run] : c.runs) {
    for (const auto& [key, value] : run.last) {
      if (std::find(metrics.begin(), metrics.end(), key) == metrics.end()) metrics.push_back(key);
    }
    for (const auto& [task, score] : run.tasks) {
      if (std::find(tasks.begin(), tasks.end(), task) == tasks.end()) tasks.push_back(task);
    }
  }
  std::sort(metrics.begin(), metrics.end());
  std::string text = "data,size,arm,seed,trained,parameters,steps";
  for (const std::string& key : metrics) text += "," + csv_field(key);
  for (const std::string& task : tasks) text += "," + csv_field("task/" + task);
  text += "\r\n";
  for (const PlannedRun& run : c.plan->runs) {
    const RunResult& r = c.runs.at(run.folder);
    text +=
        concat(csv_field(run.group.data), ',', csv_field(run.group.size), ',', csv_field(run.arm), ',', run.seed, ',',
               r.trained ? "true" : "false", ',', c.plan->cost(run.group, run.arm).parameters, ',', run.steps);
    for (const std::string& key : metrics) {
      const auto it = r.last.find(key);
      text += "," + (it == r.last.end() ? "" : csv_number(it->second));
    }
    for (const std::string& task : tasks) {
      const auto it = r.tasks.find(task);
      text += "," + (it == r.tasks.end() ? "" : csv_number(it->second.value));
    }
    text += "\r\n";
  }
  return text;
}

std::string curves_csv(const Comparison& c) {
  std::string text = "data,size,arm,seed,metric,step,tokens,seconds,value\r\n";
  for (const PlannedRun& run : c.plan->runs) {
    for (const auto& [key, curve] : c.runs.at(run.folder).curves) {
      if (!key.starts_with("val/") && !key.starts_with("train/")) continue;
      for (std::size_t i = 0; i < curve.values.size(); ++i) {
        text +=
            concat(csv_field(run.group.data), ',', csv_field(run.group.size), ',', csv_field(run.arm), ',', run.seed,
                   ',', csv_field(key), ',', csv_number(curve.steps[i]), ',', csv_number(curve.tokens[i]), ',',
                   csv_number(curve.seconds[i]), ',', csv_number(curve.values[i]), "\r\n");
      }
    }
  }
  return text;
}

void write_report(const Comparison& c, const std::string& command) {
  const std::string& output = c.plan->output;
  const std::vector<NamedTable> tables = comparison_tables(c);
  const std::vector<NamedFigure> figures = comparison_figures(c);
  make_directories(output + "/tables");
  make_directories(output + "/figures");
  for (const NamedTable& t : tables) write_file_atomic(output + "/tables/" + t.name + ".csv", table_csv(t.table));
  write_file_atomic(output + "/tables/runs.csv", runs_csv(c));
  write_file_atomic(output + "/tables/curves.csv", curves_csv(c));
  for (const NamedFigure& f : figures) write_file_atomic(output + "/figures/" + f.name + ".svg", f.svg);
  Json json = {{"name", c.plan->spec.name}, {"target", {{"metric", c.plan->spec.target.metric}}}};
  for (const ArmSummary& a : c.arms) json["arms"].push_back(arm_json(c, a));
  for (const SpeedResult& s : c.speeds) json["speed"].push_back(speed_json(s));
  json["findings"] = comparison_findings(c);
  write_file_atomic(output + "/report.json", json.dump(2) + "\n");
  write_file_atomic(output + "/report.md", markdown(c, tables, figures, command));
  write_file_atomic(output + "/report.html", page(c, tables, figures, command));
}

}  // namespace satformer
