// What a family of transformers is made of: one row of data for each family, which everything else reads.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace weft::ops {

enum class Family : std::uint8_t {
  gpt2,
  llama,
  phi3,
  smollm3,
  granite,
  olmo2,
  olmo3,
  gemma,
  gemma3,
  mixtral,
  qwen3_moe
};

std::string_view to_string(Family family);

/// How a norm of a whole row is computed: LayerNorm with weight and bias, RMSNorm by a weight, or by 1 + weight.
enum class NormForm : std::uint8_t { layer_norm, rms, rms_of_one_plus };

/// The norms of a residual branch: of its input, of its output, or of both.
enum class NormPlace : std::uint8_t { before, after, around };

/// RMSNorm of queries and keys: none, of each head by one weight for all heads, or of the columns of all heads.
enum class QueryKeyNorm : std::uint8_t { none, heads, columns };

/// What the MLP computes of `up`: tanh-GELU of all columns, or silu or tanh-GELU of the first half times the second.
enum class Activation : std::uint8_t { gelu, swiglu, geglu };

/// Names in files of Hugging Face. Names within a layer follow "<layers>.<number>.".
struct StoredNames {
  std::string_view prefix;  // of all names in transformers' class, which files leave out
  std::string_view embedding, positions, layers, final_norm;
  std::string_view norm1, post1, norm2, post2;  // before and after attention, before and after the MLP
  std::array<std::string_view, 3> qkv;          // one name: stored together
  std::array<std::string_view, 2> up;           // one name: stored together, or an MLP without a gate
  std::string_view out, down;
  // Of layers with experts: the router; below "<experts>.<number>.", each expert's gate, up and down.
  std::string_view router = {}, experts = {};
  std::array<std::string_view, 3> expert = {};
  bool transposed = false;  // matrices are stored [in, out]
};

struct FamilyParts {
  Family family;
  std::string_view name;
  NormForm norm;
  NormPlace place;
  QueryKeyNorm query_key_norm;  // none: unless the model has model.qk-norm, where `keys` has it
  Activation activation;
  bool learned_positions;   // else rotary ones
  bool embedding_by_width;  // embeddings are multiplied by √hidden
  const StoredNames* stored;
  /// Keys that begin with "model.": the family has them in addition to the keys that every family has.
  std::span<const std::string_view> keys;

  bool gated() const { return activation != Activation::gelu; }
  bool centered() const { return norm == NormForm::layer_norm; }
  bool has_key(std::string_view key) const;
};

const FamilyParts& parts_of(Family family);

/// All rows, in the order of Family.
std::span<const FamilyParts> all_families();

}  // namespace weft::ops
