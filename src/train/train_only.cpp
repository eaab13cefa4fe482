#include "train/train_only.h"

#include <fnmatch.h>

#include "base/error.h"

namespace satformer {

std::int64_t train_only(ParameterStore& parameters, const std::string& patterns) {
  std::vector<std::string> list, names;
  for (std::size_t at = 0; at <= patterns.size();) {
    const std::size_t end = std::min(patterns.find(',', at), patterns.size());
    const std::size_t first = patterns.find_first_not_of(' ', at);
    std::string pattern = first < end ? patterns.substr(first, end - first) : std::string();
    while (pattern.ends_with(' ')) pattern.pop_back();
    if (pattern.empty()) fail(ExitCode::config, "training.train_only '", patterns, "' has an empty pattern");
    list.push_back(std::move(pattern));
    at = end + 1;
  }
  for (const Parameter& p : parameters.list()) names.push_back(p.name);
  const auto matches = [](const std::string& pattern, const std::string& name) {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  };
  for (const std::string& pattern : list) {
    bool used = false;
    for (const std::string& name : names) used = used || matches(pattern, name);
    if (!used) {
      fail(ExitCode::config, "training.train_only: no parameter matches '", pattern, "'.",
           did_you_mean(pattern, names), " 'satformer info --tensors' lists them");
    }
  }
  std::int64_t trained = 0;
  for (Parameter& p : parameters.list()) {
    bool wanted = false;
    for (const std::string& pattern : list) wanted = wanted || matches(pattern, p.name);
    p.value.set_requires_grad(wanted);
    if (wanted) trained += p.value.numel();
  }
  return trained;
}

}  // namespace satformer
