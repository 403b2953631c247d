// JSON documents of unknown origin. Refused are duplicate keys in an object, whose meaning JSON leaves undefined, and
// documents that would take more stack or memory than any file of Weft's needs.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

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

/// The text of an object with each member on a line of its own, and each item of a list member on a line of its own.
std::string json_lines(const nlohmann::ordered_json& document);

/// A double that prints with the digits of the float, 1e-05, instead of its exact value, 9.999999747378752e-06.
double shortest_double(float value);

}  // namespace weft
