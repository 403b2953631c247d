// Curves of a report as SVG that follows the page's colours: what is seen without JavaScript, and the loss always.
#pragma once

#include <span>
#include <string>

#include "runtime/report_page.h"

namespace weft {

/// The last step of each view's first ranks, one row a stream, to the pixel: a rectangle has the colour of the kind
/// that was busy for longest there, paler where the stream was mostly idle. Red below a row: exposed communication.
std::string still_timeline_svg(std::span<const ReportView> views);

/// Loss by step, with held-out losses as dots; "" for fewer than two losses.
std::string loss_svg(std::span<const LossPoint> points);

/// Scratch in use over the last step of each view's first rank; "" where no recording knows its memory.
std::string memory_svg(std::span<const ReportView> views);

}  // namespace weft
