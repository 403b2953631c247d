// The functions of one level's kernels, which a library of that level exports as one table (WEFT_ISA=all). Everything
// that computes, or that depends on the length of vectors, is in it; no code of a level is reached in another way.
#pragma once

#include <optional>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/elementwise/elementwise.h"
#include "kernels/cpu/elementwise/reduce.h"
#include "kernels/cpu/experts/experts.h"
#include "kernels/cpu/experts/grouped_gemm.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/gemm_method.h"
#include "kernels/cpu/gemm/packed_unit.h"
#include "kernels/cpu/isa/kernel_choice.h"
#include "kernels/cpu/loss/cross_entropy.h"
#include "kernels/cpu/norm/norm.h"

/// Calls each(name, number of parameters) for every function of weft::cpu that forwarded.cpp makes callable.
// clang-format off
#define WEFT_KERNELS(each) \
  each(compiled_level, 0) each(attention_forward, 4) each(attention_forward_scratch, 3) each(attention_backward, 5) \
  each(attention_backward_scratch, 3) each(cache_store, 6) each(attention_decode, 4) \
  each(attention_decode_scratch, 1) each(rope_frequencies, 3) each(rope, 8) each(rope_scratch, 1) \
  each(gelu_forward, 3) each(gelu_backward, 4) each(swiglu_forward, 3) each(swiglu_backward, 4) each(geglu_forward, 3) \
  each(geglu_backward, 4) each(add_constant, 4) each(cast, 3) \
  each(add_bias, 3) each(take_columns, 4) each(put_columns, 5) each(dropout, 5) each(add, 4) each(scale, 4) \
  each(zero, 2) each(bias_gradient, 4) each(bias_gradient_scratch, 2) each(select_row, 4) each(embedding_forward, 8) \
  each(embedding_backward, 6) each(position_backward, 6) each(sum_squares, 4) each(sum_squares_scratch, 1) \
  each(clip_factor, 4) each(adamw, 8) each(sum_in_rank_order, 4) each(packed_b_dtype, 1) each(packed_b_elements, 1) \
  each(pack_gemm_b, 5) each(gemm_slices, 3) each(parse_gemm_method, 1) each(default_gemm_method, 4) \
  each(gemm_methods, 4) each(can_run, 4) each(bf16_in_pairs, 0) each(bf16_in_amx, 0) each(has_unit, 1) \
  each(widest_bf16_unit, 0) each(packed_unit, 2) each(measure_pairs_gain, 0) each(pairs_gain, 0) each(transpose, 3) \
  each(cross_entropy, 6) each(cross_entropy_scratch, 3) each(loss_sum, 6) each(vocab_statistics, 5) \
  each(vocab_cross_entropy, 8) each(norm_forward, 5) each(norm_backward, 4) each(norm_backward_scratch, 3) \
  each(head_norm_forward, 7) each(head_norm_backward, 7) each(head_norm_backward_scratch, 2) \
  each(norm_statistics, 4) each(norm_forward_of_parts, 7) each(norm_backward_sums, 4) \
  each(norm_backward_of_parts, 6) each(route, 5) each(route_backward, 6) each(sort_by_expert, 5) each(count_choices, 5) \
  each(gather_rows, 4) each(offsets_of_rank, 4) each(combine_rows, 5) each(combine_rows_backward, 5) each(grouped_gemm, 7) each(grouped_gemm_scratch, 5) \
  each(grouped_gemm_gradient, 7) each(grouped_gemm_gradient_scratch, 5)
/// The same for the functions below.
#define WEFT_NAMED_KERNELS(each) \
  each(to_string_of_method, 1) each(fastest_unit_for, 2) each(fastest_unit_here, 0) each(prepare_gemm, 5) \
  each(release_gemm, 1) each(scratch_of_gemm, 1) each(run_gemm, 2)
// clang-format on

namespace weft::cpu {

/// Overloads under names of their own, and what stands for members of PreparedGemm.
std::string to_string_of_method(const GemmMethod& method);
PackedUnit fastest_unit_for(PackedUnit widest, std::optional<double> gain);
PackedUnit fastest_unit_here();
/// `gemm` becomes a prepared product; what it held before goes.
void prepare_gemm(PreparedGemm& gemm, const GemmShape& shape, const GemmArguments& arguments, const GemmMethod& method,
                  PackedUnit bf16);
/// `gemm` holds nothing any more.
void release_gemm(PreparedGemm& gemm) noexcept;
Scratch scratch_of_gemm(const PreparedGemm& gemm);
void run_gemm(const PreparedGemm& gemm, Workers& workers);

struct KernelTable {
#define WEFT_MEMBER(name, parameters) decltype(&cpu::name) name;
  WEFT_KERNELS(WEFT_MEMBER)
  WEFT_NAMED_KERNELS(WEFT_MEMBER)
#undef WEFT_MEMBER
};

/// The table of the level in use. Loads the CPU's highest level if none is chosen yet.
const KernelTable& kernels();

/// What a level's library exports: its table, if `build` names the same build as the caller's; else null, because the
/// two would not understand each other.
using KernelTableFunction = const KernelTable*(const char* build);
inline constexpr const char* kKernelTableFunction = "weft_kernel_table";

}  // namespace weft::cpu
