// LayerNorm and RMSNorm, of whole rows, of the heads of a row, or of rows whose columns are divided over several ranks.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "graph/operations/schema.h"

namespace weft::graph {

/// For each row: y = (x − mean)·rstd·weight + bias, with the biased variance (LayerNorm: centered), or y = x·rsqrt(mean
/// x² + eps)·weight (RMSNorm).
template <bool kCentered>
struct NormForward {
  std::int64_t rows, cols;
  float eps;

  static constexpr std::string_view kind = kCentered ? "layer_norm" : "rms_norm";
  static constexpr auto fields() {
    return std::tuple{field("rows", &NormForward::rows), field("cols", &NormForward::cols),
                      field("eps", &NormForward::eps)};
  }
  constexpr auto arguments() const {
    return std::array{
        reads("x", {rows, cols}, kFloat),
        reads("weight", {cols}, same_as("x")),
        reads("bias", {cols}, same_as("x")).when(kCentered),
        writes("y", {rows, cols}, same_as("x")),
        // For each row:
        writes("mean", {rows}, DType::f32).when(kCentered),
        writes("rstd", {rows}, DType::f32),
    };
  }
  constexpr Work work(double element_bytes) const { return each(rows * cols, kCentered ? 8 : 5, 2 * element_bytes); }
};
using LayerNormForward = NormForward<true>;
using RmsNormForward = NormForward<false>;

/// `residual`: dresidual is added to dx. `accumulate` applies to dweight and dbias.
template <bool kCentered>
struct NormBackward {
  std::int64_t rows, cols;
  bool residual = false, accumulate = false;

  static constexpr std::string_view kind = kCentered ? "layer_norm_backward" : "rms_norm_backward";
  static constexpr auto fields() {
    return std::tuple{field("rows", &NormBackward::rows), field("cols", &NormBackward::cols),
                      field("residual", &NormBackward::residual), field("accumulate", &NormBackward::accumulate)};
  }
  constexpr auto arguments() const {
    return std::array{
        reads("x", {rows, cols}, kFloat),
        reads("weight", {cols}, same_as("x")),
        reads("mean", {rows}, DType::f32).when(kCentered),
        reads("rstd", {rows}, DType::f32),
        reads("dy", {rows, cols}, same_as("x")),
        writes("dx", {rows, cols}, same_as("x")),
        writes("dweight", {cols}, DType::f32).updated_when(accumulate),
        writes("dbias", {cols}, DType::f32).updated_when(accumulate).when(kCentered),
        reads("dresidual", {rows, cols}, same_as("x")).when(residual),
    };
  }
  constexpr Work work(double element_bytes) const {
    return each(rows * cols, kCentered ? 14 : 10, (residual ? 4 : 3) * element_bytes);
  }
};
using LayerNormBackward = NormBackward<true>;
using RmsNormBackward = NormBackward<false>;

/// RMSNorm of each head: for each row and head, y = x·rsqrt(mean x² + eps)·weight over the head's columns. All heads
/// have the same weight.
struct HeadNormForward {
  std::int64_t rows, heads, head_dim;
  float eps;

  static constexpr std::string_view kind = "head_norm";
  static constexpr auto fields() {
    return std::tuple{field("rows", &HeadNormForward::rows), field("heads", &HeadNormForward::heads),
                      field("head_dim", &HeadNormForward::head_dim), field("eps", &HeadNormForward::eps)};
  }
  constexpr auto arguments() const {
    return std::array{
        reads("x", {rows, heads * head_dim}, kFloat),
        reads("weight", {head_dim}, same_as("x")),
        writes("y", {rows, heads * head_dim}, same_as("x")),
        writes("rstd", {rows * heads}, DType::f32),
    };
  }
  constexpr Work work(double element_bytes) const { return each(rows * heads * head_dim, 5, 2 * element_bytes); }
};

/// `accumulate` applies to dweight, which is summed over rows and heads.
struct HeadNormBackward {
  std::int64_t rows, heads, head_dim;
  bool accumulate = false;

  static constexpr std::string_view kind = "head_norm_backward";
  static constexpr auto fields() {
    return std::tuple{field("rows", &HeadNormBackward::rows), field("heads", &HeadNormBackward::heads),
                      field("head_dim", &HeadNormBackward::head_dim),
                      field("accumulate", &HeadNormBackward::accumulate)};
  }
  constexpr auto arguments() const {
    return std::array{
        reads("x", {rows, heads * head_dim}, kFloat),
        reads("weight", {head_dim}, same_as("x")),
        reads("rstd", {rows * heads}, DType::f32),
        reads("dy", {rows, heads * head_dim}, same_as("x")),
        writes("dx", {rows, heads * head_dim}, same_as("x")),
        writes("dweight", {head_dim}, DType::f32).updated_when(accumulate),
    };
  }
  constexpr Work work(double element_bytes) const { return each(rows * heads * head_dim, 10, 3 * element_bytes); }
};

/// Rows whose columns are divided over several ranks, `cols` of them here, of a LayerNorm (centered) or RMSNorm.
struct DividedRows {
  std::int64_t rows, cols;
  bool centered;

  static constexpr auto fields() {
    return std::tuple{field("rows", &DividedRows::rows), field("cols", &DividedRows::cols),
                      field("centered", &DividedRows::centered)};
  }
};

/// Statistics of a row. Centered: mean and sum of (x − mean)²; else: sum of x².
struct NormStatistics : DividedRows {
  static constexpr std::string_view kind = "norm_statistics";
  constexpr auto arguments() const {
    return std::array{
        reads("x", {rows, cols}, kFloat),
        writes("statistics", {rows * (centered ? 2 : 1)}, DType::f32),  // [rows, 2 or 1]
    };
  }
  constexpr Work work(double element_bytes) const { return each(rows * cols, centered ? 4 : 2, element_bytes); }
};

/// LayerNorm (centered) or RMSNorm of rows divided into `parts` pieces of `cols` columns. Combines the statistics of
/// all parts in their order (Chan, Golub and LeVeque 1979).
struct NormForwardOfParts {
  std::int64_t rows, cols, parts;
  float eps;
  bool centered;

  static constexpr std::string_view kind = "norm_of_parts";
  static constexpr auto fields() {
    return std::tuple{field("rows", &NormForwardOfParts::rows), field("cols", &NormForwardOfParts::cols),
                      field("parts", &NormForwardOfParts::parts), field("eps", &NormForwardOfParts::eps),
                      field("centered", &NormForwardOfParts::centered)};
  }
  constexpr auto arguments() const {
    return std::array{
        reads("x", {rows, cols}, kFloat),
        reads("weight", {cols}, same_as("x")),
        reads("bias", {cols}, same_as("x")).when(centered),
        reads("statistics", {parts * rows * (centered ? 2 : 1)}, DType::f32),  // [parts, rows, 2 or 1]
        writes("y", {rows, cols}, same_as("x")),
        writes("mean", {rows}, DType::f32).when(centered),
        writes("rstd", {rows}, DType::f32),
    };
  }
  constexpr Work work(double element_bytes) const { return each(rows * cols, centered ? 4 : 2, 2 * element_bytes); }
};

/// Sums over a row that the backward pass needs: of g = dy·weight, Σ g·x̂; if centered, preceded by Σ g.
struct NormBackwardSums : DividedRows {
  static constexpr std::string_view kind = "norm_backward_sums";
  constexpr auto arguments() const {
    return std::array{
        reads("x", {rows, cols}, kFloat),
        reads("weight", {cols}, same_as("x")),
        reads("mean", {rows}, DType::f32).when(centered),
        reads("rstd", {rows}, DType::f32),
        reads("dy", {rows, cols}, same_as("x")),
        writes("sums", {rows * (centered ? 2 : 1)}, DType::f32),  // [rows, 2 or 1]
    };
  }
  constexpr Work work(double element_bytes) const { return each(rows * cols, centered ? 6 : 4, 2 * element_bytes); }
};

/// The backward pass of NormForwardOfParts, given the sums of all parts. `residual` and `accumulate` as in
/// NormBackward.
struct NormBackwardOfParts {
  std::int64_t rows, cols, parts;
  bool centered, residual = false, accumulate = false;

  static constexpr std::string_view kind = "norm_backward_of_parts";
  static constexpr auto fields() {
    return std::tuple{
        field("rows", &NormBackwardOfParts::rows),         field("cols", &NormBackwardOfParts::cols),
        field("residual", &NormBackwardOfParts::residual), field("accumulate", &NormBackwardOfParts::accumulate),
        field("parts", &NormBackwardOfParts::parts),       field("centered", &NormBackwardOfParts::centered)};
  }
  constexpr auto arguments() const {
    return std::array{
        reads("x", {rows, cols}, kFloat),
        reads("weight", {cols}, same_as("x")),
        reads("mean", {rows}, DType::f32).when(centered),
        reads("rstd", {rows}, DType::f32),
        reads("dy", {rows, cols}, same_as("x")),
        reads("sums", {rows * (centered ? 2 : 1)}, DType::f32),  // [rows, 2 or 1]
        writes("dx", {rows, cols}, same_as("x")),
        writes("dweight", {cols}, DType::f32).updated_when(accumulate),
        writes("dbias", {cols}, DType::f32).updated_when(accumulate).when(centered),
        reads("dresidual", {rows, cols}, same_as("x")).when(residual),
    };
  }
  constexpr Work work(double element_bytes) const {
    return each(rows * cols, centered ? 10 : 7, (residual ? 4 : 3) * element_bytes);
  }
};

using NormOperations =
    OperationList<LayerNormForward, LayerNormBackward, RmsNormForward, RmsNormBackward, HeadNormForward,
                  HeadNormBackward, NormStatistics, NormForwardOfParts, NormBackwardSums, NormBackwardOfParts>;

}  // namespace weft::graph
