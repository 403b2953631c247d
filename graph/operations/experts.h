// Mixture of experts: a router's choice of experts for each token, tokens' rows in the order of their experts, and
// products of each expert's rows with its own matrix. How many rows an expert has is data: tensors have the size that
// serves any choice, and work is counted for equal shares.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "graph/operations/schema.h"

namespace weft::graph {

/// Each of `rows` tokens goes to `choices` of `experts` experts.
struct Choice {
  std::int64_t rows, experts, choices;
  bool normalise = false;

  static constexpr auto fields() {
    return std::tuple{field("rows", &Choice::rows), field("experts", &Choice::experts),
                      field("choices", &Choice::choices), field("normalise", &Choice::normalise).told_if_set()};
  }
};

/// The `choices` largest logits of a row, in ascending order of the experts; of equal ones the lower experts'. A
/// weight is the expert's share in the softmax of the row; with `normalise`, among the chosen experts' shares. With
/// `given`, the choice is an input.
struct Route : Choice {
  bool given = false;

  static constexpr std::string_view kind = "route";
  static constexpr auto fields() {
    return std::tuple_cat(Choice::fields(), std::tuple{field("given", &Route::given).told_if_set()});
  }
  constexpr auto arguments() const {
    return std::array{
        reads("logits", {rows, experts}, DType::f32),
        given ? reads("chosen", {rows, choices}, DType::i32) : writes("chosen", {rows, choices}, DType::i32),
        writes("weights", {rows, choices}, DType::f32),
    };
  }
  constexpr Work work(double /*element_bytes*/) const {
    return {as_double(rows) * (12 * as_double(experts) + as_double(experts * choices)),
            as_double(rows) * (4 * as_double(experts) + 8 * as_double(choices))};
  }
};

/// The gradient of the logits. The choice itself has none.
struct RouteBackward : Choice {
  static constexpr std::string_view kind = "route_backward";
  constexpr auto arguments() const {
    return std::array{
        reads("logits", {rows, experts}, DType::f32),
        reads("chosen", {rows, choices}, DType::i32),
        reads("dweights", {rows, choices}, DType::f32),
        writes("dlogits", {rows, experts}, kFloat),
    };
  }
  constexpr Work work(double element_bytes) const {
    return {as_double(rows * experts) * 16,
            as_double(rows) * ((4 + element_bytes) * as_double(experts) + 8 * as_double(choices))};
  }
};

/// A choice that was made.
struct MadeChoice {
  std::int64_t rows, experts, choices;

  static constexpr auto fields() {
    return std::tuple{field("rows", &MadeChoice::rows), field("experts", &MadeChoice::experts),
                      field("choices", &MadeChoice::choices)};
  }
};

/// Orders the tokens' rows by expert, and within an expert by token. slots[t, j] is the row of token t's choice j, and
/// sources the token of each row; expert e has rows [offsets[e], offsets[e + 1]).
struct SortByExpert : MadeChoice {
  static constexpr std::string_view kind = "sort_by_expert";
  static constexpr KindClass kind_class = KindClass::copy;
  constexpr auto arguments() const {
    return std::array{
        reads("chosen", {rows, choices}, DType::i32),
        writes("slots", {rows, choices}, DType::i32),
        writes("sources", {rows * choices}, DType::i32),
        writes("offsets", {experts + 1}, DType::i32),
    };
  }
  constexpr Work work(double /*element_bytes*/) const { return {0, 4 * as_double(3 * rows * choices + experts)}; }
};

/// For people who watch a router. counts[e]: the tokens of expert e. margin: the least difference, over all tokens,
/// between the logit of the last expert that a token takes by its logits and that of the first which it doesn't; the
/// largest float where it takes all. flips: how many of `chosen` the logits wouldn't choose; none unless the choice was
/// given.
struct CountChoices : MadeChoice {
  static constexpr std::string_view kind = "count_choices";
  constexpr auto arguments() const {
    return std::array{
        reads("logits", {rows, experts}, DType::f32),
        reads("chosen", {rows, choices}, DType::i32),
        reads("offsets", {experts + 1}, DType::i32),
        writes("counts", {experts}, DType::i32),
        writes("margin", {1}, DType::f32),
        writes("flips", {1}, DType::i32),
    };
  }
  constexpr Work work(double /*element_bytes*/) const {
    return {2 * as_double(rows * experts), 4 * as_double(rows * (experts + choices) + 2 * experts)};
  }
};

/// Rows of `cols` elements, one for each choice of `rows` tokens.
struct ExpertRows {
  std::int64_t rows, choices, cols;

  static constexpr auto fields() {
    return std::tuple{field("rows", &ExpertRows::rows), field("choices", &ExpertRows::choices),
                      field("cols", &ExpertRows::cols)};
  }
};

/// Row s of out = row sources[s] of x.
struct GatherRows : ExpertRows {
  static constexpr std::string_view kind = "gather_rows";
  static constexpr KindClass kind_class = KindClass::copy;
  constexpr auto arguments() const {
    return std::array{
        reads("x", {rows, cols}, kFloat),
        reads("sources", {rows * choices}, DType::i32),
        writes("out", {rows * choices, cols}, same_as("x")),
    };
  }
  constexpr Work work(double element_bytes) const { return {0, 2 * element_bytes * as_double(rows * choices * cols)}; }
};

/// Row t of out = the sum of the rows slots[t, j] of y, with `weighted` each times weights[t, j], in ascending order of
/// j: of experts. Without weights it is the adjoint of GatherRows.
struct CombineRows : ExpertRows {
  bool weighted = false;

  static constexpr std::string_view kind = "combine_rows";
  static constexpr auto fields() {
    return std::tuple_cat(ExpertRows::fields(), std::tuple{field("weighted", &CombineRows::weighted)});
  }
  constexpr auto arguments() const {
    return std::array{
        reads("y", {rows * choices, cols}, kFloat),
        reads("slots", {rows, choices}, DType::i32),
        reads("weights", {rows, choices}, DType::f32).when(weighted),
        writes("out", {rows, cols}, same_as("y")),
    };
  }
  constexpr Work work(double element_bytes) const {
    return {(weighted ? 2 : 1) * as_double(rows * choices * cols),
            element_bytes * as_double(rows * (choices + 1) * cols)};
  }
};

/// Of the weighted sum: row slots[t, j] of dy = weights[t, j] times row t of dout, and dweights[t, j] = the product of
/// that row of y with row t of dout.
struct CombineRowsBackward : ExpertRows {
  static constexpr std::string_view kind = "combine_rows_backward";
  constexpr auto arguments() const {
    return std::array{
        reads("y", {rows * choices, cols}, kFloat),         reads("dout", {rows, cols}, same_as("y")),
        reads("slots", {rows, choices}, DType::i32),        reads("weights", {rows, choices}, DType::f32),
        writes("dy", {rows * choices, cols}, same_as("y")), writes("dweights", {rows, choices}, DType::f32),
    };
  }
  constexpr Work work(double element_bytes) const {
    return {3 * as_double(rows * choices * cols), element_bytes * as_double(rows * (2 * choices + 1) * cols)};
  }
};

/// Of the rows that each of `ranks` ranks gave (ExchangeRows), where those of this rank's `experts` experts begin and
/// end. The coordinate is the rank's place.
struct OffsetsOfRank {
  std::int64_t ranks, experts;

  static constexpr std::string_view kind = "offsets_of_rank";
  static constexpr KindClass kind_class = KindClass::copy;
  static constexpr auto fields() {
    return std::tuple{field("ranks", &OffsetsOfRank::ranks), field("experts", &OffsetsOfRank::experts)};
  }
  constexpr auto arguments() const {
    return std::array{
        reads("table", {ranks, ranks * experts + 1}, DType::i32),
        reads("coordinate", {1}, DType::i64),
        writes("offsets", {experts + 1}, DType::i32),
    };
  }
  constexpr Work work(double /*element_bytes*/) const { return {0, 8 * as_double(ranks * experts)}; }
};

/// The rows of group g, [offsets[g], offsets[g + 1]), times a matrix of its own: C[rows, n] = A[rows, k]·op(B_g), where
/// B holds the groups' matrices one below the other. Rows from the last offset on stay; if fewer rows than all are to
/// be expected, `expected` is their number, for which work is counted.
struct GroupedGemm {
  std::int64_t rows, n, k, groups;
  bool trans_b = false;
  std::int64_t expected = 0;

  static constexpr std::string_view kind = "grouped_gemm";
  static constexpr KindClass kind_class = KindClass::gemm;
  static constexpr auto fields() {
    return std::tuple{field("rows", &GroupedGemm::rows),
                      field("n", &GroupedGemm::n),
                      field("k", &GroupedGemm::k),
                      field("groups", &GroupedGemm::groups),
                      field("trans_b", &GroupedGemm::trans_b),
                      field("expected", &GroupedGemm::expected).told_if_set()};
  }
  constexpr std::int64_t used_rows() const { return expected > 0 ? expected : rows; }
  constexpr auto arguments() const {
    return std::array{
        reads("A", {rows, k}, kFloat),
        reads("B", trans_b ? ArgumentShape{groups * n, k} : ArgumentShape{groups * k, n}, same_as("A")),
        reads("offsets", {groups + 1}, DType::i32),
        writes("C", {rows, n}, same_as("A")),
    };
  }
  constexpr Work work(double element_bytes) const {
    const double used = as_double(used_rows()), matrices = as_double(std::min(used_rows(), groups));
    return {2 * used * as_double(n) * as_double(k),
            element_bytes * (used * as_double(n + k) + matrices * as_double(n) * as_double(k))};
  }
};

/// The gradients of the groups' matrices: C_g[m, n] (+)= A_gᵀ·B_g over the rows of group g. Without accumulate, a group
/// without rows gets zeros. `expected` is a GroupedGemm's.
struct GroupedGemmGradient {
  std::int64_t rows, m, n, groups;
  bool accumulate = false;
  std::int64_t expected = 0;

  static constexpr std::string_view kind = "grouped_gemm_gradient";
  static constexpr KindClass kind_class = KindClass::gemm;
  static constexpr auto fields() {
    return std::tuple{field("rows", &GroupedGemmGradient::rows),
                      field("m", &GroupedGemmGradient::m),
                      field("n", &GroupedGemmGradient::n),
                      field("groups", &GroupedGemmGradient::groups),
                      field("accumulate", &GroupedGemmGradient::accumulate),
                      field("expected", &GroupedGemmGradient::expected).told_if_set()};
  }
  constexpr std::int64_t used_rows() const { return expected > 0 ? expected : rows; }
  constexpr auto arguments() const {
    return std::array{
        reads("A", {rows, m}, kFloat),
        reads("B", {rows, n}, same_as("A")),
        reads("offsets", {groups + 1}, DType::i32),
        writes("C", {groups * m, n}, DType::f32).updated_when(accumulate),
    };
  }
  constexpr Work work(double element_bytes) const {
    const double used = as_double(used_rows());
    return {2 * used * as_double(m) * as_double(n),
            element_bytes * used * as_double(m + n) +
                (accumulate ? 8 : 4) * as_double(groups) * as_double(m) * as_double(n)};
  }
};

using ExpertOperations = OperationList<Route, RouteBackward, SortByExpert, CountChoices, GatherRows, CombineRows,
                                       CombineRowsBackward, OffsetsOfRank, GroupedGemm, GroupedGemmGradient>;

}  // namespace weft::graph
