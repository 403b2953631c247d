// Each part of an expression is read by the rules of its flavour and written so that PCRE2 can't take it otherwise:
// classes by their properties, characters by their numbers. Other constructs are refused.
#include "text/split/regex_syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode/characters.h"

namespace weft::text {
namespace {

constexpr std::string_view kSpaces =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
// The numbers: symbols that are Alphabetic.
constexpr std::string_view kWord =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";
constexpr std::string_view kJoiners = R"(\x{200C}\x{200D})";  // word characters of Rust's alone
// Word characters of Oniguruma's alone, and not in sets: of ISO 8859-1 it takes its own table, with ² and ¼.
constexpr std::string_view kNumbersOfLatin1 = R"(\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";
constexpr std::string_view kHexDigits = "0-9A-Fa-f";

/// A part of a set: what stands between brackets. `negated`: all characters but these.
struct RegexClass {
  std::string inside = {};
  bool negated = false;
};

/// POSIX's classes by Unicode, as Oniguruma has them, and in ASCII, as Rust's have them.
struct PosixClass {
  std::string_view name, unicode, ascii;
};

constexpr std::array<PosixClass, 14> kPosix = {{
    {"alnum", R"(\p{Alphabetic}\p{Nd})", "0-9A-Za-z"},
    {"alpha", R"(\p{Alphabetic})", "A-Za-z"},
    {"ascii", R"(\x{0}-\x{7F})", R"(\x{0}-\x{7F})"},
    {"blank", R"(\p{Zs}\x{9})", R"(\x{9}\x{20})"},
    {"cntrl", R"(\p{Cc})", R"(\x{0}-\x{1F}\x{7F})"},
    {"digit", R"(\p{Nd})", "0-9"},
    {"graph", R"(\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Co})", R"(\x{21}-\x{7E})"},
    {"lower", R"(\p{Lowercase})", "a-z"},
    {"print", R"(\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Co}\p{Zs})", R"(\x{20}-\x{7E})"},
    {"punct", R"(\p{P}\p{S})", R"(\x{21}-\x{2F}\x{3A}-\x{40}\x{5B}-\x{60}\x{7B}-\x{7E})"},
    {"space", kSpaces, R"(\x{9}-\x{D}\x{20})"},
    {"upper", R"(\p{Uppercase})", "A-Z"},
    {"word", kWord, "0-9A-Za-z_"},
    {"xdigit", kHexDigits, kHexDigits},
}};

/// A general category, and the second letters of those below it.
struct Category {
  std::string_view name, second;
};
constexpr std::array<Category, 7> kCategories = {{{"letter", "ultmo"},
                                                  {"mark", "nce"},
                                                  {"number", "dlo"},
                                                  {"punctuation", "cdseifo"},
                                                  {"symbol", "mcko"},
                                                  {"zseparator", "slp"},
                                                  {"cother", "cfo"}}};

/// "L" or "Lu" for a category's name in lower case without blanks; nothing for another name.
std::optional<std::string> category_of(std::string_view name) {
  for (const Category& category : kCategories) {
    const char first = category.name.front();
    const std::string_view full = category.name.substr(first == 'z' || first == 'c' ? 1 : 0);
    const bool below = name.size() == 2 && category.second.find(name[1]) != std::string_view::npos;
    if (name != full && (name.empty() || name.front() != first || (name.size() != 1 && !below))) continue;
    std::string code(1, static_cast<char>(first - 'a' + 'A'));
    return name == full || name.size() == 1 ? code : code + name[1];
  }
  return std::nullopt;
}

std::string code_text(std::uint32_t code) {
  return fmt::format(R"(\x{{{:X}}})", code);
}

bool is_ascii_letter(std::uint32_t code) {
  return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z');
}

bool is_ascii_digit(std::uint32_t code) {
  return code >= '0' && code <= '9';
}

/// The content of a set of brackets: characters of its text, or those that aren't in one of the others.
struct RegexSet {
  std::string inside;
  std::vector<std::string> outside;
};

class Translation {
 public:
  using Refuse = std::function<void(const std::string&)>;

  Translation(std::string_view expression, RegexFlavour flavour, const Refuse& refuse)
      : rest_(expression), rust_(flavour == RegexFlavour::rust), refuse_(refuse) {}

  std::string operator()() {
    groups_.push_back({});
    while (!rest_.empty()) read_part();
    return std::move(out_);
  }

 private:
  struct Group {
    std::size_t begin = 0, content = 0;  // in out_
    bool caseless = false;               // behind it
    bool repeats = true;
    bool late_options = false;
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  [[noreturn]] void refuse(std::string_view construct, std::string_view why = "which isn't read") const {
    refuse_(fmt::format("{}, {}", construct, why));
    throw UserError(std::string(construct), "", "");
  }
  std::string_view library() const { return rust_ ? "Rust" : "Oniguruma"; }

  bool take(std::string_view begin) {
    if (!rest_.starts_with(begin)) return false;
    rest_.remove_prefix(begin.size());
    return true;
  }
  std::uint32_t take_character() {
    const Utf8Character first = first_character(rest_);
    if (first.length == 0) refuse("a byte that isn't UTF-8");
    rest_.remove_prefix(first.length);
    return first.code;
  }

  // ---- parts

  void read_part() {
    const std::string_view before = rest_;
    if (before.front() == '[') {
      rest_.remove_prefix(1);
      add_atom(text_of_set());
    } else if (before.front() == '\\') {
      read_escape();
    } else if (before.front() == '(') {
      open_group();
    } else if (before.front() == ')') {
      close_group();
    } else if (before.front() == '|') {
      if (groups_.back().late_options) refuse("options within a group that has a | behind them");
      rest_.remove_prefix(1);
      add_border("|");
    } else if (before.front() == '^' || before.front() == '$') {
      rest_.remove_prefix(1);
      add_border(before.substr(0, 1));
    } else if (before.front() == '.') {
      rest_.remove_prefix(1);
      add_atom(".");
    } else if (std::string_view("*+?").find(before.front()) != std::string_view::npos || is_interval(before)) {
      read_repetition();
    } else {
      add_character(take_character());
    }
  }

  void add_atom(std::string_view text) {
    atom_ = out_.size();
    letter_ = 0;
    out_ += text;
  }
  /// Constructs that take no characters, and can't be repeated.
  void add_border(std::string_view text) {
    add_atom(text);
    atom_ = kNone;
  }
  void add_character(std::uint32_t code) {
    const std::uint32_t before = std::exchange(letter_, 0);
    expect_one_case(code);
    if (caseless_ && !rust_ && is_ascii_letter(code)) {
      const std::string pair = lower_ascii(std::string{static_cast<char>(before), static_cast<char>(code)});
      if (before != 0 && is_ligature(pair)) {
        refuse(fmt::format("'{}' without regard to case", pair), "which Oniguruma also finds as one character");
      }
    }
    add_atom(is_ascii_letter(code) || is_ascii_digit(code) ? std::string(1, static_cast<char>(code)) : code_text(code));
    letter_ = is_ascii_letter(code) ? code : 0;
  }
  static bool is_ligature(std::string_view pair) {
    constexpr std::array<std::string_view, 5> kLigatures = {"ss", "st", "ff", "fi", "fl"};
    return std::ranges::find(kLigatures, pair) != kLigatures.end();
  }
  /// Without regard to case Oniguruma finds some characters as several others, such as "ß" as "ss".
  void expect_one_case(std::uint32_t code) const {
    constexpr std::uint32_t kFirstModifier = 0x2B0, kLastModifier = 0x2FF;
    if (!caseless_ || rust_ || code < 0x80) return;
    const bool modifies = code >= kFirstModifier && code <= kLastModifier;
    if ((class_table()[code] & (kUpper | kLower | kMark)) == 0 && !modifies) return;
    std::string text;
    append_character(text, code);
    refuse(fmt::format("'{}' without regard to case", text), "of which only ASCII is read");
  }

  // ---- repetitions

  /// {2}, {2,}, {2,3} or {,3}; another brace is a character.
  static bool is_interval(std::string_view text) {
    if (text.front() != '{') return false;
    const std::size_t end = text.find_first_not_of("0123456789,", 1);
    if (end == std::string_view::npos || text[end] != '}' || end == 1) return false;
    const std::string_view inside = text.substr(1, end - 1);
    return inside != "," && std::ranges::count(inside, ',') < 2;
  }
  void read_repetition() {
    if (atom_ == kNone) refuse(fmt::format("a repetition {} of nothing or of a repetition", rest_.front()));
    const std::size_t atom = std::exchange(atom_, kNone);
    letter_ = 0;
    if (rest_.front() != '{') {
      out_ += rest_.front();
      rest_.remove_prefix(1);
      out_ += take("+") ? "+" : (take("?") ? "?" : "");
      return;
    }
    std::string interval(rest_.substr(0, rest_.find('}') + 1));
    rest_.remove_prefix(interval.size());
    const std::size_t comma = interval.find(',');
    if (comma == 1) {
      if (rust_) refuse(interval, "which Rust doesn't read");
      interval.insert(1, "0");
    }
    expect_rising(interval);
    out_ += interval;
    const bool possessive = take("+"), optional = !possessive && take("?");
    if (rust_ || (optional && comma != std::string::npos)) {
      out_ += possessive ? "+" : (optional ? "?" : "");
    } else if (possessive || optional) {  // of Oniguruma's a second repetition
      out_.insert(atom, "(?:");
      out_ += possessive ? ")+" : ")?";
    }
  }
  void expect_rising(const std::string& interval) const {
    const auto number_at = [&](std::size_t at) {
      std::uint32_t number = 0;
      std::from_chars(interval.data() + at, interval.data() + interval.size(), number);
      return number;
    };
    const std::size_t comma = interval.find(',');
    const bool has_most = comma != std::string::npos && interval[comma + 1] != '}';
    if (has_most && number_at(comma + 1) < number_at(1)) refuse(interval, "whose first number is the larger one");
  }

  // ---- groups

  void open_group() {
    constexpr std::array<std::string_view, 6> kKinds = {"(?:", "(?>", "(?=", "(?!", "(?<=", "(?<!"};
    const auto kind = std::ranges::find_if(kKinds, [&](std::string_view begin) { return rest_.starts_with(begin); });
    Group group{.begin = out_.size(), .caseless = caseless_};
    if (kind != kKinds.end()) {
      group.repeats = kind - kKinds.begin() < 2;
      out_ += *kind;
      rest_.remove_prefix(kind->size());
    } else if (rest_.starts_with("(?<") || rest_.starts_with("(?P<")) {
      const std::size_t end = rest_.find('>');
      if (end == std::string_view::npos || (!rust_ && rest_[2] == 'P')) refuse(rest_.substr(0, 4));
      out_ += "(?:";
      rest_.remove_prefix(end + 1);
    } else if (rest_.starts_with("(?")) {
      if (!read_options()) return;
    } else if (rest_.starts_with("(*")) {
      refuse("(*");
    } else {
      out_ += '(';
      rest_.remove_prefix(1);
    }
    group.content = out_.size();
    groups_.push_back(group);
    atom_ = kNone, letter_ = 0;
  }
  /// Reads "(?im-s:" or "(?i)"; false for the latter, which opens no group.
  bool read_options() {
    const std::size_t end = rest_.find_first_not_of("im-s", 2);
    const bool ends = end != std::string_view::npos && end > 2 && (rest_[end] == ':' || rest_[end] == ')');
    const std::string_view letters = ends ? rest_.substr(2, end - 2) : std::string_view();
    if (!ends || std::ranges::count(letters, '-') > 1) refuse(rest_.substr(0, std::min<std::size_t>(rest_.size(), 4)));
    if (!rust_ && letters.find('s') != std::string_view::npos) refuse(rest_.substr(0, end + 1));
    const bool opens = rest_[end] == ':';
    if (!opens && out_.size() != groups_.back().content) groups_.back().late_options = true;
    out_ += "(?";
    bool on = true;
    for (const char letter : letters) {
      out_ += letter == 'm' && !rust_ ? 's' : letter;  // Oniguruma's m: a dot is any character
      if (letter == '-') on = false;
      if (letter == 'i') caseless_ = on;
    }
    out_ += rest_[end];
    rest_.remove_prefix(end + 1);
    if (!opens) {
      if (!groups_.back().late_options) groups_.back().content = out_.size();
      atom_ = kNone, letter_ = 0;
    }
    return opens;
  }
  void close_group() {
    if (groups_.size() == 1) refuse("a ) without its (");
    const Group group = groups_.back();
    groups_.pop_back();
    rest_.remove_prefix(1);
    out_ += ')';
    atom_ = group.repeats ? group.begin : kNone;
    letter_ = 0;
    caseless_ = group.caseless;
  }

  // ---- escapes

  void read_escape() {
    const char letter = escaped();
    if (const auto found = class_escape(false)) {
      add_atom(text_of(*found));
    } else if (letter == 'b' || letter == 'B') {
      rest_.remove_prefix(2);
      const std::string word = word_class(false);
      add_border(letter == 'b' ? fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", word)
                               : fmt::format("(?:(?<=[{0}])(?=[{0}])|(?<![{0}])(?![{0}]))", word));
    } else if (letter == 'A' || letter == 'z' || (letter == 'Z' && !rust_)) {
      add_border(rest_.substr(0, 2));
      rest_.remove_prefix(2);
    } else if (letter == 'R' && !rust_) {
      rest_.remove_prefix(2);
      add_atom(R"((?>\x{D}\x{A}|[\x{A}-\x{D}\x{85}\x{2028}\x{2029}]))");
    } else {
      add_character(take_escaped_character());
    }
  }
  char escaped() const {
    if (rest_.size() < 2) refuse("a \\ at the end");
    return rest_[1];
  }
  /// The class of an escape, which is taken; nothing if it is no class.
  std::optional<RegexClass> class_escape(bool in_set) {
    const char letter = escaped();
    const bool negated = letter >= 'A' && letter <= 'Z';
    RegexClass found{.negated = negated};
    switch (letter) {
      case 'w':
      case 'W':
        found.inside = word_class(in_set);
        break;
      case 's':
      case 'S':
        found.inside = kSpaces;
        break;
      case 'd':
      case 'D':
        found.inside = R"(\p{Nd})";
        break;
      case 'h':
      case 'H':
        if (rust_) refuse(rest_.substr(0, 2), "which Rust doesn't read");
        found.inside = kHexDigits;
        break;
      case 'p':
      case 'P':
        return property_escape(in_set);
      default:
        return std::nullopt;
    }
    rest_.remove_prefix(2);
    return found;
  }
  std::string word_class(bool in_set) const {
    return fmt::format("{}{}", kWord, rust_ ? kJoiners : (in_set ? "" : kNumbersOfLatin1));
  }

  /// \p{…}, \P{…}, \p{^…} of Oniguruma's, \pL of Rust's.
  RegexClass property_escape(bool in_set) {
    bool negated = rest_[1] == 'P';
    const bool short_form = rust_ && rest_.size() > 2 && is_ascii_letter(static_cast<unsigned char>(rest_[2]));
    const std::size_t end = short_form ? 2 : rest_.find('}');
    if (end == std::string_view::npos || (!short_form && rest_[2] != '{')) refuse(rest_.substr(0, 3));
    const std::string_view whole = rest_.substr(0, end + 1);
    std::string_view inside = short_form ? rest_.substr(2, 1) : rest_.substr(3, end - 3);
    if (!rust_ && inside.starts_with('^')) negated = !negated, inside.remove_prefix(1);
    rest_.remove_prefix(end + 1);
    std::string name = lower_ascii(inside);
    std::erase_if(name, [](char c) { return c == ' ' || c == '_' || c == '-'; });
    for (const std::string_view key : {"script=", "sc="}) {
      if (rust_ && name.starts_with(key)) return {script(name.substr(key.size()), whole), negated};
    }
    if (name == "any") return {R"(\p{Any})", negated};
    if (const auto category = category_of(name)) {
      const bool cased = *category == "Lu" || *category == "Ll" || *category == "Lt";
      if (cased && caseless_) refuse(fmt::format("{} without regard to case", whole));
      return {fmt::format(R"(\p{{{}}})", *category), negated};
    }
    if (!rust_) {
      if (name == "punct") return {R"(\p{P})", negated};
      if (name == "word") return {word_class(in_set), negated};
      if (const auto posix = posix_class(name)) return {*posix, negated};
    }
    return {script(name, whole), negated};
  }
  std::string script(std::string_view name, std::string_view whole) const {
    const bool letters =
        std::ranges::all_of(name, [](char c) { return is_ascii_letter(static_cast<unsigned char>(c)); });
    if (!letters || name.size() < 3) refuse(whole);
    return fmt::format(R"(\p{{sc:{}}})", name);
  }
  std::optional<std::string> posix_class(std::string_view name) const {
    const auto found = std::ranges::find(kPosix, name, &PosixClass::name);
    if (found == kPosix.end()) return std::nullopt;
    if (caseless_ && (name == "upper" || name == "lower")) refuse(fmt::format("{} without regard to case", name));
    return std::string(rust_ ? found->ascii : found->unicode);
  }

  /// Of an escape that stands for one character, in sets too.
  std::uint32_t take_escaped_character() {
    constexpr std::string_view kLetters = "tnrfave", kCodes = "\t\n\r\f\a\v\x1b";
    const std::string_view whole = rest_;
    rest_.remove_prefix(1);
    const char letter = rest_.front();
    if (const std::size_t known = kLetters.find(letter); known != std::string_view::npos && !(rust_ && letter == 'e')) {
      rest_.remove_prefix(1);
      return static_cast<unsigned char>(kCodes[known]);
    }
    if (letter == 'x' || letter == 'u') return take_number(whole);
    const auto byte = static_cast<unsigned char>(letter);
    if (is_ascii_letter(byte) || is_ascii_digit(byte)) {
      refuse(whole.substr(0, 2), fmt::format("an escape of {} that isn't read", library()));
    }
    return take_character();
  }
  /// \x7F, \x{4E2D}, \u4E2D, and \u{4E2D} of Rust's.
  std::uint32_t take_number(std::string_view whole) {
    const bool wide = rest_.front() == 'u', braces = rest_.size() > 1 && rest_[1] == '{';
    rest_.remove_prefix(braces ? 2 : 1);
    const std::size_t most = braces ? rest_.find('}') : (wide ? 4 : 2);
    const std::string_view digits = rest_.substr(0, std::min(most, rest_.size()));
    std::uint32_t code = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    const bool complete = most != std::string_view::npos && digits.size() == most && !digits.empty() &&
                          read.ptr == digits.data() + digits.size() && read.ec == std::errc();
    const bool surrogate = code >= 0xD800 && code < 0xE000;
    if (!complete || code >= kCodePoints || surrogate || (wide && braces && !rust_)) refuse(whole.substr(0, 4));
    if (!wide && !braces && !rust_ && code >= 0x80) refuse(whole.substr(0, 4), "a byte that is no character");
    rest_.remove_prefix(digits.size() + (braces ? 1 : 0));
    return code;
  }

  // ---- sets

  /// Of the set whose bracket was taken.
  std::string text_of_set() {
    const bool negated = take("^");
    const RegexSet set = read_set();
    if (set.inside.empty() && set.outside.empty()) refuse("a set of nothing");
    const std::string inside = set.inside.empty() ? "" : fmt::format("[{}]", set.inside);
    if (set.outside.empty()) return negated ? fmt::format("[^{}]", set.inside) : inside;
    if (negated) {
      std::string text = inside.empty() ? "(?:" : fmt::format("(?:(?!{})", inside);
      for (std::size_t i = 1; i < set.outside.size(); ++i) text += fmt::format("(?=[{}])", set.outside[i]);
      return text + fmt::format("[{}])", set.outside.front());
    }
    std::string text = "(?:" + inside;
    for (const std::string& outside : set.outside) {
      text += fmt::format("{}[^{}]", text.size() > 3 ? "|" : "", outside);
    }
    return text + ")";
  }
  /// Up to its bracket, which is taken.
  RegexSet read_set() {
    RegexSet set;
    std::optional<std::uint32_t> before;  // a character that may begin a range
    for (bool first = true; first || !rest_.starts_with(']'); first = false) {
      if (rest_.empty()) refuse("a set without its ]");
      if (rest_.starts_with("&&") || (rust_ && (rest_.starts_with("--") || rest_.starts_with("~~")))) {
        refuse(fmt::format("{} in a set", rest_.substr(0, 2)));
      }
      if (!first && before && rest_.size() > 1 && rest_.front() == '-' && rest_[1] != ']') {
        rest_.remove_prefix(1);
        add_range(*before, set);
        before = std::nullopt;
      } else {
        before = read_item(set);
        if (before) set.inside += code_text(*before);
      }
    }
    rest_.remove_prefix(1);
    return set;
  }
  /// A character, which isn't added, or a class, which is.
  std::optional<std::uint32_t> read_item(RegexSet& set) {
    if (rest_.front() == '[') {
      add_nested(set);
      return std::nullopt;
    }
    if (rest_.front() == '\\') {
      if (const auto found = class_escape(true)) {
        add_class(*found, set);
        return std::nullopt;
      }
    }
    const std::uint32_t code = take_set_character();
    expect_one_case(code);
    return code;
  }
  std::uint32_t take_set_character() {
    if (rest_.starts_with("\\b")) {
      if (rust_) refuse("\\b in a set", "which Rust doesn't read");
      rest_.remove_prefix(2);
      return '\b';
    }
    return rest_.front() == '\\' ? take_escaped_character() : take_character();
  }
  void add_range(std::uint32_t from, RegexSet& set) {
    const std::string_view end = rest_;
    if (end.front() == '[' || (end.front() == '\\' && class_escape(true))) refuse("a range up to a set");
    const std::uint32_t to = take_set_character();
    if (to < from) refuse("a range whose end is before its begin");
    if (caseless_ && !rust_ && to >= 0x80) refuse("a range beyond ASCII without regard to case");
    set.inside += "-" + code_text(to);
  }
  static void add_class(const RegexClass& found, RegexSet& set) {
    if (!found.negated) {
      set.inside += found.inside;
    } else if (is_property(found.inside)) {
      set.inside += "\\P" + found.inside.substr(2);
    } else {
      set.outside.push_back(found.inside);
    }
  }
  /// "[:alpha:]", or a set in a set.
  void add_nested(RegexSet& set) {
    if (take("[:")) {
      const bool negated = take("^");
      const std::size_t end = rest_.find(":]");
      const std::string_view name = rest_.substr(0, end == std::string_view::npos ? 0 : end);
      const auto posix = posix_class(name);
      if (!posix) refuse(fmt::format("[:{}:]", name));
      rest_.remove_prefix(end + 2);
      add_class({*posix, negated}, set);
      return;
    }
    rest_.remove_prefix(1);
    const bool negated = take("^");
    RegexSet inner = read_set();
    if (negated && !inner.outside.empty()) refuse("a set in a set, of what isn't in a class");
    if (negated) {
      set.outside.push_back(std::move(inner.inside));
    } else {
      set.inside += inner.inside;
      set.outside.insert(set.outside.end(), inner.outside.begin(), inner.outside.end());
    }
  }

  /// One \p{…}.
  static bool is_property(std::string_view inside) {
    return inside.starts_with("\\p{") && inside.find('}') + 1 == inside.size();
  }
  static std::string text_of(const RegexClass& found) {
    if (is_property(found.inside)) return (found.negated ? "\\P" : "\\p") + found.inside.substr(2);
    return fmt::format("[{}{}]", found.negated ? "^" : "", found.inside);
  }

  std::string_view rest_;
  bool rust_;
  const Refuse& refuse_;
  std::string out_;
  std::vector<Group> groups_;
  std::size_t atom_ = kNone;  // in out_, of what a repetition takes
  std::uint32_t letter_ = 0;  // of ASCII, which is the last part
  bool caseless_ = false;
};

}  // namespace

std::string in_pcre_syntax(std::string_view expression, RegexFlavour flavour,
                           const std::function<void(const std::string& construct)>& refuse) {
  return Translation(expression, flavour, refuse)();
}

}  // namespace weft::text
