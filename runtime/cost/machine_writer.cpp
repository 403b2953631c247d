#include "runtime/cost/machine_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/text/json_object.h"

namespace weft::cost {
namespace {

/// TOML writes texts as JSON does.
std::string toml_text(std::string_view text) {
  return json_string(text);
}

/// The shortest text that is read as the same number.
std::string number_text(double value) {
  return fmt::format("{}", value);
}

std::string seconds_text(double seconds) {
  return fmt::format("{:.4g}", seconds);
}

class Writer {
 public:
  explicit Writer(const Machine& machine) : machine_(machine) {}

  void table(const std::string& name) {
    text_ += fmt::format("\n[{}]\n", name);
    path_ = name + ".";
    item_ = 0;
  }
  void item(const std::string& name, std::size_t item) {
    text_ += fmt::format("\n[[{}]]\n", name);
    path_ = name + ".";
    item_ = item;
  }
  void line(std::string_view key, std::string_view value) { text_ += fmt::format("{} = {}\n", key, value); }
  void number(std::string_view key, const std::string& value) {
    const Provenance* found = find(key);
    if (found == nullptr) {
      line(key, value);
      return;
    }
    std::string table = "{ value = " + value;
    if (!found->status.empty()) table += ", status = " + toml_text(found->status);
    if (!found->source.empty()) table += ", source = " + toml_text(found->source);
    line(key, table + " }");
  }
  void number(std::string_view key, double value) { number(key, number_text(value)); }
  void number(std::string_view key, std::int64_t value) { number(key, fmt::format("{}", value)); }
  /// Left out at its default, unless something is known of it.
  void number(std::string_view key, double value, double usual) {
    if (value != usual || find(key) != nullptr) number(key, value);
  }
  std::string take() { return std::move(text_); }

 private:
  const Provenance* find(std::string_view key) const {
    const auto found = std::ranges::find_if(machine_.provenance, [&](const Provenance& each) {
      return each.key == path_ + std::string(key) && each.item == item_;
    });
    return found == machine_.provenance.end() ? nullptr : &*found;
  }

  const Machine& machine_;
  std::string text_, path_;
  std::size_t item_ = 0;
};

void write_link(Writer& writer, const Link& link) {
  writer.number("latency", link.latency);
  writer.number("bandwidth", link.bandwidth);
  writer.number("setup", link.setup, 0);
  writer.number("small-bandwidth", link.small_bandwidth, 0);
}

void write_node(Writer& writer, const Machine& machine) {
  writer.table("node");
  write_link(writer, machine.node);
  writer.number("pair-bandwidth", machine.pair_bandwidth, 0);
  for (std::size_t i = 0; i < machine.node_groups.size(); ++i) {
    writer.item("node.group", i);
    writer.number("ranks", machine.node_groups[i].ranks);
    writer.number("stride", machine.node_groups[i].stride);
    writer.number("bandwidth", machine.node_groups[i].bandwidth);
  }
}

void write_network(Writer& writer, const Machine& machine) {
  writer.table("network");
  write_link(writer, machine.network);
  writer.number("ports", machine.network_ports, 1);
  if (machine.hierarchical) writer.line("hierarchical", "true");
  for (std::size_t i = 0; i < machine.congestion.size(); ++i) {
    writer.item("network.congestion", i);
    writer.number("nodes", machine.congestion[i].nodes);
    writer.number("factor", machine.congestion[i].factor);
  }
}

template <class Point>
void write_measurement(Writer& writer, const Point& point) {
  writer.number("seconds", seconds_text(point.seconds));
  writer.number("error", point.error);
  if (!point.source.empty()) writer.line("source", toml_text(point.source));
}

void write_gemms(Writer& writer, const Machine& machine) {
  for (std::size_t i = 0; i < machine.gemms.size(); ++i) {
    const GemmPoint& point = machine.gemms[i];
    writer.item("gemm", i);
    writer.number("m", point.m);
    writer.number("n", point.n);
    writer.number("k", point.k);
    writer.line("layout", point.trans_a ? "\"tn\"" : point.trans_b ? "\"nt\"" : "\"nn\"");
    writer.line("dtype", toml_text(to_string(point.dtype)));
    write_measurement(writer, point);
  }
}

void write_attention(Writer& writer, const Machine& machine) {
  for (std::size_t i = 0; i < machine.attention.size(); ++i) {
    const AttentionPoint& point = machine.attention[i];
    writer.item("attention", i);
    writer.line("kind", point.backward ? "\"backward\"" : "\"forward\"");
    writer.number("batch", point.batch);
    writer.number("heads", point.heads);
    writer.number("seq", point.seq);
    writer.number("head-dim", point.head_dim);
    writer.line("dtype", toml_text(to_string(point.dtype)));
    write_measurement(writer, point);
  }
}

void write_calibration(Writer& writer, const Machine& machine) {
  for (std::size_t i = 0; i < machine.calibration.size(); ++i) {
    const CalibrationPoint& point = machine.calibration[i];
    writer.item("calibration", i);
    writer.line("kind", toml_text(point.kind));
    if (point.kind == "gemm") {
      writer.number("m", point.m);
      writer.number("n", point.n);
      writer.number("k", point.k);
      writer.line("dtype", toml_text(to_string(point.dtype)));
    } else {
      writer.number("ranks", point.ranks);
      writer.number("bytes", point.bytes);
    }
    writer.number("seconds", seconds_text(point.seconds));
    writer.number("error", point.error);
    writer.line("source", toml_text(point.source));
  }
}

}  // namespace

std::string machine_toml(const Machine& machine) {
  Writer writer(machine);
  writer.line("name", toml_text(machine.name));
  if (!machine.source.empty()) writer.line("source", toml_text(machine.source));
  writer.number("devices-per-node", machine.devices_per_node);
  writer.table("device");
  writer.number("flops-f32", machine.flops_f32);
  writer.number("flops-bf16", machine.flops_bf16);
  writer.number("efficiency", machine.efficiency, 1);
  writer.number("gemm-half", machine.gemm_half, 0);
  writer.number("memory-bandwidth", machine.memory_bandwidth);
  writer.number("memory-bytes", machine.memory_bytes);
  writer.number("task-overhead", machine.task_overhead);
  writer.number("cores", machine.cores);
  write_node(writer, machine);
  write_network(writer, machine);
  writer.table("transport");
  writer.number("cpu", machine.transport_cpu);
  writer.line("shared-cores", machine.shared_cores ? "true" : "false");
  for (std::size_t i = 0; i < machine.slowdowns.size(); ++i) {
    const Slowdown& slowdown = machine.slowdowns[i];
    writer.item("slowdown", i);
    if (!slowdown.compute.empty()) writer.line("compute", toml_text(slowdown.compute));
    if (!slowdown.collective.empty()) writer.line("collective", toml_text(slowdown.collective));
    writer.number("factor", slowdown.factor);
  }
  write_gemms(writer, machine);
  write_attention(writer, machine);
  write_calibration(writer, machine);
  return writer.take();
}

}  // namespace weft::cost
