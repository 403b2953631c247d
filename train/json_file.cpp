// A parser callback that remembers the keys of every open object.
#include "train/json_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/error.h"

namespace weft {

nlohmann::json parse_json(std::string_view text, const std::string& name) {
  std::vector<std::set<std::string>> open_objects;
  const auto check = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    if (event == nlohmann::json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == nlohmann::json::parse_event_t::object_end) open_objects.pop_back();
    if (event == nlohmann::json::parse_event_t::key) {
      const std::string& key = parsed.get_ref<const std::string&>();
      if (!open_objects.back().insert(key).second) {
        throw UserError(name + " has the key \"" + key + "\" twice", "each key once", "");
      }
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text.begin(), text.end(), check);
  } catch (const nlohmann::json::exception& error) {
    throw UserError(name + " isn't valid JSON: " + error.what(), "", "");
  }
}

double shortest_double(float value) {
  return std::stod(fmt::format("{}", value));
}

}  // namespace weft
