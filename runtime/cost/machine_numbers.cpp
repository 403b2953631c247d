#include "runtime/cost/machine_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/text/units.h"

namespace weft::cost {
namespace {

/// Lists numbers of a machine. A number that the file leaves out has the status "default".
class NumberList {
 public:
  explicit NumberList(const Machine& machine) : machine_(machine) {}

  /// A number that every file gives.
  void add(const std::string& key, double value, MachineUnit unit) { add_item(key, key, 0, value, unit); }
  /// A number that a file may leave at its default.
  void add(const std::string& key, double value, MachineUnit unit, double usual) {
    add(key, value, unit);
    MachineNumber& number = numbers_.back();
    if (value != usual || find(key, 0) != nullptr) return;
    number.status = "default";
    number.source = "";
  }
  /// `in_file`: the key of a list's number, and `item` its place in the list.
  void add_item(std::string key, std::string_view in_file, std::size_t item, double value, MachineUnit unit) {
    MachineNumber& number = numbers_.emplace_back();
    number = {std::move(key), value, unit, "", machine_.source};
    const Provenance* found = find(in_file, item);
    if (found == nullptr) return;
    number.status = found->status;
    if (!found->source.empty()) number.source = found->source;
  }

  std::vector<MachineNumber> take() { return std::move(numbers_); }

 private:
  const Provenance* find(std::string_view key, std::size_t item) const {
    const auto found = std::ranges::find_if(
        machine_.provenance, [&](const Provenance& each) { return each.key == key && each.item == item; });
    return found == machine_.provenance.end() ? nullptr : &*found;
  }

  const Machine& machine_;
  std::vector<MachineNumber> numbers_;
};

void add_link(NumberList& list, const std::string& name, const Link& link) {
  list.add(name + ".latency", link.latency, MachineUnit::seconds);
  list.add(name + ".bandwidth", link.bandwidth, MachineUnit::bytes_a_second);
  list.add(name + ".setup", link.setup, MachineUnit::seconds, 0);
  list.add(name + ".small-bandwidth", link.small_bandwidth, MachineUnit::bytes_a_second, 0);
}

void add_device(NumberList& list, const Machine& machine) {
  list.add("device.flops-f32", machine.flops_f32, MachineUnit::operations_a_second);
  list.add("device.flops-bf16", machine.flops_bf16, MachineUnit::operations_a_second);
  list.add("device.efficiency", machine.efficiency, MachineUnit::number, 1);
  list.add("device.gemm-half", machine.gemm_half, MachineUnit::number, 0);
  list.add("device.memory-bandwidth", machine.memory_bandwidth, MachineUnit::bytes_a_second);
  list.add("device.memory-bytes", machine.memory_bytes, MachineUnit::bytes);
  list.add("device.task-overhead", machine.task_overhead, MachineUnit::seconds, 1e-6);
  list.add("device.cores", machine.cores, MachineUnit::number, 1);
}

/// "271.2 T operations/s"
std::string with_prefix(double value, std::string_view unit) {
  constexpr std::array<std::string_view, 9> kPrefixes = {"p", "n", "u", "m", "", "k", "M", "G", "T"};
  constexpr std::size_t kOne = 4;
  std::size_t at = kOne;
  for (; value != 0 && std::abs(value) < 1 && at > 0; --at) value *= 1000;
  for (; std::abs(value) >= 1000 && at + 1 < kPrefixes.size(); ++at) value /= 1000;
  return fmt::format("{:.4g} {}{}", value, kPrefixes.at(at), unit);
}

std::string_view layout_text(bool trans_a, bool trans_b) {
  return trans_a ? trans_b ? "tt" : "tn" : trans_b ? "nt" : "nn";
}

}  // namespace

std::string_view to_string(MachineUnit unit) {
  switch (unit) {
    case MachineUnit::seconds:
      return "s";
    case MachineUnit::bytes:
      return "bytes";
    case MachineUnit::bytes_a_second:
      return "bytes/s";
    case MachineUnit::operations_a_second:
      return "operations/s";
    case MachineUnit::seconds_a_byte:
      return "s/byte";
    case MachineUnit::number:
      break;
  }
  return "";
}

std::vector<MachineNumber> machine_numbers(const Machine& machine) {
  NumberList list(machine);
  list.add("devices-per-node", static_cast<double>(machine.devices_per_node), MachineUnit::number);
  add_device(list, machine);
  add_link(list, "node", machine.node);
  list.add("node.pair-bandwidth", machine.pair_bandwidth, MachineUnit::bytes_a_second, 0);
  for (std::size_t i = 0; i < machine.node_groups.size(); ++i) {
    const NodeGroup& group = machine.node_groups[i];
    list.add_item(fmt::format("node.group[ranks={}, stride={}].bandwidth", group.ranks, group.stride),
                  "node.group.bandwidth", i, group.bandwidth, MachineUnit::bytes_a_second);
  }
  add_link(list, "network", machine.network);
  list.add("network.ports", machine.network_ports, MachineUnit::number, 1);
  list.add("network.hierarchical", machine.hierarchical ? 1 : 0, MachineUnit::number, 0);
  for (std::size_t i = 0; i < machine.congestion.size(); ++i) {
    list.add_item(fmt::format("network.congestion[nodes={}].factor", machine.congestion[i].nodes),
                  "network.congestion.factor", i, machine.congestion[i].factor, MachineUnit::number);
  }
  list.add("transport.cpu", machine.transport_cpu, MachineUnit::seconds_a_byte, 0);
  list.add("transport.shared-cores", machine.shared_cores ? 1 : 0, MachineUnit::number, 0);
  for (std::size_t i = 0; i < machine.slowdowns.size(); ++i) {
    const Slowdown& slowdown = machine.slowdowns[i];
    list.add_item(fmt::format("slowdown[{} beside {}].factor", slowdown.compute.empty() ? "any" : slowdown.compute,
                              slowdown.collective.empty() ? "any" : slowdown.collective),
                  "slowdown.factor", i, slowdown.factor, MachineUnit::number);
  }
  return list.take();
}

std::string value_text(const MachineNumber& number) {
  switch (number.unit) {
    case MachineUnit::seconds:
      return with_prefix(number.value, "s");
    case MachineUnit::bytes:
      return human_bytes(static_cast<std::uint64_t>(number.value));
    case MachineUnit::bytes_a_second:
      return with_prefix(number.value, "B/s");
    case MachineUnit::operations_a_second:
      return with_prefix(number.value, "flop/s");
    case MachineUnit::seconds_a_byte:
      return with_prefix(number.value, "s/B");
    case MachineUnit::number:
      break;
  }
  return fmt::format("{:.4g}", number.value);
}

std::vector<std::string> unsure_numbers(const Machine& machine) {
  std::vector<std::string> keys;
  for (const Provenance& number : machine.provenance) {
    if (number.status != "unverified" && number.status != "assumed") continue;
    if (std::ranges::find(keys, number.key) == keys.end()) keys.push_back(number.key);
  }
  return keys;
}

std::string unsure_text(std::span<const std::string> keys) {
  constexpr std::size_t kNamed = 3;
  if (keys.empty()) return "";
  const std::string named = join(keys.first(std::min(kNamed, keys.size())));
  return fmt::format("{} of its numbers {} unverified or assumed: {}{}", keys.size(), keys.size() == 1 ? "is" : "are",
                     named, keys.size() > kNamed ? fmt::format(" and {} more", keys.size() - kNamed) : "");
}

std::string point_text(const GemmPoint& point) {
  return fmt::format("gemm {}x{}x{} {} {}", point.m, point.n, point.k, layout_text(point.trans_a, point.trans_b),
                     to_string(point.dtype));
}

std::string point_text(const AttentionPoint& point) {
  return fmt::format("attention {}, {} x {} heads of {}, seq {}, {}", point.backward ? "backward" : "forward",
                     point.batch, point.heads, point.head_dim, point.seq, to_string(point.dtype));
}

std::string point_text(const CalibrationPoint& point) {
  if (point.kind == "gemm") return fmt::format("gemm {}x{}x{} {}", point.m, point.n, point.k, to_string(point.dtype));
  return fmt::format("{} of {}, {} ranks", point.kind, format_bytes(point.bytes), point.ranks);
}

}  // namespace weft::cost
