// Checks that the tasks share.
#pragma once

#include "base/error.h"
#include "data/synthetic/options.h"

namespace satformer::synthetic {

inline void need_length(const SyntheticOptions& o, std::int64_t needed, const std::string& what) {
  if (o.seq_length >= needed) return;
  fail(ExitCode::config, o.task.value_or(""), ": seq_length = ", o.seq_length, " is too short for ", what,
       ": it must be at least ", needed);
}

inline void need_vocab(const SyntheticOptions& o, std::int64_t needed, const std::string& what) {
  if (o.vocab_size >= needed) return;
  fail(ExitCode::config, o.task.value_or(""), ": vocab_size = ", o.vocab_size, " is too small for ", what,
       ": it must be at least ", needed);
}

// `questions`, where 0 means all.
inline std::int64_t number_of_questions(const SyntheticOptions& o) {
  if (o.questions > o.pairs) {
    fail(ExitCode::config, o.task.value_or(""), ": questions = ", o.questions, " is more than pairs = ", o.pairs,
         ": each is asked for once at most");
  }
  return o.questions > 0 ? o.questions : o.pairs;
}

}  // namespace satformer::synthetic
