// The loss of a run as SVG that follows a report's colours.
#pragma once

#include <span>
#include <string>

#include "inspect/report/report_page.h"

namespace weft::inspect {

/// Loss by step, with held-out losses as dots; "" for fewer than two losses.
std::string loss_svg(std::span<const LossPoint> points);

}  // namespace weft::inspect
