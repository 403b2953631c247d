// A description of hardware: what a cost model needs to know of a cluster that may not be at hand.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace weft::cost {

/// Time of a message: seconds = latency + bytes / bandwidth, one direction.
struct Link {
  double latency = 5e-6;    // seconds of each step of a collective
  double bandwidth = 10e9;  // bytes a second that one rank (of the network: one port) can send, one direction
  /// Large messages may take a protocol that costs `setup` seconds once a collective; small ones do without it at
  /// `small_bandwidth`. The faster of the two counts. 0: there is no such protocol.
  double setup = 0, small_bandwidth = 0;
};

/// Measured for groups of `ranks` members within a node that stand `stride` ranks apart, all groups sending at once.
struct NodeGroup {
  std::int64_t ranks = 2, stride = 1;
  double bandwidth = 0;  // bytes a second of one rank
};

/// How much longer a computation takes while a collective runs beside it, by kind of operation ("gemm", …; "": others).
struct Slowdown {
  std::string compute, collective;  // kind_name(); "" means any
  double factor = 1.0;              // ≥ 1
};

/// A measurement that the model of this machine is held against.
struct CalibrationPoint {
  std::string kind;        // kind_name(): "all_reduce", "all_gather", "reduce_scatter", "broadcast" or "gemm"
  std::int64_t ranks = 1;  // of a collective: ranks 0, 1, …
  double bytes = 0;        // of a collective: of the whole array
  std::int64_t m = 0, n = 0, k = 0;
  DType dtype = DType::bf16;
  double seconds = 0;  // measured
  double error = 0.1;  // what the model may be off, relative
  std::string source;
};

/// Where one number of a machine file comes from.
struct Provenance {
  std::string key;             // "network.latency"
  std::string source, status;  // as the file has it; status "" is plain, else "unverified", "assumed", …
};

/// Numbers of one device are of one rank's share. Every default is that of a two-core laptop.
struct Machine {
  std::string name = "laptop";
  std::string source;                 // where the numbers come from, unless they say so themselves
  std::int64_t devices_per_node = 1;  // consecutive ranks that share a node
  double flops_f32 = 100e9;           // operations a second that a good matrix product reaches, not the data sheet's
  double flops_bf16 = 100e9;
  double gemm_half = 0;            // the least of m, n, k at which a product reaches half of that; 0: always all of it
  double memory_bandwidth = 15e9;  // bytes a second
  double memory_bytes = 16e9;      // of a device
  double task_overhead = 1e-6;     // seconds to start a task
  double cores = 2;                // that a rank's computations and its transport share
  Link node, network;              // between ranks of one node; between nodes
  double pair_bandwidth = 0;  // without a switch, between two ranks of a node: g ranks have g − 1 such; 0: a switch
  std::vector<NodeGroup> node_groups;  // what counts instead for the groups that it names
  double network_ports = 1;            // of a node, each with `network.bandwidth`, shared by its ranks
  double transport_cpu = 0;            // seconds of a core per byte that a collective sends (0: DMA does it)
  bool shared_cores = false;           // the transport's time is taken from the computations'
  std::vector<Slowdown> slowdowns;     // the first that matches counts
  std::vector<CalibrationPoint> calibration;
  std::vector<Provenance> provenance;  // of the numbers that name a source or a status

  double flops(DType dtype) const { return dtype == DType::bf16 ? flops_bf16 : flops_f32; }
  double slowdown(std::string_view compute, std::string_view collective) const;
};

/// From TOML, see docs/machines.md. Throws UserError with file and line, naming the nearest key of one that is unknown.
Machine load_machine(const std::string& path);
Machine parse_machine(std::string_view toml, const std::string& name);

}  // namespace weft::cost
