#include "train/config/other_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "train/config/config_table.h"

namespace weft::train {
namespace {

/// A name of Weft's, and blanks between those that mean it elsewhere.
struct OtherNames {
  std::string_view ours, theirs;
};

// A name that stands in several lines means several keys, in this order. A line whose name a command lacks says nothing
// there: "out" is the --output of one command and the --run-dir of another.
constexpr std::array kOtherNames = {
    OtherNames{"output", "o out out-file outfile out-path save-path output-file"},
    OtherNames{"run-dir", "o out out-dir output output-dir job.dump-folder dump-folder save-dir logging-dir log-dir"},
    OtherNames{"steps",
               "step iters iter iterations num-iterations max-iters max-steps train-iters train-steps "
               "train-samples num-steps n-steps total-steps lr-decay-iters"},
    OtherNames{"epochs", "epoch num-epochs max-epochs num-train-epochs"},
    OtherNames{"max-time", "time max-runtime timeout time-limit max-seconds exit-duration-in-mins max-minutes"},
    OtherNames{"global-batch",
               "batch batch-size bs bsz global-batch-size total-batch-size train-batch-size "
               "gradient-accumulation-steps grad-accum grad-accum-steps accumulation"},
    OtherNames{"micro-batch",
               "batch batch-size bs bsz micro-batch-size mbs local-batch-size device-batch-size "
               "per-device-train-batch-size per-device-eval-batch-size per-device-batch-size "
               "gradient-accumulation-steps grad-accum grad-accum-steps accumulation"},
    OtherNames{"seq-len",
               "block-size seq seq-length sequence-length max-seq-len max-seq-length max-length "
               "max-sequence-length context-length model-max-length"},
    OtherNames{"model.context", "block-size max-position-embeddings n-positions n-ctx context-length context-size"},
    OtherNames{"model.layers", "layer n-layer n-layers num-layers num-hidden-layers depth"},
    OtherNames{"model.hidden", "hidden-size n-embd embd d-model dim width embed-dim hidden-dim"},
    OtherNames{"model.heads", "head n-head n-heads num-heads num-attention-heads"},
    OtherNames{"model.kv-heads", "n-kv-heads num-kv-heads num-key-value-heads num-query-groups"},
    OtherNames{"model.ffn", "intermediate-size ffn-hidden-size ffn-size ffn-dim n-inner d-ff mlp-dim"},
    OtherNames{"model.vocab", "vocab-size n-vocab padded-vocab-size"},
    OtherNames{"model.tied", "tie-word-embeddings tie-embeddings weight-tying untie-embeddings-and-output-weights"},
    OtherNames{"model.norm-eps", "rms-norm-eps layer-norm-epsilon layer-norm-eps norm-epsilon layernorm-epsilon"},
    OtherNames{"model.init-std", "initializer-range init-method-std"},
    OtherNames{"model.rope-theta", "rotary-base rope-base"},
    OtherNames{"model.window", "sliding-window window-size"},
    OtherNames{"model.experts", "num-experts num-local-experts n-experts n-routed-experts"},
    OtherNames{"model.experts-per-token",
               "num-experts-per-tok num-experts-per-token top-k topk moe-router-topk n-activated-experts"},
    OtherNames{"model.expert-ffn", "moe-intermediate-size moe-ffn-hidden-size expert-hidden-size"},
    OtherNames{"model.normalise-experts", "norm-topk-prob"},
    OtherNames{"model.dense-layers", "mlp-only-layers first-k-dense-replace moe-layer-freq"},
    OtherNames{"model", "model-name model-type model-size flavor arch architecture model-name-or-path"},
    OtherNames{"init-from",
               "model-name-or-path model-path weights checkpoint ckpt load pretrained pretrained-model "
               "load-checkpoint base-model"},
    OtherNames{"resume",
               "checkpoint ckpt load resume-from resume-from-checkpoint load-checkpoint continue "
               "checkpoint-dir checkpoint-path"},
    OtherNames{"lora", "use-lora peft lora-r lora-rank lora-alpha lora-target-modules"},
    OtherNames{"adapter", "adapter-path adapter-name-or-path peft-path lora-path lora-weights adapters"},
    OtherNames{"lr", "learning-rate max-lr peak-lr"},
    OtherNames{"min-lr", "min-learning-rate lr-min end-lr"},
    OtherNames{"warmup",
               "warmup-iters warmup-steps lr-warmup-iters lr-warmup-steps num-warmup-steps lr-warmup-samples "
               "warmup-ratio lr-warmup-fraction"},
    OtherNames{"schedule", "lr-scheduler scheduler lr-schedule lr-scheduler-type lr-decay-style decay-lr decay-type"},
    OtherNames{"beta1", "adam-beta1"},
    OtherNames{"beta2", "adam-beta2"},
    OtherNames{"eps", "adam-eps adam-epsilon epsilon"},
    OtherNames{"weight-decay", "wd"},
    OtherNames{"clip", "grad-clip clip-grad max-norm max-grad-norm gradient-clip gradient-clip-val gradient-clipping"},
    OtherNames{"dropout", "hidden-dropout attention-dropout resid-pdrop attn-pdrop embd-pdrop hidden-dropout-prob"},
    OtherNames{"dtype", "bf16 fp16 fp32 precision mixed-precision torch-dtype params-dtype amp"},
    OtherNames{"reduce-dtype", "mixed-precision-reduce grad-reduce-dtype"},
    OtherNames{"recompute",
               "gradient-checkpointing activation-checkpointing recompute-activations "
               "recompute-granularity activation-checkpoint.mode"},
    OtherNames{"data",
               "dataset datasets dataset-path dataset-name data-dir data-path data-file train-data "
               "train-data-path train-file train-files train-bin input-bin"},
    OtherNames{"val-data",
               "validation-file valid-data-path val-file eval-data eval-file test-data eval-dataset "
               "val-bin input-val-bin"},
    OtherNames{"tokenizer", "tokenizer-name tokenizer-path tokenizer-model tokenizer-type vocab-file merge-file"},
    OtherNames{"ranks",
               "gpus num-gpus n-gpus nproc np nproc-per-node world-size num-ranks num-workers workers "
               "processes num-processes"},
    OtherNames{"grid",
               "tp pp dp fsdp tensor-parallel tensor-parallel-size tensor-parallel-degree "
               "tensor-model-parallel-size pipeline-parallel pipeline-parallel-degree pipeline-parallel-size "
               "pipeline-model-parallel-size data-parallel data-parallel-size data-parallel-shard-degree "
               "data-parallel-replicate-degree fully-sharded-data-parallel cp context-parallel context-parallel-size "
               "context-parallel-degree cp-size ulysses-sequence-parallel-size ep ep-size expert-parallel "
               "expert-parallel-size expert-parallel-degree expert-model-parallel-size"},
    OtherNames{"pipe-chunks",
               "num-layers-per-virtual-pipeline-stage virtual-stages "
               "num-virtual-stages-per-pipeline-rank"},
    OtherNames{"zero-1", "use-distributed-optimizer distributed-optimizer zero zero-stage"},
    OtherNames{"device", "gpu cuda cpu accelerator use-cuda"},
    OtherNames{"threads", "num-threads omp-num-threads nthreads cores"},
    OtherNames{"bind", "bind-to cpu-bind numa-binding numa cpu-affinity affinity pin"},
    OtherNames{"jobs", "j num-threads nthreads num-workers workers threads cores"},
    OtherNames{"communicator", "backend distributed-backend ddp-backend"},
    OtherNames{"eval-every",
               "eval-interval eval-steps eval-freq val-interval validation-freq val-check-interval "
               "evaluation-interval val-loss-every"},
    OtherNames{"eval-sequences", "eval-iters eval-batches val-max-steps limit-val-batches max-eval-samples"},
    OtherNames{"save-every",
               "save-interval save-steps save-freq checkpoint-interval checkpoint.interval "
               "always-save-checkpoint save-strategy"},
    OtherNames{"keep-last", "save-total-limit keep-latest-k keep-last-n"},
    OtherNames{"keep-best", "load-best-model-at-end save-best save-top-k"},
    OtherNames{"log-every", "log-interval log-freq log-steps logging-steps log-every-n-steps print-freq print-every"},
    OtherNames{"tensorboard", "report-to tensorboard-dir enable-tensorboard wandb wandb-log use-wandb"},
    OtherNames{"record-routing", "routing-replay router-replay r3 moe-enable-routing-replay record-file"},
    OtherNames{"expert-load", "moe-router-force-load-balancing force-load-balance expert-balance load-imbalance"},
    OtherNames{"replay-routing", "routing-replay router-replay r3 moe-enable-routing-replay replay-file"},
    OtherNames{"vocab", "vocab-size n-vocab"},
    OtherNames{"max-tokens", "max-new-tokens num-tokens n-tokens tokens length max-length"},
    OtherNames{"temperature", "temp"},
    OtherNames{"prompt", "start text input-text"},
};

bool stands_in(std::string_view word, std::string_view words) {
  for (std::size_t at = words.find(word); at != std::string_view::npos; at = words.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' ')) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> meant_by(std::string_view name, std::span<const std::string> known) {
  std::vector<std::string> found;
  const auto add = [&](std::string ours) {
    const bool is_known = std::ranges::find(known, ours) != known.end();
    if (is_known && std::ranges::find(found, ours) == found.end()) found.push_back(std::move(ours));
  };
  if (name.empty()) return found;
  add(key_in_place_of(name));
  for (const OtherNames& each : kOtherNames) {
    if (stands_in(name, each.theirs)) add(std::string(each.ours));
  }
  add(std::string(kModelPrefix) + std::string(name));
  // The sections of torchtitan's and of Weft's own files: "training.steps", "model.n-layer".
  const std::string_view last = name.substr(name.rfind('.') + 1);
  if (found.empty() && last != name) {
    add(std::string(last));
    for (std::string& ours : meant_by(last, known)) add(std::move(ours));
  }
  return found;
}

std::string_view word_meant_by(std::string_view word) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 17> kWords = {
      {{"gpu", "cuda"},
       {"nvidia", "cuda"},
       {"host", "cpu"},
       {"bfloat16", "bf16"},
       {"float32", "fp32"},
       {"float", "fp32"},
       {"f32", "fp32"},
       {"fp16", "bf16"},
       {"float16", "bf16"},
       {"half", "bf16"},
       {"full", "block"},
       {"selective", "block"},
       {"gloo", "local"},
       {"warmup-stable-decay", "wsd"},
       {"warmup_stable_decay", "wsd"},
       {"cosine_with_min_lr", "cosine"},
       {"constant_with_warmup", "constant"}}};
  const auto* const found = std::ranges::find(kWords, word, &std::pair<std::string_view, std::string_view>::first);
  return found == kWords.end() ? "" : found->second;
}

std::string suggestion(std::string_view name, std::span<const std::string> known, std::string_view before) {
  std::vector<std::string> names = meant_by(name, known);
  if (names.empty()) {
    if (std::string nearest = nearest_name(name, known); !nearest.empty()) names.push_back(std::move(nearest));
  }
  for (std::string& each : names) each.insert(0, before);
  return join(names, " or ");
}

}  // namespace weft::train
