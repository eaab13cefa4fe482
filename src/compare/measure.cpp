#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "bench/compare_arms.h"
#include "compare/runner.h"
#include "io/file.h"

namespace satformer {
namespace {

std::string speed_path(const Plan& plan) { return plan.output + "/speed.json"; }

const std::string& against(const CompareSpec& spec, const CompareArm& arm) {
  return arm.against.empty() ? spec.baseline : arm.against;
}

WorkloadSpec workload(const Plan& plan, const std::string& arm, const std::string& phase) {
  const CompareMeasurement& m = plan.spec.measurement;
  const ArmCost& cost = plan.cost(plan.groups.front(), arm);
  WorkloadSpec spec;
  spec.architecture = cost.architecture;
  spec.overrides = cost.model.dump();
  spec.phase = phase;
  spec.batch_size = m.batch_size;
  spec.context = m.context;
  spec.dtype = m.dtype;
  spec.device = plan.devices.front();
  spec.validate();
  return spec;
}

// What a stored result must have been measured with to count.
Json conditions(const Plan& plan) {
  const CompareMeasurement& m = plan.spec.measurement;
  Json json = {{"batch_size", m.batch_size}, {"context", m.context}, {"rounds", m.rounds},
               {"seconds", m.seconds},       {"dtype", m.dtype},     {"device", plan.devices.front()}};
  for (const CompareArm& arm : plan.spec.arms)
    json["models"][arm.name] = plan.cost(plan.groups.front(), arm.name).model;
  return json;
}

}  // namespace

void check_measurement(const Plan& plan) {
  for (const std::string& phase : plan.spec.measurement.phases) {
    for (const CompareArm& arm : plan.spec.arms) workload(plan, arm.name, phase);
  }
}

std::vector<SpeedResult> read_speeds(const Plan& plan) {
  std::vector<SpeedResult> results;
  if (!std::filesystem::exists(speed_path(plan))) return results;
  try {
    const Json json = read_json_file(speed_path(plan));
    if (json.value("conditions", Json()) != conditions(plan)) return results;
    for (const Json& entry : json.at("results")) results.push_back(speed_from_json(entry));
  } catch (const std::exception&) {  // a damaged one is measured again
    results.clear();
  }
  return results;
}

std::vector<SpeedResult> measure_arms(const Plan& plan, const RunnerOptions& options) {
  const CompareMeasurement& m = plan.spec.measurement;
  std::vector<SpeedResult> results = read_speeds(plan);
  const auto known = [&](const std::string& arm, const std::string& phase) {
    for (const SpeedResult& r : results) {
      if (r.arm == arm && r.phase == phase) return true;
    }
    return false;
  };
  for (const std::string& phase : m.phases) {
    for (const CompareArm& arm : plan.spec.arms) {
      const std::string other = against(plan.spec, arm);
      if (arm.name == other || known(arm.name, phase)) continue;
      if (options.stop && options.stop()) return results;
      const auto a = start_worker(arm.name, workload(plan, arm.name, phase));
      const auto b = start_worker(other, workload(plan, other, phase));
      PairOptions pair;
      pair.rounds = static_cast<int>(m.rounds);
      pair.seconds = m.seconds;
      pair.progress = [&](const Round&, int done) {
        if (options.progress) {
          options.progress(
              concat("measuring ", phase, ": '", arm.name, "' against '", other, "', round ", done, "/", m.rounds));
        }
      };
      const PairResult measured = compare_arms(*a, *b, pair);
      SpeedResult r{arm.name, other, phase};
      r.tokens_per_second = measured.a;
      r.against_tokens_per_second = measured.b;
      r.ratio = measured.ratio;
      r.low = measured.interval.low;
      r.high = measured.interval.high;
      r.peak_bytes = measured.a_peak_bytes;
      r.against_peak_bytes = measured.b_peak_bytes;
      r.clean = measured.clean_enough;
      results.push_back(r);
      Json json = {{"conditions", conditions(plan)}, {"results", Json::array()}};
      for (const SpeedResult& entry : results) json["results"].push_back(speed_json(entry));
      write_file_atomic(speed_path(plan), json.dump(2) + "\n");
    }
  }
  return results;
}

}  // namespace satformer
