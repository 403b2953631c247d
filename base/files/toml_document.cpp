#include "base/files/toml_document.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/error.h"

namespace weft {
namespace {

using nlohmann::json;

class Conversion {
 public:
  Conversion(const std::string& name, const std::string& fix, TomlKeys keys) : name_(name), fix_(fix), keys_(keys) {}

  /// Puts `node` at its final address, since lines are looked up by address.
  void convert(const toml::node& node, json& value, int depth = 0) {
    const std::uint64_t line = node.source().begin.line;
    if (line > 0) lines_.emplace(&value, line);
    const JsonLimits limits;
    if (depth > limits.deepest) refuse(node, fmt::format("values nest more than {} deep", limits.deepest), "fewer");
    if (const toml::table* table = node.as_table()) {
      value = json::object();
      for (const auto& [written, child] : *table) {
        std::string key(written.str());
        if (keys_ == TomlKeys::with_dashes) std::ranges::replace(key, '_', '-');
        if (value.contains(key)) refuse(child, key + " is given twice", "each key once");
        convert(child, value[key], depth + 1);
      }
    } else if (const toml::array* array = node.as_array()) {
      value = json::array();
      value.get_ref<json::array_t&>().resize(array->size());
      for (std::size_t i = 0; i < array->size(); ++i) convert(*array->get(i), value[i], depth + 1);
    } else if (const auto* text = node.as_string()) {
      value = text->get();
    } else if (const auto* integer = node.as_integer()) {
      value = integer->get();
    } else if (const auto* real = node.as_floating_point()) {
      value = real->get();
    } else if (const auto* flag = node.as_boolean()) {
      value = flag->get();
    } else {
      std::ostringstream date;
      node.visit([&](const auto& other) {
        if constexpr (!toml::is_table<decltype(other)> && !toml::is_array<decltype(other)>) date << other;
      });
      const std::string shown = date.str();
      value = json::binary({shown.begin(), shown.end()});
    }
  }
  Document::Lines lines() { return std::move(lines_); }

 private:
  [[noreturn]] void refuse(const toml::node& node, std::string_view found, std::string_view expected) const {
    throw UserError(fmt::format("{} line {}: {}", name_, node.source().begin.line, found), expected, fix_);
  }

  const std::string& name_;
  const std::string& fix_;
  TomlKeys keys_;
  Document::Lines lines_;
};

}  // namespace

Document read_toml(std::string_view text, std::string name, std::string fix, TomlKeys keys) {
  // This limit bounds the depth of tables (a.a.a.a…), which toml++ destroys recursively.
  if (text.size() > kLargestToml) {
    throw UserError(fmt::format("{} is larger than {} bytes", name, kLargestToml), "a file of TOML", fix);
  }
  auto root = std::make_shared<json>();
  Conversion conversion(name, fix, keys);
  try {
    conversion.convert(toml::parse(text, name), *root);
  } catch (const toml::parse_error& error) {
    throw UserError(fmt::format("{} line {}: {}", name, error.source().begin.line, error.description()),
                    "TOML: key = value on each line, text in quotes", fix);
  }
  return {std::move(root), std::move(name), std::move(fix), conversion.lines()};
}

}  // namespace weft
