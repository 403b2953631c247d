// The tasks that several rank classes start together: the two ends of messages, and collectives of channels that
// classes share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace weft::graph {

/// Tasks of different classes that start at the same moment.
struct Meeting {
  static constexpr std::uint32_t kNone = UINT32_MAX;
  std::vector<ClassTask> members;  // a message's sender first, else by class
  std::uint32_t next = kNone;      // the meeting that comes after it on a shared channel
  bool has_previous = false;
};

/// The channels of the classes whose tasks start together with those of a class's channel, itself among them: of
/// messages the sender's first, else by class. Itself alone if its groups lie within the class. `graph` is the class's.
std::vector<ClassChannel> channels_together(const Graph& graph, std::size_t of_class, std::size_t classes,
                                            Channel channel);

class Meetings {
 public:
  static constexpr std::uint32_t kNone = Meeting::kNone;

  /// Messages are paired by their numbers, and the n-th collectives of a shared channel with each other; opaque tasks
  /// say whom they meet (Opaque::meeting). A message without its other end is a meeting alone; the checker refuses it.
  /// A step of one class has no meetings.
  explicit Meetings(Classes classes);

  std::span<const Meeting> all() const { return all_; }
  /// The meeting that a task belongs to; kNone if it starts alone.
  std::uint32_t of(std::size_t of_class, std::size_t task) const { return meeting_of_[of_class][task]; }

 private:
  void add(std::uint32_t meeting, ClassTask member);
  void pair_messages(Classes classes);
  void join_collectives(Classes classes);
  void join_opaque_tasks(Classes classes);

  std::vector<Meeting> all_;
  std::vector<std::vector<std::uint32_t>> meeting_of_;
};

}  // namespace weft::graph
