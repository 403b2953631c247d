#include "base/text/json_object.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace weft {

using nlohmann::json;

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

}  // namespace weft
