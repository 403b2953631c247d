// The table itself: one entry a key, in the order of dumps, which files of configurations keep.
#include "train/config/config_table.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/units.h"
#include "train/config/expert_loads.h"
#include "train/config/key_kinds.h"

namespace weft::train {

namespace {

constexpr std::int64_t kMany = 1'000'000'000;

void add(std::vector<ConfigKey>& all, KeyGroup group, std::vector<ConfigKey> entries) {
  for (ConfigKey& entry : entries) {
    entry.group = group;
    all.push_back(std::move(entry));
  }
}

void add_run(std::vector<ConfigKey>& all) {
  add(all, KeyGroup::model, {model_key()});
  add(all, KeyGroup::run,
      {text_key("run-dir", "the folder for the run's files; empty: runs/<model>-<date>-<time>", &RunConfig::run_dir),
       // The length of a run is given in steps or in epochs: the later of two layers counts.
       with_effect(number_key("steps", "how many steps to train; 0: as epochs says", &RunConfig::steps, 0, kMany),
                   [](RunConfig& config, const RunConfig&) { config.epochs = config.steps > 0 ? 0 : config.epochs; }),
       with_effect(
           number_key("epochs",
                      "in place of steps: how many times to read the training data, as in 3 or 0.5; 0: steps counts",
                      &RunConfig::epochs, 0, 1e6),
           [](RunConfig& config, const RunConfig&) { config.steps = config.epochs > 0 ? 0 : config.steps; }),
       number_key("seed", "the seed of the initial weights, of the order of the data and of dropout", &RunConfig::seed,
                  0, 9.0e18),
       seconds_key("max-time",
                   "end the run after this many seconds, with its evaluation, its checkpoint and the decay of its "
                   "learning rate; an evaluation that takes longer is cut short; 0: no limit",
                   &RunConfig::max_time, 0, 1e9)});
}

void add_grid(std::vector<ConfigKey>& all) {
  add(all, KeyGroup::grid,
      {ranks_key(), grid_key(), axis_order_key(), stages_key(),
       number_key("pipe-chunks",
                  "pipeline stages that each rank has (virtual stages); 0: as many as the policy wants, which is 1 but "
                  "for interleaved, zb-v and dualpipe-v",
                  &RunConfig::pipe_chunks, 0, 64),
       boolean_key("zero-1", "cut the optimizer's state and work over data too (ZeRO stage 1)", &RunConfig::zero1),
       words_key<DType>("reduce-dtype", "the type of gradients while they are sent; sums are fp32",
                        {{"fp32", DType::f32}, {"bf16", DType::bf16}}, &RunConfig::reduce_dtype),
       boolean_key("reshard-after-forward",
                   "drop weights gathered over z after the forward pass, and gather them again for the backward pass",
                   &RunConfig::reshard_after_forward),
       boolean_key("sequence-parallel",
                   "cut what lies between matrix products (residual stream, norms, dropout, inputs of blocks) by rows "
                   "over y, and the MLP's activation over x: reduce-scatters and all-gathers in place of all-reduces, "
                   "for less memory",
                   &RunConfig::sequence_parallel),
       number_key("loss-parts",
                  "parts of a micro-batch's rows for which logits and loss are computed one after the other, for less "
                  "memory",
                  &RunConfig::loss_parts, 1, 65536)});
}

void add_device(std::vector<ConfigKey>& all) {
  add(all, KeyGroup::device,
      {number_key(
           "threads",
           "threads that a rank computes with; 0: the cores that the ranks of a machine may use, divided by them",
           &RunConfig::threads, 0, 4096),
       words_key<Binding>(
           "bind",
           "the cores on which a rank's threads run, of those that it was given. auto: on GPUs, those of its GPU's "
           "NUMA "
           "node, which ranks near them share equally; cores: those of its machine, which its processes share equally; "
           "none: all",
           {{"auto", Binding::automatic}, {"cores", Binding::cores}, {"none", Binding::none}}, &RunConfig::bind),
       words_key<DeviceKind>("device", "where the step runs: on the cpu, or with cuda on NVIDIA GPUs",
                             {{"cpu", DeviceKind::cpu}, {"cuda", DeviceKind::cuda}}, &RunConfig::device),
       words_key<CommunicatorKind>(
           "communicator",
           "how ranks communicate. local: threads of one process, with device cuda on its first GPU; mpi: processes, "
           "on CPUs; tcp: the same without MPI; nccl: a GPU for each rank; staged: GPUs through the host's memory; "
           "auto: the one that fits, nccl where there are as many GPUs as ranks",
           {{"auto", CommunicatorKind::automatic},
            {"local", CommunicatorKind::local},
            {"nccl", CommunicatorKind::nccl},
            {"staged", CommunicatorKind::staged},
            {"mpi", CommunicatorKind::mpi},
            {"tcp", CommunicatorKind::tcp}},
           &RunConfig::communicator),
       boolean_key("cuda-graph", "with device cuda: replay each step that isn't traced as one CUDA graph",
                   &RunConfig::cuda_graph),
       parsed_key("attention-workspace", ValueKind::text, "SIZE",
                  "with device cuda: cuDNN's attention runs where its workspace takes no more memory than this, for "
                  "each stream that computes; elsewhere Weft's own kernels run, slower, with other roundings and next "
                  "to no workspace",
                  &RunConfig::attention_workspace, parse_bytes, exact_bytes),
       words_key<execute::AttentionGradient>(
           "attention-gradient",
           "with device cuda and dtype bf16: which of cuDNN's engines may compute attention's gradient. deterministic: "
           "those that repeat their bits; fastest: all, so that a run may not repeat its bits",
           {{"deterministic", execute::AttentionGradient::deterministic},
            {"fastest", execute::AttentionGradient::fastest}},
           &RunConfig::attention_gradient),
       boolean_key("tf32",
                   "with device cuda and dtype fp32: products round their factors to TF32 (10 bits after the point), "
                   "which tensor cores multiply",
                   &RunConfig::tf32),
       gpu_kernels_key(), nccl_key()});
  add(all, KeyGroup::run,
      {number_key("trace-every", "with device cuda: trace one step of this many", &RunConfig::trace_every, 1, kMany)});
}

std::optional<std::int64_t> memory_of(std::string_view value, std::string_view where) {
  if (value == "auto") return std::nullopt;
  return value == "none" ? 0 : parse_bytes(value, where);
}

std::string memory_text(std::optional<std::int64_t> memory) {
  return !memory ? "auto" : *memory == 0 ? "none" : exact_bytes(*memory);
}

void add_plan(std::vector<ConfigKey>& all) {
  add(all, KeyGroup::plan,
      {text_key("policy", "the scheduling policy; a library (./mine.so) is loaded only if the command line names it",
                &RunConfig::policy),
       rewrites_key(),
       words_key<WeightPacking>(
           "pack-weights",
           "with device cpu: put weights once a step into the order in which products read them; the bits stay the "
           "same. Forward and backward pass take 4 bytes of memory a weight each, or 2 where pairs or AMX multiply "
           "bf16. auto: where enough products read them, up to 134M parameters, without memory, machine or a "
           "plan file; on: wherever two products read them",
           {{"auto", WeightPacking::automatic}, {"on", WeightPacking::on}, {"off", WeightPacking::off}},
           &RunConfig::pack_weights),
       words_key<bool>("fuse-gelu",
                       "let products write the GELU of their result too, and let the gradient's products multiply by "
                       "GELU's gradient. The bits stay the same on CPUs; GPUs round differently",
                       {{"off", false}, {"on", true}}, &RunConfig::fuse_gelu)});
  add(all, KeyGroup::machine,
      {text_key("machine",
                "the machine that policies plan for: laptop, dgx-h100, perlmutter, frontier, alps, or a TOML file; "
                "empty: a laptop",
                &RunConfig::machine),
       text_key("profile", "measured costs that policies plan by: a file of `weft profile`", &RunConfig::profile),
       parsed_key(
           "expert-load", ValueKind::text, "balanced|zipf:S|FILE",
           "how evenly tokens choose experts, for costs on a grid with expert=P: the rank with most rows counts. "
           "balanced: equal rows for each rank; zipf:S: expert e's popularity falls as 1 / (e + 1)^S; FILE: the loads "
           "of a run, from its experts.jsonl",
           &RunConfig::expert_load,
           [](std::string_view value, std::string_view where) {
             expect_plain_text(value, where);
             (void)load_setting(value, where);
             return std::string(value);
           },
           std::identity())});
  add(all, KeyGroup::plan,
      {number_key("streams", "compute streams of a rank, each with its own threads", &RunConfig::streams, 1, 64),
       parsed_key("memory", ValueKind::text, "SIZE|auto|none",
                  "memory that a rank's plan may take, with parameters and optimizer: 37GiB, 40GB; none: any size; "
                  "auto: that of a device of the machine, if one is named",
                  &RunConfig::memory, memory_of, memory_text)});
}

void add_products(std::vector<ConfigKey>& all) {
  add(all, KeyGroup::device,
      {text_key("gemm-tuning",
                "how matrix products, and attention on GPUs, are computed: a file that `weft tune` wrote. auto: tune "
                "at the start, once for "
                "all runs in the same folder; none: the defaults; empty: as the checkpoint was trained, or the "
                "defaults",
                &RunConfig::gemm_tuning),
       words_key<std::optional<PackedUnit>>(
           "bf16-products",
           "with device cpu and dtype bf16: what multiplies bf16. fp32: vectors, after a conversion; pairs: "
           "AVX512_BF16; amx: AMX tiles; auto: as the checkpoint was trained, else AMX, or pairs where they are at "
           "least 1.4 times as fast as fp32",
           {{"auto", std::nullopt}, {"fp32", PackedUnit::f32}, {"pairs", PackedUnit::pairs}, {"amx", PackedUnit::amx}},
           &RunConfig::bf16_products)});
  add(all, KeyGroup::run,
      {seconds_key("watchdog", "end the run after this many seconds without progress; 0: never", &RunConfig::watchdog,
                   0, 1e9),
       seconds_key(
           "peer-timeout",
           "seconds that a process waits for the others at a start, and with nccl at a first collective; without MPI a "
           "machine that is silent for so long is lost",
           &RunConfig::peer_timeout, 1, 1e9),
       words_key<Network>(
           "network",
           "where processes meet that torchrun, Slurm or a shell starts. loopback: on this machine alone; any: also at "
           "addresses that other machines reach, which may then try to connect",
           {{"loopback", Network::loopback}, {"any", Network::any}}, &RunConfig::network),
       text_key("token-file",
                "a file of at least 16 characters that nobody else may read, the same for all such processes: others "
                "that connect are turned away; empty: ~/.weft-token, made by the first run",
                &RunConfig::token_file),
       boolean_key("check-nan",
                   "name the first task that writes a NaN or an infinity; every result is read once more, which takes "
                   "a few % of a step",
                   &RunConfig::check_nan)});
}

ConfigKey paths_key(std::string name, std::string help, PathList RunConfig::*field) {
  return parsed_key(std::move(name), ValueKind::paths, "text, or a list of texts", std::move(help), field, paths_of,
                    [](const PathList& paths) { return to_text(paths); });
}

void add_data(std::vector<ConfigKey>& all) {
  add(all, KeyGroup::data,
      {paths_key("data",
                 "a text file, a .bin token file, a folder of either, or a pattern: 'texts/*.txt'; may be given again; "
                 "empty: /usr/share/common-licenses",
                 &RunConfig::data),
       paths_key("val-data",
                 "held-out data, as data; empty: files of the data with the word val, valid or validation in their "
                 "names, else val-split",
                 &RunConfig::val_data),
       words_key<ValSplit>(
           "val-split",
           "the part of the data that is held out if no file is. tail: the last 10 % of each file; documents: one "
           "document of ten",
           {{"tail", ValSplit::tail}, {"documents", ValSplit::documents}}, &RunConfig::val_split),
       text_key("tokenizer",
                "the tokenizer of texts: a file, or a folder with one, which gives a new model its vocabulary; empty: "
                "that of "
                "resume or init-from, or bytes",
                &RunConfig::tokenizer),
       text_key("chat-template",
                "how dialogues are written as texts: chatml, or a file with a Jinja template, which checkpoints and "
                "exports then have; empty: the tokenizer's own",
                &RunConfig::chat_template),
       words_key<TokenWidth>(
           "data-dtype",
           "the type of ids in .bin files without llm.c's header; auto: the only type whose ids all are in the "
           "vocabulary",
           {{"auto", TokenWidth::automatic}, {"u16", TokenWidth::u16}, {"u32", TokenWidth::u32}},
           &RunConfig::data_dtype)});
}

void add_step(std::vector<ConfigKey>& all) {
  add(all, KeyGroup::step,
      {words_key<DType>("dtype", "the type of weights and activations in the step; bf16 keeps fp32 master weights",
                        {{"fp32", DType::f32}, {"bf16", DType::bf16}}, &RunConfig::dtype),
       number_key("micro-batch", "sequences that a rank runs at once; 0: its whole share of the global batch",
                  &RunConfig::micro_batch, 0, 1 << 24),
       number_key("global-batch", "sequences of one step, over all ranks", &RunConfig::global_batch, 1, 1 << 24),
       number_key("seq-len", "tokens of a sequence; 0: the model's context", &RunConfig::seq_len, 0, 1 << 20),
       words_key<Recompute>("recompute", "compute activations again in the backward pass, to save memory",
                            {{"none", Recompute::none}, {"block", Recompute::block}}, &RunConfig::recompute),
       words_key<ops::GradientReduction>(
           "gradient-reduction",
           "when gradients are reduce-scattered over z. step: once a step, after micro-batches are added; micro-batch: "
           "in each, before they are added, which takes less memory in models of many layers, sends more and adds "
           "gradients in another order, so results differ in rounding. Either way the sum over data is made once a "
           "step, and with z=1 or one micro-batch both are the same",
           {{"step", ops::GradientReduction::step}, {"micro-batch", ops::GradientReduction::micro_batch}},
           &RunConfig::gradient_reduction),
       number_key("dropout", "the probability of dropping an activation; 0: none is dropped", &RunConfig::dropout, 0,
                  0.99),
       boolean_key("document-mask",
                   "attend within documents, where a sequence holds several; their borders are those of texts, and of "
                   "token files beside which `weft tokenize` has described them",
                   &RunConfig::document_mask),
       words_key<Packing>("packing",
                          "how documents become sequences. wrapped: as one long text, cut wherever a sequence is full; "
                          "documents: whole "
                          "ones, as many as fit, and the rest of a sequence is padding",
                          {{"wrapped", Packing::wrapped}, {"documents", Packing::documents}}, &RunConfig::packing)});
}

void add_optimisation(std::vector<ConfigKey>& all) {
  add(all, KeyGroup::optimizer,
      {number_key("lr", "the peak of the learning rate", &RunConfig::lr, 0, 10),
       number_key("min-lr", "the learning rate at the end of its decay; 0: the decay ends at nothing",
                  &RunConfig::min_lr, 0, 10),
       number_key("warmup", "steps in which the learning rate rises linearly; 0: the first has the peak",
                  &RunConfig::warmup, 0, kMany),
       words_key<Schedule>("schedule", "how the learning rate decays after the warm-up",
                           {{"cosine", Schedule::cosine},
                            {"wsd", Schedule::wsd},
                            {"linear", Schedule::linear},
                            {"constant", Schedule::constant}},
                           &RunConfig::schedule),
       number_key("beta1", "AdamW: the decay of the first moment", &RunConfig::beta1, 0, 0.99999),
       number_key("beta2", "AdamW: the decay of the second moment", &RunConfig::beta2, 0, 0.99999),
       number_key("eps", "AdamW: added to the denominator", &RunConfig::eps, 1e-20, 1),
       number_key("weight-decay", "AdamW: the decay of matrices, which vectors lack; 0: none", &RunConfig::weight_decay,
                  0, 10),
       number_key("clip", "the greatest global norm of the gradient; 0: no clipping", &RunConfig::clip, 0, 1e9),
       parsed_key("goldfish", ValueKind::text, "k=N,h=N,strategy=NAME",
                  "drop one in k targets from the training loss, so that texts aren't memorized (Goldfish loss). "
                  "strategy: hash (the h tokens before a target decide), avalanche, static (every k-th) or random; "
                  "empty: none",
                  &RunConfig::goldfish, goldfish_of,
                  [](const std::optional<Goldfish>& goldfish) { return to_text(goldfish); })});
}

void add_records(std::vector<ConfigKey>& all) {
  add(all, KeyGroup::run,
      {number_key("eval-every", "steps between evaluations; 0: only at the end", &RunConfig::eval_every, 0, kMany),
       number_key("eval-sequences",
                  "evaluate at most this many held-out sequences, over all ranks; 0: all of the held-out tokens; -1: "
                  "all, or in training as many as a minute or 5 % of the run's time, whichever is more, is enough for",
                  &RunConfig::eval_sequences, -1, kMany),
       number_key(
           "log-every",
           "steps between lines of progress in log.txt and where the console is no terminal; 0: a line every ten "
           "seconds",
           &RunConfig::log_every, 0, kMany),
       number_key(
           "sample-every",
           "steps between texts that the model writes, with the tokenizer of its data or weights; 0: only at the "
           "end, of a model of bytes",
           &RunConfig::sample_every, 0, kMany),
       boolean_key("save", "write checkpoints; --no-save: none at all, for measurements", &RunConfig::save),
       number_key("save-every", "steps between checkpoints; 0: only at the end", &RunConfig::save_every, 0, kMany),
       words_key<bool>("checkpoint-copy",
                       "with device cuda: when the state is copied from the GPU for a checkpoint that isn't the last. "
                       "between: between two steps; beside: while the next step computes what it will change it by",
                       {{"between", false}, {"beside", true}}, &RunConfig::copy_beside),
       number_key("keep-last", "how many of the newest checkpoints to keep; 0: all", &RunConfig::keep_last, 0, kMany),
       number_key("keep-every", "keep for ever the checkpoints of steps that are multiples of this; 0: none",
                  &RunConfig::keep_every, 0, kMany),
       boolean_key("keep-best",
                   "write a checkpoint after each evaluation with the lowest held-out loss so far, and keep the newest "
                   "of them; RUN/best names it",
                   &RunConfig::keep_best),
       number_key("trace-steps", "how many of the last steps trace.json keeps; 0: no trace", &RunConfig::trace_steps, 0,
                  1000),
       boolean_key("metrics-csv", "write metrics.csv beside metrics.jsonl", &RunConfig::metrics_csv),
       boolean_key("tensorboard", "write event files for TensorBoard into the run folder", &RunConfig::tensorboard),
       text_key("record-routing", "of a model with experts: write the experts that each token takes to this file",
                &RunConfig::record_routing),
       text_key("replay-routing",
                "let tokens take the experts of this file, which a run of the same data and batch recorded, on "
                "whatever grid",
                &RunConfig::replay_routing),
       text_key("resume", "the run or checkpoint folder to go on from; auto: run-dir's newest checkpoint, if any",
                &RunConfig::resume)});
  add(all, KeyGroup::model,
      {text_key(
           "init-from",
           "start from these weights: a checkpoint, a folder or a safetensors file of Hugging Face, or a GGUF file",
           &RunConfig::init_from),
       text_key("adapter", "start from these low-rank adapters over init-from: a folder of PEFT", &RunConfig::adapter),
       lora_key()});
}

}  // namespace

const FormerKey* former_key(std::string_view name) {
  static constexpr std::array kKeys = {
      FormerKey{"eval-batches", "eval-sequences", "0",
                "counted micro-batches of each rank, so that the loss depended on the grid",
                "set eval-sequences to a number of held-out sequences over all ranks"},
      FormerKey{"memory-limit", "memory", "0", "counted scratch memory alone, so that plans took more than was allowed",
                "set memory to all that a rank may take, with its unit: 37GiB"}};
  const auto found = std::ranges::find(kKeys, name, &FormerKey::name);
  return found == kKeys.end() ? nullptr : &*found;
}

const std::vector<ConfigKey>& config_keys() {
  static const std::vector<ConfigKey> table = [] {
    std::vector<ConfigKey> keys;
    for (const auto add_some :
         {add_run, add_grid, add_device, add_plan, add_products, add_data, add_step, add_optimisation, add_records}) {
      add_some(keys);
    }
    add(keys, KeyGroup::sizes, model_size_keys());
    RunConfig defaults;
    load_named_model(defaults);
    for (ConfigKey& key : keys) {
      key.default_value = key.get(defaults);
      const bool truth = key.kind == ValueKind::boolean || std::ranges::find(key.words, "on") != key.words.end();
      key.is_switch = truth && key.words.size() == 2;
      key.is_list = key.kind == ValueKind::paths;
    }
    return keys;
  }();
  return table;
}

}  // namespace weft::train
