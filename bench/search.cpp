// How far a search's best step is from the best of an exhaustive run.
//
// The space is that of an audit of AxoNN's 80-billion-parameter model on 1,024 GPUs of Perlmutter within 37.3 GiB: all
// grids of powers of two, a micro-batch of a rank's share or of half of it, recomputation of every layer or of none.
// Every setup is planned whole by the policies with which `weft search` plans its finalists, but for choices that
// can't win in any order: their state and kept activations alone exceed the memory, or the sum of their computations or
// of their messages exceeds the best step found before.
#include "study/search/search.h"

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "bench/program.h"
#include "runtime/policy/catalog/policies.h"
#include "study/search/step_estimate.h"
#include "train/step/planning.h"

namespace weft::bench {
namespace {

train::ResolvedRun audited_run() {
  train::RunConfig config;
  config.model_name = "gpt-80b";
  config.machine = "perlmutter";
  config.dtype = config.reduce_dtype = DType::bf16;
  config.seq_len = 2048;
  config.reshard_after_forward = true;
  config.memory = static_cast<std::int64_t>(37.3 * (1 << 30));
  config.global_batch = config.micro_batch = 1;
  train::ResolvedRun run = train::resolve(config, 0);
  run.config.global_batch = 1024;
  return run;
}

std::vector<study::StepSetup> audited_choices(const train::ResolvedRun& run) {
  std::vector<study::StepSetup> choices =
      study::setups_of(run.config, 1024, {"axis-order", "reshard-after-forward", "zero-1"});
  std::erase_if(choices, [&](const study::StepSetup& setup) {
    const auto is_even = [&](graph::Axis axis) {
      return std::has_single_bit(static_cast<std::uint64_t>(setup.grid.on(axis)));
    };
    const std::int64_t share = run.config.global_batch / setup.grid.batch_ranks();
    return !std::ranges::all_of(graph::kAxes, is_even) ||
           (setup.micro_batch != share && 2 * setup.micro_batch != share);
  });
  return choices;
}

struct Planned {
  study::StepSetup setup;
  study::StepNeeds needs;
  double step_ns = std::numeric_limits<double>::infinity();
  std::string policy = {};
};

void plan(const train::ResolvedRun& run, const std::vector<policy::NamedPolicy>& policies, Planned& planned) {
  train::ResolvedRun own = run;
  own.config = study::with_setup(own.config, planned.setup);
  for (const policy::NamedPolicy& policy : policies) {
    const simulate::Report report = simulate::report_plan(train::planning_problem(own), policy);
    if (report.planned() && report.step_ns() < planned.step_ns) {
      planned.step_ns = report.step_ns();
      planned.policy = policy.name;
    }
  }
}

int run(int threads) {
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads));
  const train::ResolvedRun run = audited_run();
  study::SearchOptions options;
  options.ranks = 1024;
  options.threads = threads;
  options.policies = {policy::named_policy("program"), policy::named_policy("lhs")};
  std::vector<Planned> plans;
  for (const study::StepSetup& setup : audited_choices(run)) plans.push_back({setup, {}});
  const std::size_t choices = plans.size();
  tbb::parallel_for(std::size_t{0}, choices, [&](std::size_t i) {
    plans[i].needs = study::StepBounds(run, plans[i].setup).needs(plans[i].setup.grid.order);
  });
  std::erase_if(plans, [&](const Planned& each) { return each.needs.least_bytes > *run.config.memory; });
  std::ranges::stable_sort(plans, {}, [](const Planned& each) { return each.needs.least_ns; });
  const std::size_t may_fit = plans.size();
  double best = std::numeric_limits<double>::infinity();
  std::size_t done = 0;
  for (const auto at_once = static_cast<std::size_t>(threads); done < may_fit && plans[done].needs.least_ns < best;) {
    const std::size_t count = std::min(at_once, may_fit - done);
    tbb::parallel_for(done, done + count, [&](std::size_t i) { plan(run, options.policies, plans[i]); });
    for (const std::size_t end = done + count; done < end; ++done) {
      best = std::min(best, plans[done].step_ns);
      fmt::print(stderr, "[{}/{}] {}: {:.3f} s, not below {:.3f} s\n", done + 1, may_fit, to_string(plans[done].setup),
                 plans[done].step_ns * 1e-9, plans[done].needs.least_ns * 1e-9);
    }
  }
  std::ranges::stable_sort(plans, {}, &Planned::step_ns);
  const study::SearchResult found = study::search_configurations(run, options, [](const Status&) {});
  const study::Configuration& first = found.configurations.front();
  fmt::print("{} choices; {} may fit, {} of them were planned whole; the best takes {:.3f} s: {}, {}\n", choices,
             may_fit, done, best * 1e-9, to_string(plans.front().setup), plans.front().policy);
  fmt::print("search over the whole space: {:.3f} s ({:.1f} %): {}, {}\n", first.step_ns * 1e-9,
             100 * (first.step_ns / best - 1), to_string(first.setup), first.policy);
  return first.step_ns <= 1.02 * best ? 0 : 1;
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  CLI::App app("how far a search's best step is from the best of an exhaustive run", "bench_search");
  app.add_option("THREADS", threads, "that plan")->check(CLI::PositiveNumber)->capture_default_str();
  return weft::bench::main_of(app, argc, argv, [&] { return weft::bench::run(threads); });
}
