#include "base/text/json_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace weft {

using nlohmann::json;
using nlohmann::ordered_json;

std::string json_string(std::string_view text) {
  const auto is_plain = [](char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; };
  if (std::ranges::all_of(text, is_plain)) return '"' + std::string(text) + '"';  // as most texts are
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

// Another way of printing doubles may differ in the last digit, and files would change.
JsonValue::JsonValue(double number) : text_(json(number).dump()) {}

JsonValue::JsonValue(const JsonObject& object) : text_(object.text()) {}

JsonValue::JsonValue(const JsonArray& array) : text_(array.text()) {}

JsonObject& JsonObject::add(std::string_view key, const JsonValue& value) {
  if (!members_.empty()) members_ += ',';
  members_ += json_string(key);
  members_ += ':';
  members_ += value.text();
  return *this;
}

JsonArray& JsonArray::add(const JsonValue& item) {
  if (!items_.empty()) items_ += ',';
  items_ += item.text();
  return *this;
}

std::vector<std::pair<std::string, std::string>> json_members(std::string_view object) {
  std::vector<std::pair<std::string, std::string>> members;
  const auto document = ordered_json::parse(object);
  for (const auto& [key, value] : document.items()) members.emplace_back(key, value.dump());
  return members;
}

std::string json_lines(std::string_view object) {
  std::string text = "{";
  const auto document = ordered_json::parse(object);
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

std::string indented_json(std::string_view text, int blanks, JsonKeys keys) {
  return keys == JsonKeys::sorted ? json::parse(text).dump(blanks) : ordered_json::parse(text).dump(blanks);
}

JsonOutline outline_of_json(std::string_view text) {
  JsonOutline outline;
  const auto count = [&](int, json::parse_event_t event, const json&) {
    using Event = json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) ++outline.depth;
    if (event == Event::object_end || event == Event::array_end) --outline.depth;
    return true;
  };
  try {
    outline.whole = !json::parse(text, count).is_discarded();
  } catch (const json::parse_error& error) {
    outline.read_size = error.byte;
  } catch (const json::exception&) {
    // A number that no double holds.
  }
  return outline;
}

double shortest_double(float value) {
  const std::string text = fmt::format("{}", value);
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);  // independent of the locale
  return number;
}

}  // namespace weft
