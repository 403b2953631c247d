// Rows that GPUs exchange with the ranks of their experts: the kernel that moves them, in every order of buffers, and
// models that train like one GPU, with any choice, under every communicator.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "base/error.h"
#include "ops/pipeline_layout.h"
#include "runtime/execute/cuda/nccl_transport.h"
#include "runtime/execute/device/device_collectives.h"
#include "runtime/execute/device/device_memory.h"
#include "tests/gpu/gpu_run.h"
#include "tests/gpu/gpu_test.h"
#include "tests/runtime/comm/collectives_check.h"

namespace weft {
namespace {

class CudaRowMoves : public testing::GpuTest {};

// One buffer of a case on the device.
struct OnDevice {
  execute::Device& device;
  execute::DeviceStream stream;

  std::byte* put(const void* from, std::int64_t bytes) const {
    std::byte *const pinned = device.allocate_pinned(std::max<std::int64_t>(bytes, 1)), *const there = device.allocate(
                                                                                            std::max<std::int64_t>(
                                                                                                bytes, 1));
    std::memcpy(pinned, from, static_cast<std::size_t>(bytes));
    device.copy(stream, there, pinned, bytes);
    return there;
  }
  void get(void* to, const std::byte* there, std::int64_t bytes) const {
    std::byte* const pinned = device.allocate_pinned(std::max<std::int64_t>(bytes, 1));
    device.copy(stream, pinned, there, bytes);
    device.synchronize(stream);
    std::memcpy(to, pinned, static_cast<std::size_t>(bytes));
  }
};

// All ranks' rows there and back on one device: straight from the givers' buffers, or by segments as NCCL sends them.
template <class T>
void expect_rows(DType dtype, int ranks, std::int64_t count, std::int64_t rows, test::RowShares shares,
                 bool by_segments) {
  execute::CudaDevice device(0);
  const execute::DeviceStream stream = device.add_stream("rows", execute::StreamPriority::normal);
  const OnDevice memory{device, stream};
  std::deque<test::RowsCase<T>> cases;
  for (int r = 0; r < ranks; ++r) cases.emplace_back(dtype, r, ranks, count, rows, shares, 9);
  const auto bytes = [&](const comm::CollectiveCall& call, bool held) {
    return call.bytes_of(call.count) * (held ? call.table.most : call.table.rows);
  };
  for (const bool back : {false, true}) {
    std::vector<comm::CollectiveCall> calls;
    std::vector<void*> given;
    for (const auto& of : cases) {
      comm::CollectiveCall call = back ? of.back() : of.there();
      const auto table = ranks * (call.table.experts + 1) * static_cast<std::int64_t>(sizeof(std::int32_t));
      call.table.offsets = reinterpret_cast<const std::int32_t*>(memory.put(call.table.offsets, table));
      given.push_back(memory.put(call.in, bytes(call, back)));
      call.in = given.back();
      call.out = memory.put(call.out, bytes(call, !back));
      calls.push_back(call);
    }
    for (int r = 0; r < ranks; ++r) {
      const comm::CollectiveCall& call = calls[static_cast<std::size_t>(r)];
      kernels::RowMove taken = execute::rows_taken(call, ranks, r);
      if (!by_segments) {
        device.move_rows(stream, taken, given);
        continue;
      }
      // Each giver's segment for this rank.
      taken.segments = true;
      std::vector<void*> came;
      for (int giver = 0; giver < ranks; ++giver) {
        kernels::RowMove from = execute::rows_given(calls[static_cast<std::size_t>(giver)], ranks, giver);
        from.segments = true;
        std::vector<void*> segments;
        for (int to = 0; to < ranks; ++to)
          segments.push_back(device.allocate(std::max<std::int64_t>(1, from.segment_rows() * from.row_bytes)));
        device.move_rows(stream, from, segments);
        came.push_back(segments[static_cast<std::size_t>(r)]);
      }
      device.move_rows(stream, taken, came);
    }
    for (int r = 0; r < ranks; ++r) {
      const auto& of = cases[static_cast<std::size_t>(r)];
      const comm::CollectiveCall& call = calls[static_cast<std::size_t>(r)];
      memory.get(back ? of.back().out : of.there().out, static_cast<const std::byte*>(call.out), bytes(call, !back));
    }
  }
  Fingerprint ignored;
  for (auto& of : cases) EXPECT_EQ(of.check(ignored), "");
}

TEST_F(CudaRowMoves, GoToTheirPlaces) {
  for (const bool by_segments : {false, true}) {
    for (const test::RowShares shares : {test::RowShares::uneven, test::RowShares::all_to_one}) {
      for (const std::int64_t rows : {0, 1, 41}) {
        // Copied by 16, by 4 and by 2 bytes; rows of more than a warp's.
        expect_rows<float>(DType::f32, 3, 8, rows, shares, by_segments);
        expect_rows<float>(DType::f32, 2, 35, rows, shares, by_segments);
        expect_rows<bf16>(DType::bf16, 4, 7, rows, shares, by_segments);
        expect_rows<bf16>(DType::bf16, 2, 520, rows, shares, by_segments);
      }
    }
  }
}

// Offsets that no router makes must not lead out of a buffer.
TEST_F(CudaRowMoves, ATableThatCantBeIsAFault) {
  for (const std::vector<std::int32_t>& table : {std::vector<std::int32_t>{0, 3, 4, 0, 9, 9},  // rows that aren't there
                                                 {0, 4, 4, 0, 2, 1},                           // fewer than none
                                                 {-1, 2, 4, 0, 2, 4}}) {
    execute::CudaDevice device(0);
    const execute::DeviceStream stream = device.add_stream("rows", execute::StreamPriority::normal);
    const OnDevice memory{device, stream};
    constexpr std::int64_t kRows = 4, kMost = 8;
    std::vector<float> values(kMost, 1);
    comm::CollectiveCall call{comm::CollectiveKind::exchange_rows, DType::f32, 1};
    const auto bytes = static_cast<std::int64_t>(table.size() * sizeof(std::int32_t));
    call.table = {reinterpret_cast<const std::int32_t*>(memory.put(table.data(), bytes)), 2, kRows, kMost};
    call.out = memory.put(values.data(), kMost * 4);
    std::vector<void*> given;
    for (int r = 0; r < 2; ++r) given.push_back(memory.put(values.data(), kRows * 4));
    EXPECT_THROW(
        {
          for (int r = 0; r < 2; ++r) device.move_rows(stream, execute::rows_taken(call, 2, r), given);
          device.synchronize(stream);
        },
        RuntimeFault);
  }
}

// ---- models

testing::GridRun exchanging_run(const graph::Grid& grid, DType dtype = DType::f32) {
  testing::GridRun run = testing::small_run(ops::Family::mixtral, dtype, grid);
  run.model.tied = false;
  return run;
}

// Of one GPU, which records its choices.
const testing::GridOutcome& one_gpu() {
  static const testing::GridOutcome outcome =
      testing::run_grid(testing::on_gpu(testing::recording(exchanging_run({}))));
  return outcome;
}

testing::GridRun replaying_one_gpu(const graph::Grid& grid) {
  return testing::replaying(one_gpu(), exchanging_run(grid));
}

class CudaExpertExchange : public testing::GpuTest {};

// A graph that was captured in one step has the rows of the next ones, whose choices differ. Ranks share the GPU.
void expect_like_one_gpu(const graph::Grid& grid) {
  SCOPED_TRACE(graph::to_string(grid));
  ASSERT_GE(one_gpu().choices.size(), 3U);
  ASSERT_NE(one_gpu().choices[1], one_gpu().choices[2]);
  const testing::GridRun run = replaying_one_gpu(grid);
  const testing::GridOutcome found = testing::run_grid(testing::on_gpu(run));
  testing::expect_like_one_rank(found, one_gpu());
  testing::expect_equal(testing::run_grid(testing::on_gpu(run, true)), found);
  if (testing::kEmulated && grid.ranks() > 2) return;
  testing::expect_equal(testing::run_grid(testing::on_gpu_staged(run)), found);
  testing::expect_equal_under_policies(testing::on_gpu(run), found, {"serial", "lhs"});
  // The CPU's bits but for the roundings of products and exponentials.
  testing::expect_near(found, testing::run_grid(run), 1e-5);
}

TEST_F(CudaExpertExchange, TrainsLikeOneGpu) {
  expect_like_one_gpu({.z = 2, .expert = 2});
}

TEST_F(CudaExpertExchange, GridsTrainLikeOneGpu) {
  for (const graph::Grid& grid :
       {graph::Grid{.z = 4, .expert = 2}, graph::Grid{.x = 2, .z = 2, .expert = 2},
        graph::Grid{.y = 2, .z = 2, .expert = 2}, graph::Grid{.z = 2, .data = 2, .expert = 2},
        graph::Grid{.z = 2, .context = 2, .expert = 2}, graph::Grid{.z = 4, .context = 2, .expert = 4}}) {
    expect_like_one_gpu(grid);
  }
}

TEST_F(CudaExpertExchange, StagesTrainLikeOneGpu) {
  testing::GridRun run = replaying_one_gpu({.z = 2, .pipe = 2, .expert = 2});
  run.step.pipeline = ops::balanced_layout(run.model, run.step.seq_len, 2);
  run.policy = "1f1b";
  testing::expect_like_one_rank(testing::run_grid(testing::on_gpu(run, true)), one_gpu());
}

// A router of zeros: of equal logits the first experts' win, so that one rank gets as many rows as it has place for.
TEST_F(CudaExpertExchange, AllTokensToOneRanksExperts) {
  const auto on = [](const graph::Grid& grid) {
    testing::GridRun run = exchanging_run(grid);
    run.step.eps = 1e-4F;  // a router of zeros has gradients near zero, whose rounding AdamW's first step would magnify
    run.steps = 1;
    run.change_weights = [](const execute::State& state) {
      for (const char* name : {"L0.mlp.router.weight", "L1.mlp.router.weight"})
        std::ranges::fill(state.get<float>(name), 0.0F);
    };
    return run;
  };
  const testing::GridOutcome expected = testing::run_grid(testing::on_gpu(on({})));
  for (const graph::Grid& grid : {graph::Grid{.z = 2, .expert = 2}, graph::Grid{.z = 4, .expert = 4}}) {
    SCOPED_TRACE(graph::to_string(grid));
    testing::expect_like_one_rank(testing::run_grid(testing::on_gpu(on(grid))), expected);
    testing::expect_like_one_rank(testing::run_grid(testing::on_gpu_staged(on(grid))), expected);
  }
}

class CudaNcclExpertExchange : public testing::SeveralGpus<4> {};

// With NCCL, which adds in groups of two in the order of one GPU.
void expect_like_one_gpu_over_nccl(const graph::Grid& grid) {
  SCOPED_TRACE(graph::to_string(grid));
  const testing::GridRun run = replaying_one_gpu(grid);
  const testing::GridOutcome found = testing::run_grid(testing::on_gpus(run));
  testing::expect_like_one_rank(found, one_gpu());
  testing::expect_equal(testing::run_grid(testing::on_gpus(run, true)), found);
  if (grid.ranks() > 2) return;
  testing::expect_equal(found, testing::run_grid(testing::on_gpu(run)));
  testing::expect_equal_under_policies(testing::on_gpus(run), found, {"serial", "lhs"});
}

TEST_F(CudaNcclExpertExchange, TrainsLikeOneGpu) {
  expect_like_one_gpu_over_nccl({.z = 2, .expert = 2});
}

TEST_F(CudaNcclExpertExchange, GridsTrainLikeOneGpu) {
  for (const graph::Grid& grid : {graph::Grid{.y = 2, .z = 2, .expert = 2}, graph::Grid{.z = 2, .data = 2, .expert = 2},
                                  graph::Grid{.z = 4, .context = 2, .expert = 4}}) {
    expect_like_one_gpu_over_nccl(grid);
  }
}

TEST_F(CudaNcclExpertExchange, BitsInBf16AreThoseOfOneGpu) {
  testing::GridRun run = exchanging_run({.z = 2, .expert = 2}, DType::bf16);
  testing::expect_equal(testing::run_grid(testing::on_gpus(run, true)), testing::run_grid(testing::on_gpu(run)));
}

// Segments are compared with the GPU's memory before the first step.
TEST_F(CudaNcclExpertExchange, SegmentsCountAsMemory) {
  const testing::GridRun run = exchanging_run({.z = 2, .expert = 2});
  std::atomic<std::int64_t> need = 0;
  const auto exit_code_with = [&](std::int64_t memory_bytes) {
    const testing::GridRun limited = testing::on_gpus(run, {.memory_bytes = memory_bytes});
    return testing::end_of_ranks(2,
                                 [&](comm::World& world) {
                                   const execute::Program program = testing::program_of(limited, world, {});
                                   need = program.state_bytes() + program.scratch_bytes();
                                 })
        .code;
  };
  ASSERT_EQ(exit_code_with(0), 0);
  const std::int64_t tokens = run.step.micro_batch * run.step.seq_len;
  const std::int64_t most = 2 * tokens * run.model.experts_per_token;
  // Channels: z_gather, z_scatter, expert and world.
  need += 4 * execute::kNcclCommunicatorBytes + execute::row_segments_bytes(most, run.model.hidden, DType::f32);
  EXPECT_EQ(exit_code_with(need), 0);
  EXPECT_EQ(exit_code_with(need - 1), 2);
}

}  // namespace
}  // namespace weft
