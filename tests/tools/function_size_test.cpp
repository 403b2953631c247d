// A function holds one thought: at most 80 lines, but for tables of values.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "tests/tools/rooms.h"
#include "tests/tools/source_files.h"

namespace weft::tools {
namespace {

constexpr std::size_t kMostFunctionLines = 80;

/// "name: lines" of each function that is too long. Functions within functions count as parts of these.
std::vector<std::string> long_functions(const std::string& text) {
  static const std::regex scope(
      R"(\s*(template\s*<[^;]*>\s*)?(inline |export )?(namespace|struct|class|union|extern)\b[^=]*)");
  struct Block {
    bool is_scope, is_function;
    std::size_t line;
    std::string head;
  };
  std::vector<Block> open;
  std::vector<std::string> found;
  std::string head;  // since the last statement's end
  std::size_t line = 1;
  for (const char c : testing::code_of(text)) {
    if (c == '\n') ++line;
    if (c == '{') {
      const bool outside = std::ranges::all_of(open, &Block::is_scope);
      const bool is_scope = outside && std::regex_match(head, scope);
      open.push_back({is_scope, outside && !is_scope && head.find('(') != std::string::npos, line, head});
    } else if (c == '}' && !open.empty()) {
      const Block& block = open.back();
      const std::size_t lines = line - block.line + 1;
      if (block.is_function && lines > kMostFunctionLines) {
        const std::size_t parameters = block.head.find('('), name = block.head.find_last_of(" \n*&", parameters) + 1;
        found.push_back(fmt::format("{}: {}", block.head.substr(name, parameters - name), lines));
      }
      open.pop_back();
    }
    if (c == ';' || c == '{' || c == '}') {
      head.clear();
    } else if (!head.ends_with(' ') || c != ' ') {
      head += c == '\n' ? ' ' : c;
    }
  }
  return found;
}

std::string function_of(const std::string& head, std::size_t lines) {
  std::string text = "namespace weft {\nstruct Holder {\n" + head + " {\n";
  for (std::size_t i = 2; i < lines; ++i)
    text += i % 2 == 0 ? "  if (x) { y(\"}\"); }  // {\n" : "  z('}', 1'000, R\"(})\");\n";
  return text + "}\n};\n}  // namespace weft\n";
}

TEST(FunctionSize, HoldsOneThought) {
  for (const auto& file : testing::source_files(testing::room_tops({"tests", "bench", "python"}))) {
    for (const std::string& each : long_functions(testing::source_text(file)))
      ADD_FAILURE() << testing::source_name(file) << ": " << each;
  }
}

TEST(FunctionSize, CountsAFunctionsLines) {
  EXPECT_EQ(long_functions(function_of("int add(int a,\n        int b) const", kMostFunctionLines)),
            std::vector<std::string>{});
  EXPECT_EQ(long_functions(function_of("int add(int a,\n        int b) const", kMostFunctionLines + 1)),
            std::vector<std::string>{fmt::format("add: {}", kMostFunctionLines + 1)});
  EXPECT_EQ(long_functions(function_of("Table list", kMostFunctionLines + 9)), std::vector<std::string>{});
}

}  // namespace
}  // namespace weft::tools
