#include "base/text/json_object.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>

#include "base/text/utf8.h"

namespace weft {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const auto [code, length] = first_character(text);
    if (length == 0) {
      out += "\xef\xbf\xbd";
    } else if (code == '"' || code == '\\') {
      out += {'\\', static_cast<char>(code)};
    } else if (code == '\n') {
      out += "\\n";
    } else if (code < 0x20) {
      out += fmt::format("\\u{:04x}", code);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + "\"";
}

JsonObject& JsonObject::add_raw(std::string_view key, std::string_view value) {
  if (!members_.empty()) members_ += ',';
  members_ += json_string(key);
  members_ += ':';
  members_ += value;
  return *this;
}

JsonObject& JsonObject::add(std::string_view key, std::string_view text) {
  return add_raw(key, json_string(text));
}

JsonObject& JsonObject::add(std::string_view key, double number) {
  return add_raw(key, std::isfinite(number) ? fmt::format("{}", number) : "null");
}

JsonObject& JsonObject::add(std::string_view key, std::span<const std::string> texts) {
  std::string list = "[";
  for (const std::string& text : texts) list += (list.size() > 1 ? "," : "") + json_string(text);
  return add_raw(key, list + "]");
}

JsonObject& JsonObject::add(std::string_view key, std::span<const JsonObject> objects) {
  std::string list = "[";
  for (const JsonObject& object : objects) list += (list.size() > 1 ? "," : "") + object.text();
  return add_raw(key, list + "]");
}

}  // namespace weft
