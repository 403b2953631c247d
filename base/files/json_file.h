// JSON documents of unknown origin: what JSON leaves undefined, the same key twice in one object, is refused, and so is
// what would take more stack or memory than any file of Weft's needs.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace weft {

/// What a document may be: whatever walks it recurses, and a value takes far more memory than its text.
struct JsonLimits {
  int deepest = 64;
  std::size_t most_values = 4'000'000;
  std::string fix = "copy or make the file again";
};

/// Parses `text`; `name` stands for it in messages. Throws UserError on a syntax error, a duplicate key, and beyond the
/// limits.
nlohmann::json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits = {});

/// The text of an object with every member on its line, and every item of a member that is a list on one.
std::string json_lines(const nlohmann::ordered_json& document);

/// A number that prints with the digits of the float, 1e-05, not with those of its double, 9.999999747378752e-06.
double shortest_double(float value);

}  // namespace weft
