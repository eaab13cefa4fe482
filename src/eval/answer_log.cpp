#include "eval/answer_log.h"

#include <filesystem>

#include "base/error.h"
#include "base/unicode.h"

namespace satformer {

namespace fs = std::filesystem;

std::string sha256_text(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.hex();
}

std::string safe_file_name(std::string_view model_name) {
  std::string name;
  bool in_run = false;
  for (const char c : model_name) {
    const bool bad = std::string_view("\"<>:/|\\?*[]").find(c) != std::string_view::npos;
    if (bad && !in_run) name += "__";
    if (!bad) name += c;
    in_run = bad;
  }
  return name;
}

AnswerLog::AnswerLog(const std::string& folder, const std::string& task, const Json& settings) {
  path_ = (fs::path(folder) /
           concat("unfinished_", safe_file_name(task), "_", sha256_text(settings.dump()).substr(0, 12), ".jsonl"))
              .string();
  std::string kept;
  if (fs::exists(path_)) {
    const std::string text = read_file(path_);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      if (end == std::string::npos) break;
      const std::string_view line = std::string_view(text).substr(at, end - at);
      at = end + 1;
      const Json json = Json::parse(line, nullptr, false);
      if (!json.is_object()) continue;
      try {
        Answer answer{json.at("request_hash").get<std::string>(), {}};
        for (const Json& item : json.at("likelihoods")) {
          answer.response.likelihoods.emplace_back(item.at(0).get<double>(), item.at(1).get<bool>());
        }
        answer.response.tokens = json.at("tokens").get<std::int64_t>();
        answer.response.text = json.at("text").get<std::string>();
        answers_[json.at("doc_id").get<std::int64_t>()] = std::move(answer);
        kept += line;
        kept += '\n';
      } catch (const Json::exception&) {
        continue;
      }
    }
    if (kept != text) write_file_atomic(path_, kept);
  }
  file_ = std::make_unique<AppendFile>(path_);
}

const Response* AnswerLog::find(std::int64_t id, const std::string& request_hash) const {
  const auto found = answers_.find(id);
  return found != answers_.end() && found->second.request_hash == request_hash ? &found->second.response : nullptr;
}

void AnswerLog::add(std::int64_t id, const std::string& request_hash, const Response& response) {
  Json json = {{"doc_id", id}, {"request_hash", request_hash}, {"tokens", response.tokens}, {"text", response.text}};
  json["likelihoods"] = Json::array();
  for (const auto& [value, greedy] : response.likelihoods) json["likelihoods"].push_back({value, greedy});
  file_->append(json.dump() + "\n");
}

}  // namespace satformer
