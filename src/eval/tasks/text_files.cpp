#include "eval/tasks/text_files.h"

#include <filesystem>

#include "base/error.h"
#include "base/unicode.h"
#include "data/text_source.h"

namespace satformer {
namespace {

void read_documents(const TextInput& input, const std::string& column, std::vector<Row>& rows) {
  if (input.format == TextFormat::parquet) {
    fail(ExitCode::data, input.path, ": a text to score is plain text or JSON lines, not Parquet");
  }
  if (input.format == TextFormat::json_lines) {
    for (Row& row : read_rows(std::vector<std::string>{input.path})) rows.push_back(std::move(row));
    return;
  }
  TextStream stream(input, true);
  std::string text;
  while (stream.read(text)) {
  }
  Row row;
  row.origin = input.path;
  row.columns = {{column, replace_invalid_utf8(text)}};
  rows.push_back(std::move(row));
}

}  // namespace

std::vector<Task> text_tasks(const std::vector<std::string>& patterns, const std::string& column, bool each) {
  const InputList inputs = find_inputs(patterns);
  Task task;
  task.name = "text";
  task.version = 1;
  task.kind = RequestKind::rolling;
  task.split = task.example_split = "test";
  task.metrics = {{"token_perplexity", Aggregation::weighted_perplexity, false},
                  {"byte_perplexity", Aggregation::weighted_perplexity, false},
                  {"word_perplexity", Aggregation::weighted_perplexity, false},
                  {"bits_per_byte", Aggregation::bits_per_byte, false}};
  task.ask = [column](const Row& row) {
    Question q;
    q.choices = {Columns(row).text(column)};
    if (q.choices[0].empty()) fail(ExitCode::data, row.origin, ": there is no text");
    q.target = q.choices[0];
    q.document = row.columns;
    return q;
  };
  std::vector<Task> tasks;
  const auto add = [&](std::string name, std::vector<TextInput> files) {
    task.name = std::move(name);
    task.names = {files[0].path};
    task.make_rows = [files, column](std::int64_t) {
      std::vector<Row> rows;
      for (const TextInput& input : files) read_documents(input, column, rows);
      return rows;
    };
    tasks.push_back(task);
  };
  if (!each) {
    add("text", inputs.files);
    return tasks;
  }
  for (const TextInput& input : inputs.files) {
    std::string name = std::filesystem::path(input.path).filename().string();
    for (const Task& other : tasks) {
      if (other.name == name) name = input.path;
    }
    add(name, {input});
  }
  return tasks;
}

}  // namespace satformer
