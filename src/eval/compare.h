// Paired differences between two evaluations of the same documents.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace satformer {

struct PairedDifference {
  std::string task, metric;
  std::int64_t documents = 0;
  double first = 0, second = 0;        // means (weighted where the metric is)
  double difference = 0;               // second - first
  double low = 0, high = 0;            // its 95 % bootstrap interval over documents
  std::int64_t better = 0, worse = 0;  // documents where the second is above, below the first
};

// `first`, `second`: samples_*.jsonl files, or results_*.json with their samples beside them (all tasks that both
// have). Documents are matched by doc_id. Error(data) naming the document if two of one id differ, if no document is
// in both, or where a file is not of that form.
std::vector<PairedDifference> compare_samples(const std::string& first, const std::string& second,
                                              std::int64_t resamples = 10000);

std::string comparison_table(const std::vector<PairedDifference>& differences);

}  // namespace satformer
