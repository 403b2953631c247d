// Keys are checked by a callback of the parser, which remembers those of every open object.
#include "base/json_file.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/error.h"

namespace weft {

nlohmann::json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits) {
  std::vector<std::set<std::string>> open_objects;
  std::size_t values = 0;
  const auto check = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    if (depth > limits.deepest) {
      throw UserError(fmt::format("{} nests values more than {} deep", name, limits.deepest), "a file of few levels",
                      limits.fix);
    }
    if (++values > limits.most_values) {
      throw UserError(fmt::format("{} holds more than {} values", name, limits.most_values), "a smaller file",
                      limits.fix);
    }
    if (event == nlohmann::json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == nlohmann::json::parse_event_t::object_end) open_objects.pop_back();
    if (event == nlohmann::json::parse_event_t::key) {
      const std::string& key = parsed.get_ref<const std::string&>();
      if (!open_objects.back().insert(key).second) {
        throw UserError(name + " has the key \"" + key + "\" twice", "each key once", limits.fix);
      }
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text.begin(), text.end(), check);
  } catch (const nlohmann::json::exception& error) {
    throw UserError(name + " isn't valid JSON: " + error.what(), "", limits.fix);
  }
}

std::string json_lines(const nlohmann::ordered_json& document) {
  std::string text = "{";
  for (const auto& [key, value] : document.items()) {
    text += fmt::format("{}\n\"{}\": ", text.size() > 1 ? "," : "", key);
    if (!value.is_array()) {
      text += value.dump();
      continue;
    }
    text += "[";
    for (std::size_t i = 0; i < value.size(); ++i) text += (i == 0 ? "\n" : ",\n") + value[i].dump();
    text += "\n]";
  }
  return text + "\n}\n";
}

double shortest_double(float value) {
  const std::string text = fmt::format("{}", value);
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);  // in every locale
  return number;
}

}  // namespace weft
