// The kinds of configuration keys: integers, numbers, truth values, texts and words, each an entry of the table that
// knows how its field is parsed and printed. Internal to train/config/config*.cpp.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/parse_number.h"
#include "train/config/config.h"
#include "train/config/config_table.h"
#include "train/config/path_list.h"

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

/// The words of a switch, for messages.
inline constexpr const char* kSwitchWords = "true, false, on or off";

/// A field of the run or of its model, by pointer to member.
template <class Config, class Value>
auto& field_of(Config& config, Value RunConfig::*field) {
  return config.*field;
}
template <class Config, class Value>
auto& field_of(Config& config, Value ops::ModelConfig::*field) {
  return config.model.*field;
}

template <class Field>
ConfigKey integer_key(std::string name, std::string help, Field field, double least, double most) {
  return {std::move(name),
          ValueKind::integer,
          "integer",
          std::move(help),
          [=](RunConfig& config, std::string_view value, std::string_view where) {
            using Value = std::remove_reference_t<decltype(field_of(config, field))>;
            field_of(config, field) = static_cast<Value>(parse_number<std::int64_t>(value, where, least, most));
          },
          [=](const RunConfig& config) { return fmt::format("{}", field_of(config, field)); }};
}

template <class Field>
ConfigKey number_key(std::string name, std::string help, Field field, double least, double most) {
  return {std::move(name), ValueKind::number, "number", std::move(help),
          [=](RunConfig& config, std::string_view value, std::string_view where) {
            using Value = std::remove_reference_t<decltype(field_of(config, field))>;
            field_of(config, field) = parse_number<Value>(value, where, least, most);
          },
          // The shortest digits that read back as the same value.
          [=](const RunConfig& config) { return fmt::format("{}", field_of(config, field)); }};
}

template <class Field>
ConfigKey text_key(std::string name, std::string help, Field field) {
  return {std::move(name),
          ValueKind::text,
          "text",
          std::move(help),
          [=](RunConfig& config, std::string_view value, std::string_view where) {
            expect_plain_text(value, where);
            field_of(config, field) = std::string(value);
          },
          [=](const RunConfig& config) { return field_of(config, field); }};
}

template <class Field>
ConfigKey paths_key(std::string name, std::string help, Field field) {
  return {std::move(name),
          ValueKind::paths,
          "text, or a list of texts",
          std::move(help),
          [=](RunConfig& config, std::string_view value, std::string_view where) {
            field_of(config, field) = paths_of(value, where);
          },
          [=](const RunConfig& config) { return to_text(field_of(config, field)); }};
}

template <class Field>
ConfigKey boolean_key(std::string name, std::string help, Field field) {
  return {std::move(name),
          ValueKind::boolean,
          "true or false",
          std::move(help),
          [=](RunConfig& config, std::string_view value, std::string_view where) {
            const bool on = value == "true" || value == "on";
            if (!on && value != "false" && value != "off") {
              throw UserError(fmt::format("{} = \"{}\" is not a truth value", where, value), kSwitchWords,
                              "write true or false");
            }
            field_of(config, field) = on;
          },
          [=](const RunConfig& config) { return std::string(field_of(config, field) ? "true" : "false"); },
          {"true", "false"}};
}

template <class Value>
struct Word {
  std::string name;
  Value value;
};

template <class Value, class Field>
ConfigKey words_key(std::string name, std::string help, std::vector<Word<Value>> accepted, Field field) {
  std::vector<std::string> names;
  for (const Word<Value>& word : accepted) names.push_back(word.name);
  return {std::move(name),
          ValueKind::text,
          join(names, "|"),
          std::move(help),
          [=](RunConfig& config, std::string_view value, std::string_view where) {
            // Where "on" and "off" are words, true and false mean them; elsewhere nothing has these names.
            const std::string_view meant = value == "true" ? "on" : value == "false" ? "off" : value;
            for (const Word<Value>& word : accepted) {
              if (word.name == meant) {
                field_of(config, field) = word.value;
                return;
              }
            }
            const std::string nearest = nearest_name(value, names);
            const bool is_switch = names.size() == 2 && std::ranges::find(names, "on") != names.end();
            throw UserError(fmt::format("{} = \"{}\" is unknown", where, value),
                            is_switch ? kSwitchWords : "one of " + join(names),
                            nearest.empty() ? "choose one of these" : fmt::format("did you mean \"{}\"?", nearest));
          },
          [=](const RunConfig& config) {
            const auto found = std::find_if(accepted.begin(), accepted.end(), [&](const Word<Value>& word) {
              return word.value == field_of(config, field);
            });
            return found == accepted.end() ? std::string("?") : found->name;
          },
          names};
}

}  // namespace weft::train
