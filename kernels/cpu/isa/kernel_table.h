// The functions of one level's kernels, which a library of that level exports as one table (WEFT_ISA=all). Everything
// that computes, or that depends on the length of vectors, is in it; no code of a level is reached in another way.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/attention_decode.h"
#include "kernels/cpu/attention/rope.h"
#include "kernels/cpu/elementwise/activation.h"
#include "kernels/cpu/elementwise/columns.h"
#include "kernels/cpu/elementwise/dropout.h"
#include "kernels/cpu/elementwise/elementwise.h"
#include "kernels/cpu/elementwise/embedding.h"
#include "kernels/cpu/elementwise/optimizer.h"
#include "kernels/cpu/elementwise/reduce.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/gemm_method.h"
#include "kernels/cpu/gemm/packed_b.h"
#include "kernels/cpu/gemm/packed_unit.h"
#include "kernels/cpu/gemm/pair_speed.h"
#include "kernels/cpu/gemm/transpose.h"
#include "kernels/cpu/isa/compiled_level.h"
#include "kernels/cpu/loss/cross_entropy.h"
#include "kernels/cpu/loss/vocab_parallel.h"
#include "kernels/cpu/norm/head_norm.h"
#include "kernels/cpu/norm/norm.h"
#include "kernels/cpu/norm/norm_parts.h"

/// Calls each(name) for every function of the table, all of weft::cpu.
// clang-format off
#define WEFT_KERNELS(each) \
  each(compiled_level) each(attention_forward) each(attention_forward_scratch) each(attention_backward) \
  each(attention_backward_scratch) each(cache_store) each(attention_decode) each(attention_decode_scratch) \
  each(rope_frequencies) each(rope) each(rope_scratch) each(gelu_forward) each(gelu_backward) each(swiglu_forward) each(swiglu_backward) \
  each(cast) each(add_bias) each(take_columns) each(put_columns) each(dropout) each(add) each(scale) each(zero) each(bias_gradient) \
  each(bias_gradient_scratch) each(select_row) each(embedding_forward) each(embedding_backward) \
  each(position_backward) each(sum_squares) each(sum_squares_scratch) each(clip_factor) each(adamw) \
  each(sum_in_rank_order) each(packed_b_dtype) each(packed_b_elements) each(pack_gemm_b) each(gemm_slices) \
  each(to_string_of_method) each(parse_gemm_method) each(default_gemm_method) each(gemm_methods) each(can_run) \
  each(bf16_in_pairs) each(bf16_in_amx) each(has_unit) each(widest_bf16_unit) each(packed_unit) \
  each(measure_pairs_gain) each(pairs_gain) each(transpose) each(cross_entropy) each(cross_entropy_scratch) \
  each(loss_sum) each(vocab_statistics) each(vocab_cross_entropy) each(norm_forward) each(norm_backward) \
  each(norm_backward_scratch) each(head_norm_forward) each(head_norm_backward) each(head_norm_backward_scratch) \
  each(norm_statistics) each(norm_forward_of_parts) each(norm_backward_sums) each(norm_backward_of_parts) \
  each(fastest_unit_for) each(fastest_unit_here) \
  each(prepare_gemm) each(release_gemm) each(scratch_of_gemm) each(run_gemm)
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
#define WEFT_MEMBER(name) decltype(&cpu::name) name;
  WEFT_KERNELS(WEFT_MEMBER)
#undef WEFT_MEMBER
};

/// What a level's library exports: its table, if `build` names the same build as the caller's; else null, because the
/// two would not understand each other.
using KernelTableFunction = const KernelTable*(const char* build);
inline constexpr const char* kKernelTableFunction = "weft_kernel_table";

}  // namespace weft::cpu
