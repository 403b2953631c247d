// JSON documents that refuse what JSON leaves undefined: the same key twice in one object.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace weft {

/// Parses `text`; `name` stands for it in messages. Throws UserError on a syntax error or a duplicate key.
nlohmann::json parse_json(std::string_view text, const std::string& name);

/// A number that prints with the digits of the float, 1e-05, not with those of its double, 9.999999747378752e-06.
double shortest_double(float value);

}  // namespace weft
