// Matrix products and their companions: packed weights, biases and their gradients.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "base/epilogue.h"
#include "graph/operations/elementwise.h"
#include "graph/operations/schema.h"

namespace weft::graph {

inline constexpr double kPackedElementBytes = 4;  // for fp32; the packed bf16 pairs take half

/// C[m,n] (+)= op(A)·op(B) (+ bias[n] on every row). Epilogues: gelu: writes gelu(C) as well; gelu_gradient: C is
/// (op(A)·op(B) (+ bias))·gelu′(x); add: C is addend + op(A)·op(B) (+ bias), all three not with accumulate;
/// bias_gradient: db[m] (+)= the sum of the rows of A, which is stored [k,m]. The packed B is the same B in the order
/// that PackWeight writes; it doesn't change the bits of the result.
struct Gemm {
  std::int64_t m, n, k;
  bool trans_a = false, trans_b = false, accumulate = false, has_bias = false, packed_b = false;
  Epilogue epilogue = Epilogue::none;

  static constexpr std::string_view kind = "gemm";
  static constexpr KindClass kind_class = KindClass::gemm;
  static constexpr auto fields() {
    return std::tuple{field("m", &Gemm::m),
                      field("n", &Gemm::n),
                      field("k", &Gemm::k),
                      field("trans_a", &Gemm::trans_a),
                      field("trans_b", &Gemm::trans_b),
                      field("accumulate", &Gemm::accumulate),
                      field("has_bias", &Gemm::has_bias),
                      field("packed_b", &Gemm::packed_b).told_if_set(),
                      field("epilogue", &Gemm::epilogue).told_if_set()};
  }
  constexpr auto arguments() const {
    return std::array{
        reads("A", trans_a ? ArgumentShape{k, m} : ArgumentShape{m, k}, kFloat),
        reads("B", trans_b ? ArgumentShape{n, k} : ArgumentShape{k, n}, same_as("A")),
        writes("C", {m, n}, same_as("A").or_f32()).updated_when(accumulate),
        reads("bias", {n}, same_as("A")).when(has_bias),
        writes("gelu", {m, n}, same_as("C")).when(epilogue == Epilogue::gelu),
        reads("x", {m, n}, same_as("C")).when(epilogue == Epilogue::gelu_gradient),
        reads("addend", {m, n}, same_as("C")).when(epilogue == Epilogue::add),
        reads("packed_B", any_size(), kFloat).when(packed_b),
        writes("db", {m}, DType::f32).updated_when(accumulate).when(epilogue == Epilogue::bias_gradient),
    };
  }
  constexpr std::string_view contradiction() const {
    if (epilogue == Epilogue::bias_gradient) return trans_a ? "" : "sums of the rows of an A that isn't transposed";
    return epilogue != Epilogue::none && accumulate ? "an epilogue of a product that is added to another" : "";
  }
  constexpr Work work(double element_bytes) const {
    const double e = element_bytes, c = as_double(m) * as_double(n);
    // The sums are still at hand for an epilogue, so one more matrix is written or read.
    Work after{};
    if (epilogue == Epilogue::gelu) after = {kGeluFlops * c, e * c};
    if (epilogue == Epilogue::gelu_gradient) after = {kGeluGradientFlops * c, e * c};
    if (epilogue == Epilogue::add) after = {c, e * c};
    if (epilogue == Epilogue::bias_gradient) after = {as_double(m) * as_double(k), 0};
    return {2 * as_double(m) * as_double(n) * as_double(k) + after.flops,
            e * (as_double(m) * as_double(k) + (accumulate ? 2 : 1) * as_double(m) * as_double(n)) +
                (packed_b ? kPackedElementBytes : e) * as_double(k) * as_double(n) + after.bytes};
  }
};

/// B of a Gemm, in the order in which the CPU's own matrix product reads it (kernels/cpu/gemm/packed_gemm.h). It is
/// packed once for all products of a step. Only the CPU has this operation.
struct PackWeight {
  std::int64_t n, k;
  bool trans_b = false;

  static constexpr std::string_view kind = "pack_weight";
  static constexpr KindClass kind_class = KindClass::copy;
  static constexpr auto fields() {
    return std::tuple{field("n", &PackWeight::n), field("k", &PackWeight::k), field("trans_b", &PackWeight::trans_b)};
  }
  constexpr auto arguments() const {
    return std::array{
        reads("B", trans_b ? ArgumentShape{n, k} : ArgumentShape{k, n}, kFloat),
        writes("packed", any_size(), kFloat),
    };
  }
  constexpr Work work(double element_bytes) const {
    return {0, (element_bytes + kPackedElementBytes) * as_double(k) * as_double(n)};
  }
};

/// db[cols] (+)= the sum of dy's rows.
struct BiasGradient {
  std::int64_t rows, cols;
  bool accumulate = false;

  static constexpr std::string_view kind = "bias_gradient";
  static constexpr auto fields() {
    return std::tuple{field("rows", &BiasGradient::rows), field("cols", &BiasGradient::cols),
                      field("accumulate", &BiasGradient::accumulate)};
  }
  constexpr auto arguments() const {
    return std::array{
        reads("dy", {rows, cols}, kFloat),
        writes("db", {cols}, DType::f32).updated_when(accumulate),
    };
  }
  constexpr Work work(double element_bytes) const { return each(rows * cols, 1, element_bytes); }
};

/// y += bias on every row, only on the rank with coordinate 0: the sum over ranks must have the bias once.
struct AddBias : MatrixSize {
  static constexpr std::string_view kind = "add_bias";
  constexpr auto arguments() const {
    return std::array{
        updates("y", {rows, cols}, kFloat),
        reads("bias", {cols}, same_as("y")),
        reads("coordinate", {1}, DType::i64),
    };
  }
  constexpr Work work(double element_bytes) const { return each(rows * cols, 1, 2 * element_bytes); }
};

using ProductOperations = OperationList<Gemm, PackWeight, BiasGradient, AddBias>;

}  // namespace weft::graph
