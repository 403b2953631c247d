// A description of hardware: the numbers that a cost model needs of a cluster, which may not be at hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "graph/open_graph.h"

namespace weft::cost {

/// A link. One message takes latency + bytes / bandwidth seconds in one direction.
struct Link {
  double latency = 5e-6;    // seconds of each step of a collective
  double bandwidth = 10e9;  // bytes a second that one rank (of the network: one port) can send, one direction
  /// Large messages may use a protocol that costs `setup` seconds once per collective; the protocol for small messages
  /// has no set-up, but only `small_bandwidth`. The faster of the two counts. 0: there is no such protocol.
  double setup = 0, small_bandwidth = 0;
};

/// A measurement of groups of `ranks` members within a node, `stride` ranks apart, with all groups sending at once.
struct NodeGroup {
  std::int64_t ranks = 2, stride = 1;
  double bandwidth = 0;  // bytes a second that one rank sends
};

/// A large job's traffic meets other traffic in the fabric: in a job of `nodes` nodes each port has 1/`factor` of its
/// bandwidth.
struct Congestion {
  std::int64_t nodes = 2;
  double factor = 1.0;  // ≥ 1
};

/// The kinds of a slowdown are names that kind_name() gives.
using Slowdown = graph::OpenSlowdown;

/// A measurement with which a test compares the model of this machine.
struct CalibrationPoint {
  std::string kind;        // kind_name(): "all_reduce", "all_gather", "reduce_scatter", "broadcast" or "gemm"
  std::int64_t ranks = 1;  // of a collective: ranks 0, 1, …
  double bytes = 0;        // size of a collective's whole array
  std::int64_t m = 0, n = 0, k = 0;
  DType dtype = DType::bf16;
  double seconds = 0;  // measured
  double error = 0.1;  // relative error that the model may have
  std::string source;
};

/// The relative error of points that name none: what the model of the other points may be off where this one was
/// measured.
inline constexpr double kPointError = 0.5;

/// A measured matrix product, C[m,n] = op(A)·op(B), without the start of its task.
struct GemmPoint {
  std::int64_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;  // as in graph::Gemm
  DType dtype = DType::f32;               // of A and B
  double seconds = 0;
  double error = kPointError;
  std::string source = {};
};

/// A measured causal attention, without the start of its task.
struct AttentionPoint {
  std::string library = {};  // whose kernels were measured; "": those that a step on this machine calls
  bool backward = false;
  std::int64_t batch = 0, heads = 0, seq = 0, head_dim = 0;  // as in graph::AttentionForward; heads of the queries
  DType dtype = DType::f32;
  double seconds = 0;
  double error = kPointError;
  std::string source = {};
};

/// Ranks that together may use `cores` cores, fewer than they have threads: a rank that computes beside another one of
/// its pool may get a part of a core.
struct CorePool {
  std::vector<std::int64_t> ranks;
  std::int64_t cores = 1;
  friend bool operator==(const CorePool&, const CorePool&) = default;
};

/// Where one number of a machine file comes from.
struct Provenance {
  std::string key;             // "network.latency"; of a list "slowdown.factor", whichever item it belongs to
  std::string source, status;  // as in the file; status "", "unverified", "assumed", …
  std::size_t item = 0;        // of a list: which
};

/// The numbers of a device belong to one rank. The defaults describe a two-core laptop.
struct Machine {
  std::string name = "laptop";
  std::string source;                 // source of the numbers that have none of their own
  std::int64_t devices_per_node = 1;  // consecutive ranks that share a node
  double flops_f32 = 100e9;           // operations a second of a good matrix product, not of the data sheet
  double flops_bf16 = 100e9;
  double efficiency = 1;           // share of that rate which computations reach that no point covers, up to 1
  double gemm_half = 0;            // min(m, n, k) at which a product reaches half of that rate; 0: always the full rate
  double processors = 0;           // that compute tiles of a product side by side; 0: gemm_half counts instead
  double tile_half = 0;            // side of a product's tile at which a processor reaches half of its rate
  double product_start = 0;        // seconds of a product before and after its tiles
  double sustained = 1;            // share of the rates of measured products that a whole step keeps up, up to 1
  double memory_bandwidth = 15e9;  // bytes a second
  double memory_efficiency = 1;    // share of it that kernels reach, up to 1
  double memory_bytes = 16e9;      // of a device
  double task_overhead = 1e-6;     // seconds to start a task
  double cores = 2;                // cores that a rank's computations and its transport share
  Link node, network;              // between ranks of one node; between nodes
  double pair_bandwidth = 0;       // between two ranks of a node without a switch, bytes a second; 0: a switch
  std::vector<NodeGroup> node_groups;  // measured groups, whose bandwidth counts instead
  double network_ports = 1;            // ports of a node, each with `network.bandwidth`, shared by its ranks
  bool hierarchical = false;           // whether the library has all-reduces that reduce within nodes first
  std::vector<Congestion> congestion;  // by ascending nodes; in proportion to log2(nodes) between them; empty: none
  double transport_cpu = 0;            // core seconds per byte that a collective sends; 0: DMA, no core time
  bool shared_cores = false;           // the transport's core time is taken from the computations
  std::vector<Slowdown> slowdowns;     // the first that matches applies
  std::vector<GemmPoint> gemms;        // between them, costs are interpolated (measured_rates.h)
  std::vector<AttentionPoint> attention;
  std::vector<CalibrationPoint> calibration;
  std::vector<Provenance> provenance;  // of the numbers that name a source or a status

  double flops(DType dtype) const { return dtype == DType::bf16 ? flops_bf16 : flops_f32; }
  double slowdown(std::string_view compute, std::string_view collective) const {
    return graph::slowdown_of(slowdowns, compute, collective);
  }
  /// The factor on the time of bytes between nodes in a job of `nodes` nodes.
  double congestion_of(std::int64_t nodes) const;
};

/// The machine with the attention of a library in place of its own points; the same machine if it has no such points.
Machine with_attention_of(Machine machine, std::string_view library);

/// Reads a machine from TOML (docs/machines.md). Throws UserError with file and line; for an unknown key it names the
/// nearest key.
Machine load_machine(const std::string& path);
Machine parse_machine(std::string_view toml, const std::string& name);

/// TOML that parse_machine() reads as the same machine, its sources and statuses included. Measured times are rounded
/// to four digits.
std::string machine_toml(const Machine& machine);

/// Folders with machine files: the installed share folder next to the program, then the source tree.
std::vector<std::filesystem::path> machine_folders();

/// The machine of a name without its ending ("perlmutter") or of a path ("my.toml", "clusters/ours.toml").
/// "overlap/perlmutter" is the machine as OverlapBench keeps it, so that its steps stay the same. Throws UserError
/// naming the nearest machine, or the error in the file.
Machine find_machine(const std::string& name_or_path, const std::vector<std::filesystem::path>& folders);

}  // namespace weft::cost
