// The table itself: one entry a key.
#include "train/config/config_table.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "train/config/key_grid.h"
#include "train/config/key_kinds.h"
#include "train/config/key_model.h"
#include "train/config/key_rewrites.h"

namespace weft::train {

namespace {

constexpr std::int64_t kMany = 1'000'000'000;

std::vector<ConfigEntry> run_entries() {
  return {
      model_key(),
      text_key("run-dir", "folder for the run's files; empty: runs/<model>-<date>-<time>", &RunConfig::run_dir),
      integer_key("steps", "optimizer steps", &RunConfig::steps, 1, kMany),
      integer_key("seed", "seed of initial weights, data order and dropout", &RunConfig::seed, 0, 9.0e18),
      number_key(
          "max-time",
          "seconds after which the run has evaluated, saves and ends; an evaluation that takes longer is cut short; "
          "0: no limit",
          &RunConfig::max_time, 0, 1e9),
      ranks_key(),
      grid_key(),
      axis_order_key(),
      boolean_key("zero-1", "cut the optimizer's state and work over data too (ZeRO stage 1)", &RunConfig::zero1),
      words_key<DType>("reduce-dtype", "of gradients on the wire, which are summed in fp32",
                       {{"fp32", DType::f32}, {"bf16", DType::bf16}}, &RunConfig::reduce_dtype),
      boolean_key("reshard-after-forward",
                  "drop weights gathered over z behind the forward pass, and gather them again for the backward pass",
                  &RunConfig::reshard_after_forward),
      integer_key("threads", "threads a rank computes with; 0: the machine's cores divided by the ranks",
                  &RunConfig::threads, 0, 4096),
      words_key<DeviceKind>("device",
                            "what runs the step: cpu, or cuda: an NVIDIA GPU, which the ranks of a process share",
                            {{"cpu", DeviceKind::cpu}, {"cuda", DeviceKind::cuda}}, &RunConfig::device),
      words_key<CommunicatorKind>(
          "communicator",
          "how ranks talk: local: threads of one process; mpi: processes, on CPUs; nccl: a GPU for each rank; staged: "
          "GPUs through the host's memory; auto: what fits",
          {{"auto", CommunicatorKind::automatic},
           {"local", CommunicatorKind::local},
           {"nccl", CommunicatorKind::nccl},
           {"staged", CommunicatorKind::staged},
           {"mpi", CommunicatorKind::mpi}},
          &RunConfig::communicator),
      boolean_key("cuda-graph", "with device cuda: replay each step that isn't traced as one CUDA graph",
                  &RunConfig::cuda_graph),
      integer_key("trace-every", "with device cuda: of so many steps one is traced", &RunConfig::trace_every, 1, kMany),
      text_key("policy",
               "what orders the step's tasks on streams; a library (./mine.so) only if the command line names it",
               &RunConfig::policy),
      rewrites_key(),
      words_key<WeightPacking>(
          "pack-weights",
          "with device cpu: weights are put once a step into the order in which products read them; the same bits. "
          "Forward and backward pass take 4 bytes of memory a weight each, or 2 in bf16 that pairs or AMX multiply. "
          "auto: where enough products read them, up to 134M parameters, without memory-limit, machine or a plan file; "
          "on: from two products on",
          {{"auto", WeightPacking::automatic}, {"on", WeightPacking::on}, {"off", WeightPacking::off}},
          &RunConfig::pack_weights),
      words_key<bool>(
          "fuse-gelu",
          "products write GELU of their result too, and the gradient's products multiply by GELU's gradient: the "
          "same bits on CPUs, on GPUs other roundings",
          {{"off", false}, {"on", true}}, &RunConfig::fuse_gelu),
      text_key("machine",
               "what policies plan for: laptop, dgx-h100, perlmutter, frontier, alps, or a TOML file; empty: a laptop",
               &RunConfig::machine),
      text_key("profile", "measured costs that policies plan by: a file of `weft profile`", &RunConfig::profile),
      integer_key("streams", "compute streams of a rank, each with its own threads", &RunConfig::streams, 1, 64),
      number_key("memory-limit", "GiB of scratch that a plan may take; 0: no limit", &RunConfig::memory_limit, 0, 1e6),
      text_key(
          "gemm-tuning",
          "a file that `weft tune` wrote: how matrix products are computed; auto: tuned at the start, once for all "
          "runs "
          "beside this one; none: the defaults; empty: also, or what the checkpoint was trained with",
          &RunConfig::gemm_tuning),
      words_key<std::optional<PackedUnit>>(
          "bf16-products",
          "with device cpu and dtype bf16: what multiplies bf16. fp32: vectors, after a conversion; pairs: "
          "AVX512_BF16; "
          "amx: AMX tiles; auto: what the checkpoint was trained with, else AMX, or pairs where they are at least 1.4 "
          "times as fast as fp32",
          {{"auto", std::nullopt}, {"fp32", PackedUnit::f32}, {"pairs", PackedUnit::pairs}, {"amx", PackedUnit::amx}},
          &RunConfig::bf16_products),
      number_key("watchdog", "seconds without progress until the run is ended; 0: never", &RunConfig::watchdog, 0, 1e9),
      boolean_key(
          "check-nan",
          "name the first task that writes a NaN or an infinity; reads every result once more, a few % of a step",
          &RunConfig::check_nan),
      text_key("data", "a text file, a .bin token file, or a folder of either; empty: /usr/share/common-licenses",
               &RunConfig::data),
      text_key(
          "val-data",
          "held-out data; empty: the token files of the data named as llm.c's x_val_0.bin, else the last 10 % of each "
          "file",
          &RunConfig::val_data),
      words_key<TokenWidth>(
          "data-dtype",
          "of ids in .bin files without a header of llm.c; auto: the one width at which all are in the vocabulary",
          {{"auto", TokenWidth::automatic}, {"u16", TokenWidth::u16}, {"u32", TokenWidth::u32}},
          &RunConfig::data_dtype),
      words_key<DType>("dtype", "of weights and activations in the step; bf16 keeps fp32 master weights",
                       {{"fp32", DType::f32}, {"bf16", DType::bf16}}, &RunConfig::dtype),
      integer_key("micro-batch", "sequences a rank runs at once; 0: its whole share of the global batch",
                  &RunConfig::micro_batch, 0, 1 << 24),
      integer_key("global-batch", "sequences of one step, over all ranks", &RunConfig::global_batch, 1, 1 << 24),
      integer_key("seq-len", "tokens of a sequence; 0: the model's context", &RunConfig::seq_len, 0, 1 << 20),
      words_key<Recompute>("recompute", "activations computed again in the backward pass to save memory",
                           {{"none", Recompute::none}, {"block", Recompute::block}}, &RunConfig::recompute),
      number_key("dropout", "probability of dropping an activation", &RunConfig::dropout, 0, 0.99),
      number_key("lr", "peak learning rate", &RunConfig::lr, 0, 10),
      number_key("min-lr", "learning rate at the end of the decay", &RunConfig::min_lr, 0, 10),
      integer_key("warmup", "steps of linear warm-up", &RunConfig::warmup, 0, kMany),
      words_key<Schedule>("schedule", "of the learning rate after the warm-up",
                          {{"cosine", Schedule::cosine},
                           {"wsd", Schedule::wsd},
                           {"linear", Schedule::linear},
                           {"constant", Schedule::constant}},
                          &RunConfig::schedule),
      number_key("beta1", "AdamW: decay of the first moment", &RunConfig::beta1, 0, 0.99999),
      number_key("beta2", "AdamW: decay of the second moment", &RunConfig::beta2, 0, 0.99999),
      number_key("eps", "AdamW: added to the denominator", &RunConfig::eps, 1e-20, 1),
      number_key("weight-decay", "AdamW: decay of matrices; vectors don't decay", &RunConfig::weight_decay, 0, 10),
      number_key("clip", "greatest global norm of the gradient; 0: no clipping", &RunConfig::clip, 0, 1e9),
      integer_key("eval-every", "steps between evaluations; 0: only at the end", &RunConfig::eval_every, 0, kMany),
      integer_key("eval-sequences",
                  "held-out sequences evaluated at most, over all ranks; 0: all of the held-out tokens",
                  &RunConfig::eval_sequences, 0, kMany),
      boolean_key("save", "write checkpoints; false: none at all, for measurements", &RunConfig::save),
      integer_key("save-every", "steps between checkpoints; 0: only at the end", &RunConfig::save_every, 0, kMany),
      integer_key("keep-last", "newest checkpoints kept when one more is complete; 0: all", &RunConfig::keep_last, 0,
                  kMany),
      integer_key("keep-every", "checkpoints of steps that are multiples of this are kept for ever; 0: none",
                  &RunConfig::keep_every, 0, kMany),
      integer_key("trace-steps", "last steps kept in trace.json; 0: no trace", &RunConfig::trace_steps, 0, 1000),
      text_key("resume", "a run or checkpoint folder to go on from; auto: run-dir's newest checkpoint, if any",
               &RunConfig::resume),
      text_key("init-from", "start from these weights: a checkpoint, or a Hugging Face folder or safetensors file",
               &RunConfig::init_from),
  };
}

}  // namespace

const FormerKey* former_key(std::string_view name) {
  static constexpr std::array kKeys = {
      FormerKey{"eval-batches", "eval-sequences", "0",
                "counted micro-batches of each rank, so that the loss depended on the grid",
                "set eval-sequences to a number of held-out sequences over all ranks"}};
  const auto found = std::ranges::find(kKeys, name, &FormerKey::name);
  return found == kKeys.end() ? nullptr : &*found;
}

const std::vector<ConfigEntry>& config_table() {
  static const std::vector<ConfigEntry> table = [] {
    std::vector<ConfigEntry> entries = run_entries();
    for (ConfigEntry& entry : model_size_keys()) entries.push_back(std::move(entry));
    return entries;
  }();
  return table;
}

}  // namespace weft::train
