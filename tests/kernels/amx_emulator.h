// AMX on CPUs without it, for tests: AMX instructions raise SIGILL, and its handler executes them in software.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

namespace weft::testing {

#if defined(__x86_64__)

/// The tile registers of a thread, and the effect of these instructions on them (Intel, Architecture Instruction Set
/// Extensions Programming Reference, chapter on AMX): LDTILECFG, TILERELEASE, TILELOADD, TILESTORED and TDPBF16PS; no
/// others. Stricter than a CPU: a tile that wasn't written since its configuration can't be read.
class AmxState {
 public:
  /// Whether the instruction at `rip` is one of these and was executed; rip then points after it.
  bool step(gregset_t& registers) {
    const auto* code = std::bit_cast<const std::uint8_t*>(registers[REG_RIP]);
    if (code[0] != 0xc4 || (code[1] & 0x1f) != 2 || (code[2] & 0x84) != 0) return false;  // VEX.128.0F38.W0
    const bool extended_reg = (code[1] & 0x80) == 0;
    const int prefix = code[2] & 3, opcode = code[3], mod = code[4] >> 6, reg = (code[4] >> 3) & 7, rm = code[4] & 7;
    const int third = (~(code[2] >> 3)) & 15;
    if (extended_reg) return false;
    enum Prefix { kNone, k66, kF3, kF2 };
    if (opcode == 0x5c && prefix == kF3 && mod == 3) {
      registers[REG_RIP] += 5;
      return third < 8 && multiply(reg, rm, third);
    }
    if (third != 0) return false;
    if (opcode == 0x49 && prefix == kNone && code[4] == 0xc0) {
      registers[REG_RIP] += 5;
      *this = {};
      return true;
    }
    const std::optional<Address> at = address(code, registers);
    if (!at) return false;
    registers[REG_RIP] += at->instruction_bytes;
    if (opcode == 0x49 && prefix == kNone && reg == 0) return configure(at->first);
    if (opcode != 0x4b || !at->with_index) return false;
    if (prefix == kF2) return load(reg, *at);
    if (prefix == kF3) return store(reg, *at);
    return false;
  }

 private:
  static constexpr int kTiles = 8, kMostRows = 16, kMostBytes = 64;

  struct Tile {
    int rows = 0, row_bytes = 0;
    bool written = false;
    std::byte data[kMostRows][kMostBytes] = {};
  };
  struct Address {
    std::byte* first;
    std::int64_t stride;
    bool with_index;
    int instruction_bytes;
  };

  // Memory operands by register, displacement, and base plus index. Only LDTILECFG's may be relative to rip.
  static std::optional<Address> address(const std::uint8_t* code, const gregset_t& registers) {
    constexpr int kNumbered[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                 REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    const int index_bit = (code[1] & 0x40) == 0 ? 8 : 0, base_bit = (code[1] & 0x20) == 0 ? 8 : 0;
    const int mod = code[4] >> 6, rm = code[4] & 7;
    if (mod == 3) return {};
    int used = 5;
    std::int64_t first = 0, stride = 0;
    bool with_index = false, displaced = mod == 2;
    if (rm == 4) {
      const int sib = code[used++], index = ((sib >> 3) & 7) | index_bit, base = sib & 7;
      with_index = true;
      if (index != 4) stride = registers[kNumbered[index]] << (sib >> 6);
      if (base == 5 && mod == 0)
        displaced = true;
      else
        first = registers[kNumbered[base | base_bit]];
    } else if (rm == 5 && mod == 0) {
      displaced = true;
      first = registers[REG_RIP] + 9;
    } else {
      first = registers[kNumbered[rm | base_bit]];
    }
    if (displaced) {
      std::int32_t displacement = 0;
      std::memcpy(&displacement, code + used, sizeof displacement);
      first += displacement, used += 4;
    } else if (mod == 1) {
      first += static_cast<std::int8_t>(code[used++]);
    }
    return Address{std::bit_cast<std::byte*>(first), stride, with_index, used};
  }

  bool configure(const std::byte* config) {
    *this = {};
    if (config[0] != std::byte{1} || config[1] != std::byte{0}) return false;
    for (int i = 0; i < kTiles; ++i) {
      std::uint16_t row_bytes = 0;
      std::memcpy(&row_bytes, config + 16 + 2 * i, sizeof row_bytes);
      tiles_[i].row_bytes = row_bytes;
      tiles_[i].rows = static_cast<int>(config[48 + i]);
      if (tiles_[i].rows > kMostRows || row_bytes > kMostBytes) return false;
    }
    return configured_ = true;
  }

  bool load(int number, const Address& at) {
    Tile& tile = tiles_[number];
    if (!configured_ || tile.rows == 0) return false;
    for (int row = 0; row < tile.rows; ++row) {
      std::memcpy(tile.data[row], at.first + row * at.stride, static_cast<std::size_t>(tile.row_bytes));
    }
    return tile.written = true;
  }

  bool store(int number, const Address& at) const {
    const Tile& tile = tiles_[number];
    if (!configured_ || !tile.written) return false;
    for (int row = 0; row < tile.rows; ++row) {
      std::memcpy(at.first + row * at.stride, tile.data[row], static_cast<std::size_t>(tile.row_bytes));
    }
    return true;
  }

  // sums[m][n] += Σ a[m][k]·b[k][n] over pairs: the first and the second elements are summed separately, then added.
  bool multiply(int sums, int a, int b) {
    Tile& to = tiles_[sums];
    const Tile &left = tiles_[a], &right = tiles_[b];
    if (!configured_ || !to.written || !left.written || !right.written || sums == a || sums == b || a == b)
      return false;
    const int depth = left.row_bytes / 4, cols = to.row_bytes / 4;
    if (to.rows != left.rows || right.rows != depth || right.row_bytes != to.row_bytes) return false;
    for (int m = 0; m < to.rows; ++m) {
      float firsts[kMostBytes / 4] = {}, seconds[kMostBytes / 4] = {}, total[kMostBytes / 4];
      for (int k = 0; k < depth; ++k) {
        const Pair x = pair(left.data[m] + 4 * k);
        for (int n = 0; n < cols; ++n) {
          const Pair y = pair(right.data[k] + 4 * n);
          firsts[n] += x.first * y.first, seconds[n] += x.second * y.second;
        }
      }
      std::memcpy(total, to.data[m], sizeof total);
      for (int n = 0; n < cols; ++n) total[n] += firsts[n] + seconds[n];
      std::memcpy(to.data[m], total, static_cast<std::size_t>(to.row_bytes));
    }
    return true;
  }

  struct Pair {
    float first, second;
  };
  static Pair pair(const std::byte* at) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, at, sizeof bits);
    const std::uint32_t words[] = {bits << 16, bits & 0xffff0000U};
    Pair two{};
    std::memcpy(&two.first, &words[0], 4), std::memcpy(&two.second, &words[1], 4);
    return two;
  }

  bool configured_ = false;
  Tile tiles_[kTiles];
};

/// While this object exists, every thread of the process has AMX tiles. Any other illegal instruction, or one that
/// can't be executed, ends the process as it would without the emulator. Only one may exist at a time.
class AmxEmulator {
 public:
  AmxEmulator() {
    struct sigaction action {};
    action.sa_sigaction = [](int, siginfo_t*, void* context) {
      thread_local AmxState state;
      gregset_t& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
      const greg_t rip = registers[REG_RIP];
      if (state.step(registers)) return;
      registers[REG_RIP] = rip;
      ::signal(SIGILL, SIG_DFL);
    };
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGILL, &action, &before_);
  }
  ~AmxEmulator() { ::sigaction(SIGILL, &before_, nullptr); }
  AmxEmulator(const AmxEmulator&) = delete;
  AmxEmulator& operator=(const AmxEmulator&) = delete;

 private:
  struct sigaction before_ {};
};

#else

class AmxEmulator {};

#endif

}  // namespace weft::testing
