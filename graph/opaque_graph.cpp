#include "graph/opaque_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/groups.h"

namespace weft::graph {
namespace {

bool communicates(const OpenTask& task) {
  return task.kind == OpenKind::collective || task.kind == OpenKind::send || task.kind == OpenKind::receive;
}

/// Two names in lower case without what separates words are alike: "AllReduce" and "all_reduce".
std::string letters_of(std::string_view text) {
  std::string letters;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return letters;
}

/// The queues that tasks run on, each made when it is first needed.
class Queues {
 public:
  Queues(const OpenGraph& open, const OpenClass& one, GraphBuilder& builder)
      : open_(open), class_(one), builder_(builder), of_copies_(one.streams.size(), true) {
    for (const OpenTask& task : one.tasks) {
      if (task.stream >= 0 && task.kind != OpenKind::copy) of_copies_[static_cast<std::size_t>(task.stream)] = false;
    }
  }

  void assign(const OpenTask& task, Opaque& operation) {
    if (communicates(task)) {
      operation.queued = true;
      operation.queue = channel_of(task);
    } else if (task.kind == OpenKind::host || (task.kind == OpenKind::copy && on_own_stream(task))) {
      operation.queued = operation.local = true;
      operation.queue = by_stream(task, "host", true);
    }
  }

 private:
  const OpenStream* stream_of(const OpenTask& task) const {
    return task.stream < 0 ? nullptr : &class_.streams[static_cast<std::size_t>(task.stream)];
  }
  bool on_own_stream(const OpenTask& task) const {
    return task.stream >= 0 && of_copies_[static_cast<std::size_t>(task.stream)];
  }

  Channel channel_of(const OpenTask& task) {
    const OpenStream* stream = stream_of(task);
    std::int32_t number = task.channel;
    if (number < 0 && stream != nullptr) number = stream->channel;
    if (number < 0) return by_stream(task, task.kind == OpenKind::send ? "sends" : "receives", false);
    const auto [found, is_new] = by_channel_.try_emplace(number, Channel::world);
    if (is_new) {
      const OpenChannel& channel = open_.channels[static_cast<std::size_t>(number)];
      ChannelInfo info{own(), channel.name, channel.group_size, false, channel.link};
      if (const auto known = find_channel(channel.name); known && open_.source == "weft") info.channel = *known;
      found->second = add(std::move(info));
    }
    return found->second;
  }

  /// A queue of the name of the task's stream; of `name` if that isn't known.
  Channel by_stream(const OpenTask& task, std::string_view name, bool local) {
    const OpenStream* stream = stream_of(task);
    const auto key = std::tuple(task.stream, local, stream != nullptr ? std::string() : std::string(name));
    const auto [found, is_new] = by_stream_.try_emplace(key, Channel::world);
    if (is_new)
      found->second = add({own(), stream != nullptr ? stream->name : std::string(name), local ? 1 : 2, local, ""});
    return found->second;
  }

  static Channel own() { return static_cast<Channel>(kAxisChannels); }

  Channel add(ChannelInfo info) {
    if (by_channel_.size() + by_stream_.size() > kMostOwnChannels) {
      throw UserError(fmt::format("the tasks of one rank run on more than {} channels and threads", kMostOwnChannels),
                      "fewer", "put tasks of several channels or threads on one");
    }
    const std::string name = info.name;
    for (int i = 2; !names_.insert(info.name).second; ++i) info.name = fmt::format("{} ({})", name, i);
    return builder_.add_channel(std::move(info));
  }

  const OpenGraph& open_;
  const OpenClass& class_;
  GraphBuilder& builder_;
  std::vector<bool> of_copies_;  // by stream: it only copies
  std::map<std::int32_t, Channel> by_channel_;
  std::map<std::tuple<std::int32_t, bool, std::string>, Channel> by_stream_;
  std::set<std::string> names_;
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

}  // namespace

KindClass drawn_as(const OpenTask& task) {
  struct Word {
    std::string_view letters;
    KindClass kind;
  };
  constexpr std::array kWords = {Word{"allreduce", KindClass::all_reduce},
                                 Word{"allgather", KindClass::all_gather},
                                 Word{"reducescatter", KindClass::reduce_scatter},
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
  const std::string letters = letters_of(task.operation);
  const auto* const word =
      std::ranges::find_if(kWords, [&](const Word& w) { return letters.find(w.letters) != std::string::npos; });
  if (word != kWords.end()) return word->kind;
  if (task.kind == OpenKind::collective) return KindClass::all_reduce;
  return task.kind == OpenKind::compute ? KindClass::elementwise : KindClass::copy;
}

Graph opaque_graph(const OpenGraph& open, std::size_t class_index, KeptOrder kept) {
  check(open);
  const OpenClass& one = open.classes.at(class_index);
  GraphBuilder builder(Arguments::of_any_form, one.edges_from_accesses ? Conflicts::ordered : Conflicts::left);
  Queues queues(open, one, builder);
  std::vector<std::string> streams;
  for (const OpenStream& stream : one.streams) streams.push_back(stream.name);
  builder.name_streams(std::move(streams));
  for (const OpenTensor& tensor : one.tensors) builder.add_tensor(tensor_of(tensor));
  std::vector<std::vector<TaskBefore>> after(one.tasks.size());
  for (const auto& [edge, only_order] : held_edges(one, kept)) {
    after[edge.to].push_back({TaskId(std::size_t{edge.from}), edge.kind == EdgeKind::issued_before,
                              static_cast<float>(edge.confidence), only_order});
  }
  for (std::size_t i = 0; i < one.tasks.size(); ++i) {
    const OpenTask& from = one.tasks[i];
    Opaque operation = operation_of(from);
    queues.assign(from, operation);
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

}  // namespace weft::graph
