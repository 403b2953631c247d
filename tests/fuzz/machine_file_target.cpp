// Machine files: an accepted machine is written as a file that reads back as the same machine.
#include <string>

#include "runtime/cost/machine.h"
#include "tests/fuzz/fuzz_target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  cost::Machine machine;
  if (!fuzz::accepted([&] { machine = cost::parse_machine(fuzz::text_of(data, size), "machine.toml"); })) return 0;
  // Numbers are rounded once.
  const std::string text = cost::machine_toml(machine);
  const std::string again = cost::machine_toml(cost::parse_machine(text, "written.toml"));
  fuzz::require(again == text, "a machine that differs when it is read back:\n" + text);
  return 0;
}
