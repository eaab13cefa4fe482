// Gates and loss over the tokens of a window, and of a prompt.
#include <nlohmann/json.hpp>

#include "analysis/charts.h"
#include "analysis/studies/list.h"
#include "analysis/text_rows.h"
#include "base/error.h"

namespace satformer {
namespace {

Json map_json(const TokenMap& map, const Measurement& m, std::int64_t row) {
  Json json;
  json["tokens"] = map.tokens;
  for (std::size_t t = 0; t < map.tokens.size(); ++t) {
    json["ids"].push_back(m.tokens_WT1[row][static_cast<std::int64_t>(t)].item<std::int64_t>());
    json["kinds"].push_back(m.kind_names[m.kinds_WT[row][static_cast<std::int64_t>(t)].item<std::uint8_t>()]);
  }
  for (const TokenTrack& track : map.tracks) {
    json["tracks"].push_back({{"name", track.name}, {"group", track.group}, {"values", track.values}});
  }
  return json;
}

void add_view(const std::string& title, const Measurement& m, std::int64_t count, const StudyInput& input,
              StudyResult& result) {
  TokenMap map = token_map(title, m, 0, count, input.tokenizer);
  result.json = map_json(map, m, 0);
  Table table;
  table.columns = {{"position", true, ""}, {"token", false, ""}, {"kind", false, ""}};
  for (const TokenTrack& track : map.tracks) table.columns.push_back({track.group + ", " + track.name, true, ""});
  for (std::size_t t = 0; t < map.tokens.size(); ++t) {
    std::vector<Cell> row = {Cell(static_cast<double>(t)), Cell(map.tokens[t]),
                             Cell(result.json["kinds"][t].get<std::string>())};
    for (const TokenTrack& track : map.tracks) row.emplace_back(track.values[t]);
    table.rows.push_back(std::move(row));
  }
  result.tokens(std::move(map));
  result.table(result.name + ".csv", table, false);
}

}  // namespace

void study_tokens(const StudyInput& input, StudyResult& result) {
  result.paragraph("The first window. The loss of a token is that of predicting it; the first has none.");
  add_view("First window", *input.measured, input.measured->length(), input, result);
}

void study_prompt(const StudyInput& input, StudyResult& result) {
  const TextRow text = text_row(input.prompt, *input.tokenizer, input.model->config(), "--prompt");
  PassOptions options = input.pass("prompt");
  options.document_end = {};
  const Measurement m = measure(*input.model, text.tokens_1T1, *input.kinds, options, -1);
  if (text.cut > 0) result.paragraph(concat("The last ", text.cut, " tokens did not fit into the model's context."));
  add_view("Prompt", m, m.length(), input, result);
  double sum = 0;
  for (std::int64_t t = 0; t + 1 < m.length(); ++t) sum += m.losses_WT[0][t].item<double>();
  const double loss = sum / static_cast<double>(m.length() - 1);
  result.json["loss"] = loss;
  result.summary.push_back(
      concat(m.length() - 1, " tokens, loss ", fixed(loss, 4),
             text.cut > 0 ? concat("; the last ", text.cut, " did not fit into the context") : ""));
}

}  // namespace satformer
