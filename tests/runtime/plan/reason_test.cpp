// The texts of reasons, which plan files and traces hold, and the way back from a text.
#include "runtime/plan/reason.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace weft::plan {
namespace {

const Selection shortest_selection{
    .order = "search from lhs:rules=memory+communication+critical", .orders = 13, .makespan_ns = 1'234'000};
const Selection least_selection{.order = "fsdp", .orders = 13, .memory_limit = 4096, .makespan_ns = 2'000};
const Selection fitted_selection{
    .order = "in axonn's order", .orders = 3, .memory_limit = 4096, .keeps_limit = true, .makespan_ns = 2'000};
const Selection rewritten_selection{
    .order = "lhs", .orders = 13, .makespan_ns = 1'234'000, .rewrites = "recompute=0-3,7;reshard"};

const std::vector<std::pair<Reason, std::string>> known_reasons{
    {{.kind = ReasonKind::program_order}, "program order"},
    {{.kind = ReasonKind::in_place}, "issued in place, waited for where its result is used"},
    {{.kind = ReasonKind::weight_gradient}, "weight gradient: off the chain of input gradients"},
    {{.kind = ReasonKind::bias_gradient}, "bias gradient: off the chain of input gradients"},
    {{.kind = ReasonKind::embedding_gradient}, "embedding gradient: off the chain of input gradients"},
    {{.kind = ReasonKind::gathered_no_earlier, .numbers = {3}}, "gathered no earlier than 3 layers ahead of its use"},
    {{.kind = ReasonKind::blocking}, "blocking: no computation runs while a collective does"},
    {{.kind = ReasonKind::drawn, .numbers = {UINT64_MAX}}, "drawn from the ready tasks with seed 18446744073709551615"},
    {{.kind = ReasonKind::axonn_blocking}, "blocking: the next task waits for it"},
    {{.kind = ReasonKind::axonn_reduced}, "oar: waited for after the same layer's weight gradient"},
    {{.kind = ReasonKind::axonn_scattered}, "ors: waited for at the end of the backward pass"},
    {{.kind = ReasonKind::axonn_gathered_next},
     "oag: issued when the weight gathered before it is used first, waited for by its own reader"},
    {{.kind = ReasonKind::axonn_gathered, .numbers = {4}},
     "oag: issued when the weight 4 gathers before it is used first, waited for by its own reader"},
    {{.kind = ReasonKind::axonn_data}, "data axis: after the backward pass, blocking"},
    {{.kind = ReasonKind::bucket, .numbers = {2, 7, 31, 26'345'472}},
     "bucket 2 of 7 (31 gradients, 25.12 MiB): issued when its last is ready"},
    {{.kind = ReasonKind::gathered_ahead, .numbers = {1, 2}},
     "gathered ahead: 1 layers in the forward, 2 in the backward pass"},
    {{.kind = ReasonKind::gathered_after, .numbers = {1}}, "gathered 1 layers ahead, after that layer's gradients"},
    {{.kind = ReasonKind::limiter, .numbers = {2}}, "limiter: at most 2 layers are gathered and not passed yet"},
    {{.kind = ReasonKind::reduced_after}, "gradient reduced after the rest of the backward pass"},
    {{.kind = ReasonKind::issued_after_input}, "raised: issued as soon as its input is there"},
    {{.kind = ReasonKind::issued_in_turn}, "issued after the computations that come before it"},
    {{.kind = ReasonKind::hides_before, .ns = {2'000'000, 12'345'000}},
     "reordered: 2.000 ms that hide 12.345 ms of the collective before it"},
    {{.kind = ReasonKind::prefetched, .numbers = {1024, 4096}},
     "prefetched as far as memory allows: 1024 of 4096 bytes in flight"},
    {{.kind = ReasonKind::reordered, .numbers = {12}}, "its place in the best order of a window of 12 tasks or more"},
    {{.kind = ReasonKind::only_ready}, "the only task of its stream that could start"},
    {{.kind = ReasonKind::held_for_memory}, "held back until memory was free: the forecast was above the limit"},
    {{.kind = ReasonKind::above_memory_limit},
     "above the memory limit: nothing fits, and this comes first in the program"},
    {{.kind = ReasonKind::best_ready}, "the ready task with the longest path to the end of the step"},
    {{.kind = ReasonKind::best_ready,
      .priority = Priority::annealed_critical_path,
      .numbers = {500},
      .ns = {12'345'000, 9'000}},
     "the ready task with the largest priority, found in 500 moves from critical-path with sweeps (12.345 → "
     "0.009 ms)"},
    {{.kind = ReasonKind::best_ready, .priority = Priority::swept},
     "the ready task with the largest priority, found by sweeps"},
    {{.kind = ReasonKind::best_ready, .priority = Priority::as_ordered},
     "the ready task with the earliest start in the policy's own order"},
    {{.kind = ReasonKind::tied_ready, .priority = Priority::annealed, .numbers = {600}},
     "first in program order of the ready tasks that tie on the largest priority, found in 600 moves"},
    {{.kind = ReasonKind::rule_memory}, "memory: above half of the limit, it leaves the fewest bytes alive"},
    {{.kind = ReasonKind::rule_release}, "release: it completes the inputs of the longest collectives"},
    {{.kind = ReasonKind::rule_near}, "near: the shortest path to the next collective starts with it"},
    {{.kind = ReasonKind::rule_communication}, "communication: a path from it has the most communication"},
    {{.kind = ReasonKind::rule_hide}, "hide: its time is closest to the remaining time of the running collectives"},
    {{.kind = ReasonKind::rule_critical}, "critical: the longest path to the end of the step leads through it"},
    {{.kind = ReasonKind::rule_unlock}, "unlock: it makes the most tasks ready"},
    {{.kind = ReasonKind::rule_consumer}, "consumer: its result is read earliest in program order"},
    {{.kind = ReasonKind::rule_less_memory}, "less-memory: it leaves the fewest bytes alive"},
    {{.kind = ReasonKind::rule_program}, "program: all other rules tie, and it comes first in program order"},
    {{.kind = ReasonKind::not_given}, "the library gives no reason"},
    {{.kind = ReasonKind::other, .text = "because it is first"}, "because it is first"},
    {{.kind = ReasonKind::rule_unlock, .selection = shortest_selection},
     "search from lhs:rules=memory+communication+critical (the shortest of 13 orders, 1.234 ms): unlock: it makes "
     "the most tasks ready"},
    {{.kind = ReasonKind::limiter, .numbers = {2}, .selection = least_selection},
     "fsdp (no order keeps the limit of 4096 bytes; of 13 this one takes the least, 0.002 ms): limiter: at most 2 "
     "layers are gathered and not passed yet"},
    {{.kind = ReasonKind::limiter, .numbers = {2}, .selection = fitted_selection},
     "in axonn's order (keeps the limit of 4096 bytes; the shortest of 3 that do, 0.002 ms): limiter: at most 2 "
     "layers are gathered and not passed yet"},
    {{.kind = ReasonKind::rule_unlock, .selection = rewritten_selection},
     "lhs after recompute=0-3,7;reshard (the shortest of 13 orders, 1.234 ms): unlock: it makes the most tasks "
     "ready"},
};

TEST(Reason, TheTextsOfAllKinds) {
  std::set<ReasonKind> kinds;
  for (const auto& [reason, text] : known_reasons) {
    EXPECT_EQ(to_string(reason), text);
    kinds.insert(reason.kind);
  }
  EXPECT_EQ(kinds.size(), static_cast<std::size_t>(ReasonKind::other) + 1);
}

// Plan files hold texts.
TEST(Reason, ATextIsReadAsTheKindThatMakesIt) {
  for (const auto& [reason, text] : known_reasons) {
    const Reason read = parse_reason(text);
    EXPECT_EQ(read.kind, reason.kind) << text;
    EXPECT_EQ(read.priority, reason.priority) << text;
    EXPECT_EQ(to_string(read), text);
    EXPECT_EQ(read.selection.has_value(), reason.selection.has_value()) << text;
    if (reason.selection) {
      EXPECT_EQ(read.selection->order, reason.selection->order);
      EXPECT_EQ(read.selection->rewrites, reason.selection->rewrites);
    }
    for (std::size_t i = 0; i < reason.ns.size(); ++i) EXPECT_NEAR(read.ns[i], reason.ns[i], 500) << text;
    if (reason.kind != ReasonKind::bucket) {
      EXPECT_EQ(read.numbers, reason.numbers) << text;
    }
  }
  const Reason bucket = parse_reason("bucket 2 of 7 (31 gradients, 25.12 MiB): issued when its last is ready");
  EXPECT_EQ(bucket.numbers[2], 31U);
  EXPECT_NEAR(static_cast<double>(bucket.numbers[3]), 25.12 * (1 << 20), 1);
}

// Any other text is kept unchanged.
TEST(Reason, OtherTextsAreKept) {
  for (const std::string text :
       {"", " ", "program order ", "Program order", "limiter: at most 02 layers are gathered and not passed yet",
        "limiter: at most -2 layers are gathered and not passed yet",
        "limiter: at most 99999999999999999999 layers are gathered and not passed yet",
        "limiter: at most  layers are gathered and not passed yet", "limiter: at most 2",
        "bucket 2 of 7 (31 gradients, 1e3 MiB): issued when its last is ready",
        "bucket 2 of 7 (31 gradients, 25.1 MiB): issued when its last is ready", "the ready task with ",
        "the ready task with luck", "{}", "{", "held for memory",
        "fsdp (the shortest of 13 orders, 0.1 ms): unlock: it makes the most tasks ready",
        "fsdp (the shortest of 13 orders", "fsdp (the shortest of x orders, 0.000 ms): program order"}) {
    const Reason read = parse_reason(text);
    EXPECT_EQ(read.kind, ReasonKind::other) << text;
    EXPECT_EQ(to_string(read), text);
  }
  const Reason selected = parse_reason("mine (the shortest of 2 orders, 1.000 ms): luck");
  EXPECT_EQ(selected.kind, ReasonKind::other);
  EXPECT_EQ(selected.text, "luck");
  EXPECT_EQ(selected.selection, (Selection{.order = "mine", .orders = 2, .makespan_ns = 1e6}));
}

TEST(Reason, OnlyRewritesAreReadAsRewrites) {
  const auto selection = [](const std::string& name) {
    return parse_reason(name + " (the shortest of 2 orders, 1.000 ms): program order").selection.value();
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
  EXPECT_TRUE(is_for_memory({.kind = ReasonKind::held_for_memory}));
  EXPECT_TRUE(is_for_memory({.kind = ReasonKind::above_memory_limit}));
  EXPECT_TRUE(is_for_memory({.kind = ReasonKind::limiter}));
  EXPECT_TRUE(is_for_memory({.kind = ReasonKind::rule_memory}));
  EXPECT_TRUE(is_for_memory({.kind = ReasonKind::rule_less_memory}));
  EXPECT_FALSE(is_for_memory({.kind = ReasonKind::rule_consumer}));
  EXPECT_FALSE(is_for_memory({.kind = ReasonKind::other, .text = "memory"}));
}

}  // namespace
}  // namespace weft::plan
