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

/// The collectives of a profile beside the times that a model gives them: they tell how far the model's network is from
/// the profile's. A rewrite makes kinds and sizes of collectives that no step has run yet.
class MeasuredNetwork {
 public:
  MeasuredNetwork(const Profile& profile, const CostModel& model) {
    graph::GraphBuilder builder(graph::Arguments::of_any_form);
    for (const ProfileEntry& entry : profile.entries) {
      const auto collective = graph::collective_of_signature(entry.signature);
      if (!collective || entry.ns <= 0) continue;
      const graph::View payload =
          graph::whole(builder, builder.add_tensor({entry.signature, collective->dtype, {1}, graph::Role::parameter}));
      builder.add_task({entry.signature, collective->operation, {graph::read_write(payload)}});
      points_.push_back({*graph::channel_of(collective->operation), bytes_of(collective->operation, collective->dtype),
                         1, entry.cpu_ns / entry.ns, std::max(1.0, entry.beside_ns / entry.ns)});
      measured_ns_.push_back(entry.ns);
    }
    const TaskCosts modelled = model.costs(std::move(builder).build());
    for (std::size_t i = 0; i < points_.size(); ++i) points_[i].ratio = measured_ns_[i] / modelled.ns[i];
    std::erase_if(points_, [](const Point& point) { return !std::isfinite(point.ratio); });
  }

  struct Point {
    graph::Channel channel = graph::Channel::world;
    double bytes = 0;                  // that a rank sends
    double ratio = 1;                  // of measured to modelled time
    double cpu_share = 0, beside = 1;  // cpu_ns and beside_ns, of ns
  };

  /// The point nearest in size among the channel's own, or among all if the channel has none; null if there are none.
  const Point* nearest(const graph::Operation& operation, DType dtype) const {
    const graph::Channel channel = *graph::channel_of(operation);
    const double bytes = bytes_of(operation, dtype);
    const auto distance = [&](const Point& point) {
      return std::pair(point.channel != channel, std::abs(std::log(point.bytes / bytes)));
    };
    const auto found = std::ranges::min_element(points_, {}, distance);
    return found == points_.end() ? nullptr : &*found;
  }

 private:
  static double bytes_of(const graph::Operation& operation, DType dtype) {
    const auto element = static_cast<double>(static_cast<std::int64_t>(size_of(dtype)));
    return std::max(1.0, graph::work_of(operation, element).network_bytes);
  }

  std::vector<Point> points_;
  std::vector<double> measured_ns_;
};

class ProfiledCosts final : public CostModel {
 public:
  ProfiledCosts(Profile profile, std::shared_ptr<const CostModel> otherwise)
      : profile_(std::move(profile)), otherwise_(std::move(otherwise)), network_(profile_, *otherwise_) {
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
      costs.cpu_ns[i] = std::min(entry.cpu_ns, entry.ns * static_cast<double>(profile_.threads));
      if (std::holds_alternative<graph::Receive>(task.operation)) continue;  // a message's time is its sender's
      costs.ns[i] = graph::is_collective(task.operation) ? entry.ns : entry.ns * profile_.computing_factor;
      if (modelled > 0) off[graph::kind_name(task.operation)].push_back(costs.ns[i] / modelled);
      costs.beside_ns[i] = std::max(costs.ns[i], entry.beside_ns);
      costs.link_ns[i] = costs.ns[i];  // a measured time isn't parted into latency and bytes
    }
    for (const std::size_t i : unknown) {
      const graph::Task& task = graph.tasks()[i];
      if (graph::is_collective(task.operation)) {
        const MeasuredNetwork::Point* const near =
            network_.nearest(task.operation, graph::signature_dtype(graph, task));
        if (near == nullptr) continue;
        costs.ns[i] *= near->ratio;
        costs.link_ns[i] = costs.ns[i];
        costs.beside_ns[i] = costs.ns[i] * near->beside;
        costs.cpu_ns[i] = costs.ns[i] * std::min(near->cpu_share, static_cast<double>(profile_.threads));
      } else if (const auto ratios = off.find(graph::kind_name(task.operation)); ratios != off.end()) {
        costs.ns[i] *= median(ratios->second);
        costs.beside_ns[i] = costs.ns[i];
      }
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
  MeasuredNetwork network_;
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
