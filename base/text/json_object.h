// JSON that commands print, written member by member, without the header of a JSON library.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weft {

/// Members keep the order in which they are added.
///
///   JsonObject().add("file", name).add("bytes", 1536).text()  →  {"file":"a.svg","bytes":1536}
class JsonObject {
 public:
  JsonObject& add(std::string_view key, std::string_view text);
  JsonObject& add(std::string_view key, const char* text) { return add(key, std::string_view(text)); }
  JsonObject& add(std::string_view key, const std::string& text) { return add(key, std::string_view(text)); }
  JsonObject& add(std::string_view key, const JsonObject& object) { return add_raw(key, object.text()); }
  JsonObject& add(std::string_view key, std::span<const std::string> texts);
  JsonObject& add(std::string_view key, std::span<const JsonObject> objects);
  /// null if it isn't finite.
  JsonObject& add(std::string_view key, double number);
  template <std::integral T>
  JsonObject& add(std::string_view key, T number) {
    if constexpr (std::same_as<T, bool>) {
      return add_raw(key, number ? "true" : "false");
    } else {
      return add_raw(key, std::to_string(number));
    }
  }

  std::string text() const { return "{" + members_ + "}"; }

 private:
  JsonObject& add_raw(std::string_view key, std::string_view value);

  std::string members_;
};

/// `text` as a JSON string with its quotes; bytes that aren't UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

}  // namespace weft
