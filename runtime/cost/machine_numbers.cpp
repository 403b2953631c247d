#include "runtime/cost/machine_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "runtime/cost/machine_keys.h"

namespace weft::cost {
namespace {

/// Lists numbers of a machine. A number that the file leaves out has the status "default".
class NumberList {
 public:
  explicit NumberList(const Machine& machine) : machine_(machine) {}

  /// `usual`: that of a file which leaves the number out.
  void add(const std::string& key, double value, MachineUnit unit, const std::optional<double>& usual) {
    add_item(key, key, 0, value, unit);
    MachineNumber& number = numbers_.back();
    if (value != usual || provenance_of(machine_, key, 0) != nullptr) return;
    number.status = "default";
    number.source = "";
  }
  /// `in_file`: the key of a list's number, and `item` its place in the list.
  void add_item(std::string key, std::string_view in_file, std::size_t item, double value, MachineUnit unit) {
    MachineNumber& number = numbers_.emplace_back();
    number = {std::move(key), value, unit, "", machine_.source};
    const Provenance* found = provenance_of(machine_, in_file, item);
    if (found == nullptr) return;
    number.status = found->status;
    if (!found->source.empty()) number.source = found->source;
  }

  std::vector<MachineNumber> take() { return std::move(numbers_); }

 private:
  const Machine& machine_;
  std::vector<MachineNumber> numbers_;
};

/// The values of machine_keys() in one table.
void add_values(NumberList& list, std::string_view table, const Machine& machine) {
  for (const MachineKey& key : machine_keys()) {
    if (key.table == table) list.add(key.key(), value_of(machine, key), key.unit, key.usual);
  }
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
  for (const std::string_view table : {"", "device", "node"}) add_values(list, table, machine);
  for (std::size_t i = 0; i < machine.node_groups.size(); ++i) {
    const NodeGroup& group = machine.node_groups[i];
    list.add_item(fmt::format("node.group[ranks={}, stride={}].bandwidth", group.ranks, group.stride),
                  "node.group.bandwidth", i, group.bandwidth, MachineUnit::bytes_a_second);
  }
  add_values(list, "network", machine);
  for (std::size_t i = 0; i < machine.congestion.size(); ++i) {
    list.add_item(fmt::format("network.congestion[nodes={}].factor", machine.congestion[i].nodes),
                  "network.congestion.factor", i, machine.congestion[i].factor, MachineUnit::number);
  }
  add_values(list, "transport", machine);
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
