// Reads JSON in one pass; the time for a value doesn't depend on the size of its object or list.
#include "base/files/json_file.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace weft {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

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

/// Reads up to the first error.
class OutlineReader : public nlohmann::json_sax<json> {
 public:
  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool key(string_t& /*value*/) override { return true; }
  bool start_object(std::size_t /*elements*/) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*elements*/) override { return open(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string& /*token*/, const json::exception& /*error*/) override {
    outline.read_size = position;
    return false;
  }

  JsonOutline outline;

 private:
  bool open() {
    ++outline.depth;
    return true;
  }
  bool close() {
    --outline.depth;
    return true;
  }
};

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits) {
  json document;
  Builder builder(name, limits, document);
  json::sax_parse(text.begin(), text.end(), &builder);
  return document;
}

std::vector<std::pair<std::string, std::string>> json_members(std::string_view object) {
  std::vector<std::pair<std::string, std::string>> members;
  const auto document = ordered_json::parse(object);
  for (const auto& [key, value] : document.items()) members.emplace_back(key, value.dump());
  return members;
}

std::string json_lines(std::string_view object) {
  std::string text = "{";
  const auto document = ordered_json::parse(object);
  for (const auto& [key, value] : document.items()) {
    text += fmt::format("{}\n\"{}\": ", text.size() > 1 ? "," : "", key);
    if (!value.is_array()) {
      text += value.dump();
      continue;
    }
    text += "[";
    for (std::size_t i = 0; i < value.size(); ++i) text += (i == 0 ? "\n" : ",\n") + value[i].dump();
    text += "\n]";
  }
  return text + "\n}\n";
}

std::string indented_json(std::string_view text, int blanks, JsonKeys keys) {
  return keys == JsonKeys::sorted ? json::parse(text).dump(blanks) : ordered_json::parse(text).dump(blanks);
}

JsonOutline outline_of_json(std::string_view text) {
  OutlineReader reader;
  reader.outline.whole = json::sax_parse(text.begin(), text.end(), &reader);
  return reader.outline;
}

double shortest_double(float value) {
  const std::string text = fmt::format("{}", value);
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);  // independent of the locale
  return number;
}

}  // namespace weft
