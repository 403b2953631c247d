// The schema of an operation: its arguments, fields and work, in terms that the compiler checks.
//
// An operation is a struct of plain data with a schema in it (graph/operations/):
//
//   struct SelectRow {
//     std::int64_t rows, cols;                                        // plain data
//
//     static constexpr std::string_view kind = "select_row";          // its name in files, drawings and fingerprints
//     static constexpr KindClass kind_class = KindClass::copy;        // its class in drawings; else elementwise
//     static constexpr auto fields() {                                // the data, by their names in files
//       return std::tuple{field("rows", &SelectRow::rows), field("cols", &SelectRow::cols)};
//     }
//     constexpr auto arguments() const {                              // the accesses of its task, in this order
//       return std::array{reads("x", {rows, cols}, kFloat), reads("index", {1}, DType::i64),
//                         writes("out", {cols}, kFloat)};
//     }
//     constexpr Work work(double element_bytes) const { … }           // its cost
//   };
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "base/dtype.h"

namespace weft::graph {

enum class AccessMode : std::uint8_t { read, write, read_write };

constexpr std::string_view to_string(AccessMode mode) {
  constexpr auto kNames = std::to_array<std::string_view>({"read", "write", "read_write"});
  return kNames.at(static_cast<std::size_t>(mode));
}

/// The class by which drawings colour and statistics count an operation. Norms, activations, embeddings and losses are
/// elementwise; norm and clipping of gradients belong to the optimizer.
enum class KindClass : std::uint8_t {
  gemm,
  attention,
  elementwise,
  all_gather,
  reduce_scatter,
  all_reduce,
  exchange,  // each rank gives every other one something else
  copy,
  optimizer,
  host  // work of a CPU thread beside the device: launches, waits
};

/// Arithmetic (flops) and memory traffic (bytes) of a task if nothing is cached: the input of every cost model.
/// `network_bytes` are the bytes that one rank sends in a collective.
struct Work {
  double flops = 0, bytes = 0, network_bytes = 0;
};

constexpr double as_double(std::int64_t n) {
  return static_cast<double>(n);
}

/// The work of n elements with so much for each.
constexpr Work each(std::int64_t n, double flops, double bytes) {
  return {flops * as_double(n), bytes * as_double(n)};
}

/// {rows, cols}, or {n} for a vector: one row of n. A contiguous argument may have any shape with as many elements.
struct ArgumentShape {
  enum class Form : std::uint8_t { exact, any_rows, any_shape, any_size };

  constexpr ArgumentShape(std::int64_t n) : cols(n) {}  // NOLINT(google-explicit-constructor): {n} in a schema's row
  constexpr ArgumentShape(std::int64_t r, std::int64_t c, Form f = Form::exact) : rows(r), cols(c), form(f) {}

  std::int64_t rows = 1, cols;
  Form form = Form::exact;
};

/// `n` elements, in rows that need not be adjacent.
constexpr ArgumentShape any_shape(std::int64_t n) {
  return {1, n, ArgumentShape::Form::any_shape};
}
/// Any number of rows of `cols` elements.
constexpr ArgumentShape any_rows(std::int64_t cols) {
  return {0, cols, ArgumentShape::Form::any_rows};
}
/// A vector whose size is known only on the machine that runs the task.
constexpr ArgumentShape any_size() {
  return {1, 0, ArgumentShape::Form::any_size};
}

/// "4 x 8", "rows of 8", "32 elements": for messages.
std::string to_string(const ArgumentShape& shape);

/// The shape {rows, cols} in which a schema sees an argument of rows × cols elements; nothing if the argument doesn't
/// fit.
struct SeenShape {
  std::int64_t rows, cols;
  friend bool operator==(const SeenShape&, const SeenShape&) = default;
};
std::optional<SeenShape> seen_as(const ArgumentShape& shape, std::int64_t rows, std::int64_t cols, bool contiguous);

/// The dtypes that an argument may have.
struct ArgumentElements {
  enum class Rule : std::uint8_t { one_dtype, floats, any, same_as };

  constexpr ArgumentElements(DType d)  // NOLINT(google-explicit-constructor): DType::f32 in a schema's row
      : rule(Rule::one_dtype), dtype(d) {}
  constexpr ArgumentElements(Rule r, std::string_view name = {}) : rule(r), other(name) {}

  constexpr ArgumentElements or_f32() const {
    ArgumentElements wider = *this;
    wider.f32_too = true;
    return wider;
  }

  Rule rule;
  DType dtype = DType::f32;  // of one_dtype
  std::string_view other;    // of same_as: the argument's name
  bool f32_too = false;
};

/// Activations and parameters: f32 or bf16.
inline constexpr ArgumentElements kFloat(ArgumentElements::Rule::floats);
inline constexpr ArgumentElements kAnyDType(ArgumentElements::Rule::any);
/// The dtype of another argument of the operation, which must be present whenever this one is.
constexpr ArgumentElements same_as(std::string_view argument) {
  return {ArgumentElements::Rule::same_as, argument};
}

/// A row of a schema: one argument.
struct ArgumentSchema {
  std::string_view name;
  AccessMode mode;
  ArgumentShape shape;
  ArgumentElements elements;
  bool present = true;
  bool write_only_too = false;

  /// The task has the argument only if the condition holds.
  constexpr ArgumentSchema when(bool condition) const {
    ArgumentSchema row = *this;
    row.present = condition;
    return row;
  }
  /// If the condition holds, the argument is read too: the result is added to it, or changes it in place.
  constexpr ArgumentSchema updated_when(bool condition) const {
    ArgumentSchema row = *this;
    if (condition) row.mode = AccessMode::read_write;
    return row;
  }
  /// If the condition holds, the task may also declare a pure write, because other arguments determine the whole
  /// result.
  constexpr ArgumentSchema or_written_when(bool condition) const {
    ArgumentSchema row = *this;
    row.write_only_too = condition;
    return row;
  }

  constexpr bool allows(AccessMode found) const {
    return found == mode || (write_only_too && found == AccessMode::write);
  }
};

constexpr ArgumentSchema reads(std::string_view name, ArgumentShape shape, ArgumentElements elements) {
  return {name, AccessMode::read, shape, elements};
}
constexpr ArgumentSchema writes(std::string_view name, ArgumentShape shape, ArgumentElements elements) {
  return {name, AccessMode::write, shape, elements};
}
constexpr ArgumentSchema updates(std::string_view name, ArgumentShape shape, ArgumentElements elements) {
  return {name, AccessMode::read_write, shape, elements};
}

/// A field and its name in files and fingerprints. The name is data: renaming the member must not change it.
template <class Op, class T>
struct FieldSchema {
  std::string_view name;
  T Op::*member;
  bool only_if_set = false;
  bool in_signature = true;

  /// Listed only if it isn't false or zero, so that operations without it keep the fingerprints in existing plan files.
  constexpr FieldSchema told_if_set() const {
    FieldSchema row = *this;
    row.only_if_set = true;
    return row;
  }
  /// Tasks that differ only in this field cost the same.
  constexpr FieldSchema free_of_cost() const {
    FieldSchema row = *this;
    row.in_signature = false;
    return row;
  }
};

template <class Op, class T>
constexpr FieldSchema<Op, T> field(std::string_view name, T Op::*member) {
  return {name, member};
}

/// Operations that share their data derive from one of these, which has the fields, too.
struct ElementCount {
  std::int64_t n;

  static constexpr auto fields() { return std::tuple{field("n", &ElementCount::n)}; }
};
struct MatrixSize {
  std::int64_t rows, cols;

  static constexpr auto fields() {
    return std::tuple{field("rows", &MatrixSize::rows), field("cols", &MatrixSize::cols)};
  }
};

/// The operations of a file below graph/operations/; graph/operation.h makes one type of all.
template <class... Ops>
struct OperationList {};

/// The rows of an operation's schema, present or not.
template <class Op>
inline constexpr std::size_t argument_count = std::tuple_size_v<decltype(Op{}.arguments())>;

/// The index of an argument in its operation's schema, found by the compiler: an unknown name doesn't compile.
template <class Op>
class ArgumentName {
 public:
  consteval ArgumentName(const char* name)  // NOLINT(google-explicit-constructor): a literal converts to its index
      : index_(place_of(name)) {}
  constexpr std::size_t index() const { return index_; }

 private:
  static consteval std::size_t place_of(std::string_view name) {
    const auto rows = Op{}.arguments();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].name == name) return i;
    }
    throw "the operation has no argument of this name";  // NOLINT: never runs, it ends the compilation
  }

  std::size_t index_;
};

}  // namespace weft::graph
