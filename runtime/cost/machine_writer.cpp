#include "runtime/cost/machine_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "base/text/json_object.h"
#include "runtime/cost/machine_keys.h"

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
  /// Whether the number has a source or a status.
  bool knows(std::string_view key) const { return find(key) != nullptr; }
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

/// The values of machine_keys() in one table; usual ones are left out, unless something is known of them.
void write_values(Writer& writer, std::string_view table, const Machine& machine) {
  for (const MachineKey& key : machine_keys()) {
    if (key.table != table) continue;
    with_field(machine, key, [&](const auto& field) {
      using Field = std::remove_cvref_t<decltype(field)>;
      if constexpr (std::is_same_v<Field, bool>) {
        if (field) writer.line(key.name, "true");
      } else if (!key.usual || static_cast<double>(field) != *key.usual || writer.knows(key.name)) {
        writer.number(key.name, field);
      }
    });
  }
}

void write_node(Writer& writer, const Machine& machine) {
  writer.table("node");
  write_values(writer, "node", machine);
  for (std::size_t i = 0; i < machine.node_groups.size(); ++i) {
    writer.item("node.group", i);
    writer.number("ranks", machine.node_groups[i].ranks);
    writer.number("stride", machine.node_groups[i].stride);
    writer.number("bandwidth", machine.node_groups[i].bandwidth);
  }
}

void write_network(Writer& writer, const Machine& machine) {
  writer.table("network");
  write_values(writer, "network", machine);
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
  write_values(writer, "", machine);
  writer.table("device");
  write_values(writer, "device", machine);
  write_node(writer, machine);
  write_network(writer, machine);
  writer.table("transport");
  write_values(writer, "transport", machine);
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
