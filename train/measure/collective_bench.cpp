#include "train/measure/collective_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/buffer.h"
#include "base/overloaded.h"
#include "graph/grid.h"
#include "graph/task_signature.h"
#include "runtime/comm/of_ranks.h"
#include "runtime/execute/cpu/collective_probe.h"
#include "runtime/execute/cpu/communicator_set.h"

namespace weft::train {
namespace {

// Slowdowns are measured for kinds of computations that take at least this share of all computing time.
constexpr double kMatters = 0.02;

std::string_view kind_of_signature(std::string_view signature) {
  return signature.substr(0, signature.find(' '));
}

/// How many tasks of each signature each rank has in a step.
class SignatureCounts {
 public:
  SignatureCounts(comm::World& world, const graph::Graph& graph) {
    std::map<std::string, std::int64_t> own;
    for (const graph::Task& task : graph.tasks()) ++own[graph::task_signature(graph, task)];
    std::string lines;
    for (const auto& [signature, count] : own) lines += fmt::format("{} {}\n", count, signature);
    for (const std::string& of_rank : comm::of_ranks(world, lines)) by_rank_.push_back(parsed(of_rank));
    for (const auto& counts : by_rank_) {
      for (const auto& [signature, count] : counts) mean_[signature] += static_cast<double>(count);
    }
    for (auto& [signature, count] : mean_) count /= static_cast<double>(by_rank_.size());
  }

  /// By signature, those of all ranks.
  const std::map<std::string, double>& mean() const { return mean_; }
  std::int64_t of(int rank, const std::string& signature) const {
    const auto& counts = by_rank_[static_cast<std::size_t>(rank)];
    const auto found = counts.find(signature);
    return found == counts.end() ? 0 : found->second;
  }

 private:
  static std::map<std::string, std::int64_t> parsed(std::string_view lines) {
    std::map<std::string, std::int64_t> counts;
    for (; !lines.empty(); lines.remove_prefix(lines.find('\n') + 1)) {
      const std::string_view line = lines.substr(0, lines.find('\n'));
      const std::size_t blank = line.find(' ');
      std::int64_t count = 0;
      std::from_chars(line.data(), line.data() + blank, count);
      counts.emplace(line.substr(blank + 1), count);
    }
    return counts;
  }

  std::vector<std::map<std::string, std::int64_t>> by_rank_;
  std::map<std::string, double> mean_;
};

/// The time of all tasks of one kind in a step, the mean over the ranks, and the signature that takes most of it.
struct KindTimes {
  double ns = 0;
  std::string heaviest = {};
  double heaviest_ns = 0;  // of all tasks with this signature
};

comm::CollectiveCall call_of(const graph::SignedCollective& collective) {
  using comm::CollectiveKind;
  const auto call = [&](CollectiveKind kind, std::int64_t count, std::int64_t root = 0) {
    return comm::CollectiveCall{kind, collective.dtype, count, root, nullptr, nullptr, nullptr};
  };
  return std::visit(
      Overloaded{[&](const graph::AllReduce& o) { return call(CollectiveKind::all_reduce, o.count); },
                 [&](const graph::ReduceScatter& o) { return call(CollectiveKind::reduce_scatter, o.count); },
                 [&](const graph::AllGather& o) { return call(CollectiveKind::all_gather, o.count); },
                 [&](const graph::Broadcast& o) { return call(CollectiveKind::broadcast, o.count, o.root); },
                 [&](const graph::Send& o) { return call(CollectiveKind::broadcast, o.count); },
                 [&](const graph::Receive& o) { return call(CollectiveKind::broadcast, o.count); },
                 [&](const auto&) -> comm::CollectiveCall { throw std::logic_error("no collective"); }},
      collective.operation);
}

class CollectiveBench {
 public:
  CollectiveBench(comm::World& world, const RunConfig& config, const plan::Plan& plan, TellStatus tell,
                  cost::Profile& profile)
      : world_(world),
        grid_(config.grid),
        graph_(*plan.graph),
        threads_(static_cast<int>(config.threads)),
        tell_(std::move(tell)),
        profile_(profile),
        counts_(world, graph_),
        communicators_(world, channels(), config.grid),
        in_(largest_bytes()),
        out_(in_.size()),
        workspace_(in_.size()) {
    for (const cost::ProfileEntry& entry : profile_.entries) ns_.emplace(entry.signature, entry.ns);
  }

  void measure(int rounds) {
    execute::ProbeComputation product = execute::ProbeComputation::product(threads_);
    const std::vector<std::string> collectives = signatures(false), messages = sends();
    const auto total = std::ssize(collectives) + std::ssize(messages);
    std::int64_t done = 0;
    const auto tell = [&](const std::string& signature) {
      tell_({fmt::format("[{}/{}] {}", done + 1, total, signature), done, total});
      ++done;
    };
    for (const std::string& signature : collectives) {
      tell(signature);
      const execute::CollectiveTimes times = probe(signature, product, rounds);
      beside_product_.emplace(signature, times);
      note(signature, times, times.slows_by, rounds);
    }
    for (const std::string& signature : messages) {
      tell(signature);
      measure_message(signature, product, rounds);
    }
    std::ranges::sort(profile_.entries, {}, &cost::ProfileEntry::signature);
    measure_slowdowns(std::max(1, rounds / 2));
  }

 private:
  /// An end of a message between neighbours, of which `sender` is one stage.
  struct Pair {
    std::int64_t sender = 0, receiver = 0;  // stages
    comm::Communicator* group = nullptr;    // null: this rank is in another stage
    bool sends = false;
  };

  std::int64_t pipe() const { return graph::coordinates_of(grid_, world_.rank()).pipe; }

  std::vector<std::string> signatures(bool messages) const {
    std::vector<std::string> found;
    for (const auto& [signature, count] : counts_.mean()) {
      const auto collective = graph::collective_of_signature(signature);
      if (collective && graph::is_message(*graph::channel_of(collective->operation)) == messages)
        found.push_back(signature);
    }
    return found;
  }
  std::vector<std::string> sends() const {
    std::vector<std::string> found = signatures(true);
    std::erase_if(found, [](const std::string& each) { return kind_of_signature(each) != graph::Send::kind; });
    return found;
  }

  std::vector<graph::Channel> channels() const {
    std::vector<graph::Channel> channels;
    for (const bool messages : {false, true}) {
      for (const std::string& signature : signatures(messages))
        channels.push_back(*graph::channel_of(graph::collective_of_signature(signature)->operation));
    }
    return channels;
  }

  std::int64_t largest_bytes() const {
    std::int64_t bytes = 0;
    for (const graph::Task& task : graph_.tasks()) {
      if (!graph::is_collective(task.operation)) continue;
      for (const graph::Access& access : task.accesses)
        bytes = std::max(bytes, graph_.tensor(access.view.tensor).bytes());
    }
    return static_cast<std::int64_t>(std::ranges::max(world_.all_gather(static_cast<std::uint64_t>(bytes))));
  }

  comm::CollectiveCall call(const std::string& signature) const {
    comm::CollectiveCall made = call_of(*graph::collective_of_signature(signature));
    made.in = in_.data();
    made.out = out_.data();
    made.workspace = workspace_.data();
    return made;
  }

  execute::CollectiveTimes probe(const std::string& signature, execute::ProbeComputation& computation, int rounds) {
    const graph::Channel channel = *graph::channel_of(graph::collective_of_signature(signature)->operation);
    return execute::probe_collective(world_, communicators_.on(channel), call(signature), computation, rounds);
  }

  void note(const std::string& signature, const execute::CollectiveTimes& times, double slows_by, int rounds) {
    auto entry = std::ranges::find(profile_.entries, signature, &cost::ProfileEntry::signature);
    if (entry == profile_.entries.end()) {
      profile_.entries.push_back({.signature = signature, .ns = times.alone, .samples = rounds});
      ns_[signature] = times.alone;
      entry = std::prev(profile_.entries.end());
    }
    entry->cpu_ns = slows_by * threads_;
    entry->beside_ns = times.beside;
  }

  // ---- messages

  std::vector<Pair> pairs_of(const std::string& signature) const {
    const graph::Channel channel = *graph::channel_of(graph::collective_of_signature(signature)->operation);
    std::vector<Pair> pairs;
    for (std::int64_t stage = 0; stage < grid_.pipe; ++stage) {
      const auto rank = static_cast<int>(graph::rank_of(grid_, {.pipe = stage}));
      if (counts_.of(rank, signature) == 0) continue;
      Pair pair{.sender = stage, .receiver = graph::peer_stage(channel, stage, grid_.pipe)};
      pair.sends = pipe() == pair.sender;
      if (pair.sends) pair.group = communicators_.on(channel);
      if (pipe() == pair.receiver) pair.group = communicators_.on(graph::other_end(channel));
      pairs.push_back(pair);
    }
    return pairs;
  }

  execute::CollectiveTimes probe(const std::string& signature, const Pair& pair, execute::ProbeComputation& computation,
                                 int rounds) {
    comm::CollectiveCall made = call(signature);
    if (pair.group != nullptr) made.root = pair.sends ? pair.group->rank() : 1 - pair.group->rank();
    return execute::probe_collective(world_, pair.group, made, computation, rounds);
  }

  /// The greatest value on the ranks of a stage.
  double greatest_on(std::int64_t stage, double value) const {
    double greatest = 0;
    const std::vector<double> all = comm::of_ranks(world_, value);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (graph::coordinates_of(grid_, static_cast<std::int64_t>(rank)).pipe == stage)
        greatest = std::max(greatest, all[rank]);
    }
    return greatest;
  }

  void measure_message(const std::string& signature, execute::ProbeComputation& product, int rounds) {
    const std::vector<Pair> pairs = pairs_of(signature);
    const auto count = static_cast<double>(pairs.size());
    execute::CollectiveTimes mean;
    double sender = 0, receiver = 0;  // by which a product of theirs gets longer
    for (const Pair& pair : pairs) {
      const execute::CollectiveTimes times = probe(signature, pair, product, rounds);
      mean.alone += times.alone / count;
      mean.beside += times.beside / count;
      sender += greatest_on(pair.sender, times.own_slows_by) / count;
      receiver += greatest_on(pair.receiver, times.own_slows_by) / count;
      if (&pair == &pairs.front()) of_first_pair_.emplace(signature, times);
    }
    note(signature, mean, sender, rounds);
    const graph::SignedCollective sent = *graph::collective_of_signature(signature);
    const auto& send = std::get<graph::Send>(sent.operation);
    note(fmt::format("{} channel={} count={} {}", graph::Receive::kind,
                     graph::to_string(graph::other_end(send.channel)), send.count, to_string(sent.dtype)),
         mean, receiver, rounds);
  }

  // ---- slowdowns

  std::map<std::string_view, KindTimes> kinds(bool collectives) const {
    std::map<std::string_view, KindTimes> kinds;
    for (const auto& [signature, count] : counts_.mean()) {
      const auto collective = graph::collective_of_signature(signature);
      if (collective.has_value() != collectives) continue;
      if (collective && graph::is_message(*graph::channel_of(collective->operation))) continue;
      const double ns = count * ns_.at(signature);
      KindTimes& kind = kinds[kind_of_signature(signature)];
      kind.ns += ns;
      if (!kind.heaviest.empty() && ns <= kind.heaviest_ns) continue;
      kind.heaviest = signature;
      kind.heaviest_ns = ns;
    }
    return kinds;
  }

  /// This rank's task of a kind whose signature takes most time; null if it has none.
  const graph::Task* heaviest_task(std::string_view kind) const {
    const graph::Task* heaviest = nullptr;
    double most = -1;
    std::map<std::string, const graph::Task*> first;
    for (const graph::Task& task : graph_.tasks()) {
      if (graph::kind_name(task.operation) == kind) first.emplace(graph::task_signature(graph_, task), &task);
    }
    for (const auto& [signature, task] : first) {
      const double ns = ns_.at(signature) * static_cast<double>(counts_.of(world_.rank(), signature));
      if (ns > most) most = ns, heaviest = task;
    }
    return heaviest;
  }

  void measure_slowdowns(int rounds) {
    const auto computations = kinds(false), collectives = kinds(true);
    const std::optional<std::string> message = longest_message();
    double computing = 0;
    for (const auto& [name, kind] : computations) computing += kind.ns;
    const auto matters = [&](const auto& named) { return named.second.ns >= kMatters * computing; };
    const auto total = std::ranges::count_if(computations, matters) * (std::ssize(collectives) + (message ? 1 : 0));
    std::int64_t done = 0;
    for (const auto& [name, kind] : computations) {
      if (total == 0 || kind.ns < kMatters * computing) continue;
      const graph::Task* const task = heaviest_task(name);
      // A rank of a stage without such tasks computes something else beside the others.
      execute::ProbeComputation computation = task != nullptr ? execute::ProbeComputation(graph_, *task, threads_)
                                                              : execute::ProbeComputation::product(threads_);
      for (const auto& [collective, longest] : collectives) {
        tell_({fmt::format("{} beside {}", name, collective), done++, total});
        const execute::CollectiveTimes &known = beside_product_.at(longest.heaviest),
                                       found = probe(longest.heaviest, computation, rounds);
        add_slowdown(
            name, collective,
            grid_.pipe == 1 ? execute::slowdown_factor(known, found) : greatest_factor(task != nullptr, known, found));
      }
      if (!message) continue;
      tell_({fmt::format("{} beside a message", name), done++, total});
      measure_slowdown(name, task != nullptr, *message, computation, rounds);
    }
  }

  /// The message of all that takes most time in a step.
  std::optional<std::string> longest_message() const {
    std::optional<std::string> longest;
    double most = -1;
    for (const std::string& signature : sends()) {
      const double ns = counts_.mean().at(signature) * ns_.at(signature);
      if (ns > most) most = ns, longest = signature;
    }
    return longest;
  }

  /// Of a kind of computations beside a message of the first stages that send it.
  void measure_slowdown(std::string_view name, bool has_kind, const std::string& message,
                        execute::ProbeComputation& computation, int rounds) {
    const Pair pair = pairs_of(message).front();
    const execute::CollectiveTimes &known = of_first_pair_.at(message),
                                   found = probe(message, pair, computation, rounds);
    const bool takes_part = has_kind && pair.group != nullptr;
    add_slowdown(name, graph::Send::kind, greatest_factor(takes_part && pair.sends, known, found));
    add_slowdown(name, graph::Receive::kind, greatest_factor(takes_part && !pair.sends, known, found));
  }

  void add_slowdown(std::string_view computation, std::string_view collective, double factor) {
    if (factor > 1) profile_.slowdowns.push_back({std::string(computation), std::string(collective), factor});
  }

  /// Over the ranks that count, by how much each of them is slowed down.
  double greatest_factor(bool counts, const execute::CollectiveTimes& known,
                         const execute::CollectiveTimes& found) const {
    execute::CollectiveTimes own_known = known, own_found = found;
    own_known.slows_by = known.own_slows_by;
    own_found.slows_by = found.own_slows_by;
    return std::ranges::max(comm::of_ranks(world_, counts ? execute::slowdown_factor(own_known, own_found) : 1.0));
  }

  comm::World& world_;
  const graph::Grid grid_;
  const graph::Graph& graph_;
  const int threads_;
  const TellStatus tell_;
  cost::Profile& profile_;
  const SignatureCounts counts_;
  const execute::CommunicatorSet communicators_;
  const Buffer in_, out_, workspace_;
  std::map<std::string, double> ns_;                                // by signature, of the profile
  std::map<std::string, execute::CollectiveTimes> beside_product_;  // of collectives
  std::map<std::string, execute::CollectiveTimes> of_first_pair_;   // of messages beside a product
};

}  // namespace

void measure_collectives(comm::World& world, const RunConfig& config, const plan::Plan& plan, int rounds,
                         const TellStatus& tell, cost::Profile& profile) {
  CollectiveBench(world, config, plan, tell, profile).measure(rounds);
}

}  // namespace weft::train
