// The steady state is quiet: once a plan has run, a step allocates nothing in our code, on any thread.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdlib>
#include <new>
#include <string_view>

#include "runtime/execute/program/program.h"
#include "tests/runtime/comm/ranks.h"
#include "tests/runtime/executable_graph.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<std::int64_t> allocations{0};

/// Whether oneDNN asks: where it multiplies, it allocates a few bytes a product.
bool is_librarys(const void* caller) {
  Dl_info info;
  return dladdr(caller, &info) != 0 && std::string_view(info.dli_fname).find("libdnnl") != std::string_view::npos;
}

void* counted(std::size_t size, const void* caller,
              std::align_val_t alignment = std::align_val_t{__STDCPP_DEFAULT_NEW_ALIGNMENT__}) {
  if (counting.load(std::memory_order_relaxed) && !is_librarys(caller)) ++allocations;
  const auto unit = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(unit, (std::max<std::size_t>(size, 1) + unit - 1) / unit * unit);
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// GCC sees malloc's memory behind an inlined new and believes that its delete must not free it.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif

// All forms, as the address sanitizer would provide the missing ones and not allow a mixture.
void* operator new(std::size_t size) {
  return or_throw(counted(size, __builtin_return_address(0)));
}
void* operator new[](std::size_t size) {
  return or_throw(counted(size, __builtin_return_address(0)));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return or_throw(counted(size, __builtin_return_address(0), alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return or_throw(counted(size, __builtin_return_address(0), alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return counted(size, __builtin_return_address(0));
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return counted(size, __builtin_return_address(0));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}

namespace weft::execute {
namespace {

TEST(SteadyState, TheCounterCounts) {
  counting = true;
  const std::int64_t before = allocations;
  // Calls, not new-expressions, which may be optimised away in pairs.
  void* first = ::operator new(100);
  void* second = ::operator new[](100);
  ::operator delete(first);
  ::operator delete[](second);
  counting = false;
  EXPECT_EQ(allocations - before, 2);
}

TEST(SteadyState, AStepAllocatesNothing) {
  for (const int streams : {1, 3}) {
    for (const int threads : {1, 2}) {
      constexpr int kRanks = 2;
      const std::vector<ProgramGraph> graphs = {{"train", testing::executable_graph(31, kRanks, {.tasks = 60})},
                                                {"eval", testing::executable_graph(31, kRanks, {.tasks = 20})}};
      std::barrier together(kRanks);  // World::barrier() allocates, in a rank that is still leaving it, too
      testing::on_ranks(kRanks, [&](comm::World& world) {
        Program program(world, graphs, {.policy_options = {.compute_streams = streams}, .threads = threads});
        for (const ProgramGraph& graph : graphs) testing::fill(*graph.graph, program.state(), world.rank());
        const auto run_all = [&] {
          for (int round = 0; round < 3; ++round) {
            for (const char* name : {"train", "eval"}) program.run(name, round);
          }
        };
        run_all();
        together.arrive_and_wait();
        if (world.rank() == 0) {
          allocations = 0;
          counting = true;
        }
        together.arrive_and_wait();
        run_all();
        together.arrive_and_wait();
        counting = false;
        EXPECT_EQ(allocations, 0) << streams << " streams, " << threads << " threads";
      });
    }
  }
}

}  // namespace
}  // namespace weft::execute
