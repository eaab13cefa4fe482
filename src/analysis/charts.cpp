#include "analysis/charts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/error.h"
#include "base/unicode.h"

namespace satformer {

HeatMap head_map(const std::string& title, const std::vector<GateTrack>& tracks, std::vector<double> values) {
  HeatMap map;
  map.title = title;
  map.row_axis = "layer";
  map.column_axis = "KV head";
  for (const GateTrack& track : tracks) map.row_labels.push_back(track.name());
  const std::int64_t heads = tracks.empty() ? 0 : tracks.front().gates_WTH.size(2);
  for (std::int64_t h = 0; h < heads; ++h) map.column_labels.push_back(std::to_string(h));
  map.values = std::move(values);
  map.show_values = heads <= 16;
  return map;
}

Line named_line(const std::string& label, std::vector<double> xs, std::vector<double> ys, bool dashed) {
  Line line;
  line.label = label;
  line.xs = std::move(xs);
  line.ys = std::move(ys);
  line.dashed = dashed;
  return line;
}

Bar estimate_bar(const std::string& label, const Estimate& e, const std::string& group) {
  Bar bar;
  bar.label = label;
  bar.value = e.value;
  bar.low = e.interval.low;
  bar.high = e.interval.high;
  bar.group = group;
  return bar;
}

std::string fixed(double value, int digits) {
  if (!std::isfinite(value)) return "–";
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

Cell percent_cell(double share) {
  Cell cell(share);
  if (std::isfinite(share)) cell.text = fixed(100 * share, 1) + " %";
  return cell;
}

Cell interval_cell(const Interval& i) {
  if (!std::isfinite(i.low) || !std::isfinite(i.high)) return {};
  return {"[" + number_text(i.low) + ", " + number_text(i.high) + "]"};
}

std::vector<std::size_t> spread(std::size_t count, std::size_t most) {
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < std::min(count, most); ++i) {
    chosen.push_back(count <= most ? i : (i * (count - 1) + (most - 1) / 2) / (most - 1));
  }
  return chosen;
}

namespace {

// Bytes where they are whole characters, else the piece's name; without a tokenizer the number.
std::string token_text(const Tokenizer* tokenizer, std::int64_t id) {
  if (!tokenizer) return concat(id, ' ');
  const auto token = static_cast<std::int32_t>(id);
  const std::string bytes = tokenizer->token_bytes(token, false);
  return bytes.empty() || replace_invalid_utf8(bytes) != bytes ? tokenizer->piece(token) : bytes;
}

}  // namespace

TokenMap token_map(const std::string& title, const Measurement& m, std::int64_t row, std::int64_t count,
                   const Tokenizer* tokenizer) {
  TokenMap map;
  map.title = title;
  count = std::min({count, m.length(), static_cast<std::int64_t>(max_tokens)});
  for (std::int64_t t = 0; t < count; ++t) {
    map.tokens.push_back(token_text(tokenizer, m.tokens_WT1[row][t].item<std::int64_t>()));
  }
  map.scales.clear();
  map.scales.push_back({"loss (nats)", ScaleKind::sequential, 0.0, {}});
  TokenTrack loss{"of the token", "loss", {std::numeric_limits<double>::quiet_NaN()}, 0};
  for (std::int64_t t = 1; t < count; ++t) loss.values.push_back(m.losses_WT[row][t - 1].item<double>());
  map.tracks.push_back(std::move(loss));
  if (m.gates.empty()) return map;
  double low = 0;
  const bool all_heads = m.gates.size() * static_cast<std::size_t>(m.heads()) < max_tracks;
  const auto add = [&](const std::string& name, const std::string& group, const at::Tensor& gates_T) {
    const at::Tensor kept = gates_T.narrow(0, 0, count).to(at::kDouble).contiguous();
    const double* data = kept.const_data_ptr<double>();
    map.tracks.push_back({name, group, {data, data + count}, 1});
    low = std::min(low, *std::min_element(data, data + count));
  };
  for (std::size_t g = 0; g < m.gates.size(); ++g) {
    const GateTrack& track = m.gates[g];
    const at::Tensor gates_TH = track.gates_WTH[row];
    if (all_heads) {
      for (std::int64_t h = 0; h < m.heads(); ++h) add(concat("head ", h), track.name(), gates_TH.select(1, h));
    } else if (map.tracks.size() < max_tracks) {
      add("mean of the heads", track.name(), gates_TH.mean(1));
    }
  }
  TokenScale scale;
  scale.name = "gate";
  if (low < 0) {
    scale.kind = ScaleKind::diverging;
  } else {
    scale.low = 0.0;
  }
  map.scales.push_back(scale);
  return map;
}

}  // namespace satformer
