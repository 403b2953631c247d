// Traces of other programs: an accepted file gives a step that can be an open graph, and that can be replayed.
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/open_graph.h"
#include "inspect/import/readers/chakra_file.h"
#include "inspect/import/readers/kineto_file.h"
#include "inspect/import/readers/nsight_file.h"
#include "inspect/import/recovered_step.h"
#include "inspect/import/step_replay.h"
#include "tests/fuzz/fuzz_target.h"

namespace weft::fuzz {
namespace {

inspect::RecoveredStep step_of_database(std::string_view bytes, inspect::TraceChannels& channels) {
  static const testing::TemporaryFolder folder = input_folder();
  const std::filesystem::path file = folder.write("t.sqlite", bytes);
  const std::vector<inspect::TraceOutline> outlines = inspect::read_nsight_outlines(file);
  if (outlines.empty()) throw UserError("no kernels", "some", "none: this is a fuzz target");
  const inspect::TraceOutline& last = outlines.back();
  const std::optional<inspect::MarkedStep> step = inspect::choose_step(last, {});
  return inspect::recover_step(inspect::read_nsight_events(file, outlines.size() - 1, last, step), step, channels);
}

inspect::RecoveredStep recovered_step(std::string_view text, inspect::TraceChannels& channels) {
  if (text.starts_with("SQLite format 3")) return step_of_database(text, channels);
  if (!text.starts_with('{') && !text.starts_with('[')) {
    inspect::ChakraFile file = inspect::parse_chakra(text_source(text), "t.0.et");
    return inspect::chakra_step(file, channels);
  }
  const inspect::TraceOutline outline = inspect::parse_kineto_outline(text_source(text), "t.json");
  const std::optional<inspect::MarkedStep> step = inspect::choose_step(outline, {});
  return inspect::recover_step(inspect::parse_kineto_events(text_source(text), outline, step), step, channels);
}

}  // namespace
}  // namespace weft::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  inspect::TraceChannels channels(2);
  inspect::RecoveredStep step;
  if (!fuzz::accepted([&] { step = fuzz::recovered_step(fuzz::text_of(data, size), channels); })) return 0;
  graph::OpenGraph graph;
  graph.classes.push_back(std::move(step.graph));
  graph.channels = std::move(channels).channels();
  graph.world = std::int64_t{1} << 32;  // of whatever ranks the groups name
  bool fits = true;
  try {
    graph::check(graph);
  } catch (const UserError&) {
    fits = false;
  }
  fuzz::require(fits, "an accepted trace that is no step");
  const inspect::ReplayedClass played = inspect::replay_steps(graph).at(0);
  fuzz::require(played.length() >= 0, "a step of negative length");
  return 0;
}
