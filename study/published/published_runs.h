// The list of published training runs (machines/published/runs.toml): what a source tells of each, as keys of a
// configuration, what it doesn't tell, and the half of the list to which the run belongs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cost/machine.h"
#include "train/config/config.h"

namespace weft::study {

enum class Half : std::uint8_t { learn, judge };

std::string_view to_string(Half half);

struct PublishedRun {
  std::string name = {}, group = {};       // runs of a group are ranked among each other
  std::string source = {}, where = {};     // the document, and the row in it
  std::string machine = {}, policy = {};   // a name of a machine file; a policy
  std::vector<std::string> numbers = {};   // of the machine, "network.bandwidth=11.25e9", where this run's differs
  std::string attention = {};              // the library that computed attention; "": the machine's own
  std::vector<std::string> settings = {};  // keys of the configuration, "micro-batch=8"
  std::vector<std::string> unknown = {};   // what the source doesn't tell, and what is taken in its place
  std::int64_t ranks = 1;
  double tokens = 0;  // published tokens a second and rank
  Half half = Half::learn;
};

/// A run is learnt from if the CRC-32C of its name is even.
Half half_of(std::string_view name);

/// Throws UserError naming file and line.
std::vector<PublishedRun> parse_published_runs(std::string_view toml, const std::string& name);

/// The list that comes with Weft, from the folder `published` of the first of `folders` that has one.
std::vector<PublishedRun> published_runs(const std::vector<std::filesystem::path>& folders);

/// The configuration that the run's keys describe, without a limit of memory.
train::RunConfig config_of(const PublishedRun& run);

/// The machine of the run: its file with the run's numbers and with `given` ones ("hgx-h100.device.sustained=0.8"), and
/// with the library's attention.
cost::Machine machine_of(const PublishedRun& run, const std::vector<std::string>& given = {});

/// The machine as its file would be without measured points and without the constants that were fitted to runs: good
/// products' rates for all that computes.
cost::Machine without_rates_by_shape(cost::Machine machine);

}  // namespace weft::study
