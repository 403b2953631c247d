#include "study/bench/certificates.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/files/json_file.h"
#include "base/text/hex.h"
#include "base/text/json_object.h"
#include "inspect/formats/graph_file.h"

namespace weft::study {
namespace {

constexpr int kCertificateVersion = 1;

JsonObject resource_json(const simulate::ResourceName& name, const simulate::Thresholds& chosen) {
  JsonObject json;
  json.add("kind", to_string(name.kind));
  if (name.number >= 0) json.add("number", name.number);
  return json.add("least_head", chosen.head).add("least_tail", chosen.tail);
}

JsonObject window_json(const simulate::Window& window) {
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

}  // namespace

double InstanceCertificate::bound_ns() const {
  double least = std::numeric_limits<double>::infinity();
  for (const Graph& each : graphs) least = std::min(least, each.proof.bound_ns);
  return graphs.empty() ? 0 : least;
}

double CertificateBook::enter(const std::string& instance, const std::string& policy, const graph::OpenGraph& graph) {
  const std::uint64_t print = simulate::bound_fingerprint(graph);
  {
    const std::lock_guard lock(mutex_);
    instances_[instance][print].insert(policy);
    const auto found = proofs_.find(print);
    if (found != proofs_.end()) return found->second.bound_ns;
  }
  const simulate::GraphCertificate proof = simulate::certify(graph);
  const std::lock_guard lock(mutex_);
  const bool is_new = proofs_.emplace(print, proof).second;
  if (is_new && !graphs_.empty()) inspect::write_graph_file(graphs_ / graph_file_name(print), graph);
  return proof.bound_ns;
}

std::vector<InstanceCertificate> CertificateBook::certificates(std::span<const std::string> instances,
                                                               std::span<const std::uint64_t> steps) const {
  const std::lock_guard lock(mutex_);
  std::vector<InstanceCertificate> result;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    const auto found = instances_.find(instances[i]);
    if (found == instances_.end()) continue;
    InstanceCertificate& certificate = result.emplace_back();
    certificate.instance = instances[i];
    certificate.step = steps[i];
    for (const auto& [print, policies] : found->second) certificate.graphs.push_back({proofs_.at(print), policies});
  }
  return result;
}

std::string graph_file_name(std::uint64_t graph) {
  return hex_fingerprint(graph) + ".graph.json.gz";
}

std::string certificate_json(const InstanceCertificate& certificate) {
  std::vector<JsonObject> graphs;
  for (const InstanceCertificate::Graph& each : certificate.graphs) {
    std::vector<JsonObject> adjustments;
    for (const simulate::Adjustment& adjustment : each.proof.adjustments)
      adjustments.push_back(adjustment_json(adjustment));
    graphs.push_back(JsonObject()
                         .add("graph", hex_fingerprint(each.proof.graph))
                         .add("policies", each.policies)
                         .add("bound_ns", each.proof.bound_ns)
                         .add("adjustments", adjustments)
                         .add("window", window_json(each.proof.window)));
  }
  return json_lines(JsonObject()
                        .add("format", "weft-bounds")
                        .add("version", kCertificateVersion)
                        .add("instance", certificate.instance)
                        .add("step", hex_fingerprint(certificate.step))
                        .add("bound_ns", certificate.bound_ns())
                        .add("graphs", graphs)
                        .text());
}

}  // namespace weft::study
