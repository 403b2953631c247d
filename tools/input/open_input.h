// An open graph (NAME.graph.json) in place of a configuration: which class of it, and the flags that it takes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/open_graph.h"
#include "inspect/import/step_verdict.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/open_problem.h"
#include "tools/command_line/command.h"
#include "train/config/config.h"

namespace weft::tools {

/// Flags that only graph files take.
struct OpenFlags {
  std::string wanted;  // a class by its name or by a rank in it, without the others; "": all
  std::string kept;    // graph::KeptOrder; "": known
  std::vector<cost::NamedFactor> bandwidths;
  bool no_host = false;     // what if launches and other work of the host took no time
  double bucket_mb = 0;     // what if collectives were joined until they send so much; 0: as they are
  std::string recorded_on;  // the machine whose times are recorded, for those of --machine; "": they stay

  /// The first of these flags that was given; "" if none was.
  std::string given() const;
};

/// --class, --keep-order, --bandwidth and other what-ifs, which set `flags`.
std::vector<CommandOption> open_options(OpenFlags& flags);

/// What a command line says about an open graph.
struct OpenSettings {
  std::string file;
  OpenFlags flags;
  std::vector<train::Setting> settings;  // of the keys that open graphs take
  std::vector<std::string> gone = {};    // patterns of tasks that take no time, as their launches don't
  train::RunConfig config = {};          // whose libraries the command line trusts

  /// The flags as words of a command line.
  std::vector<std::string> words() const;
};

struct OpenInput {
  graph::OpenGraph graph;
  std::size_t class_index = 0;  // of the class that was named; else of the first of all
  simulate::Problem problem;
  policy::NamedPolicy policy;
  bool has_machine = false;  // --machine was given
  bool as_recorded = true;   // no what-if was asked for
  std::string order_note;    // what the order that isn't kept means for results; "" if all is kept

  /// "step of class 'stage0' of sample (2 of 8 ranks)".
  std::string title() const;
  /// Whether the step has the class of this index.
  bool has_class(std::size_t k) const { return problem.classes.size() == graph.classes.size() || k == class_index; }
  /// The place of a rank among the ranks of the step's classes, as simulations number them. Throws UserError if the
  /// step doesn't have it.
  std::int64_t place_of(std::int64_t rank) const;
  /// The recorded length of the step, of several classes the greatest; 0: it was never recorded.
  double recorded_ns() const;
  /// Of a step that was planned as it was recorded: what it is bound by, and what would shorten it. Absent: it was
  /// never recorded, or another policy planned it.
  std::optional<inspect::StepVerdict> verdict(const simulate::Report& report) const;
  /// Why a step that was planned as it was recorded takes so much longer or shorter; "": it doesn't.
  std::string reason_far_off(const simulate::Report& report) const;

 private:
  /// The classes that the step has.
  graph::OpenGraph taken() const;
  bool is_recorded(const simulate::Report& report) const;
};

/// The keys of the settings, applied. Throws UserError on a key that needs a model or a grid, a class that isn't there,
/// and on whatever graph or policy are refused for.
OpenInput open_input(const OpenSettings& settings);
/// The same of a graph that isn't in a file: settings.file isn't read.
OpenInput open_input(graph::OpenGraph graph, const OpenSettings& settings);

/// Throws UserError if a flag was given that only graph files take.
void refuse_without_graph_file(const OpenFlags& flags);

/// Refuses a flag of a command, by name, that an open graph has no use for.
[[noreturn]] void refuse_for_open_graph(std::string_view flag, std::string_view why);

}  // namespace weft::tools
