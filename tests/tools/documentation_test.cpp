// README and docs: links lead somewhere, README and RESULTS are short, and commands can be pasted in their order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "inspect/drawing/colors.h"
#include "tests/base/temporary_folder.h"
#include "tests/tools/run_command.h"
#include "tests/tools/source_files.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;
using testing::source_name;

const fs::path root = WEFT_SOURCE_DIR;

std::vector<fs::path> pages() {
  std::vector<fs::path> list;
  for (const char* page : {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench/RESULTS.md", "examples/README.md",
                           "examples/policy/README.md", "python/README.md"}) {
    list.push_back(root / page);
  }
  for (const auto& entry : fs::directory_iterator(root / "docs")) {
    if (entry.path().extension() == ".md") list.push_back(entry.path());
  }
  std::sort(list.begin(), list.end());
  return list;
}

struct Page {
  std::vector<std::string> prose;  // lines outside of fenced blocks
  std::vector<std::string> shell;  // fenced blocks of the language sh
  std::set<std::string> heading_anchors;
};

// GitHub's anchor of a heading: lower case, punctuation dropped, spaces as hyphens.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || c == '-' || c == '_' || byte >= 0x80) anchor += static_cast<char>(std::tolower(byte));
    if (c == ' ') anchor += '-';
  }
  return anchor;
}

Page read_page(const std::string& text) {
  Page page;
  std::istringstream lines(text);
  bool fenced = false, shell = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      fenced = !fenced;
      shell = line == "```sh";
      if (shell) page.shell.emplace_back();
    } else if (shell) {
      page.shell.back() += line + "\n";
    } else if (!fenced) {
      page.prose.push_back(line);
      if (const auto text_at = line.find_first_not_of('#');
          text_at != 0 && text_at != std::string::npos && line[text_at] == ' ') {
        page.heading_anchors.insert(anchor_of(line.substr(text_at + 1)));
      }
    }
  }
  return page;
}

// The links of a page that lead nowhere.
std::vector<std::string> broken_links(const Page& page, const fs::path& folder) {
  static const std::regex link(R"(\]\(([^)\s]+)\))");
  std::vector<std::string> broken;
  for (const std::string& line : page.prose) {
    for (std::sregex_iterator found(line.begin(), line.end(), link), end; found != end; ++found) {
      const std::string target = (*found)[1];
      if (target.find("://") != std::string::npos) continue;
      const auto hash = target.find('#');
      const fs::path file = folder / target.substr(0, hash);
      bool leads = hash == 0 || fs::exists(file);
      if (leads && hash != std::string::npos) {
        const Page other = hash == 0 ? page : read_page(testing::TemporaryFolder::read(file));
        leads = other.heading_anchors.contains(target.substr(hash + 1));
      }
      if (!leads) broken.push_back(target);
    }
  }
  return broken;
}

TEST(Documentation, FindsBrokenLinks) {
  const testing::TemporaryFolder folder;
  folder.write("there.md", "# A `heading`, with signs\n```\n# no heading\n```\n");
  const Page page = read_page(
      "# Top\n[a](there.md) [b](missing.md) [c](there.md#a-heading-with-signs) [d](there.md#no-heading)\n"
      "[e](#top) [f](#bottom) [g](https://example.org/x)\n```\n[h](missing too.md)\n```\n");
  EXPECT_EQ(broken_links(page, folder.path()),
            (std::vector<std::string>{"missing.md", "there.md#no-heading", "#bottom"}));
}

TEST(Documentation, LinksLeadSomewhere) {
  for (const fs::path& path : pages()) {
    for (const std::string& target :
         broken_links(read_page(testing::TemporaryFolder::read(path)), path.parent_path())) {
      ADD_FAILURE() << source_name(path) << " links to " << target;
    }
  }
}

// On a page of 880 pixels, as GitHub shows README, no letter is smaller than 8; and exposed communication is today's
// red.
TEST(Documentation, PicturesCanBeRead) {
  static const std::regex view("viewBox=\"[0-9.]+ [0-9.]+ ([0-9.]+) "), letters("font-size[:=][\" ]*([0-9.]+)");
  std::size_t pictures = 0;
  for (const auto& entry : fs::directory_iterator(root / "docs/img")) {
    if (entry.path().extension() != ".svg") continue;
    ++pictures;
    const std::string svg = testing::TemporaryFolder::read(entry.path());
    std::smatch width;
    ASSERT_TRUE(std::regex_search(svg, width, view)) << entry.path();
    double smallest = 100;
    for (std::sregex_iterator found(svg.begin(), svg.end(), letters), end; found != end; ++found)
      smallest = std::min(smallest, std::stod((*found)[1]));
    EXPECT_GE(smallest * 880 / std::stod(width[1]), 8) << entry.path();
  }
  EXPECT_EQ(pictures, 4U);
  const std::string timeline = testing::TemporaryFolder::read(root / "docs/img/timeline.svg");
  EXPECT_NE(timeline.find(inspect::kAlarmColor), std::string::npos);
}

TEST(Documentation, ReadmeAndResultsAreShort) {
  const std::map<std::string, int> most_lines{{"README.md", 150}, {"bench/RESULTS.md", 250}};
  for (const auto& [page, most] : most_lines) {
    const std::string text = testing::TemporaryFolder::read(root / page);
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), most) << page;
  }
}

// The words of design.md's glossary, each entry's own list of them.
std::set<std::string> glossary_words() {
  const std::string design = testing::TemporaryFolder::read(root / "docs/design.md");
  std::istringstream lines(design.substr(design.find("\n## Glossary")));
  std::set<std::string> words;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| ") || line.starts_with("| word |")) continue;
    std::istringstream entry(line.substr(2, line.find(" |") - 2));
    for (std::string word; std::getline(entry >> std::ws, word, ',');) words.insert(word);
  }
  return words;
}

// Those words in the prose of a page's first `most` lines, and the ones among them that no link explains.
std::pair<std::set<std::string>, std::set<std::string>> glossary_words_in(const std::string& page, std::size_t most) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < most && end != std::string::npos; ++i) end = page.find('\n', end + (i > 0 ? 1 : 0));
  std::string prose;
  for (const std::string& line : read_page(page.substr(0, end)).prose) prose += line + "\n";
  const std::string told = std::regex_replace(prose, std::regex(R"(\]\([^)]*\))"), "]");
  std::set<std::string> used, unexplained;
  for (const std::string& word : glossary_words()) {
    const std::string form = "\\b" + word.substr(0, word.size() - (word.ends_with('y') ? 1 : 0)) +
                             (word.ends_with('y') ? "(y|ies)" : "(s|es)?") + "\\b";
    if (!std::regex_search(told, std::regex(form, std::regex::icase))) continue;
    used.insert(word);
    const std::regex link("\\[" + form + R"(\]\(docs/design\.md#glossary\))", std::regex::icase);
    if (!std::regex_search(prose, link)) unexplained.insert(word);
  }
  return {used, unexplained};
}

TEST(Documentation, ReadmeBeginsWithFewWordsOfItsOwn) {
  EXPECT_GE(glossary_words().size(), 60U);
  EXPECT_EQ(glossary_words_in("Ranks, [policies](docs/design.md#glossary)\n```\nstream\n```\nslack\n", 4),
            (std::pair<std::set<std::string>, std::set<std::string>>{{"policy", "rank"}, {"rank"}}));
  const auto [used, unexplained] = glossary_words_in(testing::TemporaryFolder::read(root / "README.md"), 60);
  EXPECT_LE(used.size(), 10U) << ::testing::PrintToString(used);
  EXPECT_EQ(unexplained, std::set<std::string>{});
}

#ifdef __SANITIZE_THREAD__
constexpr const char* kTooSlow = "pages train models, which takes too long under the thread sanitizer";
#endif

// The blocks between the two commands and the build, pasted one after the other into one shell.
TEST(Documentation, ReadmesExamplesWorkInTheirOrder) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << kTooSlow;
#endif
  const std::string readme = testing::TemporaryFolder::read(root / "README.md");
  const auto begin = readme.find("\n## Three examples"), end = readme.find("\n## What it does");
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const Page page = read_page(readme.substr(begin, end - begin));
  ASSERT_EQ(page.shell.size(), 3U);
  std::string script = "set -e\n";
  for (const std::string& block : page.shell) script += block;
  const testing::TemporaryFolder folder;
  fs::create_directory_symlink(WEFT_BINARY_DIR, folder.path() / "build");
  const testing::CommandResult result =
      testing::succeeded(testing::run({"/bin/bash", "-c", script}, folder.path().string()));
  for (const char* made : {"step.svg", "report.html"}) EXPECT_TRUE(fs::exists(folder.path() / made)) << made;
  // The policies that README compares really differ.
  std::set<std::string> steps;
  std::istringstream lines(result.output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string policy, step;
    words >> policy >> step;
    if (policy == "serial" || policy == "axonn" || policy == "program" || policy == "critical-path") steps.insert(step);
  }
  EXPECT_EQ(steps.size(), 4U) << result.output;
}

// Each of these pages stands for itself: its blocks are pasted one after the other into a shell in an empty folder,
// which is the user's home too. Folders below /tmp lie in it.
class DocumentationPage : public ::testing::TestWithParam<const char*> {};

TEST_P(DocumentationPage, CommandsWorkInTheirOrder) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << kTooSlow;
#endif
#ifdef __SANITIZE_ADDRESS__
  if (std::string_view(GetParam()) == "policies") GTEST_SKIP() << "builds with sanitizers aren't installed";
#endif
  const testing::TemporaryFolder folder;
  std::string script = "set -e\nexport HOME=$PWD\n";
  const Page page = read_page(testing::TemporaryFolder::read(root / "docs" / (std::string(GetParam()) + ".md")));
  EXPECT_FALSE(page.shell.empty());
  for (const std::string& block : page.shell) {
    script += std::regex_replace(block, std::regex(R"((^|[^\w.])/tmp/)"), "$1" + folder.path().string() + "/");
  }
  fs::create_directory_symlink(WEFT_BINARY_DIR, folder.path() / "build");
  for (const char* part : {"bench", "examples"}) fs::create_directory_symlink(root / part, folder.path() / part);
  testing::succeeded(testing::run({"/bin/bash", "-c", script}, folder.path().string()));
}

INSTANTIATE_TEST_SUITE_P(Docs, DocumentationPage,
                         ::testing::Values("train", "data", "models", "grids", "pipelines", "policies", "simulate",
                                           "machines", "traces", "graph-files", "tuning", "text", "lora",
                                           "memorisation"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace weft::tools
