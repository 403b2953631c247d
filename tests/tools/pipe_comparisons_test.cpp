// A step is a list of rank classes, and one class is a list of one: few files ask whether a grid has pipeline stages.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "tests/tools/source_files.h"

namespace weft::tools {
namespace {

/// The arrangement of ranks, lowering, formats that name pipe only if there is one, refusals, and the search.
const std::set<std::string>& files_that_may_compare() {
  static const std::set<std::string> files{"graph/grid.cpp",          "inspect/formats/dump_json.cpp",
                                           "ops/lower.cpp",           "runtime/cost/profile.cpp",
                                           "study/search/search.cpp", "train/config/config_resolve.cpp"};
  return files;
}

/// Whether the operand that ends before `end` is divided or multiplied: ranks % pipe == 0 says nothing about pipe.
bool is_factor(std::string_view code, std::size_t end) {
  const auto belongs = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("_.:->()").find(c) != std::string::npos;
  };
  while (end > 0 && belongs(code[end - 1])) --end;
  while (end > 0 && code[end - 1] == ' ') --end;
  return end > 0 && std::string_view("/%*").find(code[end - 1]) != std::string_view::npos;
}

/// Where code compares `pipe`, or the size along that axis, with a number.
std::vector<std::size_t> comparisons(const std::string& code) {
  static const std::string pipe = R"re(\b(?:pipe_?(?:\(\))?|[\w.:]+\((?:\w+::)*Axis::pipe\)))re",
                           sign = "(?:[=!<>]=|<|>)";
  static const std::regex pipe_first(pipe + R"re(\s*)re" + sign + R"re(\s*\d)re"),
      number_first(R"re(\d[uUlL]*\s*)re" + sign + R"re(\s*(?:\w+(?:\(\))?(?:\.|->|::))*)re" + pipe +
                   R"re((?!\w|\.|\())re");
  std::vector<std::size_t> places;
  for (std::size_t at = code.find("pipe"); at != std::string::npos; at = code.find("pipe", at)) {
    const std::size_t begin = code.rfind('\n', at) + 1, end = std::min(code.find('\n', at), code.size());
    const std::string line = code.substr(begin, end - begin);
    for (const std::regex* form : {&pipe_first, &number_first}) {
      for (std::sregex_iterator match(line.begin(), line.end(), *form), last; match != last; ++match) {
        const auto place = static_cast<std::size_t>(match->position());
        if (form == &number_first || !is_factor(line, place)) places.push_back(begin + place);
      }
    }
    at = end;
  }
  return places;
}

/// The function that does nothing but return a comparison at `place`; "" if it is part of something longer.
std::string helper_at(const std::string& code, std::size_t place) {
  static const std::regex head(R"re([^]*\bbool\s+(?:\w+::)*(\w+)\s*\([^()]*\)\s*(?:const\s*)?(?:noexcept\s*)?)re");
  const std::size_t open = code.find_last_of("{};", place), close = code.find_first_of("{};", place);
  if (open == std::string::npos || close == std::string::npos || code[open] != '{' || code[close] != ';') return "";
  if (code.find_first_not_of(" \n", close + 1) != code.find('}', close)) return "";
  const std::size_t before = code.find_last_of("{};", open - 1) + 1;
  const std::string declaration = code.substr(before, open - before);
  std::smatch match;
  return std::regex_match(declaration, match, head) ? match[1].str() : "";
}

/// A source, and its code alone.
struct Source {
  std::string text, code;
};

/// Whether a file knows a header, by itself or through one of its headers.
bool knows(const std::map<std::string, Source>& sources, const std::string& text, const std::string& header) {
  const auto includes = [](const std::string& of, const std::string& what) {
    return of.find("#include \"" + what + "\"") != std::string::npos;
  };
  return includes(text, header) || std::ranges::any_of(sources, [&](const auto& source) {
           return includes(source.second.text, header) && includes(text, source.first);
         });
}

/// "ops/lower.cpp:44: if (low.grid().pipe == 1) return;" for each comparison, and for each call of a helper in a file
/// that knows the helper's header, by file.
std::map<std::string, std::vector<std::string>> found_in(const std::map<std::string, Source>& sources) {
  std::map<std::string, std::vector<std::string>> found;
  const auto add = [&](const std::string& file, const std::string& code, std::size_t place) {
    const auto begin = code.rfind('\n', place) + 1, end = std::min(code.find('\n', place), code.size());
    const auto line = std::count(code.begin(), code.begin() + static_cast<std::ptrdiff_t>(place), '\n') + 1;
    found[file].push_back(fmt::format("{}:{}: {}", file, line, code.substr(begin, end - begin)));
  };
  for (const auto& [of_helper, source] : sources) {
    const std::string header = of_helper.substr(0, of_helper.rfind('.')) + ".h";
    for (const std::size_t place : comparisons(source.code)) {
      add(of_helper, source.code, place);
      const std::string helper = helper_at(source.code, place);
      if (helper.empty() || !sources.contains(header)) continue;
      if (sources.at(header).code.find(helper) == std::string::npos) continue;
      for (const auto& [file, user] : sources) {
        if (file == of_helper || user.code.find(helper) == std::string::npos) continue;
        if (!knows(sources, user.text, header)) continue;
        const std::regex call("\\b" + helper + "\\s*\\(");
        for (std::sregex_iterator match(user.code.begin(), user.code.end(), call), last; match != last; ++match) {
          add(file, user.code, static_cast<std::size_t>(match->position()));
        }
      }
    }
  }
  return found;
}

TEST(PipeComparisons, StandInFewFiles) {
  constexpr std::size_t kMostFiles = 8;
  EXPECT_LE(files_that_may_compare().size(), kMostFiles);
  std::map<std::string, Source> sources;
  for (const auto& path : testing::source_files(testing::room_tops({"bench", "python"}))) {
    const std::string text = testing::TemporaryFolder::read(path);
    sources.emplace(testing::source_name(path), Source{text, testing::code_of(text)});
  }
  for (const auto& [file, lines] : found_in(sources)) {
    if (files_that_may_compare().contains(file)) continue;
    for (const std::string& line : lines) ADD_FAILURE() << line;
  }
}

TEST(PipeComparisons, AreSeen) {
  for (const char* code :
       {"if (pipe > 1)", "grid.pipe == 1 ? a : b", "1 < grid.pipe;", "grid_->pipe != 1", "size_along(Axis::pipe) > 1",
        "grid.size_along(graph::Axis::pipe) <= 1U", "1 == low.grid().pipe)"}) {
    EXPECT_EQ(comparisons(code).size(), 1U) << code;
  }
  for (const char* code : {"ranks % pipe != 0", "grid.ranks() / grid.pipe > 1", "pipe > config.layers", "pipe_rank > 1",
                           "0 < grid.pipe_rank", "pipes > 1", "std::vector<int> pipe"}) {
    EXPECT_TRUE(comparisons(code).empty()) << code;
  }
}

TEST(PipeComparisons, OfHelpersCountWhereTheyAreCalled) {
  const auto source = [](const std::string& text) { return Source{text, testing::code_of(text)}; };
  const auto found = found_in({{"a/a.h", source("bool has_stages(const Grid& grid);")},
                               {"a/a.cpp", source("bool has_stages(const Grid& grid) {\n  return grid.pipe > 1;\n}")},
                               {"b/b.cpp", source("#include \"a/a.h\"\nif (has_stages(grid)) return;")},
                               {"c/c.cpp", source("bool has_stages(Classes classes);\nhas_stages(classes);")},
                               {"d/d.cpp", source("bool own(int pipe) { return pipe == 1; }")},
                               {"e/e.cpp", source("#include \"d/d.h\"\nown(2);")}});
  EXPECT_EQ(found.size(), 3U);
  EXPECT_EQ(found.at("b/b.cpp"), std::vector<std::string>{"b/b.cpp:2: if (has_stages(grid)) return;"});
  EXPECT_EQ(found.at("a/a.cpp"), std::vector<std::string>{"a/a.cpp:2:   return grid.pipe > 1;"});
  EXPECT_TRUE(found.contains("d/d.cpp"));
}

}  // namespace
}  // namespace weft::tools
