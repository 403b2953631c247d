// The texts of reasons, which plan files and traces hold, and the way back from a text.
#include "runtime/plan/reason.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "runtime/policy/catalog/policies.h"

namespace weft::plan {
namespace {

constexpr ReasonText kTexts[] = {
    {"as it comes"},
    {"seed {}, part {} of {} ({MiB} MiB)"},
    {.pattern = "held for {ms} ms, {ms} ms → later", .for_memory = true},
    {"{policy}: {word} {word} {}"},
};
constexpr std::string_view kWords[] = {"backward", "backward for weights", "forward"};
constexpr ReasonTable kReasons{"toy", kTexts, kWords};
constexpr const ReasonTable* kTables[] = {&kReasons};

const Selection shortest_selection{
    .order = "search from lhs:rules=memory+communication+critical", .orders = 13, .makespan_ns = 1'234'000};
const Selection least_selection{.order = "fsdp", .orders = 13, .memory_limit = 4096, .makespan_ns = 2'000};
const Selection fitted_selection{
    .order = "in axonn's order", .orders = 3, .memory_limit = 4096, .keeps_limit = true, .makespan_ns = 2'000};
const Selection rewritten_selection{
    .order = "lhs", .orders = 13, .makespan_ns = 1'234'000, .rewrites = "recompute=0-3,7;reshard"};
const Selection proved_selection{
    .order = "exact search from lhs", .orders = 13, .makespan_ns = 1'234'000, .proof = Proof::optimal};
const Selection best_selection{.order = "exact search from lhs",
                               .orders = 13,
                               .makespan_ns = 1'234'000,
                               .rewrites = "reshard",
                               .proof = Proof::best_without_waits};

const std::vector<std::pair<Reason, std::string>> known_reasons{
    {{.table = &kReasons}, "as it comes"},
    {{.table = &kReasons, .code = 1, .numbers = {UINT64_MAX, 7, 31, 26'345'472}},
     "seed 18446744073709551615, part 7 of 31 (25.12 MiB)"},
    {{.table = &kReasons, .code = 2, .ns = {12'345'000, 9'000}}, "held for 12.345 ms, 0.009 ms → later"},
    {{.table = &kReasons, .code = 3, .numbers = {1, 0, 3}}, "toy: backward for weights backward 3"},
    {{.text = "because it is first"}, "because it is first"},
    {{.table = &kReasons, .selection = shortest_selection},
     "search from lhs:rules=memory+communication+critical (the shortest of 13 orders, 1.234 ms): as it comes"},
    {{.table = &kReasons, .selection = least_selection},
     "fsdp (no order keeps the limit of 4096 bytes; of 13 this one takes the least, 0.002 ms): as it comes"},
    {{.table = &kReasons, .selection = fitted_selection},
     "in axonn's order (keeps the limit of 4096 bytes; the shortest of 3 that do, 0.002 ms): as it comes"},
    {{.table = &kReasons, .selection = rewritten_selection},
     "lhs after recompute=0-3,7;reshard (the shortest of 13 orders, 1.234 ms): as it comes"},
    {{.table = &kReasons, .selection = proved_selection},
     "exact search from lhs, proved optimal (the shortest of 13 orders, 1.234 ms): as it comes"},
    {{.table = &kReasons, .selection = best_selection},
     "exact search from lhs, best among orders without waits after reshard (the shortest of 13 orders, 1.234 ms): as "
     "it "
     "comes"},
};

TEST(Reason, TheTextsOfATable) {
  for (const auto& [reason, text] : known_reasons) EXPECT_EQ(to_string(reason), text);
}

// Plan files hold texts.
TEST(Reason, ATextIsReadAsTheReasonThatMakesIt) {
  for (const auto& [reason, text] : known_reasons) {
    Reason read = parse_reason(text, kTables);
    EXPECT_NEAR(static_cast<double>(read.numbers[3]), static_cast<double>(reason.numbers[3]), 0.01 * (1 << 20));
    read.numbers[3] = reason.numbers[3];
    EXPECT_EQ(read, reason) << text;
    EXPECT_EQ(parse_reason(text, {}).text, reason.selection ? "as it comes" : text);
  }
}

// Any other text is kept unchanged.
TEST(Reason, OtherTextsAreKept) {
  for (const std::string text : {"",
                                 " ",
                                 "as it comes ",
                                 "As it comes",
                                 "seed 02, part 1 of 2 (1.00 MiB)",
                                 "seed -2, part 1 of 2 (1.00 MiB)",
                                 "seed 99999999999999999999, part 1 of 2 (1.00 MiB)",
                                 "seed , part 1 of 2 (1.00 MiB)",
                                 "seed 2, part 1 of 2",
                                 "seed 2, part 1 of 2 (1e3 MiB)",
                                 "seed 2, part 1 of 2 (25.1 MiB)",
                                 "toy: sideways backward 3",
                                 "toy: backward  3",
                                 "toys: backward backward 3",
                                 "{}",
                                 "{",
                                 "held for memory",
                                 "fsdp (the shortest of 13 orders, 0.1 ms): as it comes",
                                 "fsdp (the shortest of 13 orders",
                                 "fsdp (the shortest of x orders, 0.000 ms): as it comes"}) {
    EXPECT_EQ(parse_reason(text, kTables), Reason{.text = text});
  }
  const Selection mine{.order = "mine", .orders = 2, .makespan_ns = 1e6};
  EXPECT_EQ(parse_reason("mine (the shortest of 2 orders, 1.000 ms): luck", kTables),
            (Reason{.text = "luck", .selection = mine}));
}

TEST(Reason, OnlyRewritesAreReadAsRewrites) {
  const auto selection = [](const std::string& name) {
    return parse_reason(name + " (the shortest of 2 orders, 1.000 ms): luck", {}).selection.value();
  };
  EXPECT_EQ(selection("morning after tea after reshard").order, "morning after tea");
  EXPECT_EQ(selection("morning after tea after reshard").rewrites, "reshard");
  EXPECT_EQ(selection("morning after tea").order, "morning after tea");
  EXPECT_EQ(selection("morning after tea").rewrites, "");
}

TEST(Reason, TheSelectionOfAnOrderIsThatOfItsReasons) {
  EXPECT_EQ(selection_of({}), nullptr);
  const std::vector<Reason> reasons = {{}, {.selection = Selection{.order = "lhs"}}};
  ASSERT_NE(selection_of(reasons), nullptr);
  EXPECT_EQ(selection_of(reasons)->order, "lhs");
  EXPECT_EQ(selection_of(std::span(reasons).first(1)), nullptr);
}

TEST(Reason, WhatWaitsForMemory) {
  EXPECT_FALSE(is_for_memory({.table = &kReasons}));
  EXPECT_TRUE(is_for_memory({.table = &kReasons, .code = 2}));
  EXPECT_FALSE(is_for_memory({.text = "memory"}));
  EXPECT_TRUE(is_for_memory({.text = "for memory: it is short"}));
}

// Whatever the numbers are, a table's text is read as a reason of the same text.
TEST(Reason, OfAllPoliciesSurviveAsTexts) {
  for (const ReasonTable* table : policy::reason_tables()) {
    for (std::uint16_t code = 0; code < table->texts.size(); ++code) {
      Reason reason{.table = table, .code = code, .ns = {1e6, 2e6}};
      for (std::size_t i = 0; i < numbers_in_text(reason); ++i)
        reason.numbers[i] = table->words.empty() ? (i + 1) << 20 : i + 1;
      const Reason read = parse_reason(to_string(reason), policy::reason_tables());
      EXPECT_EQ(read.table, table) << to_string(reason);
      EXPECT_EQ(to_string(read), to_string(reason));
    }
  }
}

}  // namespace
}  // namespace weft::plan
