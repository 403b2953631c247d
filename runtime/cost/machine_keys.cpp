#include "runtime/cost/machine_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "base/error.h"
#include "base/units.h"

namespace weft::cost {
namespace {

using Unit = MachineUnit;

constexpr NumberRange kAboveZero{.least = 0, .above = true}, kFromZero{.least = 0};
constexpr NumberRange kShare{.least = 0, .most = 1, .above = true};
constexpr NumberRange kFromOne{.least = 1};   // bytes a second
constexpr NumberRange kMemory{.least = 1e6};  // a device with less holds no step
constexpr double kMostCount = 1e9;

constexpr LinkNumber of_node(double Link::*number) {
  return {&Machine::node, number};
}
constexpr LinkNumber of_network(double Link::*number) {
  return {&Machine::network, number};
}

constexpr std::array kKeys = {
    MachineKey{"", "devices-per-node", Unit::number, &Machine::devices_per_node, {.least = 1, .most = kMostCount}},
    MachineKey{"device", "flops-f32", Unit::operations_a_second, &Machine::flops_f32, kAboveZero},
    MachineKey{"device", "flops-bf16", Unit::operations_a_second, &Machine::flops_bf16, kAboveZero},
    MachineKey{"device", "efficiency", Unit::number, &Machine::efficiency, kShare, 1.0},
    MachineKey{"device", "gemm-half", Unit::number, &Machine::gemm_half, kFromZero, 0.0},
    MachineKey{"device", "processors", Unit::number, &Machine::processors, kFromZero, 0.0},
    MachineKey{"device", "tile-half", Unit::number, &Machine::tile_half, kFromZero, 0.0},
    MachineKey{"device", "product-start", Unit::seconds, &Machine::product_start, kFromZero, 0.0},
    MachineKey{"device", "sustained", Unit::number, &Machine::sustained, kShare, 1.0},
    MachineKey{"device", "memory-bandwidth", Unit::bytes_a_second, &Machine::memory_bandwidth, kFromOne},
    MachineKey{"device", "memory-efficiency", Unit::number, &Machine::memory_efficiency, kShare, 1.0},
    MachineKey{"device", "memory-bytes", Unit::bytes, &Machine::memory_bytes, kMemory},
    MachineKey{"device", "task-overhead", Unit::seconds, &Machine::task_overhead, kFromZero, 1e-6},
    MachineKey{"device", "cores", Unit::number, &Machine::cores, kAboveZero, 1.0},
    MachineKey{"node", "latency", Unit::seconds, of_node(&Link::latency), kFromZero},
    MachineKey{"node", "bandwidth", Unit::bytes_a_second, of_node(&Link::bandwidth), kFromOne},
    MachineKey{"node", "setup", Unit::seconds, of_node(&Link::setup), kFromZero, 0.0},
    MachineKey{"node", "small-bandwidth", Unit::bytes_a_second, of_node(&Link::small_bandwidth), kFromZero, 0.0},
    MachineKey{"node", "pair-bandwidth", Unit::bytes_a_second, &Machine::pair_bandwidth, kFromZero, 0.0},
    MachineKey{"network", "latency", Unit::seconds, of_network(&Link::latency), kFromZero},
    MachineKey{"network", "bandwidth", Unit::bytes_a_second, of_network(&Link::bandwidth), kFromOne},
    MachineKey{"network", "setup", Unit::seconds, of_network(&Link::setup), kFromZero, 0.0},
    MachineKey{"network", "small-bandwidth", Unit::bytes_a_second, of_network(&Link::small_bandwidth), kFromZero, 0.0},
    MachineKey{"network", "ports", Unit::number, &Machine::network_ports, kAboveZero, 1.0},
    MachineKey{"network", "hierarchical", Unit::number, &Machine::hierarchical, {}, 0.0},
    MachineKey{"transport", "cpu", Unit::seconds_a_byte, &Machine::transport_cpu, kFromZero, 0.0},
    MachineKey{"transport", "shared-cores", Unit::number, &Machine::shared_cores, {}, 0.0}};

bool truth(std::string_view value, std::string_view where) {
  if (value == "true") return true;
  if (value == "false") return false;
  throw UserError(fmt::format("{} = \"{}\" is not a truth value", where, value), "true or false", "give one of these");
}

double number(const NumberRange& range, std::string_view value, std::string_view where) {
  constexpr double kMost = 1e30;
  const auto parsed = parse_number<double>(value, where, range.least, std::min(range.most, kMost));
  if (!range.above || parsed > range.least) return parsed;
  throw UserError(fmt::format("{} = {} is out of range", where, value), fmt::format("a number above {}", range.least),
                  "give a number in this range");
}

}  // namespace

std::string MachineKey::key() const {
  return table.empty() ? std::string(name) : fmt::format("{}.{}", table, name);
}

std::span<const MachineKey> machine_keys() {
  return kKeys;
}

const Provenance* provenance_of(const Machine& machine, std::string_view key, std::size_t item) {
  const auto found = std::ranges::find_if(machine.provenance,
                                          [&](const Provenance& each) { return each.key == key && each.item == item; });
  return found == machine.provenance.end() ? nullptr : &*found;
}

double value_of(const Machine& machine, const MachineKey& key) {
  double value = 0;
  with_field(machine, key, [&](const auto& field) { value = static_cast<double>(field); });
  return value;
}

const MachineKey& find_machine_key(std::string_view key, std::string_view where) {
  std::string name(key);
  std::replace(name.begin(), name.end(), '_', '-');
  const auto* const found = std::ranges::find(kKeys, name, &MachineKey::key);
  if (found != kKeys.end()) return *found;
  std::vector<std::string> known;
  for (const MachineKey& each : kKeys) known.push_back(each.key());
  const std::string nearest = nearest_name(name, known);
  throw UserError(fmt::format("{}: a machine has no number \"{}\"", where, key), "",
                  nearest.empty() ? "docs/machines.md lists the numbers; those of lists stay as the file has them"
                                  : fmt::format("did you mean machine.{}?", nearest));
}

void set_machine_number(Machine& machine, const MachineKey& key, std::string_view value, std::string_view where) {
  with_field(machine, key, [&](auto& field) {
    using Field = std::remove_reference_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, bool>) {
      field = truth(value, where);
    } else if constexpr (std::is_same_v<Field, std::int64_t>) {
      field = parse_number<std::int64_t>(value, where, key.range.least, key.range.most);
    } else {
      field = number(key.range, value, where);
      if (below_a_byte(key, field))
        throw UserError(fmt::format("{} = {} is out of range", where, value), std::string(kAByte), "give one of these");
    }
  });
  const std::string name = key.key();
  std::erase_if(machine.provenance, [&](const Provenance& each) { return each.key == name; });
  machine.provenance.push_back({.key = name, .source = "the command line", .status = "given"});
}

}  // namespace weft::cost
