// The experts of a run in its report: how evenly tokens went to them, and how near the routers were to other choices.
#pragma once

#include <optional>
#include <vector>

#include "inspect/report/report_page.h"
#include "train/run/expert_load.h"

namespace weft::study {

/// A picture of layers and experts over steps, and a row for each layer. nullopt without lines.
std::optional<inspect::ReportTable> experts_table(const std::vector<train::ExpertLoad>& loads, bool replayed);

}  // namespace weft::study
