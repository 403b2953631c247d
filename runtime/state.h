// What outlives a step: parameters, optimizer state, scalars, inputs, caches, at fixed addresses outside every plan.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "runtime/buffer.h"

namespace weft {

/// One allocation for the state tensors of several graphs; tensors of equal name are one.
///
///   State state(graphs);
///   state.get<float>("scalars")[0] = learning_rate;
class State {
 public:
  /// Throws std::logic_error when two graphs disagree about a tensor's dtype, size or role.
  explicit State(std::span<const Graph* const> graphs);

  bool contains(std::string_view name) const { return entries_.contains(std::string(name)); }
  const Tensor& tensor(std::string_view name) const { return entry(name).tensor; }
  std::byte* data(std::string_view name) const { return buffer_.data() + entry(name).offset; }

  /// The elements of a tensor; T must be its element type.
  template <class T>
  std::span<T> get(std::string_view name) const {
    const Entry& found = entry(name);
    check_type(found, sizeof(T));
    return {reinterpret_cast<T*>(buffer_.data() + found.offset), static_cast<std::size_t>(found.tensor.elements())};
  }

  std::int64_t bytes() const { return buffer_.size(); }
  std::int64_t bytes_of(Role role) const;

 private:
  struct Entry {
    Tensor tensor;
    std::int64_t offset = 0;
  };
  const Entry& entry(std::string_view name) const;
  static void check_type(const Entry& entry, std::size_t size);

  std::unordered_map<std::string, Entry> entries_;
  Buffer buffer_;
};

}  // namespace weft
