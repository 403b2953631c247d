// JSON documents of unknown origin. Refused are duplicate keys in an object, whose meaning JSON leaves undefined, and
// documents that would take more stack or memory than any file of Weft's needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

/// Limits of a document: code that walks it recurses, and a value takes far more memory than its text.
struct JsonLimits {
  int deepest = 64;
  std::size_t most_values = 4'000'000;
  std::string fix = "copy or make the file again";
};

/// Parses `text`; `name` is its name in messages. Throws UserError on a syntax error, a duplicate key or a document
/// beyond the limits.
nlohmann::json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits = {});

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
