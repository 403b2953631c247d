// A description of hardware: what a cost model needs to know of a cluster that may not be at hand.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace weft {

/// Time of a message: seconds = latency + bytes / bandwidth, one direction.
struct Link {
  double latency = 5e-6;    // seconds
  double bandwidth = 10e9;  // bytes a second that one rank can send, one direction
};

/// How much longer a computation takes while a collective runs beside it, by kind of operation ("gemm", …; "": others).
struct Slowdown {
  std::string compute, collective;  // kind_name(); "" means any
  double factor = 1.0;              // ≥ 1
};

/// Numbers of one device are of one rank's share. Every default is that of a two-core laptop.
struct Machine {
  std::string name = "laptop";
  std::string source;                 // where the numbers come from
  std::int64_t devices_per_node = 1;  // ranks that share a node
  double flops_f32 = 100e9;           // operations a second that a good matrix product reaches, not the data sheet's
  double flops_bf16 = 100e9;
  double memory_bandwidth = 15e9;   // bytes a second
  double memory_bytes = 16e9;       // of a device
  double task_overhead = 1e-6;      // seconds to start a task
  double cores = 2;                 // that a rank's computations and its transport share
  Link node, network;               // between ranks of one node; between nodes
  double network_ports = 1;         // of a node, each with `network.bandwidth`, shared by its ranks
  double transport_cpu = 0;         // seconds of a core per byte that a collective sends (0: DMA does it)
  bool shared_cores = false;        // the transport's time is taken from the computations'
  std::vector<Slowdown> slowdowns;  // the first that matches counts

  double flops(DType dtype) const { return dtype == DType::bf16 ? flops_bf16 : flops_f32; }
  double slowdown(std::string_view compute, std::string_view collective) const;
};

/// From TOML, see docs/machines.md. Throws UserError with line numbers.
Machine load_machine(const std::string& path);
Machine parse_machine(std::string_view toml, const std::string& name);

}  // namespace weft
