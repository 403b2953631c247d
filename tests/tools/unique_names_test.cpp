// A name means one thing. Two classes of one name in two headers share their destructor in the program that links both,
// and nothing says so. The sources are read here, because a compiler sees only one at a time.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "tests/tools/source_files.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

bool names(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Names, numbers, "::", "<<" and single signs.
std::vector<std::string_view> words_of(std::string_view code) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < code.size();) {
    std::size_t length = code.substr(at).starts_with("::") || code.substr(at).starts_with("<<") ? 2 : 1;
    if (names(code[at])) {
      const auto goes_on = [&](char c) { return names(c) || c == '\''; };  // 10'000
      while (at + length < code.size() && goes_on(code[at + length])) ++length;
    }
    if (std::isspace(static_cast<unsigned char>(code[at])) == 0) words.push_back(code.substr(at, length));
    at += length;
  }
  return words;
}

/// The class, structure, union or enumeration that a statement defines, if it defines one under a name of its own:
/// neither X::Inner, which belongs to X, nor a specialisation X<int>.
std::optional<std::string> defined_type(const std::vector<std::string_view>& statement) {
  int depth = 0;  // of template parameters
  for (std::size_t i = 0; i < statement.size(); ++i) {
    if (statement[i] == "<") ++depth;
    if (statement[i] == ">") --depth;
    if (depth > 0) continue;
    if (statement[i] == "(" || statement[i] == "=") return std::nullopt;
    if (statement[i] != "class" && statement[i] != "struct" && statement[i] != "union" && statement[i] != "enum") {
      continue;
    }
    ++i;
    if (i < statement.size() && (statement[i] == "class" || statement[i] == "struct")) ++i;
    while (i < statement.size() && (statement[i] == "[" || statement[i] == "alignas")) {  // [[…]], alignas(…)
      const std::string_view close = statement[i] == "[" ? "]" : ")";
      while (i < statement.size() && statement[i] != close) ++i;
      while (i < statement.size() && statement[i] == close) ++i;
    }
    if (i == statement.size() || !names(statement[i].front()) || statement[i] == "final") return std::nullopt;
    if (i + 1 < statement.size() && (statement[i + 1] == "::" || statement[i + 1] == "<")) return std::nullopt;
    for (std::size_t rest = i + 1; rest < statement.size() && statement[rest] != ":"; ++rest) {
      if (statement[rest] == "(" || statement[rest] == "=") return std::nullopt;  // a function's result
    }
    return std::string(statement[i]);
  }
  return std::nullopt;
}

/// The types that a source defines for all others of its program: types at a named namespace's level.
/// Nothing if its braces don't pair, where nothing can be said.
std::optional<std::set<std::string>> shared_types(const std::string& text) {
  std::set<std::string> found;
  std::vector<std::optional<std::string>> scopes;  // "weft::" of a namespace, "" of extern "C"; else nothing
  std::vector<std::string_view> statement;
  const std::string code = testing::code_of(text);
  for (const std::string_view word : words_of(code)) {
    if (word == ";") {
      statement.clear();
    } else if (word == "}") {
      if (scopes.empty()) return std::nullopt;
      scopes.pop_back();
      statement.clear();
    } else if (word != "{") {
      statement.push_back(word);
    } else {
      std::optional<std::string> scope;
      if (!statement.empty() && (statement.front() == "namespace" || statement.front() == "inline") &&
          statement.back() != "namespace" && statement[statement.front() == "inline" ? 1 : 0] == "namespace") {
        scope = "";
        for (const std::string_view part : statement) {
          if (part != "namespace" && part != "inline") *scope += part;
        }
        *scope += "::";
      } else if (statement.size() == 1 && statement.front() == "extern") {
        scope = "";
      } else {
        std::string prefix;
        bool shared = true;
        for (const std::optional<std::string>& outer : scopes) {
          shared = shared && outer.has_value();
          prefix += outer.value_or("");
        }
        if (const std::optional<std::string> name = defined_type(statement); shared && name) {
          found.insert(prefix + *name);
        }
      }
      scopes.push_back(std::move(scope));
      statement.clear();
    }
  }
  if (!scopes.empty()) return std::nullopt;
  return found;
}

using Homes = std::map<std::string, std::set<std::string>>;  // a type's name: the files that define it

void add(Homes& homes, const std::string& file, const std::string& text) {
  const std::optional<std::set<std::string>> types = shared_types(text);
  ASSERT_TRUE(types.has_value()) << file << ": its braces don't pair";
  for (const std::string& type : *types) homes[type].insert(file);
}

std::set<std::string> defined_twice(const Homes& homes) {
  std::set<std::string> names;
  for (const auto& [name, files] : homes) {
    if (files.size() > 1) names.insert(name);
  }
  return names;
}

TEST(UniqueNames, NoTypeIsDefinedInTwoFiles) {
  Homes homes;
  for (const fs::path& file : testing::source_files(
           {"base", "graph", "kernels", "ops", "runtime", "inspect", "train", "study", "tools", "tests", "bench"})) {
    add(homes, testing::source_name(file), testing::TemporaryFolder::read(file));
  }
  EXPECT_GT(homes.size(), 400U);
  for (const std::string& name : defined_twice(homes)) {
    std::string files;
    for (const std::string& file : homes[name]) files += " " + file;
    ADD_FAILURE() << name << " is defined in" << files << ": rename one, or put it into an unnamed namespace";
  }
}

TEST(UniqueNames, SeesADoubleName) {
  Homes homes;
  add(homes, "a.h", "namespace weft {\nclass Progress {\n  ~Progress();\n};\n}\n");
  add(homes, "b.h", "namespace weft {\nclass Progress {\n  int a;\n};\nstruct Other {};\n}\n");
  add(homes, "c.cpp",
      "namespace weft {\nnamespace {\nstruct Other {};\n}\n}\nnamespace weft::cpu {\nstruct Other {};\n}\n");
  EXPECT_EQ(defined_twice(homes), std::set<std::string>{"weft::Progress"});
}

TEST(UniqueNames, KnowsWhatDefinesAType) {
  const auto types = shared_types(R"cpp(
#define OPEN {
    namespace weft {
    struct Declared;
    class A final : public B {
      struct Inner {};
    };  // struct Comment {
    enum class E : int { one = 10'000 };
    template <class T, int n = (1 << 2)>
    struct F {};
    template <>
    struct F<int> {};
    struct A::Outside {};
    class [[nodiscard]] G {};
    struct alignas(64) H {
      char brace = '{';
    };
    const char* text = "struct Text {";
    const char* raw = R"(struct Raw { )";
    struct A returns(struct B* b) {
      struct Local {};
      return *b;
    }
    struct {
      int x;
    } unnamed;
    namespace testing::deep {
    union U {
      int a;
    };
    }
    }
    extern "C" {
    struct c_type {
      int x;
    };
    }
  )cpp");
  EXPECT_EQ(types, (std::set<std::string>{"weft::A", "weft::E", "weft::F", "weft::G", "weft::H",
                                          "weft::testing::deep::U", "c_type"}));
  EXPECT_FALSE(shared_types("namespace weft {").has_value());
  EXPECT_FALSE(shared_types("}").has_value());
}

}  // namespace
}  // namespace weft::tools
