// The numbers of a machine as a list: each has its key, its unit and the source of its value.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cost/machine.h"

namespace weft::cost {

enum class MachineUnit : std::uint8_t { seconds, bytes, bytes_a_second, operations_a_second, seconds_a_byte, number };

/// "s", "bytes", "bytes/s", "operations/s", "s/byte", "" for a number without a unit.
std::string_view to_string(MachineUnit unit);

struct MachineNumber {
  std::string key;  // "network.latency", "slowdown[gemm beside all_reduce].factor"
  double value = 0;
  MachineUnit unit = MachineUnit::number;
  std::string status;  // as in the file; "default" for a default value that the file leaves alone; else ""
  std::string source;  // that of the number, else of the machine; "" for a default value

  friend bool operator==(const MachineNumber&, const MachineNumber&) = default;
};

/// All but the measured points, in the order of docs/machines.md.
std::vector<MachineNumber> machine_numbers(const Machine& machine);

/// With four digits and a unit of a suitable size: "271.2 T operations/s", "5.9 us", "37.3 GiB".
std::string value_text(const MachineNumber& number);

/// The keys of the numbers whose status is "unverified" or "assumed", each once.
std::vector<std::string> unsure_numbers(const Machine& machine);

/// "5 of its numbers are unverified or assumed: a, b, c and 2 more"; "" without any.
std::string unsure_text(std::span<const std::string> keys);

/// What to expect of a machine with units for bf16 and without measured products: "its file has no measured product…";
/// else "".
std::string unmeasured_text(const Machine& machine);

/// A line for each rate, size or latency that is a thousand times off that of any device, which a slip in its unit
/// makes: "device.flops-f32 = 312 operations/s is a thousand times below any device's".
std::vector<std::string> implausible_numbers(const Machine& machine);

/// A point in words: "gemm 512x256x128 nt bf16", "all_reduce of 4.0 MiB, 8 ranks".
std::string point_text(const GemmPoint& point);
std::string point_text(const AttentionPoint& point);
std::string point_text(const CalibrationPoint& point);

}  // namespace weft::cost
