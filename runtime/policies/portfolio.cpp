#include "runtime/policies/portfolio.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/plan.h"
#include "runtime/policies/anneal.h"
#include "runtime/policies/axonn.h"
#include "runtime/policies/critical_path.h"
#include "runtime/policies/ddp_bucket.h"
#include "runtime/policies/fsdp.h"
#include "runtime/policies/lhs.h"
#include "runtime/policies/makespan.h"
#include "runtime/policies/program.h"
#include "runtime/policies/random.h"
#include "runtime/policies/serial.h"

namespace weft {
namespace {

constexpr int kTries = 4;  // of a list schedule whose plan is above the memory limit

struct Candidate {
  std::string name;
  Order order;
  double makespan = 0;             // nanoseconds
  std::int64_t scratch_bytes = 0;  // of its plan; 0 without a memory limit
};

/// Weighs orders of one graph.
class Judge {
 public:
  Judge(const Graph& graph, const PolicyOptions& options)
      : graph_(graph),
        borrowed_(std::shared_ptr<void>(), &graph),
        options_(options),
        costs_(costs_of(graph, options)) {}

  const TaskCosts& costs() const { return costs_; }
  bool limited() const { return options_.memory_limit > 0; }
  bool fits(const Candidate& candidate) const { return !limited() || candidate.scratch_bytes <= options_.memory_limit; }
  Candidate weigh(std::string name, Order order) const {
    Candidate candidate{std::move(name), std::move(order), 0, 0};
    candidate.makespan = makespan_of(graph_, candidate.order, costs_.ns);
    if (limited()) candidate.scratch_bytes = make_plan(borrowed_, candidate.order, candidate.name).scratch_bytes;
    return candidate;
  }
  Candidate weigh(const PortfolioPolicy::Member& member) {
    PolicyOptions options = options_;
    Candidate candidate = weigh(member.name, member.policy->order(graph_, options));
    for (int i = 1; i < kTries && member.keeps_limit && !fits(candidate); ++i) {
      const double excess = static_cast<double>(candidate.scratch_bytes) / static_cast<double>(options_.memory_limit);
      options.memory_limit = std::max<std::int64_t>(
          1, static_cast<std::int64_t>(0.99 * static_cast<double>(options.memory_limit) / excess));
      Candidate next = weigh(member.name, member.policy->order(graph_, options));
      if (next.scratch_bytes < candidate.scratch_bytes) candidate = std::move(next);
    }
    if (member.keeps_limit && fits(candidate)) list_limit_ = std::min(list_limit_, options.memory_limit);
    return candidate;
  }
  /// The limit under which list schedules keep to the options'.
  std::int64_t list_limit() const { return list_limit_; }

 private:
  const Graph& graph_;
  std::shared_ptr<const Graph> borrowed_;
  PolicyOptions options_;
  TaskCosts costs_;
  std::int64_t list_limit_ = options_.memory_limit;
};

Candidate annealed(const Graph& graph, const Judge& judge, PolicyOptions options, const Candidate& from,
                   std::int64_t moves, std::uint64_t seed) {
  options.memory_limit = judge.list_limit();
  ListScheduler scheduler(graph, judge.costs(), options);
  std::vector<double> priority = timetable_of(graph, from.order, judge.costs().ns).start;
  for (double& value : priority) value = -value;
  const Annealed found = anneal(scheduler, std::move(priority), moves, seed);
  scheduler.run(found.priority);
  return judge.weigh("anneal from " + from.name,
                     scheduler.order(fmt::format("the largest priority, as found in {} moves", moves)));
}

}  // namespace

std::vector<PortfolioPolicy::Member> PortfolioPolicy::members() {
  std::vector<Member> members;
  members.push_back({"critical-path", std::make_unique<CriticalPathPolicy>(), true});
  members.push_back({"lhs", std::make_unique<LhsPolicy>(), true});
  const std::string_view other = "memory+communication+critical";
  members.push_back({fmt::format("lhs:rules={}", other), std::make_unique<LhsPolicy>(other), true});
  members.push_back({"program", std::make_unique<ProgramPolicy>(), false});
  for (const int depth : {4, 2, 1, 0}) {
    members.push_back({fmt::format("program:depth={}", depth), std::make_unique<ProgramPolicy>(depth), false});
  }
  members.push_back({"fsdp", std::make_unique<FsdpPolicy>(), false});
  members.push_back({"ddp-bucket", std::make_unique<DdpBucketPolicy>(), false});
  members.push_back({"axonn", std::make_unique<AxonnPolicy>(), false});
  members.push_back({"random", std::make_unique<RandomPolicy>(), false});
  members.push_back({"serial", std::make_unique<SerialPolicy>(), false});
  return members;
}

PortfolioPolicy::PortfolioPolicy(PolicyParameters& parameters)
    : budget_(parameters.integer("budget", 300, 0, 100'000'000)), seed_(seed_parameter(parameters)) {}

Order PortfolioPolicy::order(const Graph& graph, const PolicyOptions& options) const {
  Judge judge(graph, options);
  Candidate best;
  bool found = false;
  const std::vector<Member> all = members();
  for (const Member& member : all) {
    Candidate candidate = judge.weigh(member);
    const bool fits = judge.fits(candidate);
    const bool better = fits ? !found || candidate.makespan < best.makespan
                             : !found && (best.name.empty() || candidate.scratch_bytes < best.scratch_bytes);
    if (better) best = std::move(candidate);
    found = found || fits;
  }
  std::string why = fmt::format("the shortest of {} orders", all.size());
  if (!found) {
    why = fmt::format("no order keeps the limit of {} bytes; of {} this one takes the least", options.memory_limit,
                      all.size());
  } else if (budget_ > 0) {
    Candidate searched = annealed(graph, judge, options, best, budget_, seed_.value_or(options.seed));
    if (judge.fits(searched) && searched.makespan < best.makespan) best = std::move(searched);
  }
  for (std::string& reason : best.order.reasons) {
    reason = fmt::format("{} ({}, {:.3f} ms): {}", best.name, why, best.makespan / 1e6, reason);
  }
  return std::move(best.order);
}

}  // namespace weft
