// README and docs as somebody reads them: the commands of every page in one folder, one page after the other, and what
// they print beside what the pages say. Varying figures of runs that are measured are masked.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;
using TextWords = std::vector<std::string>;

const fs::path repository = WEFT_SOURCE_DIR;

TextWords page_lines(const std::string& text) {
  TextWords lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// ---- comparing

/// Stands for further lines, or within a line for further text.
constexpr std::string_view kFurther = "…";

/// The figures in which a page may differ from the command.
enum class Figures : std::uint8_t {
  exact,
  some,  // columns are left out, such as the milliseconds that planning took
  vary   // times and what follows from them: the command measures
};

Figures figures_of(const std::string& command) {
  static const std::regex measures(
      "weft (train|tune|profile|eval|doctor|timeline runs|trace summary|machine measure)|--measure");
  if (command.find("--dry-run") != std::string::npos) return Figures::exact;
  if (std::regex_search(command, measures)) return Figures::vary;
  return command.find("weft compare") != std::string::npos ? Figures::some : Figures::exact;
}

/// Whether two numbers of a measured line are the same as far as they have to be. Four decimals are a loss's, whose
/// last ones depend on the CPU's instructions; other decimals are times, rates and shares.
bool same_measured(const std::string& said, const std::string& printed) {
  const auto decimals = [](const std::string& number) {
    const std::size_t point = number.find('.');
    return point == std::string::npos ? 0 : number.size() - point - 1;
  };
  if (decimals(said) == 4 && decimals(printed) == 4) return std::abs(std::stod(said) / std::stod(printed) - 1) < 0.01;
  return decimals(said) > 0 || decimals(printed) > 0 || said == printed;
}

/// The words of an output without what always varies. A text that a model writes counts as one line.
TextWords output_words(const std::string& text, Figures figures) {
  TextWords words;
  bool in_sample = false;
  for (std::string line : page_lines(text)) {
    line = std::regex_replace(line, std::regex("\\b[0-9a-f]{16}\\b"), "FINGERPRINT");
    if (figures == Figures::vary) {
      const bool sample = line.starts_with("  |");
      if (sample && std::exchange(in_sample, sample)) continue;
      in_sample = sample;
      line = std::regex_replace(line, std::regex(R"(\|[^|]*\|)"), "|BAR|");
      if (sample) line = "TEXT";
      line = std::regex_replace(line, std::regex(R"([\d.]+K? (?=(tokens/s|%|(ms|s|us|[KMG]iB)\b)))"), "0.0 ");
      line = std::regex_replace(line, std::regex(R"(\d+:\d\d)"), "TIME");
    }
    std::istringstream stream(line);
    for (std::string word; stream >> word;) words.push_back(word);
  }
  return words;
}

bool same_word(const std::string& said, const std::string& printed, Figures figures) {
  if (said == printed) return true;
  if (const std::size_t more = said.find(kFurther); more != std::string::npos) {
    const std::string head = said.substr(0, more), tail = said.substr(more + kFurther.size());
    return printed.starts_with(head) && printed.ends_with(tail) && printed.size() >= head.size() + tail.size();
  }
  static const std::regex number(R"(\d[\d,]*(\.\d+)?)");
  const bool alike = std::regex_replace(said, number, "0") == std::regex_replace(printed, number, "0");
  if (figures != Figures::vary || !alike) return false;
  const std::sregex_iterator end;
  std::sregex_iterator x(said.begin(), said.end(), number), y(printed.begin(), printed.end(), number);
  for (; x != end && y != end; ++x, ++y) {
    if (!same_measured(x->str(), y->str())) return false;
  }
  return x == y;
}

/// The words of `said` that `printed` lacks, "" if it has all. The words are beside each other except for "…", wherever
/// lines end.
std::string lacks_of(const std::string& said, const std::string& printed, Figures figures) {
  const TextWords wanted = output_words(said, figures), given = output_words(printed, figures);
  std::size_t at = 0;
  bool open = false;  // words may stand between
  for (std::size_t i = 0; i < wanted.size();) {
    if (wanted[i] == kFurther) {
      open = true;
      ++i;
      continue;
    }
    const auto end = std::find(wanted.begin() + static_cast<std::ptrdiff_t>(i), wanted.end(), kFurther);
    const std::size_t count = figures == Figures::some ? 1 : static_cast<std::size_t>(end - wanted.begin()) - i;
    const auto fits = [&](std::size_t from) {
      for (std::size_t k = 0; k < count; ++k) {
        if (from + k >= given.size() || !same_word(wanted[i + k], given[from + k], figures)) return false;
      }
      return true;
    };
    while ((open || figures == Figures::some) && at + count <= given.size() && !fits(at)) ++at;
    if (!fits(at)) {
      std::size_t same = 0;
      while (same < count && at + same < given.size() && same_word(wanted[i + same], given[at + same], figures)) ++same;
      return fmt::format("{}", fmt::join(wanted.begin() + static_cast<std::ptrdiff_t>(i + same), end, " "));
    }
    at += count;
    i += count;
    open = false;
  }
  const bool whole = open || at == given.size() || figures == Figures::some;
  return whole ? "" : "the end, before: " + given[at];
}

TEST(AllPages, OutputsAreCompared) {
  struct Case {
    std::string said, printed;
    Figures figures;
    bool same;
  };
  const std::string lost = "loss 5.6283 at the first step, 2.5215 at the last of 40 steps";
  using enum Figures;
  for (const Case& each :
       std::vector<Case>{{"a  1.5 ms\nb", "a 1.5 ms\nb\n", exact, true},
                         {"a 1.5 ms", "a 1.6 ms", exact, false},
                         {"a 1.5 ms", "a 17 ms", vary, true},
                         {"a 3 tasks", "a 4 tasks", vary, false},
                         {"a 3 tasks", "a 3 tasks of b", vary, false},
                         {lost, "loss 5.6284 at the first step, 2.5214 at the last of 40 steps", vary, true},
                         {lost, "loss 5.6284 at the first step, 2.7214 at the last of 40 steps", vary, false},
                         {lost, "loss 5.6283 at the first step, 2.5215 at the last of 41 steps", vary, false},
                         {"a\n…\nd", "a\nb\nc\nd", exact, true},
                         {"a\n…\nd", "a\nb\nc", exact, false},
                         {"a\n…\nd\n…", "a\nd\ne", exact, true},
                         {"a\nd", "a\nd\ne", exact, false},
                         {"a\n…", "b", exact, false},
                         {"weft 0.1 (…, GNU)", "weft 0.1 (abc, GNU)", exact, true},
                         {"weft 0.1 (…, GNU)", "weft 0.1 (abc, LLVM)", exact, false},
                         {"at 281K tokens/s, 0:02 in all, 97 %", "at 3.5K tokens/s, 1:12 in all, 3 %", vary, true},
                         {"plan be1a8f237191561c", "plan 9cd0e723acb805fb", exact, true},
                         {"data |==#!| 97 %", "data |#| 3 %", vary, true},
                         {"a  1.5  97", "a  1.5  23.1  97", some, true},
                         {"a  1.5  98", "a  1.5  23.1  97", some, false},
                         {"  | The thra\n  | y", "  | Other\n  |\n  | text", vary, true}}) {
    EXPECT_EQ(lacks_of(each.said, each.printed, each.figures).empty(), each.same) << each.said << "\n" << each.printed;
  }
}

// ---- the pages

/// Commands that this test leaves out.
bool is_left_out(const std::string& line) {
  constexpr std::array<std::string_view, 13> kLeftOut = {
      // Built and tested elsewhere.
      "tools/", "cmake --preset", "cmake --build --preset", "pip install", "examples/python",
      // They tell of the machine at hand, need a GPU or take hours.
      "doctor", "machine measure --ranks 2 -o mine.toml", "tune --model tiny", "--device cuda",
      "$ weft study memorisation",
      // Files and programs of others.
      "nccl_data.json", "tensorboard", "apt-get"};
  return std::ranges::any_of(kLeftOut, [&](std::string_view part) { return line.find(part) != std::string::npos; });
}

/// README and then the pages, as it links them. A GPU, other builds or days are what the rest is about.
std::vector<std::string> pages_in_order() {
  const std::string readme = testing::TemporaryFolder::read(repository / "README.md");
  static const std::regex link(R"(\]\(docs/([\w-]+)\.md)");
  const std::vector<std::string> others = {"gpu", "bench", "packages"};
  std::vector<std::string> pages;
  const auto add = [&](const std::string& name) {
    const bool is_other = std::ranges::find(others, name) != others.end();
    if (!is_other && std::ranges::find(pages, name) == pages.end()) pages.push_back(name);
  };
  for (std::sregex_iterator found(readme.begin(), readme.end(), link), end; found != end; ++found) add((*found)[1]);
  std::vector<std::string> rest;
  for (const auto& entry : fs::directory_iterator(repository / "docs")) {
    if (entry.path().extension() == ".md") rest.push_back(entry.path().stem().string());
  }
  std::ranges::sort(rest);
  for (const std::string& name : rest) add(name);
  pages.insert(pages.begin(), "README");
  return pages;
}

/// A command whose output a page shows.
struct Shown {
  std::string command;
  std::string said;
  fs::path printed;  // the file that its output goes to
};

/// All blocks of a page in one shell's script. Commands with "$ " before them are followed by what they print; a block
/// beneath a block of commands is what its last one prints. Folders below /tmp lie in `folder`.
class Script {
 public:
  Script(const std::string& page, fs::path folder) : folder_(std::move(folder)) {
    static const std::regex temporary(R"((^|[^\w.])/tmp/)");
    for (const std::string& line : page_lines(page))
      add(std::regex_replace(line, temporary, "$1" + folder_.string() + "/"));
  }
  const std::string& text() const { return text_; }
  const std::vector<Shown>& shown() const { return shown_; }

 private:
  enum class In : std::uint8_t { prose, commands, outputs, other };

  void add(const std::string& line) {
    if (line.starts_with("```")) {
      if (in_ != In::prose) return void(in_ = In::prose);
      in_ = line == "```sh" ? In::commands : line == "```" ? In::outputs : In::other;
      begins_ = true;
      return;
    }
    if (in_ == In::prose && !line.empty()) last_.clear();
    if (in_ == In::commands && !is_left_out(line)) text_ += line + "\n";
    if (in_ == In::commands) last_ = line;
    if (in_ == In::outputs) add_output(line);
    begins_ = false;
  }
  void add_output(const std::string& line) {
    const bool command = line.starts_with("$ ");
    if (begins_) shows_ = command || !last_.empty();
    if (!shows_) return;
    if (command || begins_) show(command ? line.substr(2) : last_);
    if (!command) shown_.back().said += line + "\n";
  }
  void show(const std::string& command) {
    shown_.push_back({command, "", folder_ / std::to_string(shown_.size())});
    if (is_left_out("$ " + command)) return;
    const std::string file = shown_.back().printed.string();
    text_ += fmt::format("set +e\n{{\n{}\n}} > {} 2> {}.errors\nset -e\n", command, file, file);
  }

  fs::path folder_;
  std::string text_ = "set -e\nexport HOME=$PWD\n", last_;  // of a block that ended right here
  std::vector<Shown> shown_;
  In in_ = In::prose;
  bool begins_ = false, shows_ = false;
};

TEST(AllPages, WorkInOneFolderAndPrintWhatTheySay) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "pages train models, which takes too long under sanitizers";
#endif
  const testing::TemporaryFolder folder;
  fs::create_directory_symlink(WEFT_BINARY_DIR, folder.path() / "build");
  for (const char* part : {"bench", "examples"}) fs::create_directory_symlink(repository / part, folder.path() / part);
  std::size_t compared = 0;
  for (const std::string& name : pages_in_order()) {
    const fs::path outputs = folder.path() / ("printed-by-" + name);
    fs::create_directory(outputs);
    const fs::path page = name == "README" ? repository / "README.md" : repository / "docs" / (name + ".md");
    const Script script(testing::TemporaryFolder::read(page), outputs);
    const auto result = testing::run({"/bin/bash", "-c", script.text()}, folder.path().string());
    EXPECT_EQ(result.exit_code, 0) << name << "\n" << result.errors;
    for (const Shown& shown : script.shown()) {
      if (shown.said.empty() || !fs::exists(shown.printed)) continue;
      const Figures figures = figures_of(shown.command);
      const std::string printed = testing::TemporaryFolder::read(shown.printed);
      const std::string told = testing::TemporaryFolder::read(shown.printed.string() + ".errors");  // notes and errors
      const std::string lacks = lacks_of(shown.said, printed, figures);
      const bool is_told = lacks_of(shown.said, told, figures).empty();
      EXPECT_TRUE(lacks.empty() || is_told || lacks_of(shown.said, told + printed, figures).empty())
          << lacks << "\n"
          << name << ": $ " << shown.command << "\n"
          << told << printed;
      ++compared;
    }
  }
  EXPECT_GT(compared, 40U);
}

}  // namespace
}  // namespace weft::tools
