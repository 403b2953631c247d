// JSON that is printed or written, value by value, without the header of a JSON library; and JSON as text.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

class JsonObject;
class JsonArray;

/// `text` as a JSON string with its quotes; bytes that aren't UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

/// A value as JSON text, made from what a caller has: a text, a number, an object, or a list or map of these.
class JsonValue {
 public:
  JsonValue(std::nullptr_t) : text_("null") {}
  JsonValue(std::string_view text) : text_(json_string(text)) {}
  JsonValue(const char* text) : JsonValue(std::string_view(text)) {}
  JsonValue(const std::string& text) : JsonValue(std::string_view(text)) {}
  /// null if it isn't finite.
  JsonValue(double number);
  JsonValue(const JsonObject& object);
  JsonValue(const JsonArray& array);
  template <std::integral T>
  JsonValue(T number) {
    if constexpr (std::same_as<T, bool>) {
      text_ = number ? "true" : "false";
    } else {
      text_ = std::to_string(number);
    }
  }
  template <std::ranges::input_range Items>
  requires(!std::convertible_to<const Items&, std::string_view>) JsonValue(const Items& items);

  /// Of text that is JSON already.
  static JsonValue written(std::string text) {
    JsonValue value = nullptr;
    value.text_ = std::move(text);
    return value;
  }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Members keep the order in which they are added; nobody checks that a key comes once.
///
///   JsonObject().add("file", name).add("bytes", 1536).text()  →  {"file":"a.svg","bytes":1536}
class JsonObject {
 public:
  JsonObject& add(std::string_view key, const JsonValue& value);
  std::string text() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

class JsonArray {
 public:
  JsonArray() = default;
  JsonArray(std::initializer_list<JsonValue> items) {
    for (const JsonValue& item : items) add(item);
  }
  JsonArray& add(const JsonValue& item);
  std::string text() const { return "[" + items_ + "]"; }

 private:
  std::string items_;
};

template <std::ranges::input_range Items>
requires(!std::convertible_to<const Items&, std::string_view>) JsonValue::JsonValue(const Items& items) {
  if constexpr (requires { std::ranges::begin(items)->first; }) {
    JsonObject object;
    for (const auto& [key, value] : items) object.add(key, value);
    text_ = object.text();
  } else {
    JsonArray array;
    for (const auto& item : items) array.add(item);
    text_ = array.text();
  }
}

/// The members of an object in their order, each value as JSON.
std::vector<std::pair<std::string, std::string>> json_members(std::string_view object);

/// An object with each member on a line of its own, and each item of a list member on a line of its own.
std::string json_lines(std::string_view object);

enum class JsonKeys : std::uint8_t { as_given, sorted };

/// The same JSON with each value on a line of its own, indented by `blanks` a level.
std::string indented_json(std::string_view text, int blanks = 2, JsonKeys keys = JsonKeys::as_given);

/// How far a text reads as one JSON value.
struct JsonOutline {
  bool whole = false;         // it does to its end
  int depth = 0;              // objects and lists that are open where the error is
  std::size_t read_size = 0;  // bytes up to the end of what isn't JSON
};

JsonOutline outline_of_json(std::string_view text);

/// A double that prints with the digits of the float, 1e-05, instead of its exact value, 9.999999747378752e-06.
double shortest_double(float value);

}  // namespace weft
