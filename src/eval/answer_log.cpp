#include "eval/answer_log.h"

#include <algorithm>
#include <cmath>
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

Json response_json(const Response& response) {
  Json json = {{"tokens", response.tokens}, {"text", response.text}, {"likelihoods", Json::array()}};
  for (const auto& [value, greedy] : response.likelihoods) json["likelihoods"].push_back({value, greedy});
  return json;
}

Response response_from_json(const Json& json) {
  Response response;
  for (const Json& item : json.at("likelihoods")) {
    const double value = item.at(0).is_null() ? std::nan("") : item.at(0).get<double>();
    response.likelihoods.emplace_back(value, item.at(1).get<bool>());
  }
  response.tokens = json.at("tokens").get<std::int64_t>();
  response.text = json.at("text").get<std::string>();
  return response;
}

AnswerLog::AnswerLog(const std::string& folder, const std::string& task, const Json& settings, int rank) {
  const std::string name =
      concat("unfinished_", safe_file_name(task), "_", sha256_text(settings.dump()).substr(0, 12));
  path_ = (fs::path(folder) / concat(name, rank == 0 ? "" : concat(".rank", rank), ".jsonl")).string();
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    if (file == name + ".jsonl" || (file.starts_with(name + ".rank") && file.ends_with(".jsonl"))) {
      paths_.push_back(entry.path().string());
    }
  }
  for (const std::string& path : paths_) read(path);
  if (std::find(paths_.begin(), paths_.end(), path_) == paths_.end()) paths_.push_back(path_);
  file_ = std::make_unique<AppendFile>(path_);
}

void AnswerLog::read(const std::string& path) {
  const std::string text = read_file(path);
  std::string kept;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string::npos) break;
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    try {
      answers_[json.at("doc_id").get<std::int64_t>()] = {json.at("request_hash").get<std::string>(),
                                                         response_from_json(json)};
      kept += line;
      kept += '\n';
    } catch (const Json::exception&) {
      continue;
    }
  }
  // Another rank may be at work on a file that is not ours.
  if (path == path_ && kept != text) write_file_atomic(path, kept);
}

const Response* AnswerLog::find(std::int64_t id, const std::string& request_hash) const {
  const auto found = answers_.find(id);
  return found != answers_.end() && found->second.request_hash == request_hash ? &found->second.response : nullptr;
}

void AnswerLog::add(std::int64_t id, const std::string& request_hash, const Response& response) {
  Json json = response_json(response);
  json["doc_id"] = id;
  json["request_hash"] = request_hash;
  file_->append(json.dump() + "\n");
}

}  // namespace satformer
