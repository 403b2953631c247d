// The state, which outlives a step: parameters, optimizer state, scalars, inputs and caches, at fixed addresses.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>

#include "base/buffer.h"
#include "graph/graph.h"

namespace weft::execute {

/// One allocation for the state tensors of several graphs; tensors of equal name are one.
///
///   State state(graphs);
///   state.get<float>("scalars")[0] = learning_rate;
class State {
 public:
  /// Throws std::logic_error when two graphs disagree about a tensor's dtype, size or role.
  explicit State(std::span<const std::shared_ptr<const graph::Graph>> graphs);

  bool contains(std::string_view name) const { return entries_.contains(std::string(name)); }
  const graph::Tensor& tensor(std::string_view name) const { return entry(name).tensor; }
  std::byte* data(std::string_view name) const { return buffer_.data() + entry(name).offset; }

  /// All tensors are in one block of memory; `offset` is the begin of a tensor in it.
  std::byte* begin() const { return buffer_.data(); }
  std::int64_t offset(std::string_view name) const { return entry(name).offset; }

  /// The elements of a tensor. Throws std::logic_error when T isn't its element type, or there is no such tensor.
  template <class T>
  std::span<T> get(std::string_view name) const {
    const Entry& found = entry(name);
    check_type(found, dtype_of<T>());
    return {reinterpret_cast<T*>(buffer_.data() + found.offset), static_cast<std::size_t>(found.tensor.elements())};
  }

  std::int64_t bytes() const { return buffer_.size(); }
  std::int64_t bytes_of(graph::Role role) const;

 private:
  struct Entry {
    graph::Tensor tensor;
    std::int64_t offset = 0;
  };
  const Entry& entry(std::string_view name) const;
  static void check_type(const Entry& entry, DType asked);
  template <class T>
  static constexpr DType dtype_of() {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, bf16> || std::is_same_v<T, std::int32_t> ||
                  std::is_same_v<T, std::int64_t>);
    if constexpr (std::is_same_v<T, float>) return DType::f32;
    if constexpr (std::is_same_v<T, bf16>) return DType::bf16;
    if constexpr (std::is_same_v<T, std::int32_t>) return DType::i32;
    return DType::i64;
  }

  std::unordered_map<std::string, Entry> entries_;
  Buffer buffer_;
};

}  // namespace weft::execute
