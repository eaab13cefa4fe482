#include "data/synthetic/options.h"

#include "data/synthetic/task.h"

namespace satformer {

void SyntheticOptions::visit(FieldVisitor& v) {
  v.field("vocab_size", &vocab_size, "ids of the task", {.min = 4, .max = 1 << 24});
  v.field("seq_length", &seq_length, "tokens of an example, which is one window", {.min = 4, .max = 1 << 20});
  visit_difficulty(v);
}

void SyntheticOptions::visit_difficulty(FieldVisitor& v) {
  v.field("task", &task, "what is generated (docs/synthetic.md)", {.choices = synthetic_task_names()});
  v.field("pairs", &pairs, "what an example states: pairs, triggers, tokens to copy, entries, facts",
          {.min = 1, .max = 1 << 16});
  v.field("questions", &questions, "how many of them it asks for; 0: all, or as many as fit",
          {.min = 0, .max = 1 << 16});
  v.field("key_length", &key_length, "tokens of a phone book's name", {.min = 1, .max = 64});
  v.field("value_length", &value_length, "digits of a phone book's number", {.min = 1, .max = 64});
  v.field("power", &power, "mqar: a query stands after a gap of n pairs with a probability like n^(power - 1)",
          {.min = 0, .max = 100, .open_min = true});
  v.field("examples", &examples, "training examples of an epoch", {.min = 1, .max = 1e12});
  v.field("val_examples", &val_examples, "validation examples; none of them is a training example",
          {.min = 1, .max = 1e12});
  v.field("example_seed", &seed, "what the examples are drawn with", {.min = 0});
}

}  // namespace satformer
