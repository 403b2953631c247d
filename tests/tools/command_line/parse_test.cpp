// Words of a command line on a small description: the values that they store, and refusals.
#include "tools/command_line/parse.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tools/command_line/commands.h"

namespace weft::tools {
namespace {

using Words = std::vector<std::string>;

/// Targets of a description with options of all kinds.
struct Line {
  bool loud = false, saves = true;
  int depth = 4;
  double noise = 0;
  std::string input, output = "a.svg", kind = "train";
  std::vector<std::string> policies, assignments;
  std::vector<int> ranks;

  Command root() {
    Command draw{"draw", "draws"};
    draw.add({.names = "input", .target = &input});
    draw.add({.names = "--loud", .target = &loud});
    draw.add({.names = "--save", .target = &saves});
    draw.add({.names = "--depth", .target = &depth, .value = "N", .least = 1, .most = 4});
    draw.add({.names = "--noise", .target = &noise, .value = "X", .least = 0});
    draw.add({.names = "-o,--output", .target = &output, .value = "FILE"});
    draw.add({.names = "--kind", .target = &kind, .value = "KIND", .choices = {"train", "eval"}});
    draw.add({.names = "--policies", .target = &policies, .value = "POLICY"});
    draw.add({.names = "--rank", .target = &ranks, .value = "RANK", .least = 0});
    draw.add({.names = "--set",
              .target = [this](const std::string& value) { assignments.push_back(value); },
              .value = "KEY=VALUE",
              .arity = Arity::each});
    Command check{"check", "checks"};
    check.add({.names = "trace", .target = &input, .required = true});
    Command trace{"trace", "traces"};
    trace.subcommands = {check};
    Command weft{"weft", "all"};
    weft.subcommands = {draw, trace};
    return weft;
  }
  CommandCall::Wants parse(const Words& words) {
    const Command weft = root();
    return parse_command_line(weft, words).wants;
  }
  std::string refusal(const Words& words) {
    return testing::message_of<UserError>([&] { parse(words); });
  }
};

TEST(ParseCommandLine, StoresValuesOfEveryType) {
  Line line;
  EXPECT_EQ(line.parse({"draw", "step.toml", "--depth", "2", "--noise=0.5", "-o", "b.svg", "--kind", "eval"}),
            CommandCall::Wants::run);
  EXPECT_EQ(line.input, "step.toml");
  EXPECT_EQ(line.depth, 2);
  EXPECT_EQ(line.noise, 0.5);
  EXPECT_EQ(line.output, "b.svg");
  EXPECT_EQ(line.kind, "eval");
}

TEST(ParseCommandLine, TheLastOfSeveralCounts) {
  Line line;
  line.parse({"draw", "--depth", "2", "-o", "b.svg", "--depth=3", "--output", "c.svg"});
  EXPECT_EQ(line.depth, 3);
  EXPECT_EQ(line.output, "c.svg");
}

TEST(ParseCommandLine, ListsTakeSeveralWordsAndRepeatedFlagsOneEach) {
  Line line;
  line.parse(
      {"draw", "--policies", "serial", "program", "--set", "a=1", "--set", "b_c=2", "step.toml", "--rank", "0,2", "5"});
  EXPECT_EQ(line.policies, (Words{"serial", "program"}));
  EXPECT_EQ(line.assignments, (Words{"a=1", "b_c=2"}));
  EXPECT_EQ(line.ranks, (std::vector<int>{0, 2, 5}));
  EXPECT_EQ(line.input, "step.toml");
}

TEST(ParseCommandLine, ASwitchNeverEatsTheNextWord) {
  Line line;
  line.parse({"draw", "--loud", "run.toml"});
  EXPECT_TRUE(line.loud);
  EXPECT_EQ(line.input, "run.toml");
}

TEST(ParseCommandLine, ASwitchIsTrueOrFalse) {
  struct Case {
    Words words;
    bool loud, saves;
  };
  for (const Case& expected : std::vector<Case>{{{}, false, true},
                                                {{"--loud"}, true, true},
                                                {{"--loud=on"}, true, true},
                                                {{"--loud", "true", "--save", "off"}, true, false},
                                                {{"--no-save"}, false, false},
                                                {{"--save=false"}, false, false},
                                                {{"--no_save", "--loud", "--no-loud"}, false, false}}) {
    Line line;
    Words words{"draw"};
    words.insert(words.end(), expected.words.begin(), expected.words.end());
    line.parse(words);
    EXPECT_EQ(line.loud, expected.loud) << ::testing::PrintToString(words);
    EXPECT_EQ(line.saves, expected.saves) << ::testing::PrintToString(words);
    EXPECT_EQ(line.input, "");
  }
  Line line;
  EXPECT_NE(line.refusal({"draw", "--loud=maybe"}).find("expected true, false, on or off"), std::string::npos);
  EXPECT_NE(line.refusal({"draw", "--no-depth"}).find("unknown flag --no-depth"), std::string::npos);
}

TEST(ParseCommandLine, UnderscoresMeanDashesInFlagsOnly) {
  Line line;
  line.parse({"draw", "a_b.toml", "--output=x_y.svg"});
  EXPECT_EQ(line.input, "a_b.toml");
  EXPECT_EQ(line.output, "x_y.svg");
}

TEST(ParseCommandLine, FindsTheHelpThatIsMeant) {
  Line line;
  const Command root = line.root();
  const auto name = [&](const Words& words) {
    const CommandCall call = parse_command_line(root, words);
    return full_name(call.path) + (call.wants == CommandCall::Wants::short_help  ? " -h"
                                   : call.wants == CommandCall::Wants::long_help ? " --help"
                                   : call.wants == CommandCall::Wants::version   ? " --version"
                                                                                 : "");
  };
  EXPECT_EQ(name({}), "weft");
  EXPECT_EQ(name({"-h"}), "weft -h");
  EXPECT_EQ(name({"help"}), "weft --help");
  EXPECT_EQ(name({"help", "draw"}), "weft draw --help");
  EXPECT_EQ(name({"draw", "--depth", "2", "-h"}), "weft draw -h");
  EXPECT_EQ(name({"trace", "--help"}), "weft trace --help");
  EXPECT_EQ(name({"trace", "check", "--help"}), "weft trace check --help");  // before a missing argument is refused
  EXPECT_EQ(name({"--version"}), "weft --version");
}

TEST(ParseCommandLine, RefusesByName) {
  struct Bad {
    Words words;
    const char* part;
  };
  for (const Bad& bad : std::vector<Bad>{{{"drew"}, "did you mean draw?"},
                                         {{"draw", "--dept", "2"}, "did you mean --depth?"},
                                         {{"draw", "a", "b"}, "unexpected argument \"b\""},
                                         {{"draw", "--depth", "5"}, "--depth = 5 is out of range"},
                                         {{"draw", "--depth", "x"}, "--depth = \"x\" is not an integer"},
                                         {{"draw", "--rank", "99999999999"}, "--rank = 99999999999 is out of range"},
                                         {{"draw", "--rank", "0,,1"}, "--rank = \"\" is not an integer"},
                                         {{"draw", "--kind", "evil"}, "did you mean eval?"},
                                         {{"draw", "--output"}, "--output has no value"},
                                         {{"draw", "--output", "--loud"}, "--output FILE"},
                                         {{"draw", "--kind"}, "--kind train, or --kind eval"},
                                         {{"draw", "--out", "x"}, "did you mean --output?"},
                                         {{"trace", "check"}, "trace is required"},
                                         {{"trace"}, "nothing to do; expected one of check"},
                                         {{"trace", "chekc", "x"}, "did you mean check?"},
                                         {{"trace", "check", "x", "--loud"}, "leave it out: it belongs to draw"},
                                         {{"draw", "--data", "x"}, "weft draw doesn't read --data"}}) {
    Line line;
    const std::string message = line.refusal(bad.words);
    EXPECT_NE(message.find(bad.part), std::string::npos) << bad.part << "\nisn't in " << message;
  }
}

/// The message that refuses an output's name, "" if the words are taken. Nothing runs.
std::string refusal_of_output(const Words& words) {
  static const Command weft = describe_weft("weft");
  return testing::message_of<UserError>([&] { parse_command_line(weft, words); });
}

TEST(ParseCommandLine, AnOutputNeverHasTheEndingOfAnotherForm) {
  const std::vector<Words> refused = {{"search", "-o", "x.html"},
                                      {"search", "--svg", "x.png"},
                                      {"plan", "-o", "x.svg"},
                                      {"profile", "-o", "x.toml"},
                                      {"tune", "-o", "x.csv"},
                                      {"simulate", "-o", "x.json.svg"},
                                      {"explain", "-o", "x.html"},
                                      {"report", "run", "-o", "x.md"},
                                      {"sweep", "--over", "ranks=1", "-o", "x.csv"},
                                      {"bench", "-o", "x.html"},
                                      {"export", "run", "-o", "model.json"},
                                      {"machine", "measure", "-o", "x.json"}};
  for (const Words& words : refused) {
    EXPECT_NE(refusal_of_output(words).find(words.back() + ": the name ends"), std::string::npos)
        << words.front() << " " << words.back();
  }
  for (const Words& words : std::vector<Words>{{"search", "-o", "x.toml"},
                                               {"search", "-o", "best"},
                                               {"search", "-o", "of.20-ranks"},
                                               {"simulate", "-o", "x.json.gz"},
                                               {"plan", "-o", "x.json"},
                                               {"bench", "-o", "results-0.1"},
                                               {"graph", "-o", "x.html"},
                                               {"graph", "-o", "x.graph.json"},
                                               {"timeline", "-o", "x.png"},
                                               {"compare", "-o", "x.csv", "-o", "x.svg"},
                                               {"tokenize", "-o", "x.bin"},
                                               {"tokenize", "-o", "tokenizer.json"},
                                               {"trace", "import", "a.json", "-o", "a.graph.json.gz"}}) {
    EXPECT_EQ(refusal_of_output(words), "") << words.front();
  }
}

}  // namespace
}  // namespace weft::tools
