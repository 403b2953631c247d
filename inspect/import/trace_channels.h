// The process groups over which a trace's collectives go: as its arguments name them, or one for each stream of
// collectives where nothing is said.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/open_graph.h"
#include "inspect/import/device_trace.h"

namespace weft::inspect {

/// Channels of all ranks of an import. Groups that have the same description, or the same name where there is none, and
/// the same size are one channel.
class TraceChannels {
 public:
  /// `ranks`: of the run, or as many as there are files, if nobody says how many: the size of inferred groups.
  explicit TraceChannels(std::int64_t ranks) : ranks_(ranks) {}

  /// The channel of a collective of a trace, by the number that channels() has for it. `stream`: its name.
  std::int32_t channel_of(const DeviceTrace& trace, const CollectiveNote& note, const std::string& stream);
  /// Groups' members in rising order.
  std::vector<graph::OpenChannel> channels() &&;
  std::int64_t inferred() const { return inferred_; }

 private:
  std::int64_t ranks_;
  std::vector<graph::OpenChannel> channels_;
  std::map<std::pair<std::string, std::int64_t>, std::int32_t> by_name_;
  std::int64_t inferred_ = 0;  // channels of which nothing is said
};

/// Bytes that each rank sends in a collective by a ring, of the larger of its input and output.
double ring_bytes(std::string_view kind, double bytes, std::int64_t group_size);

}  // namespace weft::inspect
