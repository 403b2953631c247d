// The output of `weft study axonn`: tables and JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/styled_text.h"
#include "base/text/json_object.h"
#include "inspect/drawing/picture.h"
#include "study/axonn/axonn_study.h"

namespace weft::study {

/// One published figure beside the simulated one.
struct ComparedFigure {
  std::string name;  // "gpt-5b on 512 ranks of frontier", with ", efficiency" for a share of the smallest run's rate
  std::string unit;  // "PFLOP/s" or "%"
  double published = 0, simulated = 0;
  double left_out = 0;  // simulated with constants fitted to the machine's other points; 0: an efficiency has none
  bool fitted = false, verified = false;

  double error() const { return simulated / published - 1; }
};

/// The rates of all points, and the efficiencies that are published. An efficiency counts as verified where its
/// percentage stands in the paper.
std::vector<ComparedFigure> compared_figures(const AxonnStudy& study);

/// `width`: columns of the terminal.
StyledText axonn_study_text(const AxonnStudy& study, std::optional<std::size_t> width);

/// Rates over ranks, published and simulated.
inspect::Picture axonn_picture(const AxonnStudy& study);

/// {"points": [{"name", "published", "simulated", "error", "fitted", "verified", …}], "machines": […]}
JsonObject axonn_study_json(const AxonnStudy& study);

}  // namespace weft::study
