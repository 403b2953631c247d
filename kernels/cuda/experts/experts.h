// Mixture of experts on a GPU; graph/operations/experts.h and kernels/cpu/experts tell what each function computes.
// `offsets` and all that the router chooses are read on the device, so that a step waits for no host and a captured
// graph takes any choice. Sums are fp32 in a fixed order, rounded once.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/experts/experts.h"
#include "kernels/cuda/launch.h"
#include "kernels/row_moves.h"

namespace weft::cuda {

using cpu::ChoiceCounts;
using cpu::CombinedRows;
using cpu::RouteKind;

void route(const Launch& launch, RouteKind kind, const Matrix& logits, const Matrix& chosen, const Matrix& weights);
void route_backward(const Launch& launch, bool normalise, const Matrix& logits, const Matrix& chosen,
                    const Matrix& dweights, const Matrix& dlogits);

void sort_by_expert(const Launch& launch, const Matrix& chosen, const Matrix& slots, const Matrix& sources,
                    const Matrix& offsets);
std::int64_t sort_by_expert_scratch_bytes(std::int64_t rows, std::int64_t experts);

/// `place` is device memory.
void offsets_of_rank(const Launch& launch, const Matrix& table, const std::int64_t* place, const Matrix& offsets);

void count_choices(const Launch& launch, const Matrix& logits, const Matrix& chosen, const Matrix& offsets,
                   const ChoiceCounts& told);
std::int64_t count_choices_scratch_bytes(std::int64_t rows);

void gather_rows(const Launch& launch, const Matrix& x, const Matrix& sources, const Matrix& out);
void combine_rows(const Launch& launch, const Matrix& y, const Matrix& slots, const Matrix* weights, const Matrix& out);
void combine_rows_backward(const Launch& launch, const CombinedRows& forward, const Matrix& dout, const Matrix& dy,
                           const Matrix& dweights);

/// Copies bits. `others`: the buffer of each rank. A table whose rows don't fit is a fault, and such rows don't move.
void move_rows(const Launch& launch, const kernels::RowMove& move, std::span<void* const> others);

/// Products of each group's rows with its own matrix, and the gradients of these matrices. An element of a result is
/// one sum over k in ascending order. `expected`: how many rows all groups are likely to have, for the choice of tiles.
void grouped_gemm(const Launch& launch, bool trans_b, const Matrix& a, const Matrix& b, const Matrix& offsets,
                  const Matrix& c, std::int64_t expected);
void grouped_gemm_gradient(const Launch& launch, const Matrix& a, const Matrix& b, const Matrix& offsets,
                           const Matrix& c, bool accumulate);

}  // namespace weft::cuda
