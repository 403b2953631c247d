#include "study/bench/certificates.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/hash.h"
#include "base/text/json_object.h"
#include "inspect/formats/graph_file.h"

namespace weft::study {
namespace {

// A file names the least version that describes it, so that an older reader takes the files that it understands.
constexpr int kCertificateVersion = 1, kVersionWithMilestones = 2;

JsonObject resource_json(const simulate::ResourceName& name, const simulate::Thresholds& chosen) {
  JsonObject json;
  json.add("kind", to_string(name.kind));
  if (name.number >= 0) json.add("number", name.number);
  return json.add("least_head", chosen.head).add("least_tail", chosen.tail);
}

JsonObject window_json(const simulate::WorkWindow& window) {
  JsonObject json;
  json.add("class", window.resource.class_index).add("work", resource_json(window.resource, window.chosen));
  if (window.beside) json.add("beside", resource_json(*window.beside, window.beside_chosen));
  return json;
}

JsonObject adjustment_json(const simulate::Adjustment& adjustment) {
  return JsonObject()
      .add("class", adjustment.class_index)
      .add("task", adjustment.task)
      .add(adjustment.side == simulate::Adjustment::Side::head ? "head_ns" : "tail_ns", adjustment.ns)
      .add("window", window_json(adjustment.window));
}

/// Milestones as classes and tasks in turn, charges as four numbers each: many of both would fill a file otherwise.
JsonObject milestones_json(const simulate::MilestoneProof& proof) {
  std::vector<std::uint32_t> tasks;
  for (const graph::ClassTask& each : proof.milestones) {
    tasks.push_back(each.of_class);
    tasks.push_back(each.task);
  }
  std::vector<JsonObject> loads;
  for (const simulate::PricedLoad& load : proof.loads) {
    JsonObject& json = loads.emplace_back();
    json.add("class", load.resource.class_index).add("work", resource_json(load.resource, load.chosen));
    if (load.beside) json.add("beside", resource_json(*load.beside, load.chosen));
    JsonArray charges;
    for (const simulate::Charge& each : load.charges)
      charges.add(each.first).add(each.last).add(each.during).add(each.price);
    json.add("charges", charges);
  }
  return JsonObject().add("tasks", tasks).add("loads", loads);
}

bool has_milestones(const simulate::GraphCertificate& proof) {
  return proof.milestones || std::ranges::any_of(proof.branches, has_milestones);
}

/// The members of a proof: a window or milestones with the adjustments, or a split with a proof of each case.
void add_proof(JsonObject& json, const simulate::GraphCertificate& proof) {
  json.add("bound_ns", proof.bound_ns);
  if (!proof.split) {
    std::vector<JsonObject> adjustments;
    for (const simulate::Adjustment& adjustment : proof.adjustments) adjustments.push_back(adjustment_json(adjustment));
    json.add("adjustments", adjustments);
    if (proof.milestones) {
      json.add("milestones", milestones_json(*proof.milestones));
    } else {
      json.add("window", window_json(proof.window));
    }
    return;
  }
  std::vector<JsonObject> branches;
  for (const simulate::GraphCertificate& each : proof.branches) add_proof(branches.emplace_back(), each);
  json.add("split", JsonObject()
                        .add("class", proof.split->class_index)
                        .add("first", proof.split->first)
                        .add("second", proof.split->second))
      .add("branches", branches);
}

}  // namespace

double InstanceCertificate::bound_ns() const {
  double least = std::numeric_limits<double>::infinity();
  for (const Graph& each : graphs) least = std::min(least, each.proof.bound_ns);
  return graphs.empty() ? 0 : least;
}

std::uint64_t CertificateBook::enter(const std::string& instance, const std::string& policy,
                                     const graph::OpenGraph& graph, double step_ns) {
  const std::uint64_t print = simulate::bound_fingerprint(graph);
  enter(instance, policy, print, step_ns);
  {
    const std::lock_guard lock(mutex_);
    if (proofs_.contains(print)) return print;
  }
  simulate::GraphCertificate proof = simulate::certify(graph);
  const std::lock_guard lock(mutex_);
  const bool is_new = proofs_.emplace(print, std::move(proof)).second;
  if (is_new && !graphs_.empty()) inspect::write_graph_file(graphs_ / graph_file_name(print), graph);
  return print;
}

void CertificateBook::enter(const std::string& instance, const std::string& policy, std::uint64_t graph,
                            double step_ns) {
  const std::lock_guard lock(mutex_);
  instances_[instance][graph].insert(policy);
  double& shortest = steps_.try_emplace(graph, step_ns).first->second;
  shortest = std::min(shortest, step_ns);
}

double CertificateBook::bound_ns(std::uint64_t graph) const {
  const std::lock_guard lock(mutex_);
  return proofs_.at(graph).bound_ns;
}

void CertificateBook::branch(std::size_t splits) {
  const std::lock_guard lock(mutex_);
  for (auto& [print, proof] : proofs_) {
    if (proof.bound_ns >= steps_.at(print)) continue;
    proof = simulate::split_into_cases(inspect::read_graph_file(graphs_ / graph_file_name(print)), std::move(proof),
                                       steps_.at(print), splits);
  }
}

std::optional<InstanceCertificate> CertificateBook::certificate_of(const std::string& instance,
                                                                   std::uint64_t step) const {
  const std::lock_guard lock(mutex_);
  const auto found = instances_.find(instance);
  if (found == instances_.end()) return std::nullopt;
  InstanceCertificate certificate{.instance = instance, .step = step, .graphs = {}};
  for (const auto& [print, policies] : found->second) certificate.graphs.push_back({proofs_.at(print), policies});
  return certificate;
}

std::string graph_file_name(std::uint64_t graph) {
  return hex_fingerprint(graph) + ".graph.json.gz";
}

std::string certificate_json(const InstanceCertificate& certificate) {
  std::vector<JsonObject> graphs;
  int version = kCertificateVersion;
  for (const InstanceCertificate::Graph& each : certificate.graphs) {
    if (has_milestones(each.proof)) version = kVersionWithMilestones;
    JsonObject& json = graphs.emplace_back();
    json.add("graph", hex_fingerprint(each.proof.graph)).add("policies", each.policies);
    add_proof(json, each.proof);
  }
  return json_lines(JsonObject()
                        .add("format", "weft-bounds")
                        .add("version", version)
                        .add("instance", certificate.instance)
                        .add("step", hex_fingerprint(certificate.step))
                        .add("bound_ns", certificate.bound_ns())
                        .add("graphs", graphs)
                        .text());
}

}  // namespace weft::study
