#include "runtime/execute/agree_on_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "graph/operation_fields.h"
#include "runtime/plan/checker.h"
#include "runtime/plan/collective_signature.h"
#include "runtime/plan/order.h"
#include "runtime/policy/compile_plan.h"

namespace weft::execute {
namespace {

// One line a tensor and a task, so that two ranks' graphs can be compared by line.
std::string lines_of(const graph::Graph& graph) {
  std::string lines;
  for (const graph::Tensor& tensor : graph.tensors()) {
    lines += fmt::format("tensor {} {} {} [{}]\n", tensor.name, graph::to_string(tensor.role), to_string(tensor.dtype),
                         fmt::join(tensor.shape, ", "));
  }
  const auto value_text = []<class T>(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      return std::string(to_string(value));
    } else {
      return fmt::format("{}", value);
    }
  };
  for (const graph::Task& task : graph.tasks()) {
    lines += fmt::format("task {} {}", task.name, graph::kind_name(task.operation));
    graph::for_each_field(task.operation, [&](std::string_view name, const auto& value) {
      lines += fmt::format(" {}={}", name, value_text(value));
    });
    for (const graph::Access& access : task.accesses) {
      const graph::View& view = access.view;
      lines += fmt::format(", {} {} of {}: {}+{}x{}/{}", access.mode == graph::AccessMode::read ? "reads" : "writes",
                           view.elements(), graph.tensor(view.tensor).name, view.offset, view.rows, view.cols,
                           view.row_stride);
    }
    lines += '\n';
  }
  return lines;
}

std::string lines_of(const plan::Plan& plan) {
  std::string lines;
  for (const graph::TaskId task : plan.collectives)
    lines += plan::to_string(plan::signature_of(*plan.graph, task)) + "\n";
  return lines;
}

std::string lines_of(const GemmTuning& tuning) {
  std::string lines = fmt::format("bf16 by {}\n", tuning.bf16() ? to_string(*tuning.bf16()) : "the widest unit");
  for (const auto& [problem, method] : tuning.choices()) {
    lines += fmt::format("{}: {}\n", to_string(problem), to_string(method));
  }
  return lines;
}

std::string line_at(std::string_view lines, std::size_t begin) {
  if (begin >= lines.size()) return "nothing more";
  return fmt::format("'{}'", lines.substr(begin, lines.find('\n', begin) - begin));
}

// The first difference between two ranks' lines. Every rank gets the same text.
std::string first_difference(comm::World& world, const std::string& lines) {
  const auto all = world.all_gather_bytes(std::as_bytes(std::span(lines)));
  const auto text = [&](std::size_t rank) {
    return std::string_view(reinterpret_cast<const char*>(all[rank].data()), all[rank].size());
  };
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const std::string_view ours = text(0), theirs = text(rank);
    if (ours == theirs) continue;
    const auto same = static_cast<std::size_t>(
        std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end()).first - ours.begin());
    const std::size_t newline = ours.substr(0, same).rfind('\n');
    const std::size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
    return fmt::format("line {}: rank {} has {} where rank 0 has {}",
                       1 + std::count(ours.begin(), ours.begin() + static_cast<std::ptrdiff_t>(begin), '\n'), rank,
                       line_at(theirs, begin), line_at(ours, begin));
  }
  return "their descriptions are equal, although the fingerprints differ";
}

// Throws on all ranks if the ranks' values differ. The message names the first difference of `described`, a graph, a
// plan or a table.
template <class Described>
void require_equal(comm::World& world, std::uint64_t value, const Described& described, std::string_view what,
                   std::string_view fix) {
  const std::vector<std::uint64_t> values = world.all_gather(value);
  const auto other = std::find_if(values.begin(), values.end(), [&](std::uint64_t v) { return v != values.front(); });
  if (other == values.end()) return;
  const std::string difference = first_difference(world, lines_of(described));
  throw RuntimeFault(fmt::format("rank {} has another {} than rank 0 ({:016x}, {:016x}); {}\n  fix: {}",
                                 other - values.begin(), what, *other, values.front(), difference, fix));
}

// The bytes of rank 0's decision. If it throws UserError, every rank throws the same.
template <class Decide>
std::vector<std::byte> bytes_of_rank_0(comm::World& world, const Decide& decide) {
  enum class Answer : std::uint8_t { decision, refusal };
  std::vector<std::byte> bytes;
  if (world.rank() == 0) {
    try {
      bytes = decide();
      bytes.push_back(std::byte{static_cast<std::uint8_t>(Answer::decision)});
    } catch (const UserError& error) {
      const std::string_view message = error.what();
      const auto text = std::as_bytes(std::span(message));
      bytes.assign(text.begin(), text.end());
      bytes.push_back(std::byte{static_cast<std::uint8_t>(Answer::refusal)});
    }
  }
  world.broadcast(bytes, 0);
  const auto answer = static_cast<Answer>(bytes.back());
  bytes.pop_back();
  if (answer == Answer::refusal) {
    throw UserError(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "", "");
  }
  return bytes;
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto characters = std::as_bytes(std::span(text));
  return {characters.begin(), characters.end()};
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The plan of rank 0's decision, on every rank.
plan::Plan plan_of_rank_0(comm::World& world, const std::shared_ptr<const graph::Graph>& graph,
                          const policy::Policy& policy, const policy::PolicyOptions& options,
                          std::span<const plan::Rewrite> chosen) {
  policy::Decision decision;  // on rank 0
  const std::vector<std::byte> rewrites = bytes_of_rank_0(world, [&] {
    decision = policy::decide({&graph, 1}, policy, options, chosen);
    return bytes_of(plan::to_string(std::span<const plan::Rewrite>(decision.rewrites.front())));
  });
  const auto rewritten = plan::rewrite(graph, plan::parse_rewrites(text_of(rewrites)), options.weight_layouts);
  const std::vector<std::byte> order = bytes_of_rank_0(world, [&] { return plan::encode(decision.orders.front()); });
  return plan::make_plan(rewritten, plan::decode_order(order, *rewritten), policy.name());
}

/// A rank's own value, and on rank 0 the values of all coordinates on pipe. Throws on all ranks if some rank has
/// another value than rank 0 has for its coordinate.
void require_rank_0s(comm::World& world, const graph::Grid& grid, std::uint64_t own,
                     const std::vector<std::uint64_t>& by_pipe, std::string_view what, std::string_view fix) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(grid.pipe) * sizeof(std::uint64_t));
  if (world.rank() == 0) std::memcpy(bytes.data(), by_pipe.data(), bytes.size());
  world.broadcast(bytes, 0);
  std::vector<std::uint64_t> expected(static_cast<std::size_t>(grid.pipe));
  std::memcpy(expected.data(), bytes.data(), bytes.size());
  const std::vector<std::uint64_t> values = world.all_gather(own);
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    const std::int64_t pipe = graph::coordinates_of(grid, static_cast<std::int64_t>(rank)).pipe;
    const std::uint64_t rank_0s = expected[static_cast<std::size_t>(pipe)];
    if (values[rank] == rank_0s) continue;
    throw RuntimeFault(
        fmt::format("rank {} (pipe {}) has another {} than rank 0 makes for it ({:016x}, {:016x})\n  fix: {}", rank,
                    pipe, what, values[rank], rank_0s, fix));
  }
}

std::string words_of(const policy::Policy& policy, std::span<const plan::Violation> violations) {
  if (violations.empty()) return "";
  std::string text = fmt::format("the plan of policy '{}' is not safe:", policy.name());
  for (const plan::Violation& violation : violations) text += "\n  " + violation.message;
  return text;
}

constexpr std::string_view kSameBinary = "start all ranks with the same binary";
constexpr std::string_view kSameConfiguration = "start all ranks with the same configuration and the same binary";
constexpr std::string_view kOneTuning = "give all ranks the file of one `weft tune`";

}  // namespace

std::uint64_t with_products(std::uint64_t plan_fingerprint, const GemmTuning& products) {
  if (products.choices().empty() && !products.bf16()) return plan_fingerprint;
  return Fingerprint().add(plan_fingerprint).add(products.fingerprint()).value();
}

std::shared_ptr<const plan::Plan> agree_on_plan(comm::World& world, const std::shared_ptr<const graph::Graph>& graph,
                                                const policy::Policy& policy, const policy::PolicyOptions& options,
                                                const GemmTuning* tuning, std::span<const plan::Rewrite> rewrites) {
  require_equal(world, graph->fingerprint(), *graph, "graph", kSameConfiguration);
  const GemmTuning products = tuning != nullptr ? *tuning : GemmTuning();
  require_equal(world, products.fingerprint(), products, "table of tuned matrix products", kOneTuning);
  plan::Plan made = plan_of_rank_0(world, graph, policy, options, rewrites);
  made.fingerprint = with_products(made.fingerprint, products);
  auto plan = std::make_shared<const plan::Plan>(std::move(made));

  require_equal(world, plan->collective_fingerprint, *plan, "order of collectives", kSameBinary);
  require_equal(world, plan->fingerprint, *plan, "plan", kSameBinary);
  if (const std::string unsafe = words_of(policy, plan::check_plan(*plan)); !unsafe.empty()) throw RuntimeFault(unsafe);
  return plan;
}

std::shared_ptr<const plan::Plan> agree_on_stages(comm::World& world, const graph::Grid& grid,
                                                  const std::shared_ptr<const graph::Graph>& own,
                                                  const GraphOfStage& graph_of, const policy::Policy& policy,
                                                  const policy::PolicyOptions& options, const GemmTuning* tuning,
                                                  std::span<const plan::Rewrite> rewrites) {
  const auto pipe = static_cast<std::size_t>(graph::coordinates_of(grid, world.rank()).pipe);
  const auto stages = static_cast<std::size_t>(grid.pipe);
  const bool decides = world.rank() == 0;
  const GemmTuning products = tuning != nullptr ? *tuning : GemmTuning();

  std::vector<std::shared_ptr<const graph::Graph>> graphs;  // on rank 0
  std::vector<std::uint64_t> fingerprints;
  for (std::size_t k = 0; decides && k < stages; ++k) {
    graphs.push_back(k == pipe ? own : graph_of(static_cast<std::int64_t>(k)));
    fingerprints.push_back(graphs.back()->fingerprint());
  }
  require_rank_0s(world, grid, own->fingerprint(), fingerprints, "graph", kSameConfiguration);
  require_equal(world, products.fingerprint(), products, "table of tuned matrix products", kOneTuning);

  policy::Decision decision;  // on rank 0
  std::shared_ptr<const graph::Graph> own_graph;
  plan::Order own_order;
  for (std::size_t k = 0; k < stages; ++k) {
    const std::vector<std::byte> names = bytes_of_rank_0(world, [&] {
      if (k == 0) decision = policy::decide(graphs, policy, options, rewrites);
      return bytes_of(plan::to_string(std::span<const plan::Rewrite>(decision.rewrites.at(k))));
    });
    const std::vector<std::byte> order = bytes_of_rank_0(world, [&] { return plan::encode(decision.orders.at(k)); });
    if (k != pipe) continue;
    own_graph = plan::rewrite(own, plan::parse_rewrites(text_of(names)), options.weight_layouts);
    own_order = plan::decode_order(order, *own_graph);
  }
  plan::Plan made = plan::make_plan(own_graph, own_order, policy.name());
  made.fingerprint = with_products(made.fingerprint, products);
  auto plan = std::make_shared<const plan::Plan>(std::move(made));

  std::string unsafe;
  if (decides) {
    std::vector<plan::Plan> others(stages);
    std::vector<const plan::Plan*> all;
    for (std::size_t k = 0; k < stages; ++k) {
      if (k != pipe) others[k] = plan::make_plan(decision.graphs[k], decision.orders[k], policy.name());
      all.push_back(k == pipe ? plan.get() : &others[k]);
      fingerprints[k] = k == pipe ? plan->fingerprint : with_products(others[k].fingerprint, products);
    }
    unsafe = words_of(policy, plan::check(all));
  }
  unsafe = text_of(bytes_of_rank_0(world, [&] { return bytes_of(unsafe); }));
  require_rank_0s(world, grid, plan->fingerprint, fingerprints, "plan", kSameBinary);
  if (!unsafe.empty()) throw RuntimeFault(unsafe);
  return plan;
}

}  // namespace weft::execute
