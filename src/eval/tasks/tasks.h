// The built-in tasks, by family.
#pragma once

#include <vector>

#include "eval/task.h"

namespace satformer::tasks {

std::vector<Task> multiple_choice();  // hellaswag, piqa, arc, winogrande, openbookqa, boolq, sciq
Task lambada_openai();
std::vector<Task> completion();   // swde, fda, squad_completion: versions 0 and 1
std::vector<Task> closed_book();  // triviaqa, nq_open
Task drop();
std::vector<Task> with_passage();  // the forms that supply a passage and ask once or twice
Task msmarco();
std::vector<Task> own();  // recall_distance, copy_text, program_text

// Names of a split's files.
std::vector<std::string> split_files(const std::string& split);

// Shared by several families.
Generation short_answer();  // 48 tokens, up to a newline
Metric contains_metric();
// Error(data) where `index` is not one of `count` choices, naming the row and column.
std::size_t check_gold(std::int64_t index, std::size_t count, const Columns& columns, std::string_view column);
// Error(data) where there is no choice or an empty one.
void check_choices(const std::vector<std::string>& choices, const std::string& origin);

}  // namespace satformer::tasks
