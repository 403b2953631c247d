// The output of `weft sweep`: a table for people, CSV and JSON with a line for each row, and a chart.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "base/styled_text.h"
#include "base/text/json_object.h"
#include "inspect/drawing/picture.h"
#include "study/columns.h"
#include "study/sweep/sweep.h"

namespace weft::study {

/// Of files and tables. Without a step the figures are empty.
Columns<SweepRow> sweep_columns(const Sweep& sweep);

/// {"rows":[…]}, with the columns as members; numbers of keys are numbers.
JsonObject sweep_json(const Sweep& sweep, std::span<const SweepRow> rows);

/// A line for each combination and policy: over several seeds the median, and the 5th to 95th percentile of the step.
/// Further lines have reasons. The fastest stands out.
StyledText sweep_text(const Sweep& sweep, std::span<const SweepRow> rows, std::optional<std::size_t> width);

/// Steps over the first key with several values, a series for each combination of the others and each policy, with
/// intervals over seeds.
inspect::Picture sweep_picture(const Sweep& sweep, std::span<const SweepRow> rows);

}  // namespace weft::study
