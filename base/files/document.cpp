#include "base/files/document.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"

namespace weft {
namespace {

using nlohmann::json;

bool is_plain(std::string_view key) {
  return !key.empty() && std::ranges::all_of(key, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
  });
}

std::string quoted(std::string_view text) {
  return json(std::string(text)).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string longer(const std::string& path, std::string_view key) {
  return fmt::format("{}{}{}", path, path.empty() ? "" : ".", is_plain(key) ? std::string(key) : quoted(key));
}

/// The path of `wanted` below `at`; nothing if it isn't there.
std::optional<std::string> path_to(const json& wanted, const json& at, const std::string& path) {
  if (&wanted == &at) return path;
  if (at.is_array()) {
    for (std::size_t i = 0; i < at.size(); ++i) {
      if (!at[i].is_structured() && &at[i] != &wanted) continue;
      if (auto found = path_to(wanted, at[i], fmt::format("{}[{}]", path, i))) return found;
    }
  } else if (at.is_object()) {
    for (const auto& [key, value] : at.get_ref<const json::object_t&>()) {
      if (!value.is_structured() && &value != &wanted) continue;
      if (auto found = path_to(wanted, value, longer(path, key))) return found;
    }
  }
  return std::nullopt;
}

std::string to_string(const NumberRange& range, std::string_view noun) {
  const bool from = std::isfinite(range.least), to = std::isfinite(range.most);
  if (range.above) {
    return fmt::format("{} above {}{}", noun, range.least, to ? fmt::format(" and at most {}", range.most) : "");
  }
  if (from && to) return fmt::format("{} from {} to {}", noun, range.least, range.most);
  return from ? fmt::format("{} of at least {}", noun, range.least)
              : fmt::format("{}{}", noun, to ? fmt::format(" of at most {}", range.most) : "");
}

/// Builds the document while the parser reads. nlohmann's own builder with a callback scans all members of an object
/// whenever a value in it ends, which takes minutes for ten thousand members.
class Builder {
 public:
  Builder(const std::string& name, const JsonLimits& limits, json& document)
      : name_(name), limits_(limits), document_(document) {}

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(json::number_integer_t value) { return put(value); }
  bool number_unsigned(json::number_unsigned_t value) { return put(value); }
  bool number_float(json::number_float_t value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(json::binary_t& value) { return put(std::move(value)); }

  bool start_object(std::size_t) { return open(json::value_t::object); }
  bool start_array(std::size_t) { return open(json::value_t::array); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& key) {
    const auto [member, fresh] = open_.back()->get_ref<json::object_t&>().emplace(std::move(key), nullptr);
    if (!fresh) {
      throw UserError(name_ + " has the key \"" + member->first + "\" twice", "each key once", limits_.fix);
    }
    member_ = &member->second;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const json::exception& error) {
    throw UserError(name_ + " isn't valid JSON: " + error.what(), "", limits_.fix);
  }

 private:
  bool put(json value) {
    place(std::move(value));
    return true;
  }
  bool open(json::value_t type) {
    if (open_.size() > static_cast<std::size_t>(limits_.deepest)) {
      throw UserError(fmt::format("{} nests values more than {} deep", name_, limits_.deepest), "a file of few levels",
                      limits_.fix);
    }
    open_.push_back(&place(json(type)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  /// Puts a value in its place and returns it. The pointers in open_ stay valid: a list grows only while no value
  /// inside of it is open.
  json& place(json value) {
    if (++values_ > limits_.most_values) {
      throw UserError(fmt::format("{} holds more than {} values", name_, limits_.most_values), "a smaller file",
                      limits_.fix);
    }
    if (open_.empty()) return document_ = std::move(value);
    if (!open_.back()->is_array()) return *member_ = std::move(value);
    return open_.back()->get_ref<json::array_t&>().emplace_back(std::move(value));
  }

  const std::string& name_;
  const JsonLimits& limits_;
  json& document_;
  std::vector<json*> open_;  // objects and lists, the outermost first
  json* member_ = nullptr;   // of the innermost object: the member whose value comes next
  std::size_t values_ = 0;
};

class TomlConversion {
 public:
  TomlConversion(const std::string& name, const std::string& fix, TomlKeys keys)
      : name_(name), fix_(fix), keys_(keys) {}

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

std::string expected_integer(std::int64_t least, std::int64_t most) {
  return fmt::format("an integer from {} to {}", least, most);
}

std::string expected_name(std::span<const std::string> known) {
  return "one of " + join(known);
}

std::string DocumentValue::text() const {
  if (!value_->is_string()) refuse("a text");
  return value_->get<std::string>();
}

bool DocumentValue::boolean() const {
  if (!value_->is_boolean()) refuse("true or false");
  return value_->get<bool>();
}

std::int64_t DocumentValue::integer(std::int64_t least, std::int64_t most) const {
  // nlohmann's get() would accept -1 as unsigned and 1.5 as an integer.
  const bool fits =
      value_->is_number_unsigned() ? value_->get<std::uint64_t>() <= INT64_MAX : value_->is_number_integer();
  const std::int64_t number = fits ? value_->get<std::int64_t>() : 0;
  if (!fits || number < least || number > most) refuse(expected_integer(least, most));
  return number;
}

std::uint64_t DocumentValue::count() const {
  if (!value_->is_number_unsigned()) refuse("an integer from 0 up");
  return value_->get<std::uint64_t>();
}

double DocumentValue::number(const NumberRange& range, std::string_view noun) const {
  const double number = value_->is_number() ? value_->get<double>() : NAN;
  const bool fits =
      std::isfinite(number) && number <= range.most && (range.above ? number > range.least : number >= range.least);
  if (!fits) refuse(to_string(range, noun));
  return number;
}

float DocumentValue::float_number() const {
  constexpr double kMost = std::numeric_limits<float>::max();
  if (!value_->is_number() || !(std::abs(value_->get<double>()) <= kMost)) refuse("a number that a float holds");
  return static_cast<float>(value_->get<double>());
}

std::size_t DocumentValue::index_of_name(std::span<const std::string> known) const {
  const auto* name = value_->get_ptr<const std::string*>();
  if (name == nullptr) refuse(expected_name(known));
  const auto found = std::ranges::find(known, *name);
  if (found == known.end()) {
    const std::string nearest = nearest_name(*name, known);
    throw UserError(fmt::format("{} is {}", place(), shown()), expected_name(known),
                    nearest.empty() ? document_->fix_ : fmt::format("did you mean \"{}\"?", nearest));
  }
  return static_cast<std::size_t>(found - known.begin());
}

double DocumentValue::any_number() const {
  if (!is_number()) refuse("a number");
  return value_->get<double>();
}

DocumentValue::Kind DocumentValue::kind() const {
  // In the order of json::value_t.
  constexpr std::array kKinds = {Kind::null,    Kind::object,  Kind::list, Kind::text,  Kind::boolean,
                                 Kind::integer, Kind::integer, Kind::real, Kind::other, Kind::other};
  return kKinds.at(static_cast<std::size_t>(value_->type()));
}

std::vector<DocumentValue> DocumentValue::items(std::string_view expected) const {
  if (!value_->is_array()) refuse(expected);
  std::vector<DocumentValue> items;
  items.reserve(value_->size());
  for (const nlohmann::json& item : *value_) items.push_back({*document_, item});
  return items;
}

std::vector<DocumentValue> DocumentValue::items(std::size_t length, std::string_view expected) const {
  if (!value_->is_array() || value_->size() != length) refuse(expected);
  return items();
}

std::vector<std::pair<std::string, DocumentValue>> DocumentValue::members() const {
  if (!is_object()) refuse("an object");
  std::vector<std::pair<std::string, DocumentValue>> members;
  members.reserve(value_->size());
  for (const auto& [key, value] : value_->get_ref<const nlohmann::json::object_t&>()) {
    members.emplace_back(key, DocumentValue(*document_, value));
  }
  return members;
}

DocumentValue DocumentValue::operator[](std::string_view key) const {
  const auto found = find(key);
  if (!found) {
    throw UserError(fmt::format("{} has no {}", place(), longer("", key)), "a file that has it", document_->fix_);
  }
  return *found;
}

std::optional<DocumentValue> DocumentValue::find(std::string_view key) const {
  if (!is_object()) refuse("an object");
  const auto& members = value_->get_ref<const nlohmann::json::object_t&>();
  const auto found = members.find(key);
  if (found == members.end()) return std::nullopt;
  return DocumentValue(*document_, found->second);
}

std::optional<DocumentValue> DocumentValue::given(std::string_view key) const {
  auto value = find(key);
  if (value && value->is_null()) value.reset();
  return value;
}

void DocumentValue::only(const std::vector<std::string>& known) const {
  for (const auto& [key, value] : members()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    const std::string nearest = nearest_name(key, known);
    throw UserError(fmt::format("{}: unknown key {}", value.where(), value.path()), expected_name(known),
                    nearest.empty() ? document_->fix_ : fmt::format("did you mean {}?", longer(path(), nearest)));
  }
}

std::string DocumentValue::where() const {
  const auto line = document_->lines_.find(value_);
  if (line == document_->lines_.end()) return document_->name_;
  return fmt::format("{} line {}", document_->name_, line->second);
}

std::string DocumentValue::path() const {
  return path_to(*value_, *document_->root_, "").value_or("");
}

std::string DocumentValue::place() const {
  const std::string within = path();
  return within.empty() ? where() : fmt::format("{}: {}", where(), within);
}

std::string DocumentValue::shown() const {
  if (value_->is_number_float() && !std::isfinite(value_->get<double>())) {
    return fmt::format("{}", value_->get<double>());
  }
  if (value_->is_binary()) return {value_->get_binary().begin(), value_->get_binary().end()};
  return value_->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void DocumentValue::refuse(std::string_view expected) const {
  refuse("is " + shown(), expected);
}

void DocumentValue::refuse(std::string_view said, std::string_view expected) const {
  throw UserError(fmt::format("{} {}", place(), said), expected, document_->fix_);
}

Document::Document(std::shared_ptr<const nlohmann::json> root, std::string name, std::string fix, Lines lines)
    : root_(std::move(root)), name_(std::move(name)), fix_(std::move(fix)), lines_(std::move(lines)) {}

DocumentValue Document::of_format(std::string_view what, std::string_view format, std::int64_t version,
                                  std::int64_t newest) const {
  const DocumentValue whole = root();
  const auto found = whole.is_object() ? whole.find("format") : std::nullopt;
  if (!found || found->json() != format) {
    whole.refuse(fmt::format("isn't {}", what), fmt::format("JSON with \"format\": \"{}\"", format));
  }
  const DocumentValue of = whole["version"];
  const bool known = of.json().is_number_integer() && of.json() >= version && of.json() <= std::max(version, newest);
  if (!known) {
    whole.refuse(fmt::format("has version {}", of.shown()),
                 fmt::format("version {}{}; the weft that wrote the file reads it", version,
                             newest > version ? fmt::format(" or {}", newest) : ""));
  }
  return whole;
}

Document read_json(std::string_view text, std::string name, const JsonLimits& limits) {
  json root;
  Builder builder(name, limits, root);
  json::sax_parse(text.begin(), text.end(), &builder);
  return {std::make_shared<const json>(std::move(root)), std::move(name), limits.fix};
}

Document read_toml(std::string_view text, std::string name, std::string fix, TomlKeys keys) {
  // This limit bounds the depth of tables (a.a.a.a…), which toml++ destroys recursively.
  if (text.size() > kLargestToml) {
    throw UserError(fmt::format("{} is larger than {} bytes", name, kLargestToml), "a file of TOML", fix);
  }
  auto root = std::make_shared<json>();
  TomlConversion conversion(name, fix, keys);
  try {
    conversion.convert(toml::parse(text, name), *root);
  } catch (const toml::parse_error& error) {
    throw UserError(fmt::format("{} line {}: {}", name, error.source().begin.line, error.description()),
                    "TOML: key = value on each line, text in quotes", fix);
  }
  return {std::move(root), std::move(name), std::move(fix), conversion.lines()};
}

}  // namespace weft
