#include "runtime/execute/program/agree_on_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "graph/operation.h"
#include "runtime/comm/agreement.h"
#include "runtime/plan/checker.h"
#include "runtime/plan/collective_signature.h"
#include "runtime/plan/plan_file.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"

namespace weft::execute {
namespace {

// A line for each tensor and each task: the graphs of two ranks are compared line by line.
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
  for (const auto& [problem, method] : tuning.attention()) {
    lines += fmt::format("attention {}: {}\n", to_string(problem), to_string(method));
  }
  return lines;
}

std::string line_at(std::string_view lines, std::size_t begin) {
  if (begin >= lines.size()) return "nothing more";
  return fmt::format("'{}'", lines.substr(begin, lines.find('\n', begin) - begin));
}

// The first difference between a rank's lines and rank 0's. Every rank gets the same text.
std::string first_difference(comm::World& world, std::size_t rank, const std::string& lines) {
  const std::vector<std::string> all = comm::of_ranks(world, lines);
  const std::string_view ours = all[0], theirs = all[rank];
  if (ours == theirs) return "their descriptions are equal, although the fingerprints differ";
  const auto same = static_cast<std::size_t>(
      std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end()).first - ours.begin());
  const std::size_t newline = ours.substr(0, same).rfind('\n');
  const std::size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  return fmt::format("line {}: rank {} has {} where rank 0 has {}",
                     1 + std::count(ours.begin(), ours.begin() + static_cast<std::ptrdiff_t>(begin), '\n'), rank,
                     line_at(theirs, begin), line_at(ours, begin));
}

// Which class each rank of the world belongs to.
struct ClassesOfRanks {
  comm::World& world;
  std::optional<graph::Grid> grid;  // none: all ranks are one class

  std::size_t count() const { return grid ? static_cast<std::size_t>(grid->pipe) : 1; }
  std::size_t of(std::size_t rank) const {
    return grid ? static_cast<std::size_t>(graph::coordinates_of(*grid, static_cast<std::int64_t>(rank)).pipe) : 0;
  }
};

// `own`: a rank's value. `by_class`: on rank 0, the values of all classes. Throws on all ranks if some rank has another
// value than rank 0 has for its class. For rank 0's own class the message names the first difference of `described`, a
// graph, a plan or a table.
template <class Described>
void require_rank_0s(const ClassesOfRanks& classes, std::uint64_t own, const std::vector<std::uint64_t>& by_class,
                     const Described& described, std::string_view what, std::string_view fix) {
  comm::World& world = classes.world;
  const std::vector<std::uint64_t> expected = comm::of_ranks(world, by_class).front();
  const std::vector<std::uint64_t> values = world.all_gather(own);
  std::size_t rank = 0;
  while (rank < values.size() && values[rank] == expected[classes.of(rank)]) ++rank;
  if (rank == values.size()) return;
  const std::size_t of_class = classes.of(rank);
  const std::string both = fmt::format("({:016x}, {:016x})", values[rank], expected[of_class]);
  if (of_class != classes.of(0)) {
    throw RuntimeFault(fmt::format("rank {} (pipe {}) has another {} than rank 0 makes for it {}\n  fix: {}", rank,
                                   of_class, what, both, fix));
  }
  throw RuntimeFault(fmt::format("rank {} has another {} than rank 0 {}; {}\n  fix: {}", rank, what, both,
                                 first_difference(world, rank, lines_of(described)), fix));
}

// The text of rank 0's decision. If it throws UserError or std::logic_error, every rank throws the same.
template <class Decide>
std::string text_of_rank_0(comm::World& world, const Decide& decide) {
  constexpr char kDecision = 'd', kRefusal = 'r', kBug = 'b';  // the first character
  std::string text;
  if (world.rank() == 0) {
    try {
      text = kDecision + decide();
    } catch (const UserError& error) {
      text = std::string(1, kRefusal) + error.what();
    } catch (const std::logic_error& error) {
      text = std::string(1, kBug) + error.what();
    }
  }
  text = comm::text_of_rank_0(world, text);
  const char answer = text.front();
  text.erase(0, 1);
  if (answer == kRefusal) throw UserError(text, "", "");
  if (answer == kBug) throw std::logic_error(text);
  return text;
}

/// Rank 0's decision for a rank's own class as its plan, and on rank 0 the plans of all classes.
struct PlansOfRank0 {
  std::shared_ptr<plan::Plan> own;
  std::vector<std::shared_ptr<plan::Plan>> all;
};

// The plans travel as plan files do, class by class.
PlansOfRank0 plans_of_rank_0(const ClassesOfRanks& classes, const std::vector<std::shared_ptr<const graph::Graph>>& all,
                             const std::shared_ptr<const graph::Graph>& own, const policy::Policy& policy,
                             const policy::PolicyOptions& options, std::span<const plan::Rewrite> chosen) {
  comm::World& world = classes.world;
  const std::size_t own_class = classes.of(static_cast<std::size_t>(world.rank()));
  policy::Decision decision;  // on rank 0
  PlansOfRank0 plans;
  for (std::size_t k = 0; k < classes.count(); ++k) {
    const std::string text = text_of_rank_0(world, [&] {
      if (k == 0) decision = policy::decide(all, policy, options, chosen);
      plans.all.push_back(
          std::make_shared<plan::Plan>(plan::make_plan(decision.graphs.at(k), decision.orders.at(k), policy.name())));
      return world.size() == 1 ? "" : plan::to_json({plan::filed(*plans.all.back(), decision.rewrites.at(k))});
    });
    if (k != own_class) continue;
    if (world.rank() == 0) {
      plans.own = plans.all.back();
      continue;
    }
    const plan::FiledPlan file = plan::parse_plan_file(text, "rank 0's plan").front();
    const auto rewritten = plan::rewrite(own, file.rewrites, options.weight_layouts);
    const plan::Order order = plan::order_of(file, *rewritten, "rank 0's plan", policy::reason_tables());
    plans.own = std::make_shared<plan::Plan>(plan::make_plan(rewritten, order, policy.name()));
  }
  return plans;
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
  if (products.empty()) return plan_fingerprint;
  return Fingerprint().add(plan_fingerprint).add(products.fingerprint()).value();
}

std::shared_ptr<const plan::Plan> agree_on_plan(comm::World& world, const OwnClass& own, const policy::Policy& policy,
                                                const policy::PolicyOptions& options, const GemmTuning* tuning,
                                                std::span<const plan::Rewrite> rewrites) {
  const ClassesOfRanks classes{world, own.grid};
  const std::size_t own_class = classes.of(static_cast<std::size_t>(world.rank()));
  const bool decides = world.rank() == 0;
  std::vector<std::shared_ptr<const graph::Graph>> graphs;  // this and the following lists are rank 0's, by class
  for (std::size_t k = 0; decides && k < classes.count(); ++k)
    graphs.push_back(k == own_class ? own.graph : own.of_class(static_cast<std::int64_t>(k)));
  const auto of_each = [](const auto& all, const auto& value) {
    std::vector<std::uint64_t> values;
    for (const auto& each : all) values.push_back(value(*each));
    return values;
  };
  require_rank_0s(classes, own.graph->fingerprint(), of_each(graphs, std::mem_fn(&graph::Graph::fingerprint)),
                  *own.graph, "graph", kSameConfiguration);
  const GemmTuning products = tuning != nullptr ? *tuning : GemmTuning();
  require_rank_0s({world, std::nullopt}, products.fingerprint(), {products.fingerprint()}, products,
                  "table of tuned matrix products", kOneTuning);
  const PlansOfRank0 plans = plans_of_rank_0(classes, graphs, own.graph, policy, options, rewrites);
  const plan::Plan& plan = *plans.own;
  const auto fingerprint = [&](const plan::Plan& of) { return with_products(of.fingerprint, products); };
  require_rank_0s(classes, plan.collective_fingerprint,
                  of_each(plans.all, std::mem_fn(&plan::Plan::collective_fingerprint)), plan, "order of collectives",
                  kSameBinary);
  require_rank_0s(classes, fingerprint(plan), of_each(plans.all, fingerprint), plan, "plan", kSameBinary);
  const std::string unsafe = text_of_rank_0(world, [&] {
    std::vector<const plan::Plan*> all;
    for (const auto& each : plans.all) all.push_back(each.get());
    return words_of(policy, plan::check(all));
  });
  if (!unsafe.empty()) throw RuntimeFault(unsafe);
  plans.own->fingerprint = fingerprint(plan);
  return plans.own;
}

}  // namespace weft::execute
