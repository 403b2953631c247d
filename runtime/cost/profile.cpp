#include "runtime/cost/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/input_file.h"
#include "base/median.h"
#include "base/text/json_object.h"
#include "graph/task_signature.h"

namespace weft::cost {
namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double center = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - center) * (value - center);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

/// Whether a collective was measured beside computations, too.
bool is_probed(const ProfileEntry& entry) {
  return entry.beside_ns > 0 || entry.cpu_ns > 0;
}

/// The collectives of a profile beside the times that a model gives them: they tell how far the model's network is from
/// the profile's. A rewrite makes kinds and sizes of collectives that no step has run yet.
class MeasuredNetwork {
 public:
  MeasuredNetwork(const Profile& profile, const CostModel& model) {
    graph::GraphBuilder builder(graph::Arguments::of_any_form);
    std::vector<double> measured_ns;
    for (const ProfileEntry& entry : profile.entries) {
      const auto collective = graph::collective_of_signature(entry.signature);
      if (!collective || entry.ns <= 0) continue;
      const graph::View payload =
          graph::whole(builder, builder.add_tensor({entry.signature, collective->dtype, {1}, graph::Role::parameter}));
      builder.add_task({entry.signature, collective->operation, {graph::read_write(payload)}});
      points_.push_back({*graph::channel_of(collective->operation), bytes_of(collective->operation, collective->dtype),
                         1, entry.cpu_ns / entry.ns, std::max(1.0, entry.beside_ns / entry.ns), is_probed(entry)});
      measured_ns.push_back(entry.ns);
    }
    const TaskCosts modelled = model.costs(std::move(builder).build());
    for (std::size_t i = 0; i < points_.size(); ++i) points_[i].ratio = measured_ns[i] / modelled.ns[i];
    std::erase_if(points_, [](const Point& point) { return !std::isfinite(point.ratio); });
  }

  struct Point {
    graph::Channel channel = graph::Channel::world;
    double bytes = 0;                  // that a rank sends
    double ratio = 1;                  // of measured to modelled time
    double cpu_share = 0, beside = 1;  // cpu_ns and beside_ns, of ns
    bool probed = false;
  };

  /// The point nearest in size among the channel's own, or among all if the channel has none; of the points that were
  /// measured beside computations, if it must be one of them. Null if there are none.
  const Point* nearest(const graph::Operation& operation, DType dtype, bool beside) const {
    const graph::Channel channel = *graph::channel_of(operation);
    const double bytes = bytes_of(operation, dtype);
    const auto distance = [&](const Point& point) {
      return std::tuple(beside && !point.probed, point.channel != channel, std::abs(std::log(point.bytes / bytes)));
    };
    const auto found = std::ranges::min_element(points_, {}, distance);
    return found == points_.end() || (beside && !found->probed) ? nullptr : &*found;
  }

 private:
  static double bytes_of(const graph::Operation& operation, DType dtype) {
    const auto element = static_cast<double>(static_cast<std::int64_t>(size_of(dtype)));
    return std::max(1.0, graph::work_of(operation, element).network_bytes);
  }

  std::vector<Point> points_;
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
      if (!is_probed(entry)) set_beside(graph, task, i, costs);
    }
    for (const std::size_t i : unknown) {
      const graph::Task& task = graph.tasks()[i];
      if (graph::is_collective(task.operation)) {
        const auto* const near = network_.nearest(task.operation, graph::signature_dtype(graph, task), false);
        if (near == nullptr) continue;
        costs.ns[i] *= near->ratio;
        costs.link_ns[i] = costs.ns[i];
        costs.beside_ns[i] = costs.ns[i];
        costs.cpu_ns[i] = 0;
        set_beside(graph, task, i, costs);
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
  /// Of a collective that wasn't measured beside computations: as the nearest that was.
  void set_beside(const graph::Graph& graph, const graph::Task& task, std::size_t i, TaskCosts& costs) const {
    if (!graph::is_collective(task.operation)) return;
    const auto* const near = network_.nearest(task.operation, graph::signature_dtype(graph, task), true);
    if (near == nullptr) return;
    costs.beside_ns[i] = costs.ns[i] * near->beside;
    costs.cpu_ns[i] = costs.ns[i] * std::min(near->cpu_share, static_cast<double>(profile_.threads));
  }

  Profile profile_;
  std::shared_ptr<const CostModel> otherwise_;
  MeasuredNetwork network_;
  std::unordered_map<std::string, const ProfileEntry*> known_;
};

constexpr const char* kFormat = "weft-profile";
constexpr std::int64_t kVersion = 2;
constexpr const char* kMeasureAgain = "`weft profile` makes one";
constexpr std::size_t kLargestFile = std::size_t{64} << 20;
constexpr std::int64_t kMost = std::int64_t{1} << 40;  // upper limit of every count
constexpr double kLongest = 1e15;                      // ns: eleven days
constexpr double kMostSlowdown = 100;

double time_of(const DocumentValue& value) {
  return value.number({.least = 0, .most = kLongest}, "a time");
}

void read_pools(const DocumentValue& in, Profile& profile) {
  const auto pools = in.find("core_pools");
  if (!pools) return;
  std::set<std::int64_t> seen;
  for (const DocumentValue& item : pools->items()) {
    CorePool& pool = profile.core_pools.emplace_back();
    for (const DocumentValue& rank : item["ranks"].items()) {
      pool.ranks.push_back(rank.integer(0, profile.grid.ranks() - 1));
      if (!seen.insert(pool.ranks.back()).second)
        rank.refuse(fmt::format("repeats {}", pool.ranks.back()), "each rank once");
    }
    pool.cores = item["cores"].integer(1, kMost);
  }
}

// No clock is more precise than a tenth of a nanosecond.
double rounded(double ns) {
  return std::round(ns * 10) / 10;
}

}  // namespace

void ProfileSamples::add(const plan::Plan& plan, const plan::StepTrace& trace) {
  std::map<std::string, std::vector<double>> of_step;
  for (std::size_t stream = 0; stream < plan.streams.size(); ++stream) {
    for (std::size_t entry = 0; entry < plan.streams[stream].entries.size(); ++entry) {
      const plan::TaskTime& time = trace.times[stream][entry];
      const graph::Task& task = plan.graph->task(plan.streams[stream].entries[entry].task);
      of_step[graph::task_signature(*plan.graph, task)].push_back(static_cast<double>(time.end - time.begin));
    }
  }
  for (const auto& [signature, tasks] : of_step) {
    Samples& samples = by_signature_[signature];
    samples.tasks.insert(samples.tasks.end(), tasks.begin(), tasks.end());
    samples.step_means.push_back(mean(tasks));
  }
}

std::vector<ProfileEntry> ProfileSamples::entries() const {
  std::vector<ProfileEntry> entries;
  for (const auto& [signature, samples] : by_signature_) {
    // Tasks of one signature differ by their places in a step, so a step's mean counts; a few disturbed steps don't.
    entries.push_back({signature, middle_mean(samples.step_means), deviation(samples.tasks),
                       static_cast<std::int64_t>(samples.tasks.size())});
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

std::string profile_json(const Profile& profile) {
  JsonArray entries, slowdowns;
  for (const ProfileEntry& entry : profile.entries) {
    entries.add(JsonObject()
                    .add("signature", entry.signature)
                    .add("ns", rounded(entry.ns))
                    .add("deviation_ns", rounded(entry.deviation_ns))
                    .add("samples", entry.samples)
                    .add("cpu_ns", rounded(entry.cpu_ns))
                    .add("beside_ns", rounded(entry.beside_ns)));
  }
  for (const Slowdown& slowdown : profile.slowdowns) {
    slowdowns.add(JsonObject()
                      .add("compute", slowdown.compute)
                      .add("collective", slowdown.collective)
                      .add("factor", slowdown.factor));
  }
  JsonObject json;
  json.add("format", kFormat).add("version", kVersion).add("machine", profile.machine);
  json.add("grid", JsonArray{profile.grid.x, profile.grid.y, profile.grid.z, profile.grid.data});
  if (profile.grid.pipe > 1) json.add("pipe", profile.grid.pipe);
  if (profile.grid.context > 1) json.add("context", profile.grid.context);
  if (profile.grid.expert > 1) json.add("expert", profile.grid.expert);
  json.add("threads", profile.threads).add("computing_factor", profile.computing_factor);
  if (!profile.core_pools.empty()) {
    JsonArray pools;
    for (const CorePool& pool : profile.core_pools) {
      pools.add(JsonObject().add("ranks", pool.ranks).add("cores", pool.cores));
    }
    json.add("core_pools", pools);
  }
  return json_lines(json.add("entries", entries).add("slowdowns", slowdowns).text());
}

Profile parse_profile(std::string_view json_text, const std::string& name) {
  const Document document = read_json(json_text, name, {.fix = kMeasureAgain});
  const DocumentValue in = document.of_format("a profile", kFormat, kVersion);
  Profile profile;
  profile.machine = in["machine"].text();
  const auto sizes = in["grid"].items(graph::kAxes.size(), "the sizes of x, y, z and data");
  std::int64_t ranks = 1;
  for (std::size_t i = 0; i < graph::kAxes.size(); ++i) {
    const std::int64_t along = sizes[i].integer(1, kMost);
    if (along > kMost / ranks) in["grid"].refuse(fmt::format("at most {} ranks", kMost));
    ranks *= along;
    profile.grid.on(graph::kAxes[i]) = along;
  }
  if (const auto pipe = in.find("pipe")) profile.grid.pipe = pipe->integer(1, kMost / ranks);
  const auto read_fold = [&](const char* name, std::int64_t& size) {
    const auto found = in.find(name);
    if (!found) return;
    size = found->integer(1, profile.grid.z);
    if (profile.grid.z % size != 0) found->refuse("a divisor of z");
  };
  read_fold("context", profile.grid.context);
  read_fold("expert", profile.grid.expert);
  profile.threads = in["threads"].integer(1, kMost);
  profile.computing_factor = time_of(in["computing_factor"]);
  read_pools(in, profile);
  std::set<std::string> seen;
  for (const DocumentValue& item : in["entries"].items()) {
    ProfileEntry entry;
    entry.signature = item["signature"].text();
    entry.ns = time_of(item["ns"]);
    entry.deviation_ns = time_of(item["deviation_ns"]);
    entry.samples = item["samples"].integer(0, kMost);
    entry.cpu_ns = time_of(item["cpu_ns"]);
    entry.beside_ns = time_of(item["beside_ns"]);
    if (!seen.insert(entry.signature).second) item.refuse("repeats " + entry.signature, "each signature once");
    profile.entries.push_back(std::move(entry));
  }
  std::set<std::pair<std::string, std::string>> pairs;
  for (const DocumentValue& item : in["slowdowns"].items()) {
    const Slowdown slowdown{item["compute"].text(), item["collective"].text(),
                            item["factor"].number({.least = 1, .most = kMostSlowdown}, "a factor")};
    if (!pairs.emplace(slowdown.compute, slowdown.collective).second) {
      item.refuse(fmt::format("repeats {} beside {}", slowdown.compute, slowdown.collective), "each pair once");
    }
    profile.slowdowns.push_back(slowdown);
  }
  return profile;
}

Profile load_profile(const std::string& path) {
  return parse_profile(whole_file(path, kLargestFile), path);
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

}  // namespace weft::cost
