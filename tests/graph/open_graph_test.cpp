// What can't be a step is refused by name.
#include "graph/open_graph.h"

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string_view>

#include "base/error.h"
#include "tests/base/messages.h"

namespace weft::graph {
namespace {

OpenGraph good_graph() {
  OpenGraph graph;
  graph.world = 2;
  graph.channels = {{"c", 2, {{0, 1}}, ""}};
  OpenClass one;
  one.ranks = {0, 1};
  one.streams = {{"compute"}, {"c", false, 0}};
  one.tensors = {{"t", 8, false}};
  one.tasks.resize(2);
  one.tasks[0].name = "a";
  one.tasks[1].name = "b";
  one.tasks[0].accesses = {{0, AccessMode::write}};
  one.tasks[1].accesses = {{0, AccessMode::read}};
  one.edges = {{0, 1}};
  graph.classes = {one};
  return graph;
}

using Class = OpenClass;
using Open = OpenGraph;

/// A good graph is refused after a change.
void refused(const std::function<void(Open&, Class&)>& change, std::initializer_list<std::string_view> parts) {
  Open graph = good_graph();
  change(graph, graph.classes[0]);
  EXPECT_TRUE(refuses([&] { check(graph); }, parts));
}

TEST(OpenGraph, AStepIsAccepted) {
  EXPECT_NO_THROW(check(good_graph()));
}

TEST(OpenGraph, RefusesNamesAndIndices) {
  refused([](Open& g, Class&) { g.classes.clear(); }, {"no classes"});
  refused([](Open&, Class& c) { c.tasks.clear(); }, {"no tasks"});
  refused([](Open&, Class& c) { c.tasks[1].name = "a"; }, {"two tasks are named 'a'", "rename"});
  refused([](Open&, Class& c) { c.tasks[1].name = ""; }, {"a task has no name"});
  refused([](Open&, Class& c) { c.streams[1].name = "compute"; }, {"two streams are named 'compute'"});
  refused([](Open& g, Class&) { g.channels.push_back({"c"}); }, {"two channels"});
  refused([](Open&, Class& c) { c.tasks[1].stream = 2; }, {"task 'b': stream 2", "from 0 to 1"});
  refused([](Open&, Class& c) { c.tasks[1].accesses[0].tensor = 1; }, {"task 'b': tensor 1"});
  refused(
      [](Open& g, Class& c) {
        g.channels.clear();
        c.tasks[1].kind = OpenKind::send, c.tasks[1].channel = 0;
        c.streams.pop_back();
      },
      {"task 'b': channel 0", "lists none"});
  refused([](Open&, Class& c) { c.edges[0].to = 2; }, {"edge from 0 to 2", "task 2"});
  refused([](Open&, Class& c) { c.ranks = {0, 2}; }, {"rank 2 doesn't exist", "world is 2"});
  refused([](Open&, Class& c) { c.ranks = {1, 0}; }, {"rank 0 stands after rank 1"});
  refused(
      [](Open& g, Class& c) {
        const OpenClass copy = c;
        g.classes[0].name = "x";
        g.classes.push_back(copy);
        g.classes[1].name = "y";
      },
      {"rank 0 is in two classes"});
  refused([](Open& g, Class&) { g.channels[0].groups = {{0, 5}}; }, {"channel 'c': rank 5"});
}

TEST(OpenGraph, RefusesContradictions) {
  refused([](Open&, Class& c) { c.edges[0] = {1, 0}; }, {"from task 'b' to 'a'", "an order that the edges allow"});
  refused([](Open&, Class& c) { c.edges[0].confidence = 1.5; }, {"confidence 1.5"});
  refused([](Open&, Class& c) { c.tasks[0].kind = OpenKind::collective; }, {"'a' is a collective without a channel"});
  refused([](Open&, Class& c) { c.tasks[0].channel = 0; }, {"has a channel", "compute"});
  refused([](Open&, Class& c) { c.tasks[0].ns = -1; }, {"task 'a': a time is -1"});
  refused([](Open&, Class& c) { c.tasks[0].begin_ns = 1; }, {"no end_ns after its begin_ns"});
  refused([](Open&, Class& c) { c.tasks[0].begin_ns = 2, c.tasks[0].end_ns = 1; }, {"no end_ns after its begin_ns"});
  refused([](Open&, Class& c) { c.tasks[0].accesses.clear(); }, {"'b' reads tensor 't', which no earlier", "outlives"});
  refused([](Open&, Class& c) { c.tensors[0].role = Role::cache; }, {"tensor 't' has the role cache", "false"});
  refused([](Open&, Class& c) { c.streams[1].host = true; }, {"stream 'c' is of a CPU thread and of a channel"});
}

TEST(OpenGraph, ATensorThatOutlivesTheStepNeedsNoWriter) {
  OpenGraph graph = good_graph();
  graph.classes[0].tasks[0].accesses.clear();
  graph.classes[0].tensors[0].outlives_step = true;
  EXPECT_NO_THROW(check(graph));
  graph.classes[0].tensors[0].outlives_step = false;
  graph.classes[0].edges_from_accesses = false;
  EXPECT_NO_THROW(check(graph));
}

}  // namespace
}  // namespace weft::graph
