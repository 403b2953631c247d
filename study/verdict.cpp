#include "study/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/units.h"

namespace weft::study {
namespace {

// A step this near its bound is bound by its work: what an order could still gain is little, or even nothing.
constexpr double kNearBound = 0.05, kAtBound = 0.005;
// The share of a step in which what bounds it is busy. The rest is the begin and the end, where nothing else runs.
constexpr double kBusy = 0.75;
constexpr std::size_t kMostChanges = 3;

std::string in_ms_text(double ns) {
  return fmt::format("{:.3f}", ns * 1e-6);
}

std::string more_memory(const simulate::Report& before, const simulate::Report& after) {
  const std::int64_t more = after.memory_bytes() - before.memory_bytes();
  return more >= 1 << 20 ? fmt::format("+{} of memory", human_bytes(static_cast<std::uint64_t>(more))) : "";
}

/// The numbered remedies; one that several collectives need names their group.
std::vector<Change> numbered_remedies(const simulate::Explanation& explanation) {
  std::vector<Change> changes;
  const auto add = [&](const std::vector<simulate::Remedy>& remedies, const std::string& of) {
    for (const simulate::Remedy& each : remedies) {
      if (each.number == 0) continue;
      const bool rewrite = each.kind == simulate::RemedyKind::rewrite;
      Change& change = changes.emplace_back(
          Change{rewrite ? fmt::format("--rewrites \"{}\"", each.what) : each.what, each.gain_ns, of, each.number});
      if (each.memory_bytes >= 1 << 20) {
        change.note += fmt::format("{}+{} of memory", of.empty() ? "" : "; ",
                                   human_bytes(static_cast<std::uint64_t>(each.memory_bytes)));
      }
    }
  };
  for (const simulate::ExposureGroup& group : explanation.groups) add(group.remedies, "of " + group.name);
  add(explanation.between_passes, "");
  add(explanation.rewrites, "");
  return changes;
}

/// Divided by its smallest factor; 1 stays.
std::int64_t fewer(std::int64_t ranks) {
  std::int64_t factor = 2;
  while (factor < ranks && ranks % factor != 0) ++factor;
  return ranks > 1 ? ranks / factor : 1;
}

}  // namespace

std::string_view identifier_of(BoundBy by) {
  switch (by) {
    case BoundBy::order:
      return "order";
    case BoundBy::computing:
      return "computing";
    case BoundBy::communication:
      return "communication";
    case BoundBy::dependencies:
      return "dependencies";
    case BoundBy::host:
      return "host";
    case BoundBy::copying:
      return "copying";
    case BoundBy::ranks:
      return "ranks";
  }
  return "";
}

std::optional<BoundBy> find_bound(std::string_view identifier) {
  for (int i = 0; i <= static_cast<int>(BoundBy::ranks); ++i) {
    if (identifier_of(static_cast<BoundBy>(i)) == identifier) return static_cast<BoundBy>(i);
  }
  return std::nullopt;
}

std::vector<Change> other_settings(const PolicyStep& step,
                                   const std::function<PolicyStep(train::ResolvedRun run)>& plan) {
  std::vector<Change> found;
  if (!step.run) return found;
  const train::RunConfig& config = step.run->config;
  const auto add = [&](std::string what, std::string note, const std::function<void(train::RunConfig&)>& change) {
    try {
      train::ResolvedRun run = *step.run;
      change(run.config);
      const PolicyStep other = plan(std::move(run));
      if (!other.report.planned()) return;
      const std::string memory = more_memory(step.report, other.report);
      note += (note.empty() || memory.empty() ? "" : "; ") + memory;
      found.push_back({std::move(what), step.report.step_ns() - other.report.step_ns(), std::move(note)});
    } catch (const UserError&) {  // the configuration can't be so, or nobody measured its tasks
    }
  };
  constexpr const char* kRoundings = "changes roundings";
  const bool measured = step.run->profile != nullptr;  // whose tasks have other types
  if (!measured && config.grid.ranks() > 1 && config.reduce_dtype == DType::f32) {
    add("--reduce-dtype bf16", kRoundings, [](train::RunConfig& run) { run.reduce_dtype = DType::bf16; });
  }
  if (!measured && config.recompute != train::Recompute::none) {
    add("--recompute none", "", [](train::RunConfig& run) { run.recompute = train::Recompute::none; });
  }
  if (config.micro_batch > 1 && config.micro_batch % 2 == 0) {
    add(fmt::format("--micro-batch {}", config.micro_batch / 2), kRoundings,
        [](train::RunConfig& run) { run.micro_batch /= 2; });
  }
  const auto add_grid = [&](graph::Grid grid) {
    add(fmt::format("--grid {}", graph::to_string(grid)), kRoundings, [&](train::RunConfig& run) { run.grid = grid; });
  };
  for (std::int64_t graph::Grid::*fold : {&graph::Grid::expert, &graph::Grid::context}) {
    graph::Grid grid = config.grid;
    grid.*fold = fewer(grid.*fold);
    const bool fits = config.global_batch % (grid.batch_ranks() * config.micro_batch) == 0;
    if (!measured && grid.*fold < config.grid.*fold && fits) add_grid(grid);
  }
  return found;
}

Verdict verdict_of(const simulate::Report& report, std::size_t of_class, const simulate::Explanation& explanation,
                   std::vector<Change> settings) {
  const double step = report.step_ns(), bound = report.bounds.best();
  const simulate::ClassTimes& times = report.classes[of_class].times;
  Verdict verdict;
  const bool near = bound > 0 && step <= bound * (1 + kNearBound);
  verdict.busy_ns = std::max(times.compute, times.communication);
  const std::string order = step <= bound * (1 + kAtBound)
                                ? fmt::format("no order helps, as none takes less than {} ms", in_ms_text(bound))
                                : fmt::format("an order gains at most {} ms", in_ms_text(step - bound));
  if (!near) {
    verdict.busy_ns = step - bound;
    verdict.text =
        fmt::format("bound by its order: {} of {} ms above what any order needs; {} ms of communication exposed",
                    in_ms_text(step - bound), in_ms_text(step), in_ms_text(times.exposed));
  } else if (verdict.busy_ns < kBusy * step) {
    verdict.by = BoundBy::dependencies;
    verdict.text =
        fmt::format("bound by tasks that need each other: computations are busy {} and the network {} of {} ms; {}",
                    in_ms_text(times.compute), in_ms_text(times.communication), in_ms_text(step), order);
  } else {
    const bool communicates = times.communication > times.compute;
    verdict.by = communicates ? BoundBy::communication : BoundBy::computing;
    verdict.text = fmt::format("bound by {}: {} busy {} of {} ms; {}", identifier_of(verdict.by),
                               communicates ? "the network is" : "computations are", in_ms_text(verdict.busy_ns),
                               in_ms_text(step), order);
  }
  verdict.changes = numbered_remedies(explanation);
  add_changes(verdict, std::move(settings));
  return verdict;
}

void add_changes(Verdict& verdict, std::vector<Change> changes) {
  std::ranges::move(changes, std::back_inserter(verdict.changes));
  std::erase_if(verdict.changes, [](const Change& change) { return change.gain_ns < simulate::kLeastGain; });
  std::ranges::stable_sort(verdict.changes, std::ranges::greater(), &Change::gain_ns);
  if (verdict.changes.size() > kMostChanges) verdict.changes.resize(kMostChanges);
}

std::vector<std::string> lines_of(const Verdict& verdict) {
  std::vector<std::string> lines = {verdict.text + "."};
  lines.front().front() = 'B';
  lines.insert(lines.end(), verdict.facts.begin(), verdict.facts.end());
  for (const Change& change : verdict.changes) {
    const std::string note = change.note.empty() ? "" : fmt::format(" ({})", change.note);
    lines.push_back(fmt::format("{:+.3f} ms: {}{}", -change.gain_ns * 1e-6, change.what, note));
  }
  return lines;
}

}  // namespace weft::study
