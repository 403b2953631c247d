#include "bench/gpu_nccl.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <vector>

#include "base/median.h"
#include "runtime/comm/local.h"
#include "runtime/execute/cuda/nccl_transport.h"

namespace weft::bench {
namespace {

using execute::NcclSettings;

// A layer's gathers.
constexpr std::int64_t kGathers = 8, kCount = 1 << 18;

double host_us_of_a_gather(comm::World& world, execute::CudaDevice& device, const NcclSettings& settings, int rounds) {
  execute::NcclTransport transport(world, std::nullopt, device, {}, false, settings);
  transport.join(graph::Channel::z_gather);
  const execute::DeviceStream stream = device.add_stream("gathers", execute::StreamPriority::high);
  std::vector<comm::CollectiveCall> calls;
  for (std::int64_t i = 0; i < kGathers; ++i) {
    calls.push_back({comm::CollectiveKind::all_gather, DType::f32, kCount, 0, device.allocate(4 * kCount),
                     device.allocate(4 * kCount), nullptr});
  }
  transport.prepare(device, {});
  std::vector<double> us;
  for (int round = 0; round <= rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    if (settings.grouped_gathers) {
      transport.enqueue_gathers(device, graph::Channel::z_gather, stream, calls);
    } else {
      for (const comm::CollectiveCall& call : calls) transport.enqueue(device, graph::Channel::z_gather, stream, call);
    }
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    device.synchronize(stream);
    if (round > 0) us.push_back(took.count() / kGathers);  // the first loads kernels
  }
  return median(us);
}

}  // namespace

void print_nccl(bool quick) {
  const auto worlds = comm::make_local_worlds(1);
  execute::CudaDevice device(0);
  for (const bool supervised : {false, true}) {
    for (const bool grouped : {false, true}) {
      const double us = host_us_of_a_gather(*worlds.front(), device,
                                            {.grouped_gathers = grouped, .supervised = supervised}, quick ? 2 : 200);
      fmt::print("gather{}, {} call, host\t{:.4g}\tus\n", grouped ? " in a group" : "",
                 supervised ? "supervised" : "background", us);
      std::fflush(stdout);
    }
  }
}

}  // namespace weft::bench
