// Machines as TOML. Each table's members are named once, in fields(), which reads, writes or lists them.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/files/document.h"
#include "base/files/input_file.h"
#include "base/text/json_object.h"
#include "graph/operation.h"
#include "runtime/cost/machine.h"
#include "runtime/cost/machine_keys.h"
#include "runtime/cost/measured_rates.h"

namespace weft::cost {
namespace {

constexpr const char* kFix = "docs/machines.md describes every key, and the files under machines/ are examples";
constexpr NumberRange kPositive{.least = 0, .above = true}, kError{.least = 0, .most = 10, .above = true},
    kFactor{.least = 1, .most = 1000};

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

// How members are written, with what a reader demands of them.
struct Count {};  // from 1 on
struct Number {
  NumberRange range = kPositive;
};
struct Seconds {};  // written with four digits
struct Text {};
struct OneOf {
  std::vector<std::string> known;
};

// ---- what a machine file holds: `In` is Names, Reader or Writer ----

template <class In>
void dtype_field(In& in, DType& dtype) {
  std::string name(to_string(dtype));
  in.member("dtype", name, OneOf{{"f32", "bf16"}});
  dtype = name == "bf16" ? DType::bf16 : DType::f32;
}

template <class In>
void sizes_of_product(In& in, std::int64_t& m, std::int64_t& n, std::int64_t& k) {
  in.member("m", m, Count{});
  in.member("n", n, Count{});
  in.member("k", k, Count{});
}

/// The members that all measured points have.
template <class In, class Point>
void measurement(In& in, Point& point) {
  in.member("seconds", point.seconds, Seconds{});
  in.optional("error", point.error, Number{kError});
  in.optional("source", point.source, Text{});
}

template <class In>
void fields(In& in, NodeGroup& group) {
  in.member("ranks", group.ranks, Count{});
  in.member("stride", group.stride, Count{});
  in.member("bandwidth", group.bandwidth, Number{{.least = 1}});
}

template <class In>
void fields(In& in, Congestion& congestion) {
  in.member("nodes", congestion.nodes, Count{});
  in.member("factor", congestion.factor, Number{kFactor});
}

template <class In>
void fields(In& in, Slowdown& slowdown) {
  in.optional("compute", slowdown.compute, OneOf{operation_kinds(false)});
  in.optional("collective", slowdown.collective, OneOf{operation_kinds(true)});
  in.member("factor", slowdown.factor, Number{kFactor});
}

template <class In>
void fields(In& in, GemmPoint& point) {
  sizes_of_product(in, point.m, point.n, point.k);
  std::string layout = point.trans_a ? "tn" : point.trans_b ? "nt" : "nn";
  in.member("layout", layout, OneOf{{"nn", "nt", "tn"}});
  point.trans_a = layout == "tn";
  point.trans_b = layout == "nt";
  dtype_field(in, point.dtype);
  measurement(in, point);
}

template <class In>
void fields(In& in, AttentionPoint& point) {
  std::string kind = point.backward ? "backward" : "forward";
  in.optional("library", point.library, Text{});
  in.member("kind", kind, OneOf{{"forward", "backward"}});
  point.backward = kind == "backward";
  in.member("batch", point.batch, Count{});
  in.member("heads", point.heads, Count{});
  in.member("seq", point.seq, Count{});
  in.member("head-dim", point.head_dim, Count{});
  dtype_field(in, point.dtype);
  measurement(in, point);
}

/// Which members there are depends on the kind.
template <class In>
void fields(In& in, CalibrationPoint& point) {
  in.member("kind", point.kind, OneOf{{"all_reduce", "all_gather", "reduce_scatter", "broadcast", "gemm"}});
  if (point.kind == "gemm") {
    sizes_of_product(in, point.m, point.n, point.k);
    dtype_field(in, point.dtype);
  } else {
    in.member("ranks", point.ranks, Count{});
    in.member("bytes", point.bytes, Number{{.least = 1}});
  }
  in.member("seconds", point.seconds, Seconds{});
  in.member("error", point.error, Number{kError});
  in.member("source", point.source, Text{});
}

/// The values of machine_keys() in one table.
template <class In>
void values(In& in, std::string_view table, Machine& machine) {
  for (const MachineKey& key : machine_keys()) {
    if (key.table == table) with_field(machine, key, [&](auto& field) { in.value(key, field); });
  }
}

template <class In>
void fields(In& in, Machine& machine) {
  in.member("name", machine.name, Text{});
  in.optional("source", machine.source, Text{});
  values(in, "", machine);
  in.table("device", [&](auto& device) { values(device, "device", machine); });
  in.table("node", [&](auto& node) {
    values(node, "node", machine);
    node.list("group", machine.node_groups);
  });
  in.table("network", [&](auto& network) {
    values(network, "network", machine);
    network.list("congestion", machine.congestion);
  });
  in.optional_table("transport", [&](auto& transport) { values(transport, "transport", machine); });
  in.list("slowdown", machine.slowdowns);
  in.list("gemm", machine.gemms);
  in.list("attention", machine.attention);
  in.list("calibration", machine.calibration);
}

// ---- the names of a table's members ----

class Names {
 public:
  void value(const MachineKey& key, const auto& /*field*/) { names_.emplace_back(key.name); }
  void member(const char* key, const auto&... /*how*/) { names_.emplace_back(key); }
  void optional(const char* key, const auto&... /*how*/) { names_.emplace_back(key); }
  void table(const char* key, const auto& /*body*/) { names_.emplace_back(key); }
  void optional_table(const char* key, const auto& /*body*/) { names_.emplace_back(key); }
  void list(const char* key, const auto& /*items*/) { names_.emplace_back(key); }

  template <class Body>
  static std::vector<std::string> of(const Body& body) {
    Names names;
    body(names);
    return std::move(names.names_);
  }

 private:
  std::vector<std::string> names_;
};

// ---- reading ----

bool same_place(const GemmPoint& a, const GemmPoint& b) {
  return a.m == b.m && a.n == b.n && a.k == b.k && a.trans_a == b.trans_a && a.trans_b == b.trans_b &&
         a.dtype == b.dtype;
}

// Only the product of batch and heads counts for the model, so two points of it would contradict each other.
bool same_place(const AttentionPoint& a, const AttentionPoint& b) {
  return a.library == b.library && a.backward == b.backward && a.batch * a.heads == b.batch * b.heads &&
         a.seq == b.seq && a.head_dim == b.head_dim && a.dtype == b.dtype;
}

// A point that claims more than this multiple of the device's rate has a slip in its sizes or in its unit.
constexpr double kMostRate = 10;

/// Refuses a point that is implausible, or that measures what an earlier one does.
template <class Point>
void check_item(const DocumentValue& given, const char* key, const Machine& machine, const std::vector<Point>& before,
                const Point& point) {
  const double rate = rate_of(point), usual = machine.flops(point.dtype);
  // Measured device.flops count the start of a task. Where all products are shorter than that, each is far faster
  // alone.
  const double with_start = rate * point.seconds / (point.seconds + machine.task_overhead);
  if (rate > kMostRate * usual && with_start > 1.01 * usual) {
    given["seconds"].refuse(fmt::format("means {:.3g} operations a second, {:.3g} times device.flops-{}", rate,
                                        rate / usual, to_string(point.dtype)),
                            fmt::format("at most {:.0f} times as many", kMostRate));
  }
  const auto same = std::ranges::find_if(before, [&](const Point& other) { return same_place(point, other); });
  if (same != before.end()) {
    given.refuse(fmt::format("measures what {}[{}] does", key, same - before.begin()), "each point once");
  }
}

void check_item(const DocumentValue& given, const char* /*key*/, const Machine& /*machine*/,
                const std::vector<Congestion>& before, const Congestion& congestion) {
  const std::int64_t nodes = before.empty() ? 1 : before.back().nodes;
  if (congestion.nodes > nodes) return;
  given["nodes"].refuse(
      fmt::format("more than {} nodes, since points are in ascending order and one node has no network", nodes));
}

void check_item(const DocumentValue& given, const char* key, const Machine& machine,
                const std::vector<NodeGroup>& before, const NodeGroup& group) {
  const auto same = std::ranges::find_if(
      before, [&](const NodeGroup& other) { return other.ranks == group.ranks && other.stride == group.stride; });
  if (same != before.end())
    given.refuse(fmt::format("is about what {}[{}] is", key, same - before.begin()), "each once");
  if (group.ranks < 2) given["ranks"].refuse("2 ranks or more: a group of one sends nothing");
  if ((group.ranks - 1) * group.stride >= machine.devices_per_node) {
    given.refuse(fmt::format("has a member {} ranks after its first", (group.ranks - 1) * group.stride),
                 fmt::format("members on one node, of devices-per-node = {}", machine.devices_per_node));
  }
}

/// The first that matches applies.
void check_item(const DocumentValue& given, const char* key, const Machine& /*machine*/,
                const std::vector<Slowdown>& before, const Slowdown& slowdown) {
  const auto covers = [](const std::string& all, const std::string& one) { return all.empty() || all == one; };
  const auto earlier = std::ranges::find_if(before, [&](const Slowdown& other) {
    return covers(other.compute, slowdown.compute) && covers(other.collective, slowdown.collective);
  });
  if (earlier == before.end()) return;
  given.refuse(fmt::format("never counts, since {}[{}] is about all that it is about", key, earlier - before.begin()),
               "each once, and those of one kind before those of any");
}

void check_item(const DocumentValue& given, const char* /*key*/, const Machine& /*machine*/,
                const std::vector<CalibrationPoint>& /*before*/, const CalibrationPoint& item) {
  if (item.kind != "gemm" && item.ranks < 2) given["ranks"].refuse("2 ranks or more: a group of one sends nothing");
}

/// One table of the file. The constructor refuses unknown keys, so that the others only fetch known ones.
class Reader {
 public:
  Reader(const DocumentValue& table, Machine& machine, const std::vector<std::string>& keys)
      : table_(table), machine_(machine) {
    if (!table.is_object()) table.refuse("a table");
    table.only(keys);
  }

  template <class Field>
  void value(const MachineKey& key, Field& field) const {
    if (key.usual && !table_.find(key.name)) return;
    if constexpr (std::is_same_v<Field, bool>) {
      field = table_[key.name].boolean();
    } else if constexpr (std::is_same_v<Field, std::int64_t>) {
      member(key.name, field, Count{});
    } else {
      member(key.name, field, Number{key.range});
      if (below_a_byte(key, field)) table_[key.name].refuse(kAByte);
    }
  }

  void member(std::string_view key, double& value, const Number& how) const {
    value = sourced(key).number(how.range, "a number (or a table with value, source and status)");
  }
  void member(std::string_view key, double& value, Seconds /*how*/) const { member(key, value, Number{}); }
  void member(std::string_view key, std::int64_t& value, Count /*how*/) const {
    value = sourced(key).integer(1, 1'000'000'000);
  }
  void member(std::string_view key, std::string& value, Text /*how*/) const { value = table_[key].text(); }
  void member(std::string_view key, std::string& value, const OneOf& how) const {
    value = table_[key].name_of(how.known);
  }

  void optional(const char* key, auto& value, const auto& how) const {
    if (table_.find(key)) member(key, value, how);
  }

  template <class Body>
  void table(const char* key, const Body& body) const {
    const Reader in(table_[key], machine_, Names::of(body));
    body(in);
  }

  template <class Body>
  void optional_table(const char* key, const Body& body) const {
    if (table_.find(key)) table(key, body);
  }

  /// The tables under [[key]].
  template <class Item>
  void list(const char* key, std::vector<Item>& items) const {
    const auto found = table_.find(key);
    if (!found) return;
    for (const DocumentValue& each : found->items(fmt::format("tables, each under a line [[{}]]", found->path()))) {
      Item item;
      if constexpr (std::is_same_v<Item, CalibrationPoint>) {
        if (const auto kind = each.find("kind"); kind && kind->shown() == "\"gemm\"") item.kind = "gemm";
      }
      const Reader in(each, machine_, Names::of([&](Names& names) { fields(names, item); }));
      fields(in, item);
      check_item(each, key, machine_, items, item);
      items.push_back(std::move(item));
    }
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
    machine_.provenance.push_back({path, text("source"), text("status"), item});
    return found["value"];
  }

  DocumentValue table_;
  Machine& machine_;
};

// ---- writing ----

/// One table of the text. TOML writes texts as JSON does.
class Writer {
 public:
  Writer(const Machine& machine, std::string& text, std::string path = "", std::size_t item = 0)
      : machine_(machine), text_(text), path_(std::move(path)), item_(item) {}

  /// Usual values are left out, unless something is known of them.
  template <class Field>
  void value(const MachineKey& key, const Field& field) const {
    if constexpr (std::is_same_v<Field, bool>) {
      if (field) line(key.name, "true");
    } else if (!key.usual || static_cast<double>(field) != *key.usual || known(key.name) != nullptr) {
      sourced(key.name, fmt::format("{}", field));
    }
  }

  /// The shortest text that is read as the same number.
  void member(const char* key, double value, const Number& /*how*/) const { sourced(key, fmt::format("{}", value)); }
  void member(const char* key, double value, Seconds /*how*/) const { sourced(key, fmt::format("{:.4g}", value)); }
  void member(const char* key, std::int64_t value, Count /*how*/) const { sourced(key, fmt::format("{}", value)); }
  void member(const char* key, const std::string& value, const auto& /*how*/) const { line(key, json_string(value)); }

  void optional(const char* key, const auto& value, const auto& how) const {
    if constexpr (requires { value.empty(); }) {
      if (value.empty()) return;
    }
    member(key, value, how);
  }

  template <class Body>
  void table(const char* key, const Body& body) const {
    text_ += fmt::format("\n[{}]\n", key);
    const Writer in(machine_, text_, fmt::format("{}.", key));
    body(in);
  }

  template <class Body>
  void optional_table(const char* key, const Body& body) const {
    table(key, body);
  }

  template <class Item>
  void list(const char* key, std::vector<Item>& items) const {
    for (std::size_t i = 0; i < items.size(); ++i) {
      text_ += fmt::format("\n[[{}{}]]\n", path_, key);
      const Writer in(machine_, text_, fmt::format("{}{}.", path_, key), i);
      fields(in, items[i]);
    }
  }

 private:
  const Provenance* known(std::string_view key) const {
    return provenance_of(machine_, path_ + std::string(key), item_);
  }
  void line(std::string_view key, std::string_view value) const { text_ += fmt::format("{} = {}\n", key, value); }

  void sourced(std::string_view key, const std::string& value) const {
    const Provenance* found = known(key);
    if (found == nullptr) return line(key, value);
    std::string table = "{ value = " + value;
    if (!found->status.empty()) table += ", status = " + json_string(found->status);
    if (!found->source.empty()) table += ", source = " + json_string(found->source);
    line(key, table + " }");
  }

  const Machine& machine_;
  std::string& text_;
  const std::string path_;
  const std::size_t item_;
};

}  // namespace

Machine parse_machine(std::string_view toml, const std::string& name) {
  const Document document = read_toml(toml, name, kFix, TomlKeys::with_dashes);
  Machine machine;
  machine.cores = 1;
  const Reader in(document.root(), machine, Names::of([&](Names& names) { fields(names, machine); }));
  fields(in, machine);
  if (machine.name.empty()) document.root()["name"].refuse("a name that isn't empty");
  return machine;
}

Machine load_machine(const std::string& path) {
  return parse_machine(read_text_file(path, "the machine file", kLargestToml, "a TOML file", kFix), path);
}

std::string machine_toml(const Machine& machine) {
  std::string text;
  Machine described = machine;
  const Writer out(machine, text);
  fields(out, described);
  return text;
}

}  // namespace weft::cost
