// The output of `weft study scaling`: a table for people, CSV and JSON with a line for each point, and a chart.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "base/styled_text.h"
#include "base/text/json_object.h"
#include "inspect/drawing/picture.h"
#include "study/scaling/scaling.h"

namespace weft::study {

StyledText scaling_text(const ScalingStudy& study, std::span<const ScalingRow> rows, std::optional<std::size_t> width);

/// Without a step the figures are empty.
std::string scaling_csv(const ScalingStudy& study, std::span<const ScalingRow> rows);

/// {"kind":"strong","rows":[…]} with the columns of CSV as members, null without a step.
JsonObject scaling_json(const ScalingStudy& study, std::span<const ScalingRow> rows);

/// Total arithmetic a second over ranks, both in logarithms: a line for each series, the ideal line from its first
/// point, and intervals over the seeds.
inspect::Picture scaling_picture(const ScalingStudy& study, std::span<const ScalingRow> rows);

/// Throws UserError on a file whose ending names no format: .csv, .json or .svg.
void expect_scaling_file(const std::string& file);

/// The content of a file, by its ending.
std::string scaling_file(const std::string& file, const ScalingStudy& study, std::span<const ScalingRow> rows);

}  // namespace weft::study
