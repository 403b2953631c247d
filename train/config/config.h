// The configuration of a run, with one table of keys for TOML files, command-line flags and --dump-config.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/packed_unit.h"
#include "graph/grid.h"
#include "ops/lower.h"
#include "ops/model_config.h"
#include "ops/pipeline_layout.h"
#include "runtime/comm/tcp.h"
#include "runtime/execute/device/devices.h"
#include "runtime/plan/rewrite.h"
#include "runtime/policy/trusted_libraries.h"
#include "train/config/goldfish.h"
#include "train/config/path_list.h"

namespace weft::train {

enum class Schedule : std::uint8_t { cosine, wsd, linear, constant };
enum class Recompute : std::uint8_t { none, block };
enum class DeviceKind : std::uint8_t { cpu, cuda };
/// Weights packed once a step for all products that read them: see chosen_rewrites() (train/step/planning.h).
enum class WeightPacking : std::uint8_t { automatic, on, off };
/// The communicator of ranks: see check_communicator(), and choose_communicator() (train/step/device_choice.h).
enum class CommunicatorKind : std::uint8_t { automatic, local, nccl, staged, mpi, tcp };
/// The addresses at which processes meet that no MPI starts.
enum class Network : std::uint8_t { loopback, any };
/// The cores of ranks: see binding_of() (train/step/device_choice.h).
enum class Binding : std::uint8_t { automatic, cores, none };
/// What ranks are: threads of one process, or processes that meet through MPI or over TCP.
enum class Launched : std::uint8_t { as_threads, by_mpi, over_tcp };
/// The width of ids in token files without a header: see check_token_file() (train/data/token_file.h).
enum class TokenWidth : std::uint8_t { automatic, u16, u32 };

/// The part of each file that is held out where no file is held out by its name: its last tenth, or whole documents.
enum class ValSplit : std::uint8_t { tail, documents };

/// The cut of the data into sequences: as one long sequence of tokens, or by whole documents.
enum class Packing : std::uint8_t { wrapped, documents };

/// The name of a model whose sizes are given one by one.
inline constexpr const char* kCustomModel = "custom";
/// A value of `resume`: the newest checkpoint of run-dir, or a new run if there is none.
inline constexpr std::string_view kResumeAuto = "auto";

/// What may differ from a saved run only if the user says so.
inline constexpr std::array<std::string_view, 6> kAcceptable = {"data",    "val-data", "val-split",
                                                                "seq-len", "packing",  "tokenizer"};

struct RunConfig {
  // model
  std::string model_name = "tiny";  // "custom": the sizes in `model`, else fill_in() loads those of the name
  ops::ModelConfig model;
  // run
  std::string run_dir;       // empty: runs/<model>-<date>-<time>
  std::int64_t steps = 200;  // 0: as many as `epochs` says, once the data is open
  double epochs = 0;         // times that the training data is read; 0: `steps` says
  std::uint64_t seed = 42;
  double max_time = 0;  // seconds of training, 0: no limit
  // parallelism
  std::int64_t ranks = 0;              // ranks as threads of this process; 0: as many as the grid has, or were started
  graph::Grid grid;                    // data = 1 is filled in from the ranks
  bool grid_auto = false;              // "auto" as the key's value: expect_grid() refuses, until somebody chooses
  std::vector<std::int64_t> stages;    // layers of each pipeline stage; empty: balanced_layout()
  std::int64_t pipe_chunks = 0;        // stages that a rank has; 0: as the policy wants
  bool zero1 = false;                  // optimizer state cut over data too
  DType reduce_dtype = DType::f32;     // of gradients on the wire
  bool reshard_after_forward = false;  // weights gathered over z are gathered again for the backward pass
  bool sequence_parallel = false;      // what lies between products is cut by rows: see ops::StepConfig
  std::int64_t loss_parts = 1;         // of a micro-batch's rows, whose logits live at a time
  std::int64_t threads = 0;            // threads a rank; 0: the cores that ranks may use, divided among them
  Binding bind = Binding::automatic;
  DeviceKind device = DeviceKind::cpu;
  CommunicatorKind communicator = CommunicatorKind::automatic;
  bool cuda_graph = false;                                          // replay a step as one CUDA graph
  std::int64_t attention_workspace = execute::kAttentionWorkspace;  // see execute::CudaSettings
  bool tf32 = false;                                                // the same
  execute::GpuKernels gpu_kernels;                                  // the same
  execute::AttentionGradient attention_gradient = execute::AttentionGradient::deterministic;  // the same
  execute::NcclSettings nccl;     // of ranks that communicate through NCCL
  std::int64_t trace_every = 16;  // on a GPU, one step in this many is traced
  std::string policy = "program";
  policy::TrustedLibraries
      libraries;  // libraries that may be loaded as policies; not a key, so that no file can name one
  std::vector<plan::Rewrite> rewrites;  // of the user, in the order given
  /// Number of parts of a micro-batch, "batch-split" among the rewrites. It changes the order in which gradients are
  /// added, and isn't a rewrite of the graph but a change of micro_batch by fill_in().
  std::int64_t batch_split = 1;
  WeightPacking pack_weights = WeightPacking::automatic;
  bool fuse_gelu = false;  // see FuseGelu (runtime/plan/rewrite.h)
  std::string machine;     // the machine that policies plan for: a machine file, or the name of one of Weft's
  std::string profile;     // a file of `weft profile`: measured costs for policies
  std::string expert_load = "balanced";  // see LoadSetting (train/config/expert_loads.h)
  std::int64_t streams = 1;              // compute streams of a rank
  /// Bytes of state and scratch that a rank's plan may take; 0: any number; nullopt: those of a device of `machine`,
  /// and any number if none is named.
  std::optional<std::int64_t> memory;
  std::string gemm_tuning;                  // see TuningSetting
  std::optional<PackedUnit> bf16_products;  // unit that multiplies bf16 on CPUs; nullopt: see bf16_of_run()
  bool check_nan = false;                   // look for NaN and infinity in every task's results
  double watchdog = 120;                    // seconds without progress until the run is ended; 0: never
  double peer_timeout = 120;                // seconds that a rank waits for others at a start, over TCP or with NCCL
  Network network = Network::loopback;      // of processes that meet over TCP
  std::string token_file;                   // with the secret of their ranks; empty: the user's own
  /// How this process meets the others over TCP; not a key: the launcher's environment tells (tools/input/launch.h).
  std::optional<comm::TcpLaunch> launch;
  // data
  PathList data;      // text files, .bin token files, folders or patterns; empty: /usr/share/common-licenses
  PathList val_data;  // held-out data; empty: TokenSource holds out a part of the data
  ValSplit val_split = ValSplit::tail;
  std::string tokenizer;      // of texts: a folder or file; empty: that of the weights to start from, or bytes
  std::string chat_template;  // of dialogues: "chatml" or a file; empty: the tokenizer's own
  TokenWidth data_dtype = TokenWidth::automatic;  // of ids in .bin files without a header
  // batch, in sequences
  DType dtype = DType::f32;
  std::int64_t micro_batch = 0;  // sequences a rank runs at once; 0: global batch / (z · data)
  std::int64_t global_batch = 8;
  std::int64_t seq_len = 0;  // 0: the model's context
  Recompute recompute = Recompute::none;
  /// Changes the order of summation, so it is the user's alone, and summation_note() (train/step/step_config.h) tells.
  ops::GradientReduction gradient_reduction = ops::GradientReduction::step;
  float dropout = 0.0F;
  std::optional<Goldfish> goldfish;  // targets that training drops from its loss
  bool document_mask = false;        // tokens attend within their document
  Packing packing = Packing::wrapped;
  // optimisation
  double lr = 1e-3, min_lr = 0;  // min_lr: the end of the decay
  std::int64_t warmup = 20;
  Schedule schedule = Schedule::cosine;
  float beta1 = 0.9F, beta2 = 0.95F, eps = 1e-8F, weight_decay = 0.1F, clip = 1.0F;
  // evaluation, checkpoints, traces
  std::int64_t eval_every = 0;  // steps; 0: only at the end
  /// Held-out sequences at most, over all ranks; 0: all of the held-out tokens; −1: run_training() chooses.
  std::int64_t eval_sequences = -1;
  std::int64_t log_every = 0;     // steps between lines of progress in logs; 0: by time
  std::int64_t sample_every = 0;  // steps between samples of text; 0: only at the end, of a model of bytes
  bool save = true;               // false: no checkpoint at all, for measurements
  std::int64_t save_every = 0;    // steps; 0: only at the end
  bool copy_beside = false;       // the state leaves a GPU beside the next step, not between two
  std::int64_t keep_last = 3;     // checkpoints; 0: all
  std::int64_t keep_every = 0;    // checkpoints of steps that are multiples of it are always kept; 0: none
  bool keep_best = false;         // a checkpoint after each evaluation with the lowest loss; the newest stays
  std::int64_t trace_steps = 3;   // the last steps kept in trace.json; 0: none
  bool metrics_csv = false;       // metrics.csv too
  bool tensorboard = false;       // event files of TensorBoard too
  std::string record_routing;     // a file for the experts that tokens take
  std::string replay_routing;     // such a file, whose experts they take
  std::string resume;             // a run or checkpoint folder; "auto": run_dir's newest, or a new run
  std::string init_from;  // weights only: a checkpoint folder, a folder or safetensors file of Hugging Face, or GGUF
  std::string adapter;    // of PEFT, for the model of init_from: a folder
  // not settings
  graph::PipelineChunks policy_chunks;  // what the policy wants: resolve() knows it
  ops::PipelineLayout pipeline;         // of grid.pipe, stages and pipe_chunks: fill_in() makes it
  std::string model_folder;             // of Hugging Face, whose sizes the key `model` gave; for messages
  /// Of kAcceptable: the differences from a saved run with which it may go on. Not a key, so that no file accepts one.
  std::set<std::string, std::less<>> accepted;
  std::set<std::string, std::less<>> given;  // keys that a file or a flag set; a named model gives all of its sizes
  std::vector<std::string> warnings;         // of fill_in(), for a person to read
};

/// Sequences of a step that one rank runs one after the other, in micro-batches.
std::int64_t accumulation(const RunConfig& config);

/// Whether a run of the configuration has to know where documents begin.
bool reads_documents(const RunConfig& config);

/// The subjects of keys. Help texts have a section for each group, in this order.
enum class KeyGroup : std::uint8_t { model, sizes, step, data, optimizer, grid, plan, machine, device, run };

/// The heading of a group: "Batch and precision".
std::string_view title_of(KeyGroup group);

/// `paths`: one path or a list of them, see PathList.
enum class ValueKind : std::uint8_t { integer, number, boolean, text, paths };

/// One key of the table.
struct ConfigKey {
  std::string name;  // "seq-len", "model.hidden", "grid": the TOML key and, with "--", the flag
  ValueKind kind = ValueKind::text;
  std::string type;  // "integer", "number", "text", "true or false", or the accepted words
  std::string help;
  /// Parses and stores; `where` opens the messages ("config.toml line 3: seq-len"). Throws UserError.
  std::function<void(RunConfig&, std::string_view value, std::string_view where)> set;
  /// The field's value in the form that `set` takes back.
  std::function<std::string(const RunConfig&)> get;
  std::vector<std::string> words = {};  // all that it may be; empty: anything of its type
  // The table fills in the rest.
  KeyGroup group = KeyGroup::run;
  std::string default_value = {};
  bool is_switch = false;  // has no other values than true and false, which on and off mean too
  bool is_list = false;    // of paths: a flag may be given again and again, and all of its values count
};

/// The key that replaced a key of older builds: "eval-sequences" for "eval-batches"; "" for any other name.
std::string key_in_place_of(std::string_view name);

/// All keys, in the order of help texts and dumps.
const std::vector<ConfigKey>& config_keys();

/// Sets one key from text, as given by a flag or by --set. `source` names its origin in messages ("--seq-len",
/// "config.toml line 3"). Throws UserError on an unknown key (naming the nearest), a wrong type or a number out of
/// range.
void set_key(RunConfig& config, std::string_view key, std::string_view value, std::string_view source);

/// A key set in one place: a TOML file's line, a flag.
struct Setting {
  std::string key, value, source;  // as set_key's arguments
};

/// Sets all keys of one layer (a file, the command line): the model's name first, then single sizes, whatever the order
/// given; the last setting of a key wins.
void apply_settings(RunConfig& config, std::vector<Setting> settings);

/// apply_settings() for settings of the command line: a policy library that they name may be loaded.
void apply_command_line(RunConfig& config, std::vector<Setting> settings);

/// Applies a TOML file: top-level keys in kebab-case, sizes under [model]. Throws UserError with line numbers.
void load_toml(RunConfig& config, const std::string& path);
/// The same for a text. `over`: the settings that are applied next. A stored text may have a key of older builds if
/// `over` sets the key that replaced it.
void load_toml_text(RunConfig& config, std::string_view text, const std::string& name,
                    std::span<const Setting> over = {});

/// The resolved configuration as TOML, which load_toml() reads back to the same RunConfig.
std::string dump_toml(const RunConfig& config);

/// Gives a pipeline whose policy nobody set the usual policy of pipelines.
void choose_policy(RunConfig& config);

/// Throws UserError if the grid is to be chosen (grid = "auto"): only callers that choose one know what that means.
void expect_grid(const RunConfig& config);

/// Fills in open values (grid from ranks, micro-batch, sequence length, threads, run-dir) for a world of `world_size`
/// ranks (0: not started by mpirun) and refuses invalid ones: batches that don't divide (naming the nearest that do), a
/// grid that is left to be chosen, doesn't match the ranks or doesn't fit the model (see validate_grid), sequences
/// longer than the context, dtypes, numbers out of range, settings that the device doesn't support.
/// A run that starts from saved weights takes their model (see take_saved_model). Throws UserError. The texts that name
/// a policy, a machine or a profile stay unread: see resolve() (train/config/resolved_run.h).
void fill_in(RunConfig& config, std::int64_t world_size);

/// Refuses settings that the device doesn't support.
void check_device(const RunConfig& config);

/// Throws UserError if `communicator` is impossible, as far as known before ranks run: if the device doesn't have it,
/// for ranks that are launched otherwise, and for staged with pipeline stages on many threads of one process.
void check_communicator(const RunConfig& config, Launched launched);

}  // namespace weft::train
