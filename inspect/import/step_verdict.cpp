#include "inspect/import/step_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "graph/open_meetings.h"

namespace weft::inspect {
namespace {

constexpr std::size_t kMostRemedies = 3;
constexpr std::size_t kMostOperations = 8;  // that are tried at half their time, the longest first
constexpr double kLeastGainShare = 0.001;   // of the step
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kMostLetters = 60;  // of a name in a sentence

double in_ms(double ns) {
  return ns * 1e-6;
}

std::string shortened(const std::string& name) {
  return name.size() <= kMostLetters ? name : name.substr(0, kMostLetters - 3) + "...";
}

class StepJudge {
 public:
  StepJudge(const graph::OpenGraph& graph, const std::vector<double>& lengths)
      : graph_(graph), lengths_(lengths), replay_(graph, graph::find_meetings(graph)) {}

  StepVerdict run() {
    const std::vector<ReplayedClass> played = replay_.run(lengths_);
    out_.recorded_ns = recorded_end(graph_);
    out_.replayed_ns = step_length(played);
    // Of classes that end together, the one that waited least for others tells why.
    double least = kNever;
    for (const ReplayedClass& each : played) {
      if (each.end < (1 - kLeastGainShare) * out_.replayed_ns || each.path.waiting_for_ranks >= least) continue;
      least = each.path.waiting_for_ranks;
      out_.path = each.path;
    }
    out_.without_host_ns = length_if([](const graph::OpenTask& task) { return is_host(task) ? 0.0 : 1.0; });
    name_bound();
    name_waits(played);
    find_remedies(played);
    out_.off = reason_far_off(graph_, out_.replayed_ns);
    return std::move(out_);
  }

 private:
  static bool is_host(const graph::OpenTask& task) {
    return task.kind == graph::OpenKind::host && task.operation != graph::kLaterStart;
  }

  double length_if(const std::function<double(const graph::OpenTask&)>& factor) {
    std::vector<double> lengths = lengths_;
    std::size_t i = 0;
    for (const graph::OpenClass& step : graph_.classes) {
      for (const graph::OpenTask& task : step.tasks) lengths[i++] *= factor(task);
    }
    return step_length(replay_.run(std::move(lengths)));
  }

  void name_bound() {
    const ReplayedPath& path = out_.path;
    const bool host = out_.host_share() >= kHostBound;
    std::vector<std::pair<std::string_view, double>> parts = {{"computing", path.computing},
                                                              {"communication", path.communicating},
                                                              {"copying", path.copying},
                                                              {"ranks", path.waiting_for_ranks}};
    if (host) parts.emplace_back("host", out_.replayed_ns - out_.without_host_ns);
    const auto most = std::ranges::max_element(parts, {}, &std::pair<std::string_view, double>::second);
    out_.bound_by = most->first;
    const std::string whole = fmt::format("{:.3f} ms", in_ms(out_.replayed_ns));
    if (out_.bound_by == "host") {
      out_.text = fmt::format(
          "bound by the host: without its launches and other work the step takes {:.3f} of {} ({:.1f} "
          "% less)",
          in_ms(out_.without_host_ns), whole, 100 * out_.host_share());
      return;
    }
    const std::string_view what = out_.bound_by == "ranks" ? "waiting for other ranks" : out_.bound_by;
    out_.text = fmt::format("bound by {}: {:.3f} of {} on the longest chain", what, in_ms(most->second), whole);
    out_.text += host ? fmt::format("; the host costs {:.1f} % of it", 100 * out_.host_share())
                      : std::string("; the host isn't the reason");
  }

  void try_remedy(std::string what, std::string flag, double length) {
    const double gain = out_.replayed_ns - length;
    if (gain > kLeastGainShare * out_.replayed_ns) out_.remedies.push_back({std::move(what), std::move(flag), gain});
  }

  void find_remedies(const std::vector<ReplayedClass>& played) {
    try_remedy("no work of the host, as in a CUDA graph or compiled code", "--no-host", out_.without_host_ns);
    const bool network = std::ranges::any_of(graph_.classes, [](const graph::OpenClass& step) {
      return std::ranges::any_of(step.tasks, [](const auto& task) { return graph::communicates(task.kind); });
    });
    if (network) {
      try_remedy("a network twice as fast", "--bandwidth 2",
                 length_if([](const graph::OpenTask& task) { return graph::communicates(task.kind) ? 0.5 : 1.0; }));
    }
    std::map<std::string, double> times;
    std::size_t i = 0;
    for (const graph::OpenClass& step : graph_.classes) {
      for (const graph::OpenTask& task : step.tasks) {
        const double ns = lengths_[i++];
        if (task.kind != graph::OpenKind::host && !graph::communicates(task.kind)) times[task.operation] += ns;
      }
    }
    std::vector<std::pair<std::string, double>> operations(times.begin(), times.end());
    std::ranges::stable_sort(operations, std::ranges::greater(), &std::pair<std::string, double>::second);
    if (operations.size() > kMostOperations) operations.resize(kMostOperations);
    for (const auto& operation : operations) {
      const std::string& name = operation.first;
      try_remedy(shortened(name) + " twice as fast", fmt::format("--scale '{}=0.5'", name),
                 length_if([&](const graph::OpenTask& task) { return task.operation == name ? 0.5 : 1.0; }));
    }
    try_without_waiting(played);
    std::ranges::stable_sort(out_.remedies, std::ranges::greater(), &StepRemedy::gain_ns);
    if (out_.remedies.size() > kMostRemedies) out_.remedies.resize(kMostRemedies);
  }

  /// Each rank by itself: a collective takes its own time, whoever comes late.
  void try_without_waiting(const std::vector<ReplayedClass>& played) {
    if (graph_.classes.size() < 2) return;
    double together = 0, alone = 0;
    for (const ReplayedClass& each : played) together = std::max(together, each.length());
    for (const ReplayedClass& each : StepReplay(graph_).run(lengths_)) alone = std::max(alone, each.length());
    try_remedy("ranks that never wait for each other", "--class, for each rank", out_.replayed_ns - together + alone);
  }

  void name_waits(const std::vector<ReplayedClass>& played) {
    std::vector<std::pair<double, std::string>> waits;
    for (std::size_t k = 0; k < played.size(); ++k) {
      const std::vector<double>& by_class = played[k].path.waiting_by_class;
      for (std::size_t other = 0; other < by_class.size(); ++other) {
        if (by_class[other] < kLeastGainShare * out_.replayed_ns) continue;
        waits.emplace_back(by_class[other], fmt::format("{} waits {:.3f} ms for {}", graph_.classes[k].name,
                                                        in_ms(by_class[other]), graph_.classes[other].name));
      }
    }
    std::ranges::stable_sort(waits, std::ranges::greater(), &std::pair<double, std::string>::first);
    if (waits.size() > kMostRemedies) waits.resize(kMostRemedies);
    for (auto& [ns, text] : waits) out_.waits.push_back(std::move(text));
  }

  const graph::OpenGraph& graph_;
  const std::vector<double>& lengths_;
  StepReplay replay_;
  StepVerdict out_;
};

}  // namespace

double recorded_end(const graph::OpenGraph& graph) {
  double end = 0;
  for (const graph::OpenClass& step : graph.classes) end = std::max(end, step.recorded_ns);
  return end;
}

std::string reason_far_off(const graph::OpenGraph& graph, double replayed_ns) {
  const double recorded = recorded_end(graph);
  if (recorded <= 0 || std::abs(replayed_ns - recorded) <= kFarOff * recorded) return "";
  const bool shorter = replayed_ns < recorded;
  double most = 0;
  const graph::OpenTask* where = nullptr;
  for (const graph::OpenClass& step : graph.classes) {
    std::vector<double> ready(step.tasks.size(), 0);
    for (const graph::OpenEdge& edge : step.edges) {
      const graph::OpenTask& from = step.tasks[edge.from];
      if (!from.begin_ns) continue;
      const double after = edge.after_begin_ns ? *from.begin_ns + *edge.after_begin_ns : *from.end_ns;
      ready[edge.to] = std::max(ready[edge.to], after);
    }
    for (std::size_t i = 0; i < step.tasks.size(); ++i) {
      if (!step.tasks[i].begin_ns) continue;
      const double gap = *step.tasks[i].begin_ns - ready[i];
      if ((shorter ? gap : -gap) <= most) continue;
      most = std::abs(gap);
      where = &step.tasks[i];
    }
  }
  const std::string difference =
      fmt::format("the replay is {:.1f} % {} than the record", 100 * std::abs(replayed_ns / recorded - 1),
                  shorter ? "shorter" : "longer");
  if (where == nullptr) return difference + ", and no single task explains that";
  const std::string name = shortened(where->name);
  return shorter
             ? fmt::format("{}: nothing explains {:.3f} ms before {}, the longest such gap", difference, in_ms(most),
                           name)
             : fmt::format("{}: {} began {:.3f} ms before what it waits for had ended", difference, name, in_ms(most));
}

StepVerdict judge_step(const graph::OpenGraph& graph, const std::vector<double>& lengths) {
  return StepJudge(graph, lengths).run();
}

std::vector<std::string> lines_of(const StepVerdict& verdict) {
  std::vector<std::string> lines = {verdict.text};
  lines.insert(lines.end(), verdict.waits.begin(), verdict.waits.end());
  for (const StepRemedy& remedy : verdict.remedies) {
    lines.push_back(fmt::format("{:+.3f} ms: {} ({})", -in_ms(remedy.gain_ns), remedy.what, shortened(remedy.flag)));
  }
  if (verdict.remedies.empty()) lines.emplace_back("nothing that was tried gains 0.1 %");
  if (!verdict.off.empty()) lines.push_back(verdict.off);
  return lines;
}

JsonObject verdict_json(const StepVerdict& verdict) {
  JsonArray remedies;
  for (const StepRemedy& remedy : verdict.remedies) {
    remedies.add(JsonObject().add("what", remedy.what).add("flag", remedy.flag).add("gain_ms", in_ms(remedy.gain_ns)));
  }
  return JsonObject()
      .add("bound_by", verdict.bound_by)
      .add("text", verdict.text)
      .add("waits", verdict.waits)
      .add("recorded_ms", in_ms(verdict.recorded_ns))
      .add("replayed_ms", in_ms(verdict.replayed_ns))
      .add("without_host_ms", in_ms(verdict.without_host_ns))
      .add("host_share", verdict.host_share())
      .add("remedies", remedies)
      .add("far_off", verdict.off);
}

}  // namespace weft::inspect
