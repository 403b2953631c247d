// Documents of JSON or TOML, read by name, type and range. Every refusal has one form:
//
//   FILE line 3: streams[1].name is 7; expected a text
//     fix: …
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft {

class Document;

struct NumberRange {
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  bool above = false;  // `least` itself is refused
};

/// "an integer from 0 to 9"
std::string expected_integer(std::int64_t least, std::int64_t most);
/// "one of a, b, c"
std::string expected_name(std::span<const std::string> known);

/// A value of a document; the document must outlive it. Its position in the file is looked up only if it is refused, so
/// that reading costs nothing extra. Each accessor returns the value that it is asked for or throws UserError.
class DocumentValue {
 public:
  std::string text() const;
  bool boolean() const;
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  /// A non-negative integer of 64 bits.
  std::uint64_t count() const;
  /// A finite number; `noun` is what a refusal calls it: "a time".
  double number(const NumberRange& range = {}, std::string_view noun = "a number") const;
  float float_number() const;
  /// The element of `known` whose to_string() is this text.
  template <class Named>
  Named one_of(std::initializer_list<Named> known) const {
    std::vector<std::string> names;
    for (const Named& each : known) names.emplace_back(to_string(each));
    return known.begin()[index_of_name(names)];
  }
  /// The element of `known` that equals this text.
  std::string name_of(std::span<const std::string> known) const { return known[index_of_name(known)]; }

  /// A number that may be infinite or none, as TOML has them.
  double any_number() const;

  bool is_null() const { return kind() == Kind::null; }
  bool is_boolean() const { return kind() == Kind::boolean; }
  bool is_integer() const { return kind() == Kind::integer; }
  bool is_number() const { return is_integer() || kind() == Kind::real; }
  bool is_text() const { return kind() == Kind::text; }
  bool is_list() const { return kind() == Kind::list; }
  bool is_object() const { return kind() == Kind::object; }
  std::vector<DocumentValue> items(std::string_view expected = "a list") const;
  /// The items of a list that must have this length.
  std::vector<DocumentValue> items(std::size_t length, std::string_view expected) const;
  std::vector<std::pair<std::string, DocumentValue>> members() const;
  /// A member of an object; it must exist.
  DocumentValue operator[](std::string_view key) const;
  /// A member that may be absent.
  std::optional<DocumentValue> find(std::string_view key) const;
  /// A member that may be absent or null.
  std::optional<DocumentValue> given(std::string_view key) const;
  /// Refuses the members of an object that aren't in `known`, naming the nearest known key.
  void only(const std::vector<std::string>& known) const;

  const nlohmann::json& json() const { return *value_; }
  /// "FILE line 3"
  std::string where() const;
  /// "streams[1].name"
  std::string path() const;
  /// "FILE line 3: streams[1].name"
  std::string place() const;
  /// The value as messages show it, which is JSON if the document is.
  std::string shown() const;
  /// Refuses the value.
  [[noreturn]] void refuse(std::string_view expected) const;
  /// Refuses a statement about the value: "is given twice".
  [[noreturn]] void refuse(std::string_view said, std::string_view expected) const;

 private:
  friend class Document;
  enum class Kind : std::uint8_t { null, boolean, integer, real, text, list, object, other };
  Kind kind() const;
  DocumentValue(const Document& document, const nlohmann::json& value) : document_(&document), value_(&value) {}
  std::size_t index_of_name(std::span<const std::string> known) const;

  const Document* document_;
  const nlohmann::json* value_;
};

class Document {
 public:
  using Lines = std::unordered_map<const nlohmann::json*, std::uint64_t>;

  /// `name` is the file's name in messages; `fix` ends them. `lines` are the known line numbers of values of `root`.
  Document(std::shared_ptr<const nlohmann::json> root, std::string name, std::string fix, Lines lines = {});
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;

  DocumentValue root() const { return {*this, *root_}; }
  /// The root, which must be an object with this "format" and "version", or one up to `newest`; `what` is the kind of
  /// document: "a profile".
  DocumentValue of_format(std::string_view what, std::string_view format, std::int64_t version,
                          std::int64_t newest = 0) const;

 private:
  friend class DocumentValue;
  std::shared_ptr<const nlohmann::json> root_;
  std::string name_, fix_;
  Lines lines_;
};

/// Limits of a document: code that walks it recurses, and a value takes far more memory than its text.
struct JsonLimits {
  int deepest = 64;
  std::size_t most_values = 4'000'000;
  std::string fix = "copy or make the file again";
};

/// `name` is the text's name in messages. Throws UserError on a syntax error, on a duplicate key in an object, whose
/// meaning JSON leaves undefined, and on a document beyond the limits.
Document read_json(std::string_view text, std::string name, const JsonLimits& limits = {});

/// Whether `some_key` is accepted as another spelling of `some-key`.
enum class TomlKeys : std::uint8_t { as_written, with_dashes };

/// The largest text that read_toml() accepts, in bytes: far larger than any file written by hand.
inline constexpr std::size_t kLargestToml = 64 * 1024;

/// `name` is the text's name in messages; `fix` ends them. Dates and times are accepted as values, but no accessor
/// returns them. Throws UserError on a syntax error, a duplicate key and tables that nest more than 64 deep.
Document read_toml(std::string_view text, std::string name, std::string fix, TomlKeys keys = TomlKeys::as_written);

}  // namespace weft
