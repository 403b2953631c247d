#include "train/measure/measure_machine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "base/error.h"
#include "graph/analysis.h"
#include "graph/grid.h"
#include "runtime/comm/agreement.h"
#include "runtime/comm/local.h"
#include "runtime/cost/cost_model.h"
#include "runtime/cost/machine_fit.h"
#include "runtime/cost/machine_numbers.h"
#include "runtime/cost/machine_writer.h"
#include "runtime/cost/measured_rates.h"
#include "runtime/cost/profile_file.h"
#include "runtime/cost/rank_groups.h"
#include "runtime/execute/cpu/collective_probe.h"
#include "runtime/execute/cpu/cpu_executor.h"
#include "runtime/policy/compile_plan.h"
#include "train/measure/measured_task.h"

namespace weft::train {
namespace {

using comm::CollectiveKind;

constexpr std::array kCollectives = {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                     CollectiveKind::reduce_scatter, CollectiveKind::broadcast};
constexpr std::int64_t kElementBytes = 4;  // collectives of fp32

/// Rounded to four digits: these measurements repeat no further digit.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::pow(10, std::floor(std::log10(std::abs(value))) - 3);
  // The closest number to the decimal one is found where the other factor is a whole number.
  return unit >= 1 ? std::round(value / unit) * unit : std::round(value / unit) / std::round(1 / unit);
}

/// What the axes of a grid send. Their large collectives tell bandwidths.
constexpr std::array kAxisCollectives = {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                         CollectiveKind::reduce_scatter};

/// A link and the ranks that measure it together.
struct LinkGroup {
  std::string name;  // of its table in the file
  cost::Link cost::Machine::*link;
  cost::RankGroups groups;
};

/// Collectives of one array after the other on the groups that the world is cut into, all at once.
class GroupBench {
 public:
  GroupBench(comm::World& world, const cost::RankGroups& groups, std::int64_t most_bytes)
      : groups_(groups),
        in_(2 * most_bytes + 4096),
        out_(2 * most_bytes + 4096),
        workspace_(2 * most_bytes + 4096),
        ranks_(world.split(static_cast<int>(
            graph::group_color(groups.grid(world.size()), cost::RankGroups::kChannel, world.rank())))) {}

  comm::Communicator& ranks() { return *ranks_; }

  /// The point of an array of about so many bytes.
  cost::CalibrationPoint point(CollectiveKind kind, std::int64_t bytes) const {
    cost::CalibrationPoint point;
    point.kind = to_string(kind);
    point.ranks = groups_.ranks;
    point.bytes = static_cast<double>(part_of(bytes) * groups_.ranks * kElementBytes);
    return point;
  }

  comm::CollectiveCall call(CollectiveKind kind, std::int64_t bytes) {
    const bool whole = kind == CollectiveKind::all_reduce || kind == CollectiveKind::broadcast;
    return {kind,        DType::f32,       part_of(bytes) * (whole ? groups_.ranks : 1), 0, in_.data(),
            out_.data(), workspace_.data()};
  }

 private:
  std::int64_t part_of(std::int64_t bytes) const {
    return std::max<std::int64_t>(1, bytes / kElementBytes / groups_.ranks);
  }

  const cost::RankGroups groups_;
  const Buffer in_, out_, workspace_;  // outlive the communicator
  const std::unique_ptr<comm::Communicator> ranks_;
};

class MachineBench {
 public:
  MachineBench(comm::World& world, const MachineSizes& sizes, int threads, TellStatus tell)
      : world_(world),
        sizes_(sizes),
        threads_(threads),
        tell_(std::move(tell)),
        workers_(threads),
        clock_(world, sizes.repeats, sizes.least_seconds) {
    total_ = std::ssize(sizes.gemms) + std::ssize(sizes.attention) + 3;
    for (const LinkGroup& link : links()) {
      if (link.groups.ranks > 1) total_ += std::ssize(kCollectives) * std::ssize(sizes.collective_bytes) + 2;
    }
    total_ += std::ssize(kAxisCollectives) * (std::ssize(groups_within_node()) + (neighbours_share_ports() ? 2 : 0));
  }

  cost::Machine measure(const std::string& name) {
    expect_equal_nodes();
    machine_.name = name;
    machine_.source =
        fmt::format("weft machine measure on {}: {} ranks of {} threads", cost::cpu_name(), world_.size(), threads_);
    machine_.devices_per_node = world_.ranks_on_node();
    machine_.cores = threads_;
    rests("device.cores", "given", "the threads of a rank");
    machine_.shared_cores = true;
    machine_.memory_bytes = std::floor(static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                                       static_cast<double>(sysconf(_SC_PAGESIZE)) / world_.ranks_on_node());
    rests("device.memory-bytes", "measured", "the system's memory, divided by the ranks of a node");
    measure_products();
    measure_attention();
    measure_memory();
    measure_tasks();
    const std::array links = this->links();
    measure_link(links.front());
    for (const cost::RankGroups& groups : groups_within_node()) measure_node_group(groups);
    if (neighbours_share_ports()) measure_ports();
    measure_link(links.back());
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

  void measure_products() {
    double best_f32 = 0, best_bf16 = 0;
    for (cost::GemmPoint point : sizes_.gemms) {
      tell(point_text(point));
      const graph::Gemm gemm = cost::operation_of(point);
      const DType dtype = point.dtype;
      const auto [m, n, k] = std::array{point.m, point.n, point.k};
      MeasuredTask task(gemm,
                        {point.trans_a ? MeasuredTask::Shape{k, m, dtype} : MeasuredTask::Shape{m, k, dtype},
                         point.trans_b ? MeasuredTask::Shape{n, k, dtype} : MeasuredTask::Shape{k, n, dtype},
                         {m, n, dtype}},
                        workers_);
      point.seconds = rounded(clock_.seconds([&] { task.run(); }));
      point.source = fmt::format("median of {} repeats in warm caches", sizes_.repeats);
      machine_.gemms.push_back(point);
      double& best = dtype == DType::f32 ? best_f32 : best_bf16;
      best = std::max(best, cost::rate_of(point));
    }
    set_rate("device.flops-f32", machine_.flops_f32, best_f32);
    set_rate("device.flops-bf16", machine_.flops_bf16, best_bf16);
    machine_.gemm_half = rounded(cost::fitted_gemm_half(machine_));
    rests("device.gemm-half", "fitted", fmt::format("to the {} products of this file", machine_.gemms.size()));
  }

  void set_rate(const std::string& key, double& rate, double best) {
    if (best > 0) {
      rate = rounded(best);
      rests(key, "measured", "the fastest product of this file");
    } else {
      rests(key, "assumed", "no product was measured");
    }
  }

  void measure_attention() {
    for (cost::AttentionPoint point : sizes_.attention) {
      tell(point_text(point));
      const DType dtype = point.dtype;
      const MeasuredTask::Shape wide{point.batch * point.seq, point.heads * point.head_dim, dtype},
          sums{1, point.batch * point.heads * point.seq, DType::f32};
      std::vector<MeasuredTask::Shape> shapes = {wide, wide, wide, wide, sums};
      if (point.backward) shapes.insert(shapes.end(), {wide, wide, wide, wide});
      MeasuredTask task(cost::operation_of(point), shapes, workers_);
      point.seconds = rounded(clock_.seconds([&] { task.run(); }));
      point.source = fmt::format("median of {} repeats in warm caches", sizes_.repeats);
      machine_.attention.push_back(point);
    }
  }

  void measure_memory() {
    tell("memory");
    const std::int64_t n = sizes_.memory_elements;
    const graph::Operation add = graph::Add{n}, gelu = graph::GeluForward{n};
    {
      MeasuredTask task(add, {{1, n}, {1, n}, {1, n}}, workers_);
      machine_.memory_bandwidth =
          rounded(graph::work_of(add, kElementBytes).bytes / clock_.seconds([&] { task.run(); }));
      rests("device.memory-bandwidth", "measured", fmt::format("additions of {} floats, all ranks at once", n));
    }
    tell("elementwise arithmetic");
    MeasuredTask task(gelu, {{1, n}, {1, n}}, workers_);
    const double seconds = clock_.seconds([&] { task.run(); });
    const graph::Work work = graph::work_of(gelu, kElementBytes);
    // Where the memory is what limits it, nothing is known of the arithmetic.
    const bool limited = seconds <= 1.1 * work.bytes / machine_.memory_bandwidth;
    const double efficiency = rounded(work.flops / machine_.flops_f32 / seconds);
    machine_.efficiency = limited || efficiency > 1 ? 1 : efficiency;
    rests("device.efficiency", "measured",
          limited ? "GELU of as many floats, which the memory limits" : "GELU of as many floats");
  }

  void measure_tasks() {
    tell("the start of a task");
    graph::GraphBuilder builder;
    const graph::View nothing =
        graph::whole(builder, builder.add_tensor({"nothing", DType::f32, {0}, graph::Role::parameter}));
    for (std::int64_t i = 0; i < sizes_.tasks; ++i) {
      builder.add_task(
          {fmt::format("t{}", i), graph::Add{0}, {graph::read(nothing), graph::read(nothing), graph::write(nothing)}});
    }
    const auto graph = std::make_shared<const graph::Graph>(std::move(builder).build());
    const auto plan =
        std::make_shared<const plan::Plan>(policy::compile_plan(graph, *policy::named_policy("serial").policy));
    const std::unique_ptr<comm::World> alone = std::move(comm::make_local_worlds(1).front());
    const execute::State state(std::vector<const graph::Graph*>{graph.get()});
    execute::CpuExecutor executor(state, execute::CommunicatorSet(*alone, {}), {.threads = threads_});
    const auto loaded = executor.load(plan);
    const double step = clock_.seconds([&] { executor.run(loaded); });
    machine_.task_overhead = rounded(step / static_cast<double>(std::max<std::int64_t>(1, sizes_.tasks)));
    rests("device.task-overhead", "measured", fmt::format("a step of {} empty tasks", sizes_.tasks));
  }

  void measure_link(const LinkGroup& link) {
    const std::int64_t ranks = link.groups.ranks;
    if (ranks < 2) {
      const std::string why = link.name == "node" ? "there was one rank a node" : "there was one node";
      machine_.*link.link = link.name == "node" ? cost::Link{5e-6, 10e9} : cost::Link{50e-6, 119.4e6};
      rests(link.name + ".latency", "assumed", why);
      rests(link.name + ".bandwidth", "assumed", why);
      return;
    }
    GroupBench bench(world_, link.groups, most_bytes());
    std::vector<cost::CalibrationPoint> points;
    for (const CollectiveKind kind : kCollectives) {
      for (const std::int64_t bytes : sizes_.collective_bytes) {
        cost::CalibrationPoint& point = points.emplace_back(bench.point(kind, bytes));
        tell(point_text(point));
        point.seconds = rounded(seconds_of(bench, kind, bytes));
        point.source = fmt::format("median of {} repeats", sizes_.repeats);
      }
    }
    if (points.empty()) return;
    cost::fit_link(machine_, link.link, points);
    cost::Link& fitted = machine_.*link.link;
    fitted = {.latency = rounded(fitted.latency), .bandwidth = rounded(fitted.bandwidth)};
    const std::string source = fmt::format("to the {} collectives of this file on {} ranks", points.size(), ranks);
    rests(link.name + ".latency", "fitted", source);
    rests(link.name + ".bandwidth", "fitted", source);
    machine_.calibration.insert(machine_.calibration.end(), points.begin(), points.end());
    measure_transport(bench, ranks);
  }

  /// Of the slowest group.
  double seconds_of(GroupBench& bench, CollectiveKind kind, std::int64_t bytes) {
    const comm::CollectiveCall call = bench.call(kind, bytes);
    return clock_.slowest_seconds([&] { comm::run_blocking(bench.ranks(), call); });
  }

  /// Neighbours within a node that send at once may share a link, or have one that others don't use.
  void measure_node_group(const cost::RankGroups& groups) {
    GroupBench bench(world_, groups, most_bytes());
    std::vector<cost::CalibrationPoint> points;
    for (const CollectiveKind kind : kAxisCollectives) {
      cost::CalibrationPoint& point = points.emplace_back(bench.point(kind, most_bytes()));
      tell(fmt::format("{}, {} apart, all groups at once", point_text(point), groups.stride));
      point.seconds = seconds_of(bench, kind, most_bytes());
    }
    cost::fit_node_group(machine_, groups, world_.size(), points);
    cost::NodeGroup& fitted = machine_.node_groups.back();
    fitted.bandwidth = rounded(fitted.bandwidth);
    double worst = 0;
    for (const cost::CalibrationPoint& point : points) {
      const double predicted = cost::predicted_seconds(machine_, point, groups, world_.size());
      worst = std::max(worst, std::abs(predicted / point.seconds - 1));
    }
    rests("node.group.bandwidth", "fitted",
          fmt::format("to {} large collectives on {} groups at once, from which it is off by up to {:.0f} %",
                      points.size(), world_.size() / groups.ranks, 100 * worst),
          machine_.node_groups.size() - 1);
  }

  /// One rank of each node alone sends through one port. If all ranks do so beside it, they send through all ports.
  void measure_ports() {
    const cost::RankGroups groups{nodes(), ranks_on_node()};
    GroupBench bench(world_, groups, most_bytes());
    double product = 1;  // of the gains in bandwidth
    for (const CollectiveKind kind : kAxisCollectives) {
      const std::string what = point_text(bench.point(kind, most_bytes()));
      tell(what + " of different nodes, alone");
      const bool of_first = world_.rank_on_node() == 0;
      // The other groups have next to nothing to send.
      const double alone = seconds_of(bench, kind, of_first ? most_bytes() : 0);
      tell(what + " of different nodes, all groups at once");
      product *= static_cast<double>(ranks_on_node()) * alone / seconds_of(bench, kind, most_bytes());
    }
    const double gain = std::pow(product, 1.0 / static_cast<double>(kAxisCollectives.size()));
    machine_.network_ports = rounded(std::clamp(gain, 1.0, static_cast<double>(ranks_on_node())));
    rests("network.ports", "measured",
          fmt::format("effective: the {} ranks of a node at once send {:.3g} times as fast as one of them alone",
                      ranks_on_node(), gain));
  }

  /// Of the widest link, which is measured last.
  void measure_transport(GroupBench& bench, std::int64_t ranks) {
    tell("a product beside all_reduce");
    const comm::CollectiveCall call = bench.call(CollectiveKind::all_reduce, most_bytes());
    const int rounds = sizes_.rounds_beside;
    execute::ProbeComputation product = execute::ProbeComputation::product(threads_);
    const execute::CollectiveTimes known = execute::probe_collective(world_, bench.ranks(), call, product, rounds);
    const graph::AllReduce sum{graph::Channel::world, ranks, call.count};
    machine_.transport_cpu = rounded(known.slows_by * 1e-9 * threads_ / sum.work(kElementBytes).network_bytes);
    std::erase_if(machine_.provenance, [](const cost::Provenance& each) {
      return each.key == "transport.cpu" || each.key == "slowdown.factor";
    });
    const double share = known.beside > 0 ? known.slows_by / known.beside : 0;
    rests("transport.cpu", "measured",
          fmt::format("all_reduce of {} bytes takes {:.0f} % of a product's time beside it", call.count * kElementBytes,
                      100 * std::clamp(share, 0.0, 1.0)));
    tell("an addition beside all_reduce");
    graph::GraphBuilder builder;
    const graph::View x =
        graph::whole(builder, builder.add_tensor({"x", DType::f32, {sizes_.memory_elements}, graph::Role::parameter}));
    builder.add_task({"add", graph::Add{sizes_.memory_elements}, {graph::read(x), graph::read(x), graph::write(x)}});
    const graph::Graph graph = std::move(builder).build();
    execute::ProbeComputation addition(graph, graph.tasks().front(), threads_);
    const double factor = rounded(
        execute::slowdown_factor(known, execute::probe_collective(world_, bench.ranks(), call, addition, rounds)));
    machine_.slowdowns.clear();
    if (factor <= 1) return;
    machine_.slowdowns.push_back({std::string(graph::Add::kind), std::string(graph::AllReduce::kind), factor});
    rests("slowdown.factor", "measured", "beyond the core time of transport.cpu");
  }

  comm::World& world_;
  const MachineSizes& sizes_;
  const int threads_;
  const TellStatus tell_;
  cpu::Workers workers_;
  RankClock clock_;
  cost::Machine machine_;
  std::int64_t done_ = 0, total_ = 0;
};

}  // namespace

MachineSizes machine_sizes(bool quick) {
  MachineSizes sizes;
  sizes.repeats = quick ? 3 : 7;
  sizes.rounds_beside = quick ? 5 : 35;
  // Square products, and products of a layer: many rows with few columns, and few rows with many columns.
  std::vector<std::array<std::int64_t, 3>> shapes = {{128, 128, 128}, {512, 512, 512}, {1024, 2048, 512}};
  if (!quick) shapes.insert(shapes.end(), {{256, 256, 256}, {1024, 1024, 1024}, {2048, 512, 2048}});
  std::vector<std::array<std::int64_t, 4>> attention = {{2, 4, 128, 64}, {2, 4, 512, 64}};
  if (!quick) attention.insert(attention.end(), {{4, 4, 256, 32}, {1, 4, 1024, 64}});
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const auto& [trans_a, trans_b] : {std::pair{false, false}, {false, true}, {true, false}}) {
      for (const auto& [m, n, k] : shapes) {
        sizes.gemms.push_back({.m = m, .n = n, .k = k, .trans_a = trans_a, .trans_b = trans_b, .dtype = dtype});
      }
    }
    for (const bool backward : {false, true}) {
      for (const auto& [batch, heads, seq, head_dim] : attention) {
        sizes.attention.push_back(
            {.backward = backward, .batch = batch, .heads = heads, .seq = seq, .head_dim = head_dim, .dtype = dtype});
      }
    }
  }
  for (std::int64_t bytes = 1 << 10; bytes <= 1 << 24; bytes *= quick ? 16 : 4) sizes.collective_bytes.push_back(bytes);
  return sizes;
}

cost::Machine measure_machine(comm::World& world, const std::string& name, const MachineSizes& sizes, int threads,
                              const TellStatus& tell) {
  return MachineBench(world, sizes, threads, tell).measure(name);
}

}  // namespace weft::train
