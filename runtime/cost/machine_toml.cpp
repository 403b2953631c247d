// Reading a machine from TOML.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/files/text_file.h"
#include "base/files/toml_document.h"
#include "graph/operation.h"
#include "runtime/cost/machine.h"
#include "runtime/cost/machine_keys.h"
#include "runtime/cost/measured_rates.h"

namespace weft::cost {
namespace {

constexpr const char* kFix = "docs/machines.md describes every key, and the files under machines/ are examples";
constexpr NumberRange kPositive{.least = 0, .above = true};

/// One table of the file. The constructor refuses unknown keys, so the readers only fetch known ones.
class TableReader {
 public:
  TableReader(const DocumentValue& table, std::vector<Provenance>& provenance, const std::vector<std::string>& keys)
      : table_(table), provenance_(provenance) {
    if (!table.is_object()) table.refuse("a table");
    table.only(keys);
  }

  void number(std::string_view key, double& value, const NumberRange& range = kPositive) const {
    value = sourced(key).number(range, "a number (or a table with value, source and status)");
  }
  void count(std::string_view key, std::int64_t& value) const { value = sourced(key).integer(1, 1'000'000'000); }
  std::string text(const char* key) const { return table_[key].text(); }
  std::string name(const char* key, const std::vector<std::string>& known) const { return table_[key].name_of(known); }
  std::optional<DocumentValue> find(std::string_view key) const { return table_.find(key); }

  /// The tables under [[key]].
  std::vector<DocumentValue> tables(const char* key) const {
    const auto found = table_.find(key);
    if (!found) return {};
    return found->items(fmt::format("tables, each under a line [[{}]]", found->path()));
  }
  TableReader table(const char* key, const std::vector<std::string>& keys) const {
    return {table_[key], provenance_, keys};
  }
  TableReader table(const DocumentValue& table, const std::vector<std::string>& keys) const {
    return {table, provenance_, keys};
  }

 private:
  /// The number under `key`, which may be a table with value, source and status.
  DocumentValue sourced(std::string_view key) const {
    const DocumentValue found = table_[key];
    if (!found.is_object()) return found;
    found.only({"value", "source", "status"});
    const auto text = [&](const char* of) { return found.find(of) ? found[of].text() : ""; };
    std::string path = found.path();  // without indices: the same for all items of a list
    std::size_t item = 0;
    for (std::size_t at = 0; (at = path.find('[')) != std::string::npos;) {
      const std::size_t end = path.find(']');
      std::from_chars(path.data() + at + 1, path.data() + end, item);
      path.erase(at, end - at + 1);
    }
    provenance_.push_back({path, text("source"), text("status"), item});
    return found["value"];
  }

  DocumentValue table_;
  std::vector<Provenance>& provenance_;
};

template <std::size_t... Index>
std::vector<std::string> kinds(bool collectives, std::index_sequence<Index...> /*all*/) {
  std::vector<std::string> names;
  const auto add = [&](const graph::Operation& operation) {
    if (std::holds_alternative<graph::Opaque>(operation)) return;
    if (graph::is_collective(operation) == collectives) names.emplace_back(graph::kind_name(operation));
  };
  (add(std::variant_alternative_t<Index, graph::OperationVariant>{}), ...);
  return names;
}

/// The names of all computations, or of all collectives.
std::vector<std::string> operation_kinds(bool collectives) {
  return kinds(collectives, std::make_index_sequence<std::variant_size_v<graph::OperationVariant>>{});
}

/// The values of machine_keys() in one table.
void read_values(const TableReader& reader, std::string_view table, Machine& machine) {
  for (const MachineKey& key : machine_keys()) {
    if (key.table != table || (key.usual && !reader.find(key.name))) continue;
    with_field(machine, key, [&](auto& field) {
      using Field = std::remove_reference_t<decltype(field)>;
      if constexpr (std::is_same_v<Field, bool>) {
        field = reader.find(key.name)->boolean();
      } else if constexpr (std::is_same_v<Field, std::int64_t>) {
        reader.count(key.name, field);
      } else {
        reader.number(key.name, field, key.range);
      }
    });
  }
}

/// The keys of a table: its single values, and `lists`.
std::vector<std::string> keys_of(std::string_view table, std::initializer_list<const char*> lists = {}) {
  std::vector<std::string> keys = names_in(table);
  keys.insert(keys.end(), lists.begin(), lists.end());
  return keys;
}

DType read_dtype(const TableReader& table) {
  return table.name("dtype", {"f32", "bf16"}) == "bf16" ? DType::bf16 : DType::f32;
}

CalibrationPoint read_calibration(const TableReader& top, const DocumentValue& each) {
  const auto kind = each.find("kind");
  const bool product = kind && kind->shown() == "\"gemm\"";
  const TableReader table = product ? top.table(each, {"kind", "m", "n", "k", "dtype", "seconds", "error", "source"})
                                    : top.table(each, {"kind", "ranks", "bytes", "seconds", "error", "source"});
  CalibrationPoint point;
  point.kind = table.name("kind", {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "gemm"});
  if (product) {
    table.count("m", point.m);
    table.count("n", point.n);
    table.count("k", point.k);
    point.dtype = read_dtype(table);
  } else {
    table.count("ranks", point.ranks);
    table.number("bytes", point.bytes);
  }
  table.number("seconds", point.seconds);
  table.number("error", point.error, {.least = 0, .most = 10, .above = true});
  point.source = table.text("source");
  return point;
}

// A point that claims more than this multiple of the device's rate has a slip in its sizes or in its unit.
constexpr double kMostRate = 10;

/// The members that all points have, of which `given` refuses the implausible.
template <class Point>
void read_measurement(const TableReader& table, const DocumentValue& given, const Machine& machine, Point& point) {
  table.number("seconds", point.seconds);
  if (table.find("error")) table.number("error", point.error, {.least = 0, .most = 10, .above = true});
  if (table.find("source")) point.source = table.text("source");
  const double rate = rate_of(point), usual = machine.flops(point.dtype);
  // Measured device.flops count the start of a task. Where all products are shorter than that, each is far faster
  // alone.
  const double with_start = rate * point.seconds / (point.seconds + machine.task_overhead);
  if (rate <= kMostRate * usual || with_start <= 1.01 * usual) return;
  given["seconds"].refuse(fmt::format("means {:.3g} operations a second, {:.3g} times device.flops-{}", rate,
                                      rate / usual, to_string(point.dtype)),
                          fmt::format("at most {:.0f} times as many", kMostRate));
}

GemmPoint read_gemm(const TableReader& top, const DocumentValue& each, const Machine& machine) {
  const TableReader table = top.table(each, {"m", "n", "k", "layout", "dtype", "seconds", "error", "source"});
  GemmPoint point;
  table.count("m", point.m);
  table.count("n", point.n);
  table.count("k", point.k);
  const std::string layout = table.name("layout", {"nn", "nt", "tn"});
  point.trans_a = layout == "tn";
  point.trans_b = layout == "nt";
  point.dtype = read_dtype(table);
  read_measurement(table, each, machine, point);
  return point;
}

AttentionPoint read_attention(const TableReader& top, const DocumentValue& each, const Machine& machine) {
  const TableReader table =
      top.table(each, {"kind", "batch", "heads", "seq", "head-dim", "dtype", "seconds", "error", "source"});
  AttentionPoint point;
  point.backward = table.name("kind", {"forward", "backward"}) == "backward";
  table.count("batch", point.batch);
  table.count("heads", point.heads);
  table.count("seq", point.seq);
  table.count("head-dim", point.head_dim);
  point.dtype = read_dtype(table);
  read_measurement(table, each, machine, point);
  return point;
}

bool same_place(const GemmPoint& a, const GemmPoint& b) {
  return a.m == b.m && a.n == b.n && a.k == b.k && a.trans_a == b.trans_a && a.trans_b == b.trans_b &&
         a.dtype == b.dtype;
}

// Only the product of batch and heads counts for the model, so two points of it would contradict each other.
bool same_place(const AttentionPoint& a, const AttentionPoint& b) {
  return a.backward == b.backward && a.batch * a.heads == b.batch * b.heads && a.seq == b.seq &&
         a.head_dim == b.head_dim && a.dtype == b.dtype;
}

/// The points under [[key]], each of which `read` makes of its table.
template <class Point>
std::vector<Point> read_points(const TableReader& top, const char* key, const Machine& machine,
                               Point (*read)(const TableReader&, const DocumentValue&, const Machine&)) {
  std::vector<Point> points;
  for (const DocumentValue& each : top.tables(key)) {
    const Point point = read(top, each, machine);
    const auto before = std::ranges::find_if(points, [&](const Point& other) { return same_place(point, other); });
    if (before != points.end()) {
      each.refuse(fmt::format("measures what {}[{}] does", key, before - points.begin()), "each point once");
    }
    points.push_back(point);
  }
  return points;
}

void read_node(const TableReader& table, Machine& machine) {
  read_values(table, "node", machine);
  for (const DocumentValue& each : table.tables("group")) {
    const TableReader group = table.table(each, {"ranks", "stride", "bandwidth"});
    NodeGroup& measured = machine.node_groups.emplace_back();
    group.count("ranks", measured.ranks);
    group.count("stride", measured.stride);
    group.number("bandwidth", measured.bandwidth);
  }
}

void read_network(const TableReader& table, Machine& machine) {
  read_values(table, "network", machine);
  for (const DocumentValue& each : table.tables("congestion")) {
    const TableReader point = table.table(each, {"nodes", "factor"});
    Congestion congestion;
    point.count("nodes", congestion.nodes);
    point.number("factor", congestion.factor, {.least = 1, .most = 1000});
    const std::int64_t before = machine.congestion.empty() ? 1 : machine.congestion.back().nodes;
    if (congestion.nodes <= before) {
      point.find("nodes")->refuse(
          fmt::format("more than {} nodes, since points are in ascending order and one node has no network", before));
    }
    machine.congestion.push_back(congestion);
  }
}

Machine read_machine(const DocumentValue& root) {
  Machine machine;
  machine.cores = 1;
  const TableReader top(root, machine.provenance,
                        {"name", "source", "devices-per-node", "device", "node", "network", "transport", "slowdown",
                         "gemm", "attention", "calibration"});
  machine.name = top.text("name");
  if (top.find("source")) machine.source = top.text("source");
  read_values(top, "", machine);
  read_values(top.table("device", keys_of("device")), "device", machine);
  read_node(top.table("node", keys_of("node", {"group"})), machine);
  read_network(top.table("network", keys_of("network", {"congestion"})), machine);
  if (top.find("transport")) read_values(top.table("transport", keys_of("transport")), "transport", machine);
  for (const DocumentValue& each : top.tables("slowdown")) {
    const TableReader table = top.table(each, {"compute", "collective", "factor"});
    Slowdown& slowdown = machine.slowdowns.emplace_back();
    if (table.find("compute")) slowdown.compute = table.name("compute", operation_kinds(false));
    if (table.find("collective")) slowdown.collective = table.name("collective", operation_kinds(true));
    table.number("factor", slowdown.factor, {.least = 1, .most = 1000});
  }
  machine.gemms = read_points<GemmPoint>(top, "gemm", machine, read_gemm);
  machine.attention = read_points<AttentionPoint>(top, "attention", machine, read_attention);
  for (const DocumentValue& each : top.tables("calibration")) {
    machine.calibration.push_back(read_calibration(top, each));
  }
  return machine;
}

}  // namespace

Machine parse_machine(std::string_view toml, const std::string& name) {
  return read_machine(read_toml(toml, name, kFix, TomlKeys::with_dashes).root());
}

Machine load_machine(const std::string& path) {
  return parse_machine(read_text_file(path, "the machine file", kLargestToml, "a TOML file", kFix), path);
}

}  // namespace weft::cost
