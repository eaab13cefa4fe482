// The answers of an unfinished task, one JSON line a document, so that a stopped run goes on where it was.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "eval/task.h"
#include "io/file.h"

namespace satformer {

class AnswerLog {
 public:
  // `folder`/unfinished_TASK_<hash of settings>.jsonl. Lines that are cut off or of no use are dropped.
  AnswerLog(const std::string& folder, const std::string& task, const Json& settings);
  // What the log holds for a document; null if nothing, or if the request was another one.
  const Response* find(std::int64_t id, const std::string& request_hash) const;
  void add(std::int64_t id, const std::string& request_hash, const Response& response);
  const std::string& path() const { return path_; }
  std::size_t size() const { return answers_.size(); }

 private:
  struct Answer {
    std::string request_hash;
    Response response;
  };
  std::string path_;
  std::map<std::int64_t, Answer> answers_;
  std::unique_ptr<AppendFile> file_;
};

std::string sha256_text(std::string_view text);
// Runs of characters that names of files cannot have become "__", as in lm-eval.
std::string safe_file_name(std::string_view name);

}  // namespace satformer
