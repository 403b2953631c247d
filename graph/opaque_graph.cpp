#include "graph/opaque_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/grid.h"
#include "graph/open_meetings.h"

namespace weft::graph {
namespace {

/// Two names in lower case without what separates words are equal: "AllReduce" and "all_reduce".
std::string letters_of(std::string_view text) {
  std::string letters;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return letters;
}

/// Who meets whom. A set is classes whose tasks start together, each on a channel and in a direction.
class MeetingSets {
 public:
  MeetingSets(const OpenGraph& open, const OpenMeetings& meetings) : open_(open) {
    for (const OpenClass& one : open.classes) {
      of_.emplace_back(one.tasks.size());
      auto& streams = streams_of_channel_.emplace_back();
      for (const OpenTask& task : one.tasks) {
        if (task.channel >= 0 && task.begin_ns) streams[task.channel].insert(task.stream);
      }
    }
    std::map<std::vector<Side>, std::uint32_t> sets;
    for (std::size_t i = 0; i < meetings.all.size(); ++i) {
      std::vector<Side> sides;
      for (const ClassTask& member : meetings.all[i]) sides.push_back(side_of(member));
      const auto set = sets.try_emplace(sides, static_cast<std::uint32_t>(sets.size())).first->second;
      for (const ClassTask& member : meetings.all[i])
        of_[member.of_class][member.task] = {static_cast<std::int64_t>(i), set, meetings.all[i].front()};
    }
    classes_.resize(sets.size());
    for (const auto& [sides, set] : sets) {
      for (const Side& side : sides) classes_[set].push_back(side.of_class);
    }
  }

  struct Place {
    std::int64_t meeting = -1;
    std::uint32_t set = 0;
    ClassTask first = {};  // of the meeting's members
    bool meets() const { return meeting >= 0; }
  };
  const Place& of(std::size_t of_class, std::size_t task) const { return of_[of_class][task]; }
  std::span<const std::uint32_t> classes(std::uint32_t set) const { return classes_[set]; }
  /// The stream of a task that communicates, if its channel alone doesn't tell its queue: what was recorded on several
  /// streams of a channel may run at once. Else -1.
  std::int32_t own_stream(std::size_t of_class, const OpenTask& task) const {
    if (task.channel < 0) return task.stream;
    const auto streams = streams_of_channel_[of_class].find(task.channel);
    return streams != streams_of_channel_[of_class].end() && streams->second.size() > 1 ? task.stream : -1;
  }
  const OpenTask& first_task(const Place& place) const {
    return open_.classes[place.first.of_class].tasks[place.first.task];
  }

 private:
  struct Side {
    std::uint32_t of_class;
    std::int32_t channel, stream;
    OpenKind kind;
    auto operator<=>(const Side&) const = default;  // NOLINT(modernize-use-nullptr): see base/id.h
  };
  Side side_of(const ClassTask& member) const {
    const OpenTask& task = open_.classes[member.of_class].tasks[member.task];
    return {member.of_class, task.channel, own_stream(member.of_class, task), task.kind};
  }

  const OpenGraph& open_;
  std::vector<std::vector<Place>> of_;                                              // by class and task
  std::vector<std::vector<std::uint32_t>> classes_;                                 // by set
  std::vector<std::map<std::int32_t, std::set<std::int32_t>>> streams_of_channel_;  // by class
};

/// The queues of all classes. A queue is a channel of the graph, or a stream; what meets other classes has a queue for
/// each set of them. Equal channels of different classes have equal numbers, and so have their n-th streams.
class Queues {
 public:
  Queues(const OpenGraph& open, const MeetingSets& sets) : open_(open), sets_(sets) {
    for (std::uint32_t k = 0; k < open.classes.size(); ++k) {
      OfClass& of = classes_.emplace_back();
      of.only_copies.assign(open.classes[k].streams.size(), true);
      for (const OpenTask& task : open.classes[k].tasks) {
        if (task.stream >= 0 && task.kind != OpenKind::copy)
          of.only_copies[static_cast<std::size_t>(task.stream)] = false;
      }
      for (std::uint32_t i = 0; i < open.classes[k].tasks.size(); ++i) of.queue.push_back(find_queue({k, i}));
    }
    for (auto& [set, together] : together_) {
      const auto classes = sets.classes(set);
      const auto place = [&classes](const ClassChannel& each) {
        return std::ranges::find(classes, each.of_class) - classes.begin();
      };
      std::ranges::sort(together, {}, place);
    }
  }

  void describe(std::uint32_t of_class, GraphBuilder& builder) const {
    for (const auto& [info, set] : classes_[of_class].infos) {
      ChannelInfo described = info;
      if (set) described.together = together_.at(*set);
      builder.add_channel(std::move(described));
    }
  }

  void assign(const ClassTask& task, Opaque& operation) const {
    const OfClass& of = classes_[task.of_class];
    const std::uint32_t queue = of.queue[task.task];
    if (queue == kNone) return;
    operation.queued = true;
    operation.queue = of.infos[queue].info.channel;
    operation.local = of.infos[queue].info.local;
    operation.meeting = sets_.of(task.of_class, task.task).meeting;
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  /// A channel's number, or a stream's and the name that stands for it where it isn't known.
  struct Base {
    std::int32_t channel = -1, stream = -1;
    bool local = false;
    std::string_view name = {};
    auto operator<=>(const Base&) const = default;  // NOLINT(modernize-use-nullptr): see base/id.h
  };
  struct Described {
    ChannelInfo info;
    std::optional<std::uint32_t> set;  // of the classes that its tasks meet
  };
  struct OfClass {
    std::vector<bool> only_copies;                                                   // by stream
    std::map<std::pair<Base, std::optional<std::uint32_t>>, std::uint32_t> numbers;  // indices into infos
    std::map<Base, std::uint32_t> queues;                                            // with the base, so far
    std::uint32_t streams[2] = {0, 0};  // without a channel, of other ranks and of its own
    std::set<std::string> names;
    std::vector<Described> infos;
    std::vector<std::uint32_t> queue;  // by task: index into infos
  };

  const OpenTask& task_of(const ClassTask& at) const { return open_.classes[at.of_class].tasks[at.task]; }

  std::uint32_t find_queue(const ClassTask& at) {
    const OpenTask& task = task_of(at);
    const OfClass& of = classes_[at.of_class];
    const bool copies =
        task.kind == OpenKind::copy && task.stream >= 0 && of.only_copies[static_cast<std::size_t>(task.stream)];
    if (task.kind == OpenKind::host || copies) return queue_of(at, {-1, task.stream, true, "host"});
    if (!communicates(task.kind)) return kNone;
    std::int32_t channel = task.channel;
    if (channel < 0 && task.stream >= 0)
      channel = open_.classes[at.of_class].streams[static_cast<std::size_t>(task.stream)].channel;
    if (channel >= 0) {
      const bool named = task.channel >= 0;
      return queue_of(at, {channel, named ? sets_.own_stream(at.of_class, task) : -1, false, {}});
    }
    return queue_of(at, {-1, task.stream, false, task.kind == OpenKind::send ? "sends" : "receives"});
  }

  std::uint32_t queue_of(const ClassTask& at, Base base) {
    OfClass& of = classes_[at.of_class];
    if (base.stream >= 0) base.name = {};
    const MeetingSets::Place& place = sets_.of(at.of_class, at.task);
    const auto set = place.meets() ? std::optional(place.set) : std::nullopt;
    const auto [found, is_new] = of.numbers.try_emplace({base, set}, static_cast<std::uint32_t>(of.infos.size()));
    if (!is_new) return found->second;
    ChannelInfo info = info_of(at, base);
    if (set) {
      const OpenKind kind = task_of(at).kind;
      info.direction = kind == OpenKind::send      ? Direction::out
                       : kind == OpenKind::receive ? Direction::in
                                                   : Direction::both;
    }
    info.channel = number_of(of, base);
    if (info.direction != Direction::both && is_own(info.channel))
      info.name += info.direction == Direction::out ? " out" : " in";
    info.groups = groups_of(at.of_class, base, place);
    if (set) together_[*set].push_back({at.of_class, info.channel});
    const std::string name = info.name;
    for (int i = 2; !of.names.insert(info.name).second; ++i) info.name = fmt::format("{} ({})", name, i);
    of.infos.push_back({std::move(info), set});
    return found->second;
  }

  ChannelInfo info_of(const ClassTask& at, const Base& base) const {
    ChannelInfo info;
    info.local = base.local;
    if (base.channel >= 0) {
      const OpenChannel& channel = open_.channels[static_cast<std::size_t>(base.channel)];
      info.name = channel.name;
      info.group_size = channel.group_size;
      info.link = channel.link;
    } else {
      const OpenClass& one = open_.classes[at.of_class];
      info.name = base.stream >= 0 ? one.streams[static_cast<std::size_t>(base.stream)].name : std::string(base.name);
      info.group_size = base.local ? 1 : 2;
    }
    return info;
  }

  Channel number_of(OfClass& of, const Base& base) {
    // Of the class with this channel, or with this base.
    const std::uint32_t queue = of.queues[base.channel >= 0 ? Base{.channel = base.channel} : base]++;
    if (base.channel >= 0 && queue == 0 && open_.source == "weft") {
      if (const auto known = find_channel(open_.channels[static_cast<std::size_t>(base.channel)].name)) return *known;
    }
    const std::uint32_t which = base.channel >= 0 ? queue : of.streams[base.local ? 1 : 0]++;
    const auto number = kAxisChannels + numbers_.size();
    const auto [found, is_new] = numbers_.try_emplace({base.channel, base.local, which}, number);
    if (is_new && numbers_.size() > kMostOwnChannels) {
      throw UserError(fmt::format("the tasks of one rank run on more than {} channels and threads", kMostOwnChannels),
                      "fewer", "put tasks of several channels or threads on one");
    }
    return static_cast<Channel>(found->second);
  }

  /// By rank of the class. Of a channel whose groups nobody knows, ranks that follow each other form them.
  std::vector<std::int64_t> groups_of(std::uint32_t of_class, const Base& base, const MeetingSets::Place& place) const {
    const OpenClass& one = open_.classes[of_class];
    const auto ranks = std::max<std::int64_t>(1, std::ssize(one.ranks));
    const bool message = place.meets() && sets_.first_task(place).kind == OpenKind::send;
    std::vector<std::int64_t> groups;
    for (std::int64_t i = 0; i < ranks; ++i) {
      std::int64_t group = i;
      if (!message && base.channel >= 0) {
        const OpenChannel& channel = open_.channels[static_cast<std::size_t>(base.channel)];
        const std::int64_t known = group_of(channel, one, static_cast<std::size_t>(i));
        group = known >= 0 ? known : place.meets() ? 0 : std::ssize(channel.groups) + i / channel.group_size;
      }
      groups.push_back(group);
    }
    return groups;
  }

  const OpenGraph& open_;
  const MeetingSets& sets_;
  std::vector<OfClass> classes_;
  std::map<std::tuple<std::int32_t, bool, std::uint32_t>, std::size_t> numbers_;  // by channel or kind, and which
  std::map<std::uint32_t, std::vector<ClassChannel>> together_;                   // by set
};

Tensor tensor_of(const OpenTensor& open) {
  constexpr std::int64_t kElement = 2;  // a byte more, where the number is odd, changes no plan
  static_assert(size_of(DType::bf16) == kElement);
  const Role usual = open.outlives_step ? Role::parameter : Role::activation;
  return {open.name, DType::bf16, {(open.bytes + kElement - 1) / kElement}, open.role.value_or(usual)};
}

Opaque operation_of(const OpenTask& task) {
  Opaque operation;
  operation.name = task.operation.empty() ? std::string(to_string(task.kind)) : task.operation;
  operation.drawn_as = drawn_as(task);
  operation.flops = task.flops;
  operation.bytes = task.bytes;
  operation.network_bytes = task.network_bytes;
  operation.ns = task.ns.value_or(task.begin_ns ? *task.end_ns - *task.begin_ns : -1);
  operation.beside_ns = task.beside_ns.value_or(-1);
  operation.link_ns = task.link_ns.value_or(-1);
  operation.cpu_ns = task.cpu_ns.value_or(0);
  operation.stream = task.stream;
  operation.begin_ns = task.begin_ns.value_or(-1);
  return operation;
}

/// Equal for all members of a meeting: a message takes its send's, a collective its first member's.
void take_time_of(const OpenTask& first, Opaque& operation) {
  const Opaque from = operation_of(first);
  operation.ns = from.ns;
  operation.beside_ns = from.beside_ns;
  operation.link_ns = from.link_ns;
  if (from.ns >= 0) return;
  operation.flops = from.flops;
  operation.bytes = from.bytes;
  operation.network_bytes = from.network_bytes;
}

}  // namespace

KindClass drawn_as(const OpenTask& task) {
  struct Word {
    std::string_view letters;
    KindClass kind;
  };
  constexpr std::array kWords = {Word{"allreduce", KindClass::all_reduce},
                                 Word{"allgather", KindClass::all_gather},
                                 Word{"reducescatter", KindClass::reduce_scatter},
                                 Word{"alltoall", KindClass::exchange},
                                 Word{"memcpy", KindClass::copy},
                                 Word{"memset", KindClass::copy},
                                 Word{"copy", KindClass::copy},
                                 Word{"adam", KindClass::optimizer},
                                 Word{"optimizer", KindClass::optimizer},
                                 Word{"clipfactor", KindClass::optimizer},
                                 Word{"sumsquares", KindClass::optimizer},
                                 Word{"attention", KindClass::attention},
                                 Word{"flash", KindClass::attention},
                                 Word{"gemm", KindClass::gemm},
                                 Word{"matmul", KindClass::gemm},
                                 Word{"cutlass", KindClass::gemm}};
  if (task.kind == OpenKind::host) return KindClass::host;
  const std::string letters = letters_of(task.operation);
  const auto* const word =
      std::ranges::find_if(kWords, [&](const Word& w) { return letters.find(w.letters) != std::string::npos; });
  if (word != kWords.end()) return word->kind;
  if (task.kind == OpenKind::collective) return KindClass::all_reduce;
  return task.kind == OpenKind::compute ? KindClass::elementwise : KindClass::copy;
}

namespace {

Graph build_class(const OpenGraph& open, std::uint32_t of_class, KeptOrder kept, const MeetingSets& sets,
                  const Queues& queues) {
  const OpenClass& one = open.classes[of_class];
  GraphBuilder builder(Arguments::of_any_form, one.edges_from_accesses ? Conflicts::ordered : Conflicts::left);
  queues.describe(of_class, builder);
  std::vector<std::string> streams;
  for (const OpenStream& stream : one.streams) streams.push_back(stream.name);
  builder.name_streams(std::move(streams));
  for (const OpenTensor& tensor : one.tensors) builder.add_tensor(tensor_of(tensor));
  std::vector<std::vector<TaskBefore>> after(one.tasks.size());
  for (const auto& [edge, only_order] : held_edges(one, kept)) {
    after[edge.to].push_back({TaskId(std::size_t{edge.from}), edge.kind == EdgeKind::issued_before,
                              static_cast<float>(edge.confidence), only_order});
  }
  for (std::uint32_t i = 0; i < one.tasks.size(); ++i) {
    const OpenTask& from = one.tasks[i];
    Opaque operation = operation_of(from);
    const MeetingSets::Place& place = sets.of(of_class, i);
    if (place.meets()) take_time_of(sets.first_task(place), operation);
    queues.assign({of_class, i}, operation);
    Task task{.name = from.name, .operation = std::move(operation), .accesses = {}};
    for (const OpenAccess& access : from.accesses) {
      task.accesses.push_back({whole(builder, TensorId(std::size_t{access.tensor})), access.mode});
    }
    task.layer = from.layer;
    task.micro_batch = from.micro_batch;
    task.phase = from.phase.value_or(Phase::forward);
    task.after = std::move(after[i]);
    builder.add_task(std::move(task));
  }
  return std::move(builder).build();
}

}  // namespace

Graph opaque_graph(const OpenGraph& open, std::size_t class_index, KeptOrder kept) {
  check(open);
  OpenGraph alone{.name = open.name,
                  .source = open.source,
                  .notes = {},
                  .world = open.world,
                  .channels = open.channels,
                  .classes = {open.classes.at(class_index)}};
  const MeetingSets none(alone, {});
  return build_class(alone, 0, kept, none, Queues(alone, none));
}

std::vector<std::shared_ptr<const Graph>> opaque_graphs(const OpenGraph& open, KeptOrder kept) {
  check(open);
  OpenMeetings meetings = find_meetings(open);
  drop_impossible(open, meetings);
  const MeetingSets sets(open, meetings);
  const Queues queues(open, sets);
  std::vector<std::shared_ptr<const Graph>> classes;
  for (std::uint32_t k = 0; k < open.classes.size(); ++k)
    classes.push_back(std::make_shared<const Graph>(build_class(open, k, kept, sets, queues)));
  return classes;
}

}  // namespace weft::graph
