// Reading a machine from TOML, with the line of whatever is refused.
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "base/error.h"
#include "graph/operation.h"
#include "runtime/cost/machine.h"

namespace weft {
namespace {

constexpr std::size_t kLargestFile = 64 * 1024;  // it bounds the depth of tables, which toml++ takes down recursively
constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::string_view kFix = "docs/machines.md describes every key, and the files under machines/ are examples";

std::string_view type_name(const toml::node& node) {
  if (node.is_string()) return "text";
  if (node.is_integer()) return "an integer";
  if (node.is_floating_point()) return "a number with a fraction";
  if (node.is_boolean()) return "true or false";
  if (node.is_array()) return "an array";
  if (node.is_table()) return "a table";
  return "a date or time";
}

/// Which numbers a key takes.
struct Range {
  double least = 0, most = kInfinite;
  bool above = false;  // `least` itself is refused
  bool whole = false;
};

constexpr Range kPositive{0, kInfinite, true, false}, kNotNegative{};
constexpr Range kCount{1, 1e9, false, true};

std::string to_string(const Range& range) {
  std::string text = range.whole ? "a whole number" : "a number";
  text += range.above ? fmt::format(" above {}", range.least) : fmt::format(" of at least {}", range.least);
  return std::isfinite(range.most) ? text + fmt::format(" and at most {}", range.most) : text;
}

/// One table of the file: hands out the keys that are asked for and refuses the others.
class TableReader {
 public:
  TableReader(const std::string& file, std::string path, const toml::table& table, std::vector<Provenance>* provenance)
      : file_(file), path_(std::move(path)), table_(table), provenance_(provenance) {
    for (const auto& [key, node] : table) {
      std::string name(key.str());
      std::ranges::replace(name, '_', '-');
      if (!nodes_.emplace(name, &node).second) {
        throw UserError(fmt::format("{}: {} is given twice", at(node), name), "each key once", "leave one out");
      }
    }
  }

  /// Also tells that the key is known.
  bool has(const std::string& key) { return find(key, false) != nullptr; }

  void number(const std::string& key, double& value, const Range& range, bool required = false) {
    const toml::node* node = find(key, required);
    if (node == nullptr) return;
    Provenance provenance{full(key), "", ""};
    if (const toml::table* table = node->as_table()) {
      TableReader reader(file_, full(key), *table, nullptr);
      reader.number("value", value, range, true);
      reader.text("source", provenance.source);
      reader.text("status", provenance.status);
      reader.finish();
      if (provenance_ != nullptr) provenance_->push_back(std::move(provenance));
      return;
    }
    std::optional<double> found;
    if (const auto* integer = node->as_integer()) found = static_cast<double>(integer->get());
    if (const auto* real = node->as_floating_point(); real != nullptr && !range.whole) found = real->get();
    if (!found) {
      throw UserError(fmt::format("{}: {} is {}", at(*node), full(key), type_name(*node)),
                      to_string(range) + ", or a table with value, source and status", kFix);
    }
    const bool fits = *found <= range.most && (range.above ? *found > range.least : *found >= range.least);
    if (!fits || !std::isfinite(*found)) {
      throw UserError(fmt::format("{}: {} = {}", at(*node), full(key), *found), to_string(range),
                      "correct that number");
    }
    value = *found;
  }

  void count(const std::string& key, std::int64_t& value, bool required = false) {
    double number_value = static_cast<double>(value);
    number(key, number_value, kCount, required);
    value = static_cast<std::int64_t>(number_value);
  }

  void text(const std::string& key, std::string& value, bool required = false) {
    if (const toml::node* node = find(key, required)) value = typed<std::string>(*node, key, "text in quotes");
  }

  void truth(const std::string& key, bool& value) {
    if (const toml::node* node = find(key, false)) value = typed<bool>(*node, key, "true or false");
  }

  void word(const std::string& key, std::string& value, const std::vector<std::string>& accepted) {
    const toml::node* node = find(key, true);
    value = typed<std::string>(*node, key, "one of " + join(accepted));
    if (std::ranges::find(accepted, value) != accepted.end()) return;
    const std::string nearest = nearest_name(value, accepted);
    throw UserError(fmt::format("{}: {} = \"{}\" is unknown", at(*node), full(key), value), "one of " + join(accepted),
                    nearest.empty() ? "choose one of these" : fmt::format("did you mean \"{}\"?", nearest));
  }

  void table(const std::string& key, bool required, const std::function<void(TableReader&)>& read) {
    const toml::node* node = find(key, required);
    if (node == nullptr) return;
    const toml::table* table = node->as_table();
    if (table == nullptr) {
      throw UserError(fmt::format("{}: {} is {}", at(*node), full(key), type_name(*node)),
                      fmt::format("a table [{}]", full(key)), kFix);
    }
    TableReader reader(file_, full(key), *table, provenance_);
    read(reader);
    reader.finish();
  }

  void tables(const std::string& key, const std::function<void(TableReader&)>& read) {
    const toml::node* node = find(key, false);
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    const std::string expected = fmt::format("tables, each under a line [[{}]]", full(key));
    if (array == nullptr)
      throw UserError(fmt::format("{}: {} is {}", at(*node), full(key), type_name(*node)), expected, kFix);
    for (const toml::node& element : *array) {
      const toml::table* table = element.as_table();
      if (table == nullptr) {
        throw UserError(fmt::format("{}: {} holds {}", at(element), full(key), type_name(element)), expected, kFix);
      }
      TableReader reader(file_, full(key), *table, provenance_);
      read(reader);
      reader.finish();
    }
  }

  void finish() const {
    for (const auto& [key, node] : nodes_) {
      if (std::ranges::find(known_, key) != known_.end()) continue;
      const std::string nearest = nearest_name(key, known_);
      throw UserError(fmt::format("{}: unknown key {}", at(*node), full(key)), "one of " + join(known_),
                      nearest.empty() ? std::string(kFix) : fmt::format("did you mean {}?", full(nearest)));
    }
  }

 private:
  const toml::node* find(const std::string& key, bool required) {
    if (std::ranges::find(known_, key) == known_.end()) known_.push_back(key);
    const auto found = nodes_.find(key);
    if (found != nodes_.end()) return found->second;
    if (required) {
      finish_spelling();
      throw UserError(fmt::format("{}: {} is missing", at(table_), full(key)), "a machine file that gives it", kFix);
    }
    return nullptr;
  }

  // A required key that is missing may stand there misspelt: that says more.
  void finish_spelling() const {
    for (const auto& [key, node] : nodes_) {
      if (std::ranges::find(known_, key) != known_.end()) continue;
      const std::string nearest = nearest_name(key, known_);
      if (nearest.empty() || nodes_.contains(nearest)) continue;
      throw UserError(fmt::format("{}: unknown key {}", at(*node), full(key)), fmt::format("{}", full(nearest)),
                      fmt::format("did you mean {}?", full(nearest)));
    }
  }

  template <class Value>
  Value typed(const toml::node& node, const std::string& key, std::string_view expected) const {
    if (const auto* value = node.as<Value>()) return value->get();
    throw UserError(fmt::format("{}: {} is {}", at(node), full(key), type_name(node)), expected, kFix);
  }

  std::string full(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }
  std::string at(const toml::node& node) const {
    const auto line = node.source().begin.line;
    return line == 0 ? file_ : fmt::format("{} line {}", file_, line);
  }

  const std::string& file_;
  std::string path_;
  const toml::table& table_;
  std::vector<Provenance>* provenance_;
  std::map<std::string, const toml::node*> nodes_;
  std::vector<std::string> known_;
};

template <std::size_t... Index>
std::vector<std::string> kinds(bool collectives, std::index_sequence<Index...> /*all*/) {
  std::vector<std::string> names;
  const auto add = [&](const Operation& operation) {
    if (is_collective(operation) == collectives) names.emplace_back(kind_name(operation));
  };
  (add(std::variant_alternative_t<Index, Operation>{}), ...);
  return names;
}

/// The names of all computations, or of all collectives.
std::vector<std::string> operation_kinds(bool collectives) {
  return kinds(collectives, std::make_index_sequence<std::variant_size_v<Operation>>{});
}

void read_link(TableReader& table, Link& link) {
  table.number("latency", link.latency, kNotNegative, true);
  table.number("bandwidth", link.bandwidth, kPositive, true);
  table.number("setup", link.setup, kNotNegative);
  table.number("small-bandwidth", link.small_bandwidth, kNotNegative);
}

void read_calibration(TableReader& table, CalibrationPoint& point) {
  table.word("kind", point.kind, {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "gemm"});
  if (point.kind == "gemm") {
    table.count("m", point.m, true);
    table.count("n", point.n, true);
    table.count("k", point.k, true);
    std::string dtype;
    table.word("dtype", dtype, {"f32", "bf16"});
    point.dtype = dtype == "bf16" ? DType::bf16 : DType::f32;
  } else {
    table.count("ranks", point.ranks, true);
    table.number("bytes", point.bytes, kPositive, true);
  }
  table.number("seconds", point.seconds, kPositive, true);
  table.number("error", point.error, {0, 10, true, false}, true);
  table.text("source", point.source, true);
}

Machine read_machine(const toml::table& root, const std::string& file) {
  Machine machine;
  machine.cores = 1;
  TableReader top(file, "", root, &machine.provenance);
  top.text("name", machine.name, true);
  top.text("source", machine.source);
  top.count("devices-per-node", machine.devices_per_node, true);
  top.table("device", true, [&](TableReader& table) {
    table.number("flops-f32", machine.flops_f32, kPositive, true);
    table.number("flops-bf16", machine.flops_bf16, kPositive, true);
    table.number("gemm-half", machine.gemm_half, kNotNegative);
    table.number("memory-bandwidth", machine.memory_bandwidth, kPositive, true);
    table.number("memory-bytes", machine.memory_bytes, kPositive, true);
    table.number("task-overhead", machine.task_overhead, kNotNegative);
    table.number("cores", machine.cores, kPositive);
  });
  top.table("node", true, [&](TableReader& table) {
    read_link(table, machine.node);
    table.number("pair-bandwidth", machine.pair_bandwidth, kNotNegative);
    table.tables("group", [&](TableReader& group) {
      NodeGroup& measured = machine.node_groups.emplace_back();
      group.count("ranks", measured.ranks, true);
      group.count("stride", measured.stride, true);
      group.number("bandwidth", measured.bandwidth, kPositive, true);
    });
  });
  top.table("network", true, [&](TableReader& table) {
    read_link(table, machine.network);
    table.number("ports", machine.network_ports, kPositive);
  });
  top.table("transport", false, [&](TableReader& table) {
    table.number("cpu", machine.transport_cpu, kNotNegative);
    table.truth("shared-cores", machine.shared_cores);
  });
  top.tables("slowdown", [&](TableReader& table) {
    Slowdown& slowdown = machine.slowdowns.emplace_back();
    if (table.has("compute")) table.word("compute", slowdown.compute, operation_kinds(false));
    if (table.has("collective")) table.word("collective", slowdown.collective, operation_kinds(true));
    table.number("factor", slowdown.factor, {1, 1000, false, false}, true);
  });
  top.tables("calibration", [&](TableReader& table) { read_calibration(table, machine.calibration.emplace_back()); });
  top.finish();
  return machine;
}

}  // namespace

Machine parse_machine(std::string_view toml, const std::string& name) {
  if (toml.size() > kLargestFile) {
    throw UserError(fmt::format("{} is larger than {} bytes", name, kLargestFile), "a machine in TOML", kFix);
  }
  try {
    return read_machine(toml::parse(toml, name), name);
  } catch (const toml::parse_error& error) {
    throw UserError(fmt::format("{} line {}: {}", name, error.source().begin.line, error.description()),
                    "TOML: key = value on each line, text in quotes", kFix);
  }
}

Machine load_machine(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kLargestFile + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));  // not all of it: it may be any file, or endless
  if (file.bad() || (file.fail() && !file.eof())) {
    throw UserError(fmt::format("the machine file {} can't be read", path), "a TOML file", kFix);
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.empty()) throw UserError(fmt::format("the machine file {} is empty", path), "a TOML file", kFix);
  return parse_machine(text, path);
}

}  // namespace weft
