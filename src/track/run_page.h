// Pages of runs: the curves of one, which refreshes itself while it trains, and several in the same charts.
#pragma once

#include <string>
#include <vector>

#include "report/table.h"
#include "track/run_info.h"

namespace satformer {

// `refresh`: seconds after which a browser loads the page again; 0: never.
std::string run_page(const RunInfo& run, int refresh);

// Last values and ends of runs, for a terminal.
Table runs_table(const std::vector<RunInfo>& runs);

// All metrics that at least one run has, each run a line. Names are the paths without what they have in common.
std::string compare_page(const std::vector<RunInfo>& runs);
// Rows: settings in which the runs differ and last values of metrics; a column for each run.
Table differences_table(const std::vector<RunInfo>& runs);

}  // namespace satformer
