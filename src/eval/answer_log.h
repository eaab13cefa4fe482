// The answers of an unfinished task, one JSON line a document, so that a stopped run goes on where it was.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "eval/task.h"
#include "io/file.h"

namespace satformer {

class AnswerLog {
 public:
  // Adds to `folder`/unfinished_TASK_<hash of settings>.jsonl, a rank above 0 to ....rankN.jsonl, and knows what it
  // and those of other ranks hold. Lines that are cut off or of no use are dropped.
  AnswerLog(const std::string& folder, const std::string& task, const Json& settings, int rank = 0);
  // What the log holds for a document; null if nothing, or if the request was another one.
  const Response* find(std::int64_t id, const std::string& request_hash) const;
  void add(std::int64_t id, const std::string& request_hash, const Response& response);
  const std::string& path() const { return path_; }                 // of the file that it adds to
  const std::vector<std::string>& paths() const { return paths_; }  // of all files that it knows
  std::size_t size() const { return answers_.size(); }

 private:
  struct Answer {
    std::string request_hash;
    Response response;
  };
  void read(const std::string& path);

  std::string path_;
  std::vector<std::string> paths_;
  std::map<std::int64_t, Answer> answers_;
  std::unique_ptr<AppendFile> file_;
};

// The fields of a response; a log-likelihood that is not finite is null and becomes NaN.
Json response_json(const Response& response);
Response response_from_json(const Json& json);  // throws Json::exception

std::string sha256_text(std::string_view text);
// Runs of characters that names of files cannot have become "__", as in lm-eval.
std::string safe_file_name(std::string_view name);

}  // namespace satformer
