// A study of a model: figures measured on data, as JSON, tables and charts. Each study is one file in studies/ and
// one line of the list.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "analysis/measurement.h"
#include "base/json.h"
#include "probe/intervention.h"
#include "report/table.h"
#include "report/token_map.h"

namespace satformer {

// What a study found, in the order of its page.
struct StudyResult {
  std::string name, title;
  Json json = Json::object();
  struct Paragraph {
    std::string text;
  };
  struct Figure {
    std::string svg, caption;
  };
  struct NamedTable {
    std::string file;  // "gates.csv"
    Table table;
    bool shown = true;  // on the page; always written as CSV
  };
  std::vector<std::variant<Paragraph, Figure, NamedTable, TokenMap>> elements;
  std::vector<std::string> summary;  // lines for the terminal

  void paragraph(std::string text) { elements.emplace_back(Paragraph{std::move(text)}); }
  void figure(std::string svg, std::string caption = {}) {
    elements.emplace_back(Figure{std::move(svg), std::move(caption)});
  }
  void table(std::string file, Table table, bool shown = true) {
    elements.emplace_back(NamedTable{std::move(file), std::move(table), shown});
  }
  void tokens(TokenMap map) { elements.emplace_back(std::move(map)); }
};

// What studies work on; all outlive them.
struct StudyInput {
  Model* model = nullptr;
  const Tokenizer* tokenizer = nullptr;  // null: none, and no study of texts is asked for
  TokenKinds* kinds = nullptr;
  const Measurement* measured = nullptr;       // of the unedited model on the data; null without data
  std::span<const std::int64_t> token_counts;  // of each id in the data's shards
  std::optional<std::int64_t> document_end;
  std::int64_t batch_size = 8;
  std::uint64_t seed = 42;                  // that the model's training began with
  std::vector<Intervention> interventions;  // those asked for
  std::string prompt;
  std::vector<std::vector<std::string>> contrast;  // two groups of texts
  std::vector<std::string> contrast_names;
  std::string metrics_path;        // metrics.jsonl of the run
  std::int64_t resamples = 10000;  // of bootstrap intervals
  std::function<void(const std::string&)> progress;

  PassOptions pass(const std::string& what) const;  // batch size, documents and progress
};

enum class Needs { data, prompt, contrast, run };

struct Study {
  const char* name;
  const char* what;  // one line of the list of studies
  Needs needs;
  // Why it does not apply to a model; empty: it does.
  std::string (*refusal)(const Model& model);
  void (*run)(const StudyInput& input, StudyResult& result);
};

std::span<const Study> studies();
// The studies of a comma-separated list, or of an empty one all that apply to the model and for which something is
// given. Error(usage, config) for an unknown name (nearest named), for one that does not apply or lacks its input,
// and for a model without gates or mixing weights, naming those that apply.
std::vector<const Study*> chosen_studies(const std::string& list, const Model& model,
                                         const std::function<std::string(Needs)>& missing);

// Refusals that several studies share.
std::string refuse_nothing(const Model& model);
std::string refuse_without_gates(const Model& model);
std::string refuse_without_edits(const Model& model);
std::string refuse_without_early_values(const Model& model);

std::string layer_label(std::int64_t layer);  // "layer 3"

}  // namespace satformer
