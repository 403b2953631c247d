// The script and the style of reports, from inspect/report/assets/: strings of the program.
#pragma once

#include <string_view>

namespace weft::inspect {

std::string_view report_script();
std::string_view report_style();

}  // namespace weft::inspect
