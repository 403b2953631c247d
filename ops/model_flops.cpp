#include "ops/model_flops.h"

#include <algorithm>
#include <string>
#include <vector>

#include "graph/operations/attention.h"

namespace weft::ops {
namespace {

constexpr double kProduct = 2;  // operations of an element of the matrix, for one token

/// Forward, for each key that a query sees: a score and a share of the output, over the columns of all heads.
double attention_flops(const ModelConfig& model, std::int64_t layer, std::int64_t seq_len) {
  const double pairs = graph::causal_pairs(1, seq_len, model.heads, model.window_of(layer));
  return 2 * kProduct * pairs * graph::as_double(model.head_dim()) / graph::as_double(seq_len);
}

bool is_product(const ModelConfig& model, const ParameterSpec& spec) {
  if (spec.name == "wte.weight") return model.tied;  // as the head
  return spec.matrix && spec.name != "wpe.weight";
}

}  // namespace

double train_flops_per_token(const ModelConfig& model, std::int64_t seq_len) {
  const std::vector<ParameterSpec> specs = model_parameters(model);  // in forward order, adapters at the end
  const auto first_adapter = std::ranges::find_if(specs, is_adapter);
  const std::string first_adapted = first_adapter == specs.end() ? "" : adapted_weight(*first_adapter);
  bool differentiated = first_adapted.empty();  // has the input of the product at hand a gradient?
  double flops = 0;
  for (const ParameterSpec& spec : specs) {
    if (!is_product(model, spec)) continue;
    // A tied head comes last in the forward pass. The first adapter's A reads what has no gradient.
    const bool first_a =
        is_adapter(spec) && spec.adapter->side == AdapterSide::a && adapted_weight(spec) == first_adapted;
    const bool input_gradient = !first_a && (differentiated || spec.name == "wte.weight");
    const int products = 1 + (input_gradient ? 1 : 0) + (spec.frozen ? 0 : 1);
    flops +=
        products * kProduct * graph::as_double(spec.rows) * graph::as_double(spec.cols) * share_of_tokens(model, spec);
    differentiated = differentiated || spec.name == first_adapted;
  }
  // The first layer's attention has a gradient if its queries, keys or values are trained.
  const bool trains_qkv = first_adapted.empty() || first_adapted == "L0.attn.qkv.weight";
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    flops += attention_flops(model, layer, seq_len) * (layer > 0 || trains_qkv ? 3 : 1);
  }
  return flops;
}

}  // namespace weft::ops
