// Fills in the open values of a configuration and refuses invalid ones, before any other work.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "base/allowed_cores.h"
#include "base/error.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/row_moves.h"
#include "ops/sharding.h"
#include "train/config/config.h"
#include "train/config/config_table.h"
#include "train/config/saved_model.h"

namespace weft::train {

namespace {

void resolve_grid(RunConfig& config, std::int64_t world_size) {
  graph::Grid& grid = config.grid;
  if (world_size > 0) {
    if (config.ranks > 0 && config.ranks != world_size) {
      throw UserError(fmt::format("ranks = {}, but {} ranks were started", config.ranks, world_size),
                      "one process for each rank", fmt::format("leave ranks out, or start {} processes", config.ranks));
    }
    config.ranks = world_size;
  }
  if (config.ranks == 0) config.ranks = grid.ranks();
  if (grid.data == 1 && config.ranks % grid.model_ranks() == 0) grid.data = config.ranks / grid.model_ranks();
  if (grid.ranks() == config.ranks) return;
  std::string fix = ops::nearest_grid_flags(config.model, grid, config.ranks, config.global_batch);
  if (ops::fits_model(config.model, grid) && config.global_batch % grid.batch_ranks() == 0) {
    const char* const start = world_size == 0 ? "--ranks" : config.launch ? "the launcher's processes:" : "mpirun -np";
    fix += fmt::format(", or {} {}", start, grid.ranks());
  }
  throw UserError(
      fmt::format("grid {} has {} ranks, but there are {}", graph::to_string(grid), grid.ranks(), config.ranks),
      "as many ranks as the product of the axes", fix);
}

/// "4 or 8": the multiples of `unit` around `value`, for a fix.
std::string nearest_multiples(std::int64_t value, std::int64_t unit) {
  const std::int64_t below = value / unit * unit;
  return below == 0 ? fmt::format("{}", unit) : fmt::format("{} or {}", below, below + unit);
}

std::int64_t nearest_divisor(std::int64_t value, std::int64_t near) {
  std::int64_t best = 1;
  for (std::int64_t i = 1; i <= value; ++i) {
    if (value % i == 0 && std::abs(i - near) < std::abs(best - near)) best = i;
  }
  return best;
}

/// All sequences of a rank at once. A pipeline needs micro-batches to be busy: about four a stage, if there are as
/// many.
std::int64_t usual_micro_batch(const graph::Grid& grid, std::int64_t share) {
  constexpr std::int64_t kOfAStage = 4;
  if (grid.pipe == 1) return share;
  return nearest_divisor(share, std::max<std::int64_t>(1, share / (kOfAStage * grid.pipe)));
}

void resolve_batch(RunConfig& config) {
  const std::int64_t ranks = config.grid.batch_ranks();
  const graph::Grid& grid = config.grid;
  const std::string sharers = grid.z == 1         ? fmt::format("{} data ranks", ranks)
                              : grid.context == 1 ? fmt::format("{} ranks (z={} × data={})", ranks, grid.z, grid.data)
                                                  : fmt::format("{} × {} ranks (z={} × data={}, context={})", ranks,
                                                                grid.context, grid.z, grid.data, grid.context);
  if (config.global_batch % ranks != 0) {
    throw UserError(fmt::format("global-batch = {} can't be divided among {}", config.global_batch, sharers),
                    grid.z == 1 ? "a multiple of the data ranks"
                    : grid.context == 1
                        ? "a multiple of z · data: both cut the batch"
                        : "a multiple of z · data / context: both cut the batch, and context cuts sequences",
                    fmt::format("--global-batch {}", nearest_multiples(config.global_batch, ranks)));
  }
  const std::int64_t share = config.global_batch / ranks;
  if (config.micro_batch == 0) config.micro_batch = usual_micro_batch(config.grid, share);
  if (config.micro_batch % config.batch_split != 0) {
    throw UserError(
        fmt::format("batch-split = {} doesn't divide the micro-batch of {}", config.batch_split, config.micro_batch),
        "a divisor", fmt::format("batch-split={}", nearest_divisor(config.micro_batch, config.batch_split)));
  }
  config.micro_batch /= config.batch_split;
  config.batch_split = 1;
  if (share % config.micro_batch != 0) {
    throw UserError(fmt::format("micro-batch = {} doesn't divide the {} sequences of a rank (global-batch {} over {})",
                                config.micro_batch, share, config.global_batch, sharers),
                    "a divisor",
                    fmt::format("--micro-batch {}, or --global-batch {}", nearest_divisor(share, config.micro_batch),
                                nearest_multiples(config.global_batch, config.micro_batch * ranks)));
  }
}

void refuse_if(bool wrong, std::string_view found, std::string_view expected, std::string_view fix) {
  if (wrong) throw UserError(found, expected, fix);
}

void resolve_sequence(RunConfig& config) {
  const std::int64_t context = config.model.context;
  if (config.seq_len == 0) config.seq_len = context;
  refuse_if(config.seq_len > context,
            fmt::format("seq-len = {} is longer than the model's context of {}", config.seq_len, context),
            fmt::format("at most {}", context),
            fmt::format("--seq-len {}, or --model.context {}", context, config.seq_len));
  const std::int64_t sharers = config.grid.context;
  refuse_if(config.seq_len % sharers != 0,
            fmt::format("context = {} of the grid with seq-len = {}", sharers, config.seq_len),
            "sequences that it divides", fmt::format("--seq-len {}", nearest_multiples(config.seq_len, sharers)));
}

/// With sequence parallelism a rank has whole rows: of the residual stream over y, of the MLP's activation over x.
void check_sequence_parallel(const RunConfig& config) {
  if (!config.sequence_parallel) return;
  const std::int64_t context = config.grid.context, rows = config.micro_batch * config.seq_len / context;
  for (const graph::Axis axis : {graph::Axis::y, graph::Axis::x}) {
    const std::int64_t ranks = config.grid.on(axis);
    refuse_if(
        rows % ranks != 0,
        fmt::format("sequence-parallel with {} rows a micro-batch ({} × seq-len {}{}) on {}={}", rows,
                    config.micro_batch, config.seq_len, context == 1 ? "" : fmt::format(" / context {}", context),
                    graph::to_string(axis), ranks),
        fmt::format("rows that {} divides", graph::to_string(axis)),
        fmt::format("--seq-len {}, or --sequence-parallel=false", nearest_multiples(config.seq_len, ranks * context)));
  }
}

void check_loss_parts(const RunConfig& config) {
  if (config.loss_parts == 1) return;
  const std::string found = fmt::format("loss-parts = {}", config.loss_parts);
  const std::int64_t rows = config.micro_batch * config.seq_len / config.grid.context;
  refuse_if(rows % config.loss_parts != 0, fmt::format("{} of {} rows a micro-batch", found, rows),
            "parts of equally many rows", fmt::format("--loss-parts {}", nearest_divisor(rows, config.loss_parts)));
  refuse_if(config.grid.pipe > 1, fmt::format("{} with pipe = {}", found, config.grid.pipe),
            "one stage: schedules of stages take the loss as a part of the forward pass",
            "leave pipe or loss-parts out");
  refuse_if(config.sequence_parallel && config.grid.y > 1, found + " with sequence-parallel over y",
            "ranks of y that have the same rows", "leave one of the two out");
}

void resolve_pipeline(RunConfig& config) {
  graph::PipelineChunks chunks = config.policy_chunks;
  const bool takes_any = config.policy == "program" || config.policy == "serial";
  if (config.pipe_chunks > 0 && chunks.chunks != config.pipe_chunks && !takes_any) {
    throw UserError(fmt::format("pipe-chunks = {} with policy {}", config.pipe_chunks, config.policy),
                    fmt::format("{}, which the policy is for", chunks.chunks),
                    "leave pipe-chunks out, or choose a policy with chunks: interleaved:chunks=2");
  }
  if (config.pipe_chunks > 0) chunks.chunks = config.pipe_chunks;
  if (config.grid.pipe == 1) {
    config.pipeline = {};
    if (!config.stages.empty() || config.pipe_chunks > 1) {
      throw UserError("stages or pipe-chunks without a pipeline", "pipe among the axes of the grid",
                      "--grid pipe=2, or leave them out");
    }
    return;
  }
  config.pipeline = config.stages.empty() ? ops::balanced_layout(config.model, config.seq_len, config.grid.pipe, chunks)
                                          : ops::PipelineLayout{config.grid.pipe, chunks, config.stages};
  ops::validate_layout(config.model, config.pipeline);
  const bool shares_rank = config.pipeline.rank_of(0) == config.pipeline.last_rank();
  if (config.model.tied && shares_rank && config.gradient_reduction == ops::GradientReduction::micro_batch) {
    throw UserError("gradient-reduction = micro-batch with a tied embedding whose two ends are on one rank",
                    "gradient-reduction = step", "leave gradient-reduction out, or choose a policy with other stages");
  }
}

/// Refuses valid sizes whose products exceed any machine's memory and would overflow later.
void check_products(const RunConfig& config) {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 40, kMostBlocks = 65536;
  const ops::ModelConfig& model = config.model;
  const std::int64_t tokens = config.micro_batch * config.seq_len;
  const std::int64_t widest =
      std::max({4 * model.hidden, model.query_cols() + 2 * model.key_cols(), 2 * model.ffn,
                2 * model.expert_cols() * (model.experts > 0 ? model.experts_per_token : 1), model.vocab});
  refuse_if(tokens > kMostElements / widest,
            fmt::format("activations of {} tokens (micro-batch {} of seq-len {}) by {} columns", tokens,
                        config.micro_batch, config.seq_len, widest),
            fmt::format("at most {} elements", kMostElements), "--micro-batch 1, or a shorter --seq-len");
  const std::int64_t micro_batches = accumulation(config);
  refuse_if(micro_batches > kMostBlocks / model.layers,
            fmt::format("{} micro-batches of {} layers in one step", micro_batches, model.layers),
            fmt::format("at most {} in all, because a step is one graph", kMostBlocks),
            "a larger --micro-batch, or a smaller --global-batch");
}

void check_start(const RunConfig& config) {
  refuse_if(config.resume == kResumeAuto && config.run_dir.empty(), "resume = auto without a run-dir",
            "the folder of the run to continue", "--run-dir FOLDER, or --resume FOLDER");
  // With auto, a new run may begin, for which init-from counts.
  refuse_if(!config.resume.empty() && config.resume != kResumeAuto && !config.init_from.empty(),
            fmt::format("resume = {} and init-from = {}", config.resume, config.init_from),
            "only one: resume continues a run, init-from starts a run with given weights", "leave one out");
  refuse_if(!config.resume.empty() && config.resume != kResumeAuto && !config.adapter.empty(),
            fmt::format("resume = {} and adapter = {}", config.resume, config.adapter),
            "only one: a run goes on with its own adapters", "leave one out");
}

/// Refuses rewrites of layers that the model doesn't have.
void check_layers(const RunConfig& config) {
  for (const plan::Rewrite& rewrite : config.rewrites) {
    const std::vector<std::int32_t>* layers = nullptr;
    if (const auto* recompute = std::get_if<plan::RecomputeLayers>(&rewrite)) layers = &recompute->layers;
    if (const auto* reshard = std::get_if<plan::ReshardAfterForward>(&rewrite)) layers = &reshard->layers;
    if (layers == nullptr || layers->empty() || layers->back() < config.model.layers) continue;
    throw UserError(fmt::format("rewrite {} names layer {}", plan::to_string(rewrite), layers->back()),
                    fmt::format("layers 0 to {}, which the model has", config.model.layers - 1),
                    fmt::format("end at {}, or leave the layers out for all of them", config.model.layers - 1));
  }
}

void check_routing(const RunConfig& config) {
  const bool records = !config.record_routing.empty(), replays = !config.replay_routing.empty();
  refuse_if(records && replays, "record-routing and replay-routing",
            "one of both: replayed choices are recorded already", "leave one out");
  refuse_if((records || replays) && config.model.experts == 0,
            fmt::format("{} of a model without experts", records ? "record-routing" : "replay-routing"),
            "a model whose tokens choose experts", "leave it out");
}

void check_settings(const RunConfig& config) {
  refuse_if(config.dtype != DType::f32 && config.dtype != DType::bf16,
            fmt::format("dtype = {}", to_string(config.dtype)), "fp32 or bf16", "--dtype fp32");
  refuse_if(config.schedule != Schedule::constant && config.min_lr > config.lr,
            fmt::format("min-lr = {} is above lr = {}", config.min_lr, config.lr),
            "a decay that ends at or below the peak", fmt::format("--min-lr {} or less", config.lr));
  const Goldfish goldfish = config.goldfish.value_or(Goldfish{.h = 0});
  refuse_if(goldfish.reads_context() && goldfish.h > config.seq_len,
            fmt::format("goldfish = {} reads contexts of {} tokens, and seq-len = {}", to_text(config.goldfish),
                        goldfish.h, config.seq_len),
            "contexts that fit into a sequence", fmt::format("h={} or less", config.seq_len));
  refuse_if((config.steps == 0) != (config.epochs > 0),
            fmt::format("steps = {} and epochs = {}", config.steps, config.epochs), "one of both",
            config.steps == 0 ? "--steps 200, or --epochs 3" : "leave one out");
  refuse_if(config.keep_best && !config.save, "keep-best with save = false", "checkpoints, of which the best is kept",
            "leave one of both out");
  // Adapters aren't cut over z, so there is nothing to scatter.
  refuse_if(config.model.lora.used() && config.gradient_reduction != ops::GradientReduction::step,
            "gradient-reduction = micro-batch with lora",
            "gradient-reduction = step: adapters aren't cut over z, and no other weight has a gradient",
            "leave gradient-reduction out");
}

std::string communicator_text(const RunConfig& config) {
  return "communicator = " + find_key("communicator", "").get(config);
}

}  // namespace

void choose_policy(RunConfig& config) {
  // The default policy would run one micro-batch after the other.
  const bool chosen = config.given.contains("policy") || config.policy != RunConfig().policy;
  if (config.grid.pipe > 1 && !chosen) config.policy = "1f1b";
}

void check_device(const RunConfig& config) {
  const CommunicatorKind kind = config.communicator;
  const std::string communicator = communicator_text(config);
  if (config.device == DeviceKind::cpu) {
    return refuse_if(kind == CommunicatorKind::nccl || kind == CommunicatorKind::staged,
                     communicator + " with device cpu", "auto, local, mpi or tcp: it moves what lies on GPUs",
                     "--communicator auto, or --device cuda");
  }
  refuse_if(config.pack_weights == WeightPacking::on || plan::packs_weights(config.rewrites),
            "pack-weights with device = cuda", "device cpu: a GPU's products read weights as they are",
            "leave pack-weights out");
  refuse_if(config.model.head_dim() > cpu::kWidestHeadOnGpu,
            fmt::format("heads of {} columns with device cuda", config.model.head_dim()),
            fmt::format("heads of at most {} columns, or device cpu", cpu::kWidestHeadOnGpu),
            "--device cpu, or a model of narrower heads");
  refuse_if(config.grid.expert > kernels::kMostRowRanks,
            fmt::format("expert = {} with device cuda", config.grid.expert),
            fmt::format("at most {}, or device cpu", kernels::kMostRowRanks), "fewer ranks that share experts out");
  refuse_if(kind == CommunicatorKind::mpi || kind == CommunicatorKind::tcp, communicator + " with device cuda",
            "auto, local, nccl, or staged, which moves what lies on GPUs by MPI or TCP", "--communicator staged");
  refuse_if(kind == CommunicatorKind::staged && config.cuda_graph, communicator + " with cuda-graph",
            "a communicator that graphs can hold: local or nccl", "leave --cuda-graph out");
}

void check_communicator(const RunConfig& config, Launched launched) {
  constexpr std::int64_t kMostStagedThreads = 3;  // with up to eleven streams each (device/transport.h)
  check_device(config);
  const CommunicatorKind kind = config.communicator;
  const std::string found = communicator_text(config);
  const bool threads = launched == Launched::as_threads;
  refuse_if(kind == CommunicatorKind::local && !threads && config.ranks > 1,
            fmt::format("{} with {} processes", found, config.ranks), "ranks that are threads of one process",
            fmt::format("--communicator auto, or --ranks {} without mpirun or another launcher", config.ranks));
  refuse_if(kind == CommunicatorKind::mpi && launched != Launched::by_mpi, found + " without mpirun",
            "a process for each rank", fmt::format("mpirun -np {} weft …, or --communicator auto", config.ranks));
  refuse_if(kind == CommunicatorKind::tcp && launched != Launched::over_tcp, found + " without torchrun or srun",
            "a process for each rank, which RANK and WORLD_SIZE tell its place",
            fmt::format("torchrun --no-python --nproc-per-node {} weft …, or --communicator auto", config.ranks));
  refuse_if(config.bind == Binding::cores && threads && config.ranks > 1,
            fmt::format("bind = cores with {} ranks that are threads of one process", config.ranks),
            "a process for each rank: threads of one process share its cores as they need them",
            fmt::format("mpirun -np {} weft …, or leave bind out", config.ranks));
  refuse_if(
      kind == CommunicatorKind::staged && config.grid.pipe > 1 && threads && config.grid.ranks() > kMostStagedThreads,
      fmt::format("communicator = staged with pipeline stages on {} threads", config.grid.ranks()),
      fmt::format("at most {} in one process, whose streams that wait for the host share 32 queues",
                  kMostStagedThreads),
      "--communicator local, or mpirun with a process for each rank");
}

bool reads_documents(const RunConfig& config) {
  return config.document_mask || config.packing == Packing::documents;
}

std::int64_t accumulation(const RunConfig& config) {
  return config.global_batch / (config.grid.batch_ranks() * config.micro_batch);
}

void expect_grid(const RunConfig& config) {
  if (!config.grid_auto) return;
  throw UserError("grid = auto", "axes with their sizes: only `weft train` chooses a grid by itself",
                  "`weft search --ranks N -o best.toml` finds the fastest, to be used anywhere; or --grid data=2");
}

void fill_in(RunConfig& config, std::int64_t world_size) {
  config.warnings.clear();
  expect_grid(config);
  check_start(config);
  take_saved_model(config);
  // A configuration built in code passes the same ranges as one from text.
  for (const ConfigKey& entry : config_keys()) {
    if (entry.kind == ValueKind::integer || entry.kind == ValueKind::number) {
      RunConfig probe = config;
      entry.set(probe, entry.get(config), entry.name);
    }
  }
  ops::validate(config.model);
  const bool fixed_ranks = world_size > 0 || config.ranks > 0;
  resolve_grid(config, world_size);
  ops::validate_grid(config.model, config.grid, config.global_batch, fixed_ranks);
  resolve_batch(config);
  resolve_sequence(config);
  check_sequence_parallel(config);
  check_loss_parts(config);
  resolve_pipeline(config);
  check_products(config);
  check_settings(config);
  check_routing(config);
  check_device(config);
  check_layers(config);
  if (config.threads == 0) {
    config.threads = std::max<std::int64_t>(1, allowed_cores(0).cores / config.ranks);
  }
  if (config.run_dir.empty()) {
    const std::time_t now = std::time(nullptr);
    config.run_dir = fmt::format("runs/{}-{:%Y%m%d-%H%M%S}", config.model_name, fmt::localtime(now));
  }
}

}  // namespace weft::train
