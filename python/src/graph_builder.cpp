#include "python/src/graph_builder.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace weft::python {
namespace {

using Names = std::map<std::string, std::uint32_t, std::less<>>;

void add(Names& names, std::string_view what, const std::string& name) {
  const bool added = names.emplace(name, static_cast<std::uint32_t>(names.size())).second;
  if (added) return;
  throw UserError(fmt::format("{} '{}' comes twice", what, name), "a name of its own", "rename one of them");
}

std::uint32_t find(const Names& names, std::string_view what, const std::string& name, const std::string& task) {
  if (const auto found = names.find(name); found != names.end()) return found->second;
  std::vector<std::string> known;
  known.reserve(names.size());
  for (const auto& [each, number] : names) known.push_back(each);
  const std::string nearest = nearest_name(name, known);
  throw UserError(fmt::format("task '{}': {} '{}' isn't there", task, what, name), "a name that was added before",
                  nearest.empty() ? fmt::format("add the {} first", what) : fmt::format("'{}'?", nearest));
}

template <class Value, std::size_t count>
Value word_of(std::string_view word, const std::array<Value, count>& values, std::string_view what) {
  std::vector<std::string> known;
  for (const Value value : values) {
    if (to_string(value) == word) return value;
    known.emplace_back(to_string(value));
  }
  throw UserError(fmt::format("{} '{}'", what, word), fmt::format("one of {}", join(known)), "use one of these words");
}

}  // namespace

GraphBuilder::GraphBuilder(std::string name) {
  graph_.name = std::move(name);
  graph_.source = "python";
  graph::OpenClass& one = graph_.classes.emplace_back();
  one.ranks = {0};
  one.streams.push_back({.name = "compute"});
}

void GraphBuilder::add_channel(const std::string& name, std::int64_t group_size, const std::string& link) {
  add(channels_, "channel", name);
  graph_.channels.push_back({name, group_size, {}, link});
}

void GraphBuilder::add_tensor(const std::string& name, std::int64_t bytes, bool outlives_step) {
  add(tensors_, "tensor", name);
  graph_.classes.front().tensors.push_back({name, bytes, outlives_step, {}});
}

void GraphBuilder::add_task(const Task& task) {
  using graph::OpenKind;
  graph::OpenClass& one = graph_.classes.front();
  graph::OpenTask added;
  added.name = task.name;
  added.kind = word_of(task.kind,
                       std::array{OpenKind::compute, OpenKind::collective, OpenKind::send, OpenKind::receive,
                                  OpenKind::copy, OpenKind::host},
                       "a task's kind is");
  added.operation = task.operation.empty() ? task.kind : task.operation;
  added.ns = task.cost_ns;
  added.layer = task.layer;
  added.micro_batch = task.micro_batch;
  if (added.kind == OpenKind::compute) added.stream = 0;
  if (task.channel) added.channel = static_cast<std::int32_t>(find(channels_, "channel", *task.channel, task.name));
  if (!task.phase.empty()) {
    added.phase = word_of(task.phase, std::array{graph::Phase::forward, graph::Phase::backward, graph::Phase::update},
                          "a phase is");
  }
  for (const std::string& name : task.reads) {
    added.accesses.push_back({find(tensors_, "tensor", name, task.name), graph::AccessMode::read});
  }
  for (const std::string& name : task.writes) {
    const std::uint32_t tensor = find(tensors_, "tensor", name, task.name);
    bool updates = false;
    for (graph::OpenAccess& access : added.accesses) {
      if (access.tensor != tensor) continue;
      access.mode = graph::AccessMode::read_write;
      updates = true;
    }
    if (!updates) added.accesses.push_back({tensor, graph::AccessMode::write});
  }
  std::vector<std::uint32_t> before;
  before.reserve(task.after.size());
  for (const std::string& name : task.after) before.push_back(find(tasks_, "task", name, task.name));
  add(tasks_, "task", task.name);
  const auto index = static_cast<std::uint32_t>(one.tasks.size());
  one.tasks.push_back(std::move(added));
  for (const std::uint32_t from : before) one.edges.push_back({.from = from, .to = index});
}

graph::OpenGraph GraphBuilder::built() const {
  graph::check(graph_);
  return graph_;
}

}  // namespace weft::python
