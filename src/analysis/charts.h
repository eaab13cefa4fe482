// What the studies' charts and tables share.
#pragma once

#include <string>
#include <vector>

#include "analysis/estimate.h"
#include "analysis/measurement.h"
#include "report/bar_chart.h"
#include "report/heat_map.h"
#include "report/line_chart.h"
#include "report/table.h"
#include "report/token_map.h"

namespace satformer {

// One row for each track, one column for each head.
HeatMap head_map(const std::string& title, const std::vector<GateTrack>& tracks, std::vector<double> values);
Line named_line(const std::string& label, std::vector<double> xs = {}, std::vector<double> ys = {},
                bool dashed = false);
Bar estimate_bar(const std::string& label, const Estimate& estimate, const std::string& group = {});
Cell percent_cell(double share);                                       // "12.3 %", the value as it is in CSV
Cell interval_cell(const Interval& interval);                          // "[0.01, 0.02]"
std::vector<std::size_t> spread(std::size_t count, std::size_t most);  // at most so many of 0..count-1, ends included
std::string fixed(double value, int digits);

// The loss and the gates of the tokens of one row [first, first + count): a track for each head, or for each layer
// where there are too many.
TokenMap token_map(const std::string& title, const Measurement& measured, std::int64_t row, std::int64_t count,
                   const Tokenizer* tokenizer);

}  // namespace satformer
