// The keys of a machine file that hold one value each. The reader, the writer, lists of numbers and values that replace
// those of a file all go through one table.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/files/document.h"
#include "base/overloaded.h"
#include "runtime/cost/machine.h"
#include "runtime/cost/machine_numbers.h"

namespace weft::cost {

/// A number of one of the machine's links.
struct LinkNumber {
  Link Machine::*link;
  double Link::*number;
};

struct MachineKey {
  std::string_view table, name;  // "network" and "latency"; table "": a key of the file itself
  MachineUnit unit = MachineUnit::number;
  std::variant<double Machine::*, std::int64_t Machine::*, bool Machine::*, LinkNumber> field;
  NumberRange range = {.least = 0};
  std::optional<double> usual = {};  // of a file that leaves the key out; nullopt: every file has the key

  /// "network.latency"
  std::string key() const;
};

/// Of a rate: less than a byte a second is a slip, and 0 means that there is none.
inline bool below_a_byte(const MachineKey& key, double value) {
  return key.unit == MachineUnit::bytes_a_second && value > 0 && value < 1;
}
inline constexpr std::string_view kAByte = "0, or 1 byte a second or more";

/// In the order of docs/machines.md.
std::span<const MachineKey> machine_keys();

/// What the file says of a number, an `item` of a list or the first; null: nothing.
const Provenance* provenance_of(const Machine& machine, std::string_view key, std::size_t item);

/// Calls `use` with the field, a double, std::int64_t or bool.
template <class AnyMachine, class Use>
void with_field(AnyMachine& machine, const MachineKey& key, const Use& use) {
  std::visit(Overloaded{[&](const LinkNumber& at) { use(machine.*at.link.*at.number); },
                        [&](const auto member) { use(machine.*member); }},
             key.field);
}

/// The value as a number; 1 is true.
double value_of(const Machine& machine, const MachineKey& key);

/// The key of a text such as "network.small_bandwidth", whose underscores mean dashes. Throws UserError naming the
/// nearest key; `where` opens its message.
const MachineKey& find_machine_key(std::string_view key, std::string_view where);

/// Replaces a number of the machine by the one that a person gave. It is checked as that of a file is, and the machine
/// knows it as given. `where` opens the messages. Throws UserError.
void set_machine_number(Machine& machine, const MachineKey& key, std::string_view value, std::string_view where);

}  // namespace weft::cost
