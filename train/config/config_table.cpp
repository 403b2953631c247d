// The table itself: how each kind of value is parsed, and one entry a key.
#include "train/config/config_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <span>

#include "base/error.h"
#include "base/text/utf8.h"
#include "runtime/plan/rewrite.h"

namespace weft {

namespace {

constexpr std::int64_t kMany = 1'000'000'000;
constexpr std::string_view kBatchSplit = "batch-split";
constexpr const char* kGiveOne = "give one in that range";

template <class Number>
Number parse_number(std::string_view value, std::string_view where, std::string_view type, double least, double most) {
  Number number{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const std::string range = fmt::format("{} from {} to {}", type == "integer" ? "an integer" : "a number", least, most);
  if (error == std::errc::invalid_argument || end != value.data() + value.size()) {
    throw UserError(fmt::format("{} = \"{}\" is not {}", where, value, type == "integer" ? "an integer" : "a number"),
                    range, kGiveOne);
  }
  // In the field's own type, so that the bounds themselves are accepted; written so that NaN fails too.
  const bool inside = number >= static_cast<Number>(least) && number <= static_cast<Number>(most);
  if (error == std::errc::result_out_of_range || !inside) {
    throw UserError(fmt::format("{} = {} is out of range", where, value), range, kGiveOne);
  }
  return number + Number{};  // −0 becomes 0: TOML reads the -0 of a dump as an integer, without its sign
}

/// A field of the run or of its model, by pointer to member.
template <class Config, class Value>
auto& field_of(Config& config, Value RunConfig::*field) {
  return config.*field;
}
template <class Config, class Value>
auto& field_of(Config& config, Value ModelConfig::*field) {
  return config.model.*field;
}

template <class Field>
ConfigEntry integer(std::string name, std::string help, Field field, double least, double most) {
  return {std::move(name),
          ValueKind::integer,
          "integer",
          std::move(help),
          [=](RunConfig& config, std::string_view value, std::string_view where) {
            using Value = std::remove_reference_t<decltype(field_of(config, field))>;
            field_of(config, field) =
                static_cast<Value>(parse_number<std::int64_t>(value, where, "integer", least, most));
          },
          [=](const RunConfig& config) { return fmt::format("{}", field_of(config, field)); }};
}

template <class Field>
ConfigEntry number(std::string name, std::string help, Field field, double least, double most) {
  return {std::move(name), ValueKind::number, "number", std::move(help),
          [=](RunConfig& config, std::string_view value, std::string_view where) {
            using Value = std::remove_reference_t<decltype(field_of(config, field))>;
            field_of(config, field) = parse_number<Value>(value, where, "number", least, most);
          },
          // The shortest digits that read back as the same value.
          [=](const RunConfig& config) { return fmt::format("{}", field_of(config, field)); }};
}

/// TOML files and manifests hold no other bytes and paths no NUL, so a value that isn't plain would only fail when a
/// checkpoint is written.
bool is_plain_text(std::string_view text) {
  return is_utf8(text) && text.find('\0') == std::string_view::npos;
}

template <class Field>
ConfigEntry text(std::string name, std::string help, Field field) {
  return {std::move(name),
          ValueKind::text,
          "text",
          std::move(help),
          [=](RunConfig& config, std::string_view value, std::string_view where) {
            if (!is_plain_text(value)) {
              throw UserError(fmt::format("{} = \"{}\" is not plain text", where, value), "UTF-8 without NUL",
                              "rename the file, or give a link to it");
            }
            field_of(config, field) = std::string(value);
          },
          [=](const RunConfig& config) { return field_of(config, field); }};
}

template <class Field>
ConfigEntry boolean(std::string name, std::string help, Field field) {
  return {std::move(name),
          ValueKind::boolean,
          "true or false",
          std::move(help),
          [=](RunConfig& config, std::string_view value, std::string_view where) {
            if (value != "true" && value != "false") {
              throw UserError(fmt::format("{} = \"{}\" is not a truth value", where, value), "true or false",
                              "write true or false");
            }
            field_of(config, field) = value == "true";
          },
          [=](const RunConfig& config) { return std::string(field_of(config, field) ? "true" : "false"); }};
}

template <class Value>
struct Word {
  std::string name;
  Value value;
};

template <class Value, class Field>
ConfigEntry words(std::string name, std::string help, std::vector<Word<Value>> accepted, Field field) {
  std::vector<std::string> names;
  for (const Word<Value>& word : accepted) names.push_back(word.name);
  return {std::move(name),
          ValueKind::text,
          join(names, "|"),
          std::move(help),
          [=](RunConfig& config, std::string_view value, std::string_view where) {
            for (const Word<Value>& word : accepted) {
              if (word.name == value) {
                field_of(config, field) = word.value;
                return;
              }
            }
            const std::string nearest = nearest_name(value, names);
            throw UserError(fmt::format("{} = \"{}\" is unknown", where, value), "one of " + join(names),
                            nearest.empty() ? "choose one of these" : fmt::format("did you mean \"{}\"?", nearest));
          },
          [=](const RunConfig& config) {
            const auto found = std::find_if(accepted.begin(), accepted.end(), [&](const Word<Value>& word) {
              return word.value == field_of(config, field);
            });
            return found == accepted.end() ? std::string("?") : found->name;
          }};
}

/// What follows from a size that changed, unless it is set itself: as many key-value heads as heads where they were
/// equal or the family has no others, and GPT-2's MLP of four times the width.
void follow(const ModelConfig& before, ModelConfig& after) {
  const bool became_gpt2 = after.family == Family::gpt2 && before.family != Family::gpt2;
  const bool heads_changed = after.heads != before.heads && before.kv_heads == before.heads;
  if (became_gpt2 || heads_changed) after.kv_heads = after.heads;
  if (after.family == Family::gpt2 && after.hidden != before.hidden && before.ffn == 4 * before.hidden) {
    after.ffn = 4 * after.hidden;
  }
}

/// A size that differs from the named model's makes the model a custom one.
ConfigEntry model_size(ConfigEntry entry) {
  entry.set = [set = entry.set, get = entry.get](RunConfig& config, std::string_view value, std::string_view where) {
    load_named_model(config);
    const ModelConfig before = config.model;
    const std::string text_before = get(config);
    set(config, value, where);
    if (get(config) == text_before) return;
    follow(before, config.model);
    config.model_name = config.model.name = kCustomModel;
  };
  return entry;
}

void set_model_name(RunConfig& config, std::string_view value, std::string_view where) {
  if (value == kCustomModel) {
    load_named_model(config);
  } else {
    try {
      config.model = model_by_name(value);
    } catch (const UserError& error) {
      throw UserError(fmt::format("{}: {}", where, error.what()), "", "");
    }
  }
  config.model_name = config.model.name = std::string(value);
}

std::vector<std::string> axis_names() {
  std::vector<std::string> names;
  for (const Axis axis : kAxes) names.emplace_back(to_string(axis));
  return names;
}

void set_grid(RunConfig& config, std::string_view value, std::string_view where) {
  Grid grid;
  grid.order = config.grid.order;
  const std::vector<std::string> axes = axis_names();
  constexpr std::string_view expected = "axes of x, y, z and data with their sizes, as in \"data=2\" or \"x=2,data=4\"";
  std::vector<bool> given(axes.size(), false);
  while (!value.empty()) {
    const std::size_t comma = std::min(value.find(','), value.size());
    const std::string_view part = value.substr(0, comma);
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      throw UserError(fmt::format("{}: \"{}\" is not an axis and its size", where, part), expected,
                      "write it as in data=2");
    }
    const std::string_view name = part.substr(0, equals);
    const auto axis = std::find(axes.begin(), axes.end(), name);
    if (axis == axes.end()) {
      const std::string nearest = nearest_name(name, axes);
      throw UserError(fmt::format("{}: unknown axis \"{}\"", where, name), expected,
                      nearest.empty() ? "write it as in data=2" : fmt::format("did you mean \"{}\"?", nearest));
    }
    const auto index = static_cast<std::size_t>(axis - axes.begin());
    if (given[index])
      throw UserError(fmt::format("{}: axis {} is given twice", where, name), expected, "leave one out");
    given[index] = true;
    grid.on(kAxes.at(index)) =
        parse_number<std::int64_t>(part.substr(equals + 1), fmt::format("{}: {}", where, name), "integer", 1, 65536);
    value.remove_prefix(std::min(comma + 1, value.size()));
  }
  config.grid = grid;
}

std::string grid_text(const RunConfig& config) {
  return to_string(config.grid);
}

void set_axis_order(RunConfig& config, std::string_view value, std::string_view where) {
  const std::vector<std::string> names = axis_names();
  std::vector<std::string> given;
  for (std::string_view rest = value;;) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    given.emplace_back(rest.substr(0, comma));
    if (comma == rest.size()) break;
    rest.remove_prefix(comma + 1);
  }
  if (!std::is_permutation(given.begin(), given.end(), names.begin(), names.end())) {
    throw UserError(fmt::format("{} = \"{}\" is no order of the axes", where, value),
                    "x, y, z and data, each once; neighbouring ranks differ in the first", "x,y,z,data is the default");
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto place = std::find(names.begin(), names.end(), given[i]) - names.begin();
    config.grid.order.at(i) = kAxes.at(static_cast<std::size_t>(place));
  }
}

std::string axis_order_text(const RunConfig& config) {
  std::vector<std::string_view> names;
  for (const Axis axis : config.grid.order) names.push_back(to_string(axis));
  return fmt::format("{}", fmt::join(names, ","));
}

/// The pieces that "batch-split=4" asks for; 0 for another rewrite.
std::int64_t batch_split_of(std::string_view rewrite) {
  if (rewrite == kBatchSplit) return 2;
  if (!rewrite.starts_with(fmt::format("{}=", kBatchSplit))) return 0;
  const std::string_view digits = rewrite.substr(kBatchSplit.size() + 1);
  std::int64_t pieces = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), pieces);
  if (error != std::errc() || end != digits.data() + digits.size() || pieces < 2 || pieces > kMany) {
    throw UserError(fmt::format("rewrite \"{}\"", rewrite), "pieces of a micro-batch, from 2",
                    fmt::format("write {}=2", kBatchSplit));
  }
  return pieces;
}

void set_rewrites(RunConfig& config, std::string_view value, std::string_view where) {
  try {
    std::vector<std::string_view> exact;
    std::int64_t pieces = 1;
    for (bool more = true; more;) {
      const std::string_view entry = value.substr(0, value.find(';'));
      more = entry.size() < value.size();
      value.remove_prefix(std::min(value.size(), entry.size() + 1));
      if (const std::int64_t split = batch_split_of(entry); split == 0) {
        exact.push_back(entry);
      } else if (pieces > 1) {
        throw UserError(fmt::format("rewrite {} stands twice", kBatchSplit), "once", "leave one out");
      } else {
        pieces = split;
      }
    }
    config.rewrites = to_string(std::span<const Rewrite>(parse_rewrites(fmt::format("{}", fmt::join(exact, ";")))));
    config.batch_split = pieces;
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", where, error.what()), "", "");
  }
}

std::string rewrites_text(const RunConfig& config) {
  if (config.batch_split == 1) return config.rewrites;
  return fmt::format("{}={}{}{}", kBatchSplit, config.batch_split, config.rewrites.empty() ? "" : ";", config.rewrites);
}

/// Setting the ranks anew lets the data axis be filled in anew, so that a dumped config runs with other --ranks.
ConfigEntry ranks_entry() {
  ConfigEntry entry = integer("ranks", "ranks as threads of this process; 0: as many as the grid has, or mpirun's",
                              &RunConfig::ranks, 0, 4096);
  entry.set = [set = entry.set](RunConfig& config, std::string_view value, std::string_view where) {
    const std::int64_t before = config.ranks;
    set(config, value, where);
    if (config.ranks != before) config.grid.data = 1;
  };
  return entry;
}

std::vector<ConfigEntry> run_entries() {
  return {
      {"model", ValueKind::text, "text", "a model by name: " + join(model_names()), set_model_name,
       [](const RunConfig& config) { return config.model_name; }},
      text("run-dir", "folder for the run's files; empty: runs/<model>-<date>-<time>", &RunConfig::run_dir),
      integer("steps", "optimizer steps", &RunConfig::steps, 1, kMany),
      integer("seed", "seed of initial weights, data order and dropout", &RunConfig::seed, 0, 9.0e18),
      number("max-time",
             "seconds after which the run has evaluated, saves and ends; an evaluation that takes longer is cut short; "
             "0: no limit",
             &RunConfig::max_time, 0, 1e9),
      ranks_entry(),
      {"grid", ValueKind::text, "text",
       "ranks along each axis, as in x=2,z=2,data=2: x, y and z cut the model, z and data the batch; what is left out "
       "is 1, data what the ranks leave",
       set_grid, grid_text},
      {"axis-order", ValueKind::text, "text", "axes in the order of the ranks: neighbouring ranks differ in the first",
       set_axis_order, axis_order_text},
      boolean("zero-1", "cut the optimizer's state and work over data too (ZeRO stage 1)", &RunConfig::zero1),
      words<DType>("reduce-dtype", "of gradients on the wire, which are summed in fp32",
                   {{"fp32", DType::f32}, {"bf16", DType::bf16}}, &RunConfig::reduce_dtype),
      boolean("reshard-after-forward",
              "drop weights gathered over z behind the forward pass, and gather them again for the backward pass",
              &RunConfig::reshard_after_forward),
      integer("threads", "threads a rank computes with; 0: the machine's cores divided by the ranks",
              &RunConfig::threads, 0, 4096),
      words<DeviceKind>("device", "what runs the step: cpu, or cuda: an NVIDIA GPU, which the ranks of a process share",
                        {{"cpu", DeviceKind::cpu}, {"cuda", DeviceKind::cuda}}, &RunConfig::device),
      words<CommunicatorKind>(
          "communicator",
          "how ranks talk: local: threads of one process; mpi: processes, on CPUs; nccl: a GPU for each rank; staged: "
          "GPUs through the host's memory; auto: what fits",
          {{"auto", CommunicatorKind::automatic},
           {"local", CommunicatorKind::local},
           {"nccl", CommunicatorKind::nccl},
           {"staged", CommunicatorKind::staged},
           {"mpi", CommunicatorKind::mpi}},
          &RunConfig::communicator),
      boolean("cuda-graph", "with device cuda: replay each step that isn't traced as one CUDA graph",
              &RunConfig::cuda_graph),
      integer("trace-every", "with device cuda: of so many steps one is traced", &RunConfig::trace_every, 1, kMany),
      text("policy", "what orders the step's tasks on streams; a library (./mine.so) only if the command line names it",
           &RunConfig::policy),
      {"rewrites", ValueKind::text, "text",
       "changes to the graph that keep every bit, as in \"bucket=25MB;reshard\": bucket and split-collective=BYTES, "
       "ar-to-rs-ag, reshard and recompute=LAYERS, pack-weights=USES, fuse-gelu; and batch-split=PIECES of a "
       "micro-batch, "
       "which changes roundings",
       set_rewrites, rewrites_text},
      words<WeightPacking>(
          "pack-weights",
          "with device cpu: weights are put once a step into the order in which products read them; the same bits. "
          "Forward and backward pass take 4 bytes of memory a weight each, or 2 in bf16 that pairs or AMX multiply. "
          "auto: where enough products read them, up to 134M parameters, without memory-limit, machine or a plan file; "
          "on: from two products on",
          {{"auto", WeightPacking::automatic}, {"on", WeightPacking::on}, {"off", WeightPacking::off}},
          &RunConfig::pack_weights),
      words<bool>(
          "fuse-gelu",
          "products write GELU of their result too, and the gradient's products multiply by GELU's gradient: the "
          "same bits on CPUs, on GPUs other roundings",
          {{"off", false}, {"on", true}}, &RunConfig::fuse_gelu),
      text("machine",
           "what policies plan for: laptop, dgx-h100, perlmutter, frontier, alps, or a TOML file; empty: a laptop",
           &RunConfig::machine),
      text("profile", "measured costs that policies plan by: a file of `weft profile`", &RunConfig::profile),
      integer("streams", "compute streams of a rank, each with its own threads", &RunConfig::streams, 1, 64),
      number("memory-limit", "GiB of scratch that a plan may take; 0: no limit", &RunConfig::memory_limit, 0, 1e6),
      text("gemm-tuning",
           "a file that `weft tune` wrote: how matrix products are computed; auto: tuned at the start, once for all "
           "runs "
           "beside this one; none: the defaults; empty: also, or what the checkpoint was trained with",
           &RunConfig::gemm_tuning),
      words<std::optional<PackedUnit>>(
          "bf16-products",
          "with device cpu and dtype bf16: what multiplies bf16. fp32: vectors, after a conversion; pairs: "
          "AVX512_BF16; "
          "amx: AMX tiles; auto: what the checkpoint was trained with, else AMX, or pairs where they are at least 1.4 "
          "times as fast as fp32",
          {{"auto", std::nullopt}, {"fp32", PackedUnit::f32}, {"pairs", PackedUnit::pairs}, {"amx", PackedUnit::amx}},
          &RunConfig::bf16_products),
      number("watchdog", "seconds without progress until the run is ended; 0: never", &RunConfig::watchdog, 0, 1e9),
      boolean("check-nan",
              "name the first task that writes a NaN or an infinity; reads every result once more, a few % of a step",
              &RunConfig::check_nan),
      text("data", "a text file, a .bin token file, or a folder of either; empty: /usr/share/common-licenses",
           &RunConfig::data),
      text("val-data",
           "held-out data; empty: the token files of the data named as llm.c's x_val_0.bin, else the last 10 % of each "
           "file",
           &RunConfig::val_data),
      words<TokenWidth>(
          "data-dtype",
          "of ids in .bin files without a header of llm.c; auto: the one width at which all are in the vocabulary",
          {{"auto", TokenWidth::automatic}, {"u16", TokenWidth::u16}, {"u32", TokenWidth::u32}},
          &RunConfig::data_dtype),
      words<DType>("dtype", "of weights and activations in the step; bf16 keeps fp32 master weights",
                   {{"fp32", DType::f32}, {"bf16", DType::bf16}}, &RunConfig::dtype),
      integer("micro-batch", "sequences a rank runs at once; 0: its whole share of the global batch",
              &RunConfig::micro_batch, 0, 1 << 24),
      integer("global-batch", "sequences of one step, over all ranks", &RunConfig::global_batch, 1, 1 << 24),
      integer("seq-len", "tokens of a sequence; 0: the model's context", &RunConfig::seq_len, 0, 1 << 20),
      words<Recompute>("recompute", "activations computed again in the backward pass to save memory",
                       {{"none", Recompute::none}, {"block", Recompute::block}}, &RunConfig::recompute),
      number("dropout", "probability of dropping an activation", &RunConfig::dropout, 0, 0.99),
      number("lr", "peak learning rate", &RunConfig::lr, 0, 10),
      number("min-lr", "learning rate at the end of the decay", &RunConfig::min_lr, 0, 10),
      integer("warmup", "steps of linear warm-up", &RunConfig::warmup, 0, kMany),
      words<Schedule>("schedule", "of the learning rate after the warm-up",
                      {{"cosine", Schedule::cosine},
                       {"wsd", Schedule::wsd},
                       {"linear", Schedule::linear},
                       {"constant", Schedule::constant}},
                      &RunConfig::schedule),
      number("beta1", "AdamW: decay of the first moment", &RunConfig::beta1, 0, 0.99999),
      number("beta2", "AdamW: decay of the second moment", &RunConfig::beta2, 0, 0.99999),
      number("eps", "AdamW: added to the denominator", &RunConfig::eps, 1e-20, 1),
      number("weight-decay", "AdamW: decay of matrices; vectors don't decay", &RunConfig::weight_decay, 0, 10),
      number("clip", "greatest global norm of the gradient; 0: no clipping", &RunConfig::clip, 0, 1e9),
      integer("eval-every", "steps between evaluations; 0: only at the end", &RunConfig::eval_every, 0, kMany),
      integer("eval-sequences", "held-out sequences evaluated at most, over all ranks; 0: all of the held-out tokens",
              &RunConfig::eval_sequences, 0, kMany),
      boolean("save", "write checkpoints; false: none at all, for measurements", &RunConfig::save),
      integer("save-every", "steps between checkpoints; 0: only at the end", &RunConfig::save_every, 0, kMany),
      integer("keep-last", "newest checkpoints kept when one more is complete; 0: all", &RunConfig::keep_last, 0,
              kMany),
      integer("keep-every", "checkpoints of steps that are multiples of this are kept for ever; 0: none",
              &RunConfig::keep_every, 0, kMany),
      integer("trace-steps", "last steps kept in trace.json; 0: no trace", &RunConfig::trace_steps, 0, 1000),
      text("resume", "a run or checkpoint folder to go on from; auto: run-dir's newest checkpoint, if any",
           &RunConfig::resume),
      text("init-from", "start from these weights: a checkpoint, or a Hugging Face folder or safetensors file",
           &RunConfig::init_from),
  };
}

std::vector<ConfigEntry> model_entries() {
  std::vector<ConfigEntry> entries{
      words<Family>("model.family", "gpt2: LayerNorm, GELU, learned positions; llama: RMSNorm, SwiGLU, RoPE",
                    {{"gpt2", Family::gpt2}, {"llama", Family::llama}}, &ModelConfig::family),
      integer("model.layers", "transformer blocks", &ModelConfig::layers, 1, 10000),
      integer("model.hidden", "width of the residual stream", &ModelConfig::hidden, 1, 1 << 20),
      integer("model.heads", "attention heads", &ModelConfig::heads, 1, 1 << 16),
      integer("model.kv-heads", "key and value heads (llama); heads is divided by it", &ModelConfig::kv_heads, 1,
              1 << 16),
      integer("model.ffn", "width of the MLP", &ModelConfig::ffn, 1, 1 << 22),
      integer("model.vocab", "tokens of the vocabulary", &ModelConfig::vocab, 2, 1 << 24),
      integer("model.context", "longest sequence", &ModelConfig::context, 1, 1 << 20),
      boolean("model.tied", "the LM head is the token embedding", &ModelConfig::tied),
      number("model.norm-eps", "added to the variance in norms", &ModelConfig::norm_eps, 1e-12, 0.1),
      number("model.init-std", "standard deviation of initial weights", &ModelConfig::init_std, 0, 10),
      number("model.rope-theta", "base of the rotary frequencies (llama)", &ModelConfig::rope_theta, 1, 1e12),
      number("model.rope-scaling-factor", "llama3 scaling of rotary frequencies; 1: none",
             &ModelConfig::rope_scaling_factor, 1, 1e6),
      number("model.rope-low-freq-factor", "llama3 scaling: bound of the long wavelengths",
             &ModelConfig::rope_low_freq_factor, 1e-3, 1e6),
      number("model.rope-high-freq-factor", "llama3 scaling: bound of the short wavelengths",
             &ModelConfig::rope_high_freq_factor, 1e-3, 1e6),
      number("model.rope-original-context", "llama3 scaling: context before scaling",
             &ModelConfig::rope_original_context, 1, 1e9),
  };
  for (ConfigEntry& entry : entries) entry = model_size(std::move(entry));
  return entries;
}

}  // namespace

void load_named_model(RunConfig& config) {
  if (config.model_name == kCustomModel || config.model_name == config.model.name) return;
  config.model = model_by_name(config.model_name);
  config.model.name = config.model_name;
}

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
    for (ConfigEntry& entry : model_entries()) entries.push_back(std::move(entry));
    return entries;
  }();
  return table;
}

}  // namespace weft
