// The tables of a report: policies, exposed communication, and its causes.
#pragma once

#include <string>

#include "base/files/document.h"
#include "base/text/json_object.h"
#include "inspect/report/report_page.h"
#include "runtime/simulate/explain.h"

namespace weft::inspect {

/// Of a comparison as comparison_json() writes it. Throws UserError on JSON of another shape.
ReportTable policies_table(const DocumentValue& comparison);

/// Communication of the first rank's last step by axis and kind.
ReportTable exposed_table(const plan::Recording& recording, const std::string& view);

/// The groups of an explanation, each with its worst collective and the change that would hide it.
JsonArray causes_json(const graph::Graph& graph, const simulate::Explanation& explanation);
/// The same as a table. Throws UserError on JSON of another shape.
ReportTable causes_table(const DocumentValue& causes, const std::string& view);

}  // namespace weft::inspect
