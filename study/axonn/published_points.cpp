#include "study/axonn/published_points.h"

#include <fmt/format.h>

#include "graph/operations/schema.h"

namespace weft::study {

const std::vector<PublishedPoint>& published_points() {
  // 8192 sequences can't be shared evenly by the 6,144 ranks of Alps; 6144 can.
  static const std::vector<PublishedPoint> points = {
      {.machine = "perlmutter", .model = "gpt-10b", .ranks = 1024, .petaflops = 197.8, .fitted = true},
      {.machine = "perlmutter", .model = "gpt-20b", .ranks = 2048, .petaflops = 352.5, .fitted = true},
      {.machine = "perlmutter", .model = "gpt-40b", .ranks = 4096, .petaflops = 620.1, .verified = true},
      {.machine = "frontier", .model = "gpt-5b", .ranks = 512, .petaflops = 40.4, .fitted = true},
      {.machine = "frontier", .model = "gpt-10b", .ranks = 1024, .petaflops = 77.3, .fitted = true},
      {.machine = "frontier", .model = "gpt-20b", .ranks = 2048, .petaflops = 145.7, .fitted = true},
      {.machine = "frontier", .model = "gpt-40b", .ranks = 4096, .petaflops = 295.9, .fitted = true},
      {.machine = "frontier", .model = "gpt-80b", .ranks = 8192, .petaflops = 571.4, .efficiency = 0.883},
      {.machine = "frontier", .model = "gpt-160b", .ranks = 16384, .petaflops = 1019.9, .efficiency = 0.790},
      {.machine = "frontier",
       .model = "gpt-320b",
       .ranks = 32768,
       .petaflops = 1381.0,
       .verified = true,
       .efficiency = 0.535},
      {.machine = "alps", .model = "gpt-10b", .ranks = 1024, .petaflops = 310.0, .fitted = true},
      {.machine = "alps", .model = "gpt-20b", .ranks = 2048, .petaflops = 621.6, .fitted = true},
      {.machine = "alps", .model = "gpt-40b", .ranks = 4096, .petaflops = 1095.8},
      {.machine = "alps", .model = "gpt-60b", .ranks = 6144, .sequences = 6144, .petaflops = 1423.1, .verified = true}};
  return points;
}

std::string to_string(const PublishedPoint& point) {
  return fmt::format("{} on {} ranks of {}", point.model, point.ranks, point.machine);
}

double advertised_teraflops(const std::string& machine) {
  if (machine == "perlmutter") return 312;  // A100
  if (machine == "frontier") return 191.5;  // one of the two devices of an MI250X
  return 989;                               // GH200
}

double hardware_flops(const ops::ModelConfig& model, std::int64_t sequences, std::int64_t seq_len) {
  const double tokens = graph::as_double(sequences * seq_len), layers = graph::as_double(model.layers),
               hidden = graph::as_double(model.hidden);
  return 96 * tokens * layers * hidden * hidden *
         (1 + graph::as_double(seq_len) / (6 * hidden) + graph::as_double(model.vocab) / (16 * layers * hidden));
}

}  // namespace weft::study
