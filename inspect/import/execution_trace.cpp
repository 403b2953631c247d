#include "inspect/import/execution_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "inspect/formats/json_pull.h"

namespace weft::inspect {
namespace {

constexpr std::string_view kC10d = "c10d::";
constexpr std::string_view kGlooWork = "gloo:";
constexpr int kForward = 0, kBackward = 1;  // scopes of record functions: an operator, a node of the backward pass
constexpr std::size_t kTensorItems = 6;     // tensor, storage, offset, elements, bytes of an element, device
constexpr int kMostDepth = 16;

/// Parts of a list in brackets, at commas that stand in no brackets of their own.
std::vector<std::string_view> schema_parts(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  const auto add = [&](std::size_t end) {
    std::string_view part = text.substr(begin, end - begin);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    if (!part.empty()) parts.push_back(part);
    begin = end + 1;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (c == ',' && depth == 0) add(i);
  }
  add(text.size());
  return parts;
}

/// From the bracket at `open` to the one that closes it, without both.
std::string_view in_brackets(std::string_view text, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')' && --depth == 0) return text.substr(open + 1, i - open - 1);
  }
  return text.substr(std::min(text.size(), open + 1));
}

/// "input" of "Tensor[] input=None".
std::string_view argument_name(std::string_view argument) {
  argument = argument.substr(0, argument.find('='));
  return argument.substr(argument.rfind(' ') + 1);
}

bool is_alias(std::string_view part) {
  return part.find("Tensor(") != std::string_view::npos;
}

/// The storages that one argument or result names, in lists or not.
using Storages = std::vector<std::int64_t>;

struct NodeRecord {
  std::int64_t id = 0, parent = 0;
  std::string name, schema, backend;
  std::int64_t record_function = -1, sequence = -1, scope = -1;
  std::vector<Storages> inputs, outputs;
};

class NodeReader {
 public:
  explicit NodeReader(JsonPull& in) : in_(in) {}

  NodeRecord read() {
    NodeRecord node;
    in_.open_object();
    for (std::string_view key; in_.next_key(key);) {
      if (key == "id") {
        node.id = integer();
      } else if (key == "ctrl_deps") {
        node.parent = integer();
      } else if (key == "name") {
        node.name = in_.text();
      } else if (key == "inputs") {
        node.inputs = values();
      } else if (key == "outputs") {
        node.outputs = values();
      } else if (key == "attrs") {
        read_list(in_, [&] { read_attribute(node); });
      } else {
        in_.skip();
      }
    }
    return node;
  }

 private:
  static constexpr std::int64_t kLargest = std::int64_t{1} << 62;

  std::int64_t integer() { return in_.integer(0, kLargest); }

  /// A number or a text; "" of anything else.
  std::string scalar() {
    const char first = in_.next_byte();
    if (first == '"') return std::string(in_.text());
    if (first != '{' && first != '[') return std::string(in_.word());
    in_.skip();
    return {};
  }

  std::vector<Storages> values() {
    std::vector<Storages> out;
    if (in_.next_byte() != '{') {
      in_.refuse("inputs that are no object", "a trace of schema 1.0.3 or later, as PyTorch 2.3 and later write it");
    }
    in_.open_object();
    for (std::string_view key; in_.next_key(key);) {
      if (key != "values") {
        in_.skip();
        continue;
      }
      read_list(in_, [&] { take_value(out.emplace_back(), 0); });
    }
    return out;
  }

  /// A tensor is a list of five numbers and a device's name.
  void take_value(Storages& out, int depth) {
    if (in_.next_byte() != '[' || depth == kMostDepth) {
      (void)scalar();
      return;
    }
    std::vector<std::int64_t> numbers;
    std::size_t items = 0;
    bool device = false;
    read_list(in_, [&] {
      const char first = in_.next_byte();
      device = first == '"' && items + 1 == kTensorItems;
      if (first == '[') {
        take_value(out, depth + 1);
      } else {
        const std::string text = scalar();
        const auto number = number_in<std::int64_t>(text);
        if (first != '"' && number && numbers.size() < kTensorItems) numbers.push_back(*number);
      }
      ++items;
    });
    // A tensor without a storage has the number 0.
    if (device && items == kTensorItems && numbers.size() + 1 == kTensorItems && numbers[1] != 0) {
      out.push_back(numbers[1]);
    }
  }

  void read_attribute(NodeRecord& node) {
    std::string name, value;
    in_.open_object();
    for (std::string_view key; in_.next_key(key);) {
      if (key == "name") {
        name = in_.text();
      } else if (key == "value") {
        value = scalar();
      } else {
        in_.skip();
      }
    }
    const auto number = [&] { return number_in<std::int64_t>(value).value_or(-1); };
    if (name == "rf_id") node.record_function = number();
    if (name == "seq_id") node.sequence = number();
    if (name == "scope") node.scope = number();
    if (name == "op_schema") node.schema = value;
    if (name == "kernel_backend") node.backend = value;
  }

  JsonPull& in_;
};

class AccessFinder {
 public:
  std::vector<StorageAccess> run(const NodeRecord& node) {
    const OperatorSchema& schema = schema_of(node.schema);
    std::map<std::int64_t, StorageUse> uses;
    const auto take = [&](std::int64_t storage, StorageUse use) {
      const auto [at, added] = uses.emplace(storage, use);
      if (!added && use == StorageUse::write) at->second = use;
    };
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      // An argument of which nothing is said may be written.
      const ArgumentUse use = i < schema.arguments.size() ? schema.arguments[i] : ArgumentUse::write;
      for (const std::int64_t storage : node.inputs[i]) {
        if (use != ArgumentUse::view) take(storage, use == ArgumentUse::write ? StorageUse::write : StorageUse::read);
      }
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (i < schema.makes.size() && !schema.makes[i]) continue;
      for (const std::int64_t storage : node.outputs[i]) {
        // A result that nobody called an alias, and yet is one, was written.
        take(storage, is_among(storage, node.inputs) ? StorageUse::write : StorageUse::make);
      }
    }
    std::vector<StorageAccess> out;
    for (const auto& [storage, use] : uses) out.push_back({storage, use});
    return out;
  }

 private:
  static bool is_among(std::int64_t storage, const std::vector<Storages>& of) {
    return std::ranges::any_of(of, [&](const Storages& one) { return std::ranges::find(one, storage) != one.end(); });
  }

  const OperatorSchema& schema_of(const std::string& text) {
    const auto [at, added] = schemas_.try_emplace(text);
    if (added && !text.empty()) at->second = parse_schema(text);
    return at->second;
  }

  std::unordered_map<std::string, OperatorSchema> schemas_;
};

/// Work of gloo's threads stands among the operators of the thread that asked for it, and may be called the parent of
/// what came after its request. It belongs to the last request before it.
void join_collective_threads(std::vector<TraceOperator>& operators) {
  for (TraceOperator& one : operators) {
    while (one.parent != kNoOperator && operators[one.parent].collective_thread) {
      one.parent = operators[one.parent].parent;
    }
  }
  std::vector<std::pair<std::int64_t, std::uint32_t>> requests;
  for (std::uint32_t i = 0; i < operators.size(); ++i) {
    if (operators[i].collective_request) requests.emplace_back(operators[i].record_function, i);
  }
  std::ranges::sort(requests);
  for (TraceOperator& one : operators) {
    if (!one.collective_thread) continue;
    const auto next = std::ranges::upper_bound(requests, std::pair(one.record_function, kNoOperator));
    one.parent = next == requests.begin() ? kNoOperator : std::prev(next)->second;
    one.accesses.clear();
    one.tells_accesses = false;
  }
}

}  // namespace

OperatorSchema parse_schema(std::string_view text) {
  OperatorSchema out;
  const std::size_t open = text.find('(');
  if (open == std::string_view::npos) return out;
  const std::string_view arguments = in_brackets(text, open);
  const bool names_no_writes = text.starts_with(kC10d) && text.find('!') == std::string_view::npos;
  for (const std::string_view argument : schema_parts(arguments)) {
    if (argument == "*") continue;
    const std::string_view name = argument_name(argument);
    const bool writes = argument.find('!') != std::string_view::npos;
    const bool writes_unsaid = name.starts_with("running_") || (names_no_writes && !name.starts_with("input"));
    const bool views = !writes && is_alias(argument);
    out.arguments.push_back(views                     ? ArgumentUse::view
                            : writes || writes_unsaid ? ArgumentUse::write
                                                      : ArgumentUse::read);
  }
  const std::size_t arrow = text.find("->", open + arguments.size());
  if (arrow == std::string_view::npos) return out;
  std::string_view results = text.substr(arrow + 2);
  while (results.starts_with(' ')) results.remove_prefix(1);
  if (results.starts_with('(')) results = in_brackets(results, 0);
  for (const std::string_view result : schema_parts(results)) out.makes.push_back(!is_alias(result));
  return out;
}

ExecutionTrace parse_execution_trace(ByteSource source, const std::string& name) {
  JsonPull in(std::move(source), name);
  ExecutionTrace out;
  out.file = name;
  std::vector<std::int64_t> parents;
  AccessFinder accesses;
  bool any = false;
  in.open_object();
  for (std::string_view key; in.next_key(key);) {
    if (key != "nodes") {
      in.skip();
      continue;
    }
    any = true;
    read_list(in, [&] {
      const NodeRecord node = NodeReader(in).read();
      TraceOperator& one = out.operators.emplace_back();
      one.node = node.id;
      one.record_function = node.record_function;
      one.sequence = node.sequence;
      one.backward = node.scope == kBackward;
      one.tells_accesses = (node.scope == kForward && !node.schema.empty()) || node.backend == "triton";
      one.collective_request = node.name.starts_with(kC10d);
      one.collective_thread = node.name.starts_with(kGlooWork);
      if (one.tells_accesses) one.accesses = accesses.run(node);
      const auto names_any = [](const Storages& storages) { return !storages.empty(); };
      one.has_storages = std::ranges::any_of(node.inputs, names_any) || std::ranges::any_of(node.outputs, names_any);
      one.name = node.name;
      parents.push_back(node.parent);
    });
  }
  in.finish();
  if (!any) {
    throw UserError(fmt::format("'{}' has no \"nodes\"", name), "an execution trace of PyTorch",
                    "record it with torch.profiler.ExecutionTraceObserver");
  }
  std::vector<std::uint32_t> order(out.operators.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return out.operators[i].node; });
  std::unordered_map<std::int64_t, std::uint32_t> by_node;
  std::vector<TraceOperator> sorted;
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    TraceOperator& one = sorted.emplace_back(std::move(out.operators[order[i]]));
    const auto parent = by_node.find(parents[order[i]]);
    if (parent != by_node.end()) one.parent = parent->second;
    by_node.emplace(one.node, i);
  }
  join_collective_threads(sorted);
  out.operators = std::move(sorted);
  return out;
}

ExecutionTrace read_execution_trace(const std::filesystem::path& file) {
  return parse_execution_trace(open_text_file(file, "the execution trace").source, file.string());
}

}  // namespace weft::inspect
