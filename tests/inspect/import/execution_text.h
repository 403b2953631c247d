// Execution traces as PyTorch's ExecutionTraceObserver writes them, made by hand for tests.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::testing {

class ExecutionText {
 public:
  /// Storages of each argument and result; several of one argument are a list of tensors.
  using Storages = std::vector<std::vector<std::int64_t>>;

  ExecutionText& node(std::int64_t id, std::int64_t parent, std::int64_t record_function, std::string_view name,
                      std::string_view schema = "", const Storages& inputs = {}, const Storages& outputs = {},
                      std::int64_t sequence = -1, int scope = 0) {
    nodes_ += fmt::format(
        R"({}{{"id": {}, "name": "{}", "ctrl_deps": {}, "inputs": {}, "outputs": {}, "attrs": [{}, {}, {}, )"
        R"({{"name": "op_schema", "type": "string", "value": "{}"}}]}})",
        nodes_.empty() ? "" : ",\n", id, name, parent, values(inputs), values(outputs),
        number("rf_id", record_function), number("seq_id", sequence), number("scope", scope), schema);
    return *this;
  }
  std::string text() const { return fmt::format(R"({{"schema": "1.1.1-chakra.0.0.4", "nodes": [{}]}})", nodes_); }

 private:
  static std::string number(std::string_view name, std::int64_t value) {
    return fmt::format(R"({{"name": "{}", "type": "uint64", "value": {}}})", name, value);
  }
  static std::string tensor(std::int64_t storage) {
    return fmt::format(R"([{}, {}, 0, 16, 4, "cuda:0"])", 1000 + storage, storage);
  }
  static std::string values(const Storages& storages) {
    std::vector<std::string> out;
    for (const std::vector<std::int64_t>& one : storages) {
      std::vector<std::string> tensors;
      for (const std::int64_t storage : one) tensors.push_back(tensor(storage));
      out.push_back(one.size() == 1 ? tensors[0] : fmt::format("[{}]", fmt::join(tensors, ", ")));
    }
    return fmt::format(R"({{"values": [{}], "shapes": [], "types": [], "strides": []}})", fmt::join(out, ", "));
  }

  std::string nodes_;
};

}  // namespace weft::testing
