// JSON documents of unknown origin: what JSON leaves undefined, the same key twice in one object, is refused, and so is
// what would take more stack or memory than any file of Weft's needs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace weft {

/// Parses `text`; `name` stands for it in messages. Throws UserError on a syntax error, a duplicate key, values nested
/// more than 64 deep (whatever walks a document recurses) and more than 4 million values (each takes far more memory
/// than text).
nlohmann::json parse_json(std::string_view text, const std::string& name);

/// The text of an object with every member on its line, and every item of a member that is a list on one.
std::string json_lines(const nlohmann::ordered_json& document);

/// A number that prints with the digits of the float, 1e-05, not with those of its double, 9.999999747378752e-06.
double shortest_double(float value);

}  // namespace weft
