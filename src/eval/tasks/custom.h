// A user's own task: a JSON file. Keys and templates are described in docs/tasks.md.
#pragma once

#include <string>
#include <vector>

#include "eval/task.h"

namespace satformer {

// Text with {{column}}, {{column.inner}} or {{column.0}} in it; {{column|strip}} without white space at both ends.
class Template {
 public:
  Template() = default;
  // Error(config) naming `origin` where braces are not closed or a name is empty.
  Template(std::string text, std::string origin);
  // Error(data) naming the row where a column is missing or is no text or number.
  std::string render(const Row& row) const;
  // A template of one column alone that holds a list gives its texts; any other gives one text.
  std::vector<std::string> render_list(const Row& row) const;
  bool empty() const { return text_.empty(); }

 private:
  struct Part {
    std::string text;               // literal, where path is empty
    std::vector<std::string> path;  // column and what is inside
    bool strip = false;
  };
  std::string text_;
  std::vector<Part> parts_;
};

// Error(config) naming the file and key (and the nearest known key) where the file does not describe a task.
Task load_custom_task(const std::string& path);

}  // namespace satformer
