#include "train/measure/measure_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/analysis.h"
#include "runtime/comm/agreement.h"
#include "runtime/cost/cost_model.h"
#include "runtime/cost/machine.h"
#include "runtime/cost/machine_fit.h"
#include "runtime/cost/machine_numbers.h"
#include "runtime/cost/measured_rates.h"

namespace weft::train {
namespace {

using comm::CollectiveKind;

/// The first three are of quick measurements too.
struct Shapes {
  std::array<std::array<std::int64_t, 3>, 6> products;   // m, n, k
  std::array<std::array<std::int64_t, 4>, 4> attention;  // batch, heads, seq, head_dim; the first two when quick
};

// Square products, and products of a layer: many rows with few columns, and few rows with many columns.
constexpr Shapes kOfCpus = {
    {{{128, 128, 128}, {512, 512, 512}, {1024, 2048, 512}, {256, 256, 256}, {1024, 1024, 1024}, {2048, 512, 2048}}},
    {{{2, 4, 128, 64}, {2, 4, 512, 64}, {4, 4, 256, 32}, {1, 4, 1024, 64}}}};
constexpr Shapes kOfGpus = {{{{1024, 1024, 1024},
                              {4096, 4096, 4096},
                              {8192, 2048, 512},
                              {2048, 2048, 2048},
                              {8192, 8192, 2048},
                              {2048, 512, 8192}}},
                            {{{8, 12, 1024, 64}, {2, 16, 2048, 128}, {8, 12, 512, 64}, {1, 16, 4096, 128}}}};

constexpr std::array kCollectives = {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                     CollectiveKind::reduce_scatter, CollectiveKind::broadcast};
constexpr std::int64_t kElementBytes = 4;  // of the floats that measure the memory

/// Rounded to four digits: these measurements repeat no further digit.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::pow(10, std::floor(std::log10(std::abs(value))) - 3);
  // The closest number to the decimal one is found where the other factor is a whole number.
  return unit >= 1 ? std::round(value / unit) * unit : std::round(value / unit) / std::round(1 / unit);
}

/// Sizes that the axes of a grid send. Their large collectives tell bandwidths.
constexpr std::array kAxisCollectives = {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                         CollectiveKind::reduce_scatter};

/// A link and the ranks that measure it together.
struct LinkGroup {
  std::string name;  // of its table in the file
  cost::Link cost::Machine::*link;
  cost::RankGroups groups;
};

cost::CalibrationPoint point_of(const TimedCollective& collective, std::int64_t ranks) {
  cost::CalibrationPoint point;
  point.kind = to_string(collective.kind);
  point.ranks = ranks;
  point.bytes = static_cast<double>(part_of_array(collective.bytes, ranks) * ranks * kCollectiveElementBytes);
  return point;
}

std::vector<TimedCollective> of_axes(std::int64_t bytes) {
  std::vector<TimedCollective> collectives;
  for (const CollectiveKind kind : kAxisCollectives) collectives.push_back({kind, bytes});
  return collectives;
}

class MachineBench {
 public:
  MachineBench(comm::World& world, const MachineSizes& sizes, MachineTimer& timer, TellStatus tell)
      : world_(world), sizes_(sizes), timer_(timer), tell_(std::move(tell)) {
    total_ = std::ssize(sizes.gemms) + std::ssize(sizes.attention) + 3;
    for (const LinkGroup& link : links()) {
      if (link.groups.ranks > 1) total_ += std::ssize(kCollectives) * std::ssize(sizes.collective_bytes) + 2;
    }
    total_ += std::ssize(kAxisCollectives) * (std::ssize(groups_within_node()) + (neighbours_share_ports() ? 2 : 0));
  }

  cost::Machine measure(const std::string& name) {
    expect_equal_nodes();
    machine_.name = name;
    machine_.devices_per_node = world_.ranks_on_node();
    timer_.describe(machine_);
    tell("the start of a task");
    machine_.task_overhead = rounded(timer_.start_seconds(sizes_.tasks));
    rests("device.task-overhead", "measured", fmt::format("a step of {} tasks, each of one addition", sizes_.tasks));
    measure_products();
    machine_.attention = timed(sizes_.attention);
    measure_memory();
    const std::array links = this->links();
    measure_link(links.front());
    for (const cost::RankGroups& groups : groups_within_node()) measure_node_group(groups);
    measure_network(links.back());
    cost::note_errors(machine_);
    // One machine for all, although clocks and memories differ a little.
    return cost::parse_machine(comm::text_of_rank_0(world_, cost::machine_toml(machine_)), "the measured machine");
  }

 private:
  void tell(const std::string& what) {
    if (world_.rank() == 0) tell_({fmt::format("[{}/{}] {}", done_ + 1, total_, what), done_, total_});
    ++done_;
  }

  void rests(std::string key, std::string status, std::string source, std::size_t item = 0) {
    machine_.provenance.push_back({std::move(key), std::move(source), std::move(status), item});
  }

  /// A machine file describes nodes of one kind, on which ranks lie in order.
  void expect_equal_nodes() {
    const std::vector<std::uint64_t> on_node = world_.all_gather(static_cast<std::uint64_t>(world_.ranks_on_node()));
    const std::vector<std::uint64_t> place = world_.all_gather(static_cast<std::uint64_t>(world_.rank_on_node()));
    for (std::size_t rank = 0; rank < on_node.size(); ++rank) {
      if (on_node[rank] == on_node.front() && place[rank] == rank % on_node.front()) continue;
      throw UserError(fmt::format("rank {} is rank {} of {} on its node", rank, place[rank], on_node[rank]),
                      fmt::format("ranks in the order of their nodes, {} on each", on_node.front()),
                      "mpirun with --map-by slot, and equal slots on each node");
    }
  }

  std::int64_t ranks_on_node() const { return world_.ranks_on_node(); }
  std::int64_t nodes() const { return world_.size() / ranks_on_node(); }

  /// The ranks of each node, all nodes at once; and the world, if it has several nodes.
  std::array<LinkGroup, 2> links() const {
    return {{{"node", &cost::Machine::node, {ranks_on_node(), 1}},
             {"network", &cost::Machine::network, {nodes() > 1 ? world_.size() : 1, 1}}}};
  }

  std::int64_t most_bytes() const {
    return sizes_.collective_bytes.empty() ? 0 : std::ranges::max(sizes_.collective_bytes);
  }

  std::vector<cost::RankGroups> groups_within_node() const {
    return most_bytes() > 0 ? cost::groups_within_node(ranks_on_node()) : std::vector<cost::RankGroups>();
  }

  bool neighbours_share_ports() const { return most_bytes() > 0 && nodes() > 1 && ranks_on_node() > 1; }

  template <class Point>
  std::vector<Point> timed(std::vector<Point> points) {
    for (Point& point : points) {
      tell(point_text(point));
      point.seconds = rounded(timer_.task_seconds(cost::operation_of(point), point.dtype));
      point.source = fmt::format("median of {} repeats in warm caches", sizes_.repeats);
    }
    return points;
  }

  void measure_products() {
    double best_f32 = 0, best_bf16 = 0;
    machine_.gemms = timed(sizes_.gemms);
    for (const cost::GemmPoint& point : machine_.gemms) {
      double& best = point.dtype == DType::f32 ? best_f32 : best_bf16;
      // With the start of its task: a GPU starts a short product beside the last one, so that less time would be left
      // than its arithmetic takes.
      best = std::max(best, cost::rate_of(point) * point.seconds / (point.seconds + machine_.task_overhead));
    }
    set_rate("device.flops-f32", machine_.flops_f32, best_f32);
    set_rate("device.flops-bf16", machine_.flops_bf16, best_bf16);
    machine_.gemm_half = rounded(cost::fitted_gemm_half(machine_));
    rests("device.gemm-half", "fitted", fmt::format("to the {} products of this file", machine_.gemms.size()));
  }

  void set_rate(const std::string& key, double& rate, double best) {
    if (best > 0) {
      rate = rounded(best);
      rests(key, "measured", "the fastest product of this file, with its start");
    } else {
      rests(key, "assumed", "no product was measured");
    }
  }

  void measure_memory() {
    tell("memory");
    const std::int64_t n = sizes_.memory_elements;
    const graph::Operation add = graph::Add{n}, gelu = graph::GeluForward{n};
    machine_.memory_bandwidth =
        rounded(graph::work_of(add, kElementBytes).bytes / timer_.task_seconds(add, DType::f32));
    rests("device.memory-bandwidth", "measured", fmt::format("additions of {} floats, all ranks at once", n));
    tell("elementwise arithmetic");
    const double seconds = timer_.task_seconds(gelu, DType::f32);
    const graph::Work work = graph::work_of(gelu, kElementBytes);
    // Where the memory is what limits it, nothing is known of the arithmetic.
    const bool limited = seconds <= 1.1 * work.bytes / machine_.memory_bandwidth;
    const double efficiency = rounded(work.flops / machine_.flops_f32 / seconds);
    machine_.efficiency = limited || efficiency > 1 ? 1 : efficiency;
    rests("device.efficiency", "measured",
          limited ? "GELU of as many floats, which the memory limits" : "GELU of as many floats");
  }

  void measure_link(const LinkGroup& link, const cost::GroupedPoints& neighbours = {}) {
    const std::int64_t ranks = link.groups.ranks;
    if (ranks < 2) {
      const std::string why = link.name == "node" ? "there was one rank a node" : "there was one node";
      machine_.*link.link = link.name == "node" ? cost::Link{5e-6, 10e9} : cost::Link{50e-6, 119.4e6};
      rests(link.name + ".latency", "assumed", why);
      rests(link.name + ".bandwidth", "assumed", why);
      return;
    }
    std::vector<TimedCollective> collectives;
    for (const CollectiveKind kind : kCollectives) {
      for (const std::int64_t bytes : sizes_.collective_bytes) collectives.push_back({kind, bytes});
    }
    const std::vector<cost::CalibrationPoint> points = measured(link.groups, collectives, "");
    if (points.empty()) return;
    cost::fit_link(machine_, link.link, points, neighbours);
    cost::Link& fitted = machine_.*link.link;
    fitted = {.latency = rounded(fitted.latency), .bandwidth = rounded(fitted.bandwidth)};
    const std::string source = fmt::format("to the {} collectives of this file on {} ranks", points.size(), ranks);
    rests(link.name + ".latency", "fitted", source);
    rests(link.name + ".bandwidth", "fitted",
          source + (neighbours.points.empty() ? "" : ", and to groups of one rank a node, all at once"));
    machine_.calibration.insert(machine_.calibration.end(), points.begin(), points.end());
    measure_transport(link.groups);
  }

  /// The points of collectives, those of the slowest group. `told`: what is told of each beside its size.
  std::vector<cost::CalibrationPoint> measured(const cost::RankGroups& groups,
                                               std::span<const TimedCollective> collectives, const std::string& told) {
    std::vector<cost::CalibrationPoint> points;
    for (const TimedCollective& each : collectives) points.push_back(point_of(each, groups.ranks));
    const std::vector<double> seconds = timer_.collective_seconds(
        groups, collectives, [&](std::size_t next) { tell(point_text(points[next]) + told); });
    for (std::size_t i = 0; i < points.size(); ++i) {
      points[i].seconds = rounded(seconds[i]);
      points[i].source = fmt::format("median of {} repeats", sizes_.repeats);
    }
    return points;
  }

  /// Neighbours within a node that send at once may share a link, or have one that others don't use.
  void measure_node_group(const cost::RankGroups& groups) {
    const std::vector<cost::CalibrationPoint> points =
        measured(groups, of_axes(most_bytes()), fmt::format(", {} apart, all groups at once", groups.stride));
    cost::fit_node_group(machine_, {groups, world_.size(), points});
    cost::NodeGroup& fitted = machine_.node_groups.back();
    fitted.bandwidth = rounded(fitted.bandwidth);
    rests("node.group.bandwidth", "fitted",
          fmt::format("to {} large collectives on {} groups at once, from which it is off by up to {:.0f} %",
                      points.size(), world_.size() / groups.ranks, 100 * worst_error(groups, points)),
          machine_.node_groups.size() - 1);
  }

  /// The greatest relative error of the model at points of all groups at once.
  double worst_error(const cost::RankGroups& groups, std::span<const cost::CalibrationPoint> points) const {
    double worst = 0;
    for (const cost::CalibrationPoint& point : points) {
      const double predicted = cost::predicted_seconds(machine_, point, groups, world_.size());
      worst = std::max(worst, std::abs(predicted / point.seconds - 1));
    }
    return worst;
  }

  /// One rank of each node alone sends through one port. If all ranks do so beside it, they send through all ports.
  void measure_network(const LinkGroup& link) {
    if (!neighbours_share_ports()) return measure_link(link);
    const cost::RankGroups groups{nodes(), ranks_on_node()};
    // The other groups have next to nothing to send.
    const std::int64_t of_first = world_.rank_on_node() == 0 ? most_bytes() : 0;
    const std::vector<cost::CalibrationPoint> alone = measured(groups, of_axes(of_first), " of different nodes, alone");
    const std::vector<cost::CalibrationPoint> together =
        measured(groups, of_axes(most_bytes()), " of different nodes, all groups at once");
    double product = 1;  // of the gains in bandwidth
    for (std::size_t i = 0; i < alone.size(); ++i) {
      product *= static_cast<double>(ranks_on_node()) * alone[i].seconds / together[i].seconds;
    }
    const double gain = std::pow(product, 1.0 / static_cast<double>(alone.size()));
    machine_.network_ports = rounded(std::clamp(gain, 1.0, static_cast<double>(ranks_on_node())));
    measure_link(link, {groups, world_.size(), together});  // the bandwidth of all ports
    rests("network.ports", "measured",
          fmt::format("effective: the {} ranks of a node at once send {:.3g} times as fast as one of them alone; the "
                      "model is off by up to {:.0f} % there",
                      ranks_on_node(), gain, 100 * worst_error(groups, together)));
  }

  /// Of the widest link, which is measured last.
  void measure_transport(const cost::RankGroups& groups) {
    const CostsBeside costs = timer_.costs_beside(groups, most_bytes(), sizes_.memory_elements,
                                                  [&](const std::string& what) { tell(what + " beside all_reduce"); });
    std::erase_if(machine_.provenance, [](const cost::Provenance& each) {
      return each.key == "transport.cpu" || each.key == "slowdown.factor";
    });
    machine_.transport_cpu = rounded(costs.transport_cpu);
    if (!costs.transport_source.empty()) rests("transport.cpu", "measured", costs.transport_source);
    machine_.slowdowns.clear();
    for (const cost::Slowdown& each : costs.slowdowns) {
      const double factor = rounded(each.factor);
      if (factor <= 1) continue;
      rests("slowdown.factor", "measured", costs.slowdown_source, machine_.slowdowns.size());
      machine_.slowdowns.push_back({each.compute, each.collective, factor});
    }
  }

  comm::World& world_;
  const MachineSizes& sizes_;
  MachineTimer& timer_;
  const TellStatus tell_;
  cost::Machine machine_;
  std::int64_t done_ = 0, total_ = 0;
};

}  // namespace

MachineSizes machine_sizes(DeviceKind device, bool quick) {
  const bool gpu = device == DeviceKind::cuda;
  const Shapes& shapes = gpu ? kOfGpus : kOfCpus;
  const std::size_t products = quick ? 3 : shapes.products.size();
  const std::size_t attention = quick ? 2 : shapes.attention.size();
  MachineSizes sizes;
  sizes.repeats = quick ? 3 : 7;
  sizes.rounds_beside = quick ? 5 : 35;
  if (gpu) sizes.memory_elements = std::int64_t{1} << 26;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const auto& [trans_a, trans_b] : {std::pair{false, false}, {false, true}, {true, false}}) {
      for (std::size_t i = 0; i < products; ++i) {
        const auto [m, n, k] = shapes.products.at(i);
        sizes.gemms.push_back({.m = m, .n = n, .k = k, .trans_a = trans_a, .trans_b = trans_b, .dtype = dtype});
      }
    }
    for (const bool backward : {false, true}) {
      for (std::size_t i = 0; i < attention; ++i) {
        const auto [batch, heads, seq, head_dim] = shapes.attention.at(i);
        sizes.attention.push_back(
            {.backward = backward, .batch = batch, .heads = heads, .seq = seq, .head_dim = head_dim, .dtype = dtype});
      }
    }
  }
  const std::int64_t most = std::int64_t{1} << (gpu ? 28 : 24);
  for (std::int64_t bytes = 1 << 10; bytes <= most; bytes *= quick ? 16 : 4) sizes.collective_bytes.push_back(bytes);
  return sizes;
}

cost::Machine measure_machine(comm::World& world, const std::string& name, const MachineSizes& sizes,
                              MachineTimer& timer, const TellStatus& tell) {
  return MachineBench(world, sizes, timer, tell).measure(name);
}

}  // namespace weft::train
