// Flags and --set: each line of the input is a key and its value, KEY=VALUE, as the command line splits them.
#include <algorithm>
#include <vector>

#include "tests/fuzz/config_round_trip.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  std::vector<train::Setting> settings;
  std::string_view rest = fuzz::text_of(data, size);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    const std::size_t equals = std::min(line.find('='), line.size());
    settings.push_back(
        {std::string(line.substr(0, equals)), std::string(line.substr(std::min(equals + 1, line.size()))), "--set"});
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  fuzz::require_round_trip([&](train::RunConfig& config) { train::apply_settings(config, settings); });
  return 0;
}
