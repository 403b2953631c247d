#include "runtime/cost/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/median.h"
#include "graph/task_signature.h"

namespace weft::cost {
namespace {

double deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

class ProfiledCosts final : public CostModel {
 public:
  ProfiledCosts(Profile profile, std::shared_ptr<const CostModel> otherwise)
      : profile_(std::move(profile)), otherwise_(std::move(otherwise)) {
    for (const ProfileEntry& entry : profile_.entries) known_.emplace(entry.signature, &entry);
  }
  ProfiledCosts(const ProfiledCosts&) = delete;
  ProfiledCosts& operator=(const ProfiledCosts&) = delete;

  TaskCosts costs(const graph::Graph& graph) const override {
    TaskCosts costs = otherwise_->costs(graph);
    costs.beside_ns = costs.ns;
    if (costs.link_ns.empty()) costs.link_ns = costs.ns;
    std::vector<std::size_t> unknown;
    std::unordered_map<std::string_view, std::vector<double>> off;  // by kind: ratios of measured to modelled time
    for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
      const graph::Task& task = graph.tasks()[i];
      const auto found = known_.find(graph::task_signature(graph, task));
      if (found == known_.end()) {
        unknown.push_back(i);
        continue;
      }
      const ProfileEntry& entry = *found->second;
      const double modelled = costs.ns[i];
      costs.ns[i] = graph::is_collective(task.operation) ? entry.ns : entry.ns * profile_.computing_factor;
      if (modelled > 0) off[graph::kind_name(task.operation)].push_back(costs.ns[i] / modelled);
      costs.beside_ns[i] = std::max(costs.ns[i], entry.beside_ns);
      costs.link_ns[i] = costs.ns[i];  // a measured time isn't parted into latency and bytes
      costs.cpu_ns[i] = std::min(entry.cpu_ns, entry.ns * static_cast<double>(profile_.threads));
    }
    for (const std::size_t i : unknown) {
      const auto ratios = off.find(graph::kind_name(graph.tasks()[i].operation));
      if (ratios == off.end()) continue;
      costs.ns[i] *= median(ratios->second);
      costs.link_ns[i] *= median(ratios->second);
      costs.beside_ns[i] = costs.ns[i];
      costs.cpu_ns[i] = std::min(costs.cpu_ns[i], costs.ns[i]);
    }
    return costs;
  }

  std::string source() const override {
    return fmt::format("profile of {} kinds of tasks on {} ranks of {} threads, {}", profile_.entries.size(),
                       profile_.grid.ranks(), profile_.threads, profile_.machine);
  }

 private:
  Profile profile_;
  std::shared_ptr<const CostModel> otherwise_;
  std::unordered_map<std::string, const ProfileEntry*> known_;
};

}  // namespace

void ProfileSamples::add(const plan::Plan& plan, const plan::StepTrace& trace) {
  for (std::size_t stream = 0; stream < plan.streams.size(); ++stream) {
    for (std::size_t entry = 0; entry < plan.streams[stream].entries.size(); ++entry) {
      const plan::TaskTime& time = trace.times[stream][entry];
      const graph::Task& task = plan.graph->task(plan.streams[stream].entries[entry].task);
      samples_[graph::task_signature(*plan.graph, task)].push_back(static_cast<double>(time.end - time.begin));
    }
  }
}

std::vector<ProfileEntry> ProfileSamples::entries() const {
  std::vector<ProfileEntry> entries;
  for (const auto& [signature, samples] : samples_) {
    entries.push_back({signature, middle_mean(samples), deviation(samples), static_cast<std::int64_t>(samples.size())});
  }
  return entries;
}

double middle_mean(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t cut = values.size() / 4;
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(cut);
  const auto end = values.end() - static_cast<std::ptrdiff_t>(cut);
  return std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin);
}

std::unique_ptr<const CostModel> profiled_costs(Profile profile, std::shared_ptr<const CostModel> otherwise) {
  return std::make_unique<ProfiledCosts>(std::move(profile), std::move(otherwise));
}

}  // namespace weft::cost
