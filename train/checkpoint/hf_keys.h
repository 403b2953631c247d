// Keys of a config.json, in which null counts as absent. Internal to train/checkpoint.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/files/document.h"
#include "base/text/json_object.h"

namespace weft::train {

/// An object of a config, in which null counts as absent.
class HfKeys {
 public:
  explicit HfKeys(const DocumentValue& object) : object_(object) {
    if (!object.is_object()) object.refuse("an object");
  }

  bool has(const char* key) const { return mentions(key) && !object_[key].is_null(); }
  bool mentions(const char* key) const { return object_.find(key).has_value(); }
  DocumentValue operator[](const char* key) const { return object_[key]; }
  HfKeys object(const char* key) const { return HfKeys(object_[key]); }
  std::string name() const { return object_.place(); }

  std::int64_t integer(const char* key) const { return object_[key].integer(0, kLargest); }
  std::int64_t integer_or(const char* key, std::int64_t absent) const { return has(key) ? integer(key) : absent; }
  float number_or(const char* key, float absent) const { return has(key) ? object_[key].float_number() : absent; }
  bool flag_or(const char* key, bool absent) const { return has(key) ? object_[key].boolean() : absent; }
  std::string text_or(const char* key, const char* absent) const { return has(key) ? object_[key].text() : absent; }
  /// Refuses a setting that is present with another value than the one Weft computes.
  template <class Value>
  void require(const char* key, Value value) const {
    if (!has(key) || object_[key].json() == value) return;
    object_[key].refuse(JsonValue(value).text() + ", the only value implemented");
  }
  /// The same for a text with several spellings of one meaning.
  void require_one_of(const char* key, std::initializer_list<std::string_view> values,
                      const std::string& meaning) const {
    if (!has(key)) return;
    const std::string text = text_or(key, "");
    if (std::find(values.begin(), values.end(), text) == values.end()) object_[key].refuse(meaning);
  }

 private:
  static constexpr std::int64_t kLargest = 1'000'000'000;  // of sizes: so that products of two don't overflow

  DocumentValue object_;
};

}  // namespace weft::train
