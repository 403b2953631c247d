// The kinds of configuration keys: numbers, truth values, texts and words, each an entry of the table that
// knows how its field is parsed and printed. Internal to train/config.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "train/config/config.h"
#include "train/config/config_table.h"
#include "train/config/other_names.h"

namespace weft::train {

/// Throws UserError on bytes that TOML files, manifests or paths can't hold, which would only fail when a checkpoint is
/// written.
void expect_plain_text(std::string_view value, std::string_view where);

/// What stands between separators, at least one part.
std::vector<std::string_view> parts_of(std::string_view text, char separator);

/// The form of a value such as "k=4,h=13".
struct MemberForm {
  std::vector<std::string> names;
  std::string_view noun, setting;  // "axis" and "an axis and its size", for messages, as are the rest
  std::string_view expected, example;
};

struct Member {
  std::string_view name, value;
};

/// Members in their order, each of them once; an empty text has none. Throws UserError.
std::vector<Member> members_of(std::string_view text, std::string_view where, const MemberForm& form);

/// A field of the run or of its model, by pointer to member.
template <class Config, class Value>
auto& field_of(Config& config, Value RunConfig::*field) {
  return config.*field;
}
template <class Config, class Value>
auto& field_of(Config& config, Value ops::ModelConfig::*field) {
  return config.model.*field;
}

/// A key whose texts `parse(value, where)` reads and `print(field)` writes.
template <class Field, class Parse, class Print>
ConfigKey parsed_key(std::string name, ValueKind kind, std::string type, std::string help, Field field, Parse parse,
                     Print print) {
  return {std::move(name),
          kind,
          std::move(type),
          std::move(help),
          [=](RunConfig& config, std::string_view value, std::string_view where) {
            field_of(config, field) = parse(value, where);
          },
          [=](const RunConfig& config) { return std::string(print(field_of(config, field))); }};
}

/// An integer or another number, as the field is.
template <class Value, class Config>
ConfigKey number_key(std::string name, std::string help, Value Config::*field, double least, double most) {
  constexpr bool kWhole = std::is_integral_v<Value>;
  return parsed_key(
      std::move(name), kWhole ? ValueKind::integer : ValueKind::number, kWhole ? "integer" : "number", std::move(help),
      field,
      [=](std::string_view value, std::string_view where) {
        using Parsed = std::conditional_t<kWhole, std::int64_t, Value>;
        return static_cast<Value>(parse_number<Parsed>(value, where, least, most));
      },
      // The shortest digits that read back as the same value.
      [](Value value) { return fmt::format("{}", value); });
}

/// A number of seconds, which a person may write with a unit: the refusal says the number to write. Throws UserError.
double parse_seconds(std::string_view value, std::string_view where, double least, double most);

ConfigKey seconds_key(std::string name, std::string help, double RunConfig::*field, double least, double most);

template <class Field>
ConfigKey text_key(std::string name, std::string help, Field field) {
  return parsed_key(
      std::move(name), ValueKind::text, "text", std::move(help), field,
      [](std::string_view value, std::string_view where) {
        expect_plain_text(value, where);
        return std::string(value);
      },
      std::identity());
}

/// The words of a switch, for messages.
inline constexpr const char* kSwitchWords = "true, false, on or off";

template <class Config>
ConfigKey boolean_key(std::string name, std::string help, bool Config::*field) {
  ConfigKey key = parsed_key(
      std::move(name), ValueKind::boolean, "true or false", std::move(help), field,
      [](std::string_view value, std::string_view where) {
        const bool on = value == "true" || value == "on";
        if (on || value == "false" || value == "off") return on;
        throw UserError(fmt::format("{} = \"{}\" is not a truth value", where, value), kSwitchWords,
                        "write true or false");
      },
      [](bool value) { return value ? "true" : "false"; });
  key.words = {"true", "false"};
  return key;
}

template <class Value>
struct Word {
  std::string name;
  Value value;
};

/// The value that a word means. Where "on" and "off" are words, true and false mean them; elsewhere nothing has these
/// names. Throws UserError.
template <class Value>
Value value_of_word(const std::vector<Word<Value>>& accepted, std::string_view word, std::string_view where) {
  const std::string_view meant = word == "true" ? "on" : word == "false" ? "off" : word;
  std::vector<std::string> names;
  for (const Word<Value>& each : accepted) {
    if (each.name == meant) return each.value;
    names.push_back(each.name);
  }
  const std::string other(word_meant_by(word));
  const std::string nearest = std::ranges::count(names, other) > 0 ? other : nearest_name(word, names);
  const bool is_switch = names.size() == 2 && std::ranges::count(names, "on") > 0;
  throw UserError(fmt::format("{} = \"{}\" is unknown", where, word),
                  is_switch ? kSwitchWords : "one of " + join(names),
                  nearest.empty() ? "choose one of these" : fmt::format("did you mean \"{}\"?", nearest));
}

template <class Value>
std::string word_of_value(const std::vector<Word<Value>>& accepted, const Value& value) {
  const auto found = std::ranges::find(accepted, value, &Word<Value>::value);
  return found == accepted.end() ? "?" : found->name;
}

template <class Value, class Config>
ConfigKey words_key(std::string name, std::string help, const std::vector<Word<Value>>& accepted,
                    Value Config::*field) {
  std::vector<std::string> names;
  for (const Word<Value>& word : accepted) names.push_back(word.name);
  constexpr std::size_t kLongest = 40;  // beside a flag
  std::string shown = join(names, "|");
  if (shown.size() > kLongest) shown = "NAME", help += ": " + join(names);
  ConfigKey key = parsed_key(
      std::move(name), ValueKind::text, std::move(shown), std::move(help), field,
      [=](std::string_view value, std::string_view where) { return value_of_word(accepted, value, where); },
      [=](const Value& value) { return word_of_value(accepted, value); });
  key.words = std::move(names);
  return key;
}

/// The key with a further effect of each value that is set.
template <class Effect>
ConfigKey with_effect(ConfigKey key, Effect effect) {
  key.set = [set = key.set, effect](RunConfig& config, std::string_view value, std::string_view where) {
    const RunConfig before = config;
    set(config, value, where);
    effect(config, before);
  };
  return key;
}

}  // namespace weft::train
