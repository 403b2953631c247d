// Runs a fuzz target without libFuzzer: over the seeds in a folder and a fixed set of mutations of each. With it, every
// compiler's build and every test run check the readers against earlier findings.
//
//   fuzz_safetensors tests/fuzz/seeds/safetensors 2000
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/philox.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kMostBytes = 1 << 16;

/// The random numbers of one mutation; they depend only on the mutation's number.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t next() {
    const weft::PhiloxBlock block = weft::philox_quad(seed_, 0, 0, count_++);
    return (std::uint64_t{block[0]} << 32) | block[1];
  }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }

 private:
  std::uint64_t seed_, count_ = 0;
};

/// Numbers that break arithmetic.
std::uint64_t hostile_number(Draws& draws) {
  const std::uint64_t power = std::uint64_t{1} << draws.below(64);
  constexpr std::array<std::uint64_t, 3> kBeside = {0, 1, ~std::uint64_t{0}};
  return power + kBeside[draws.below(kBeside.size())];
}

void insert(Bytes& bytes, std::size_t at, const Bytes& piece) {
  bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), piece.begin(), piece.end());
}

/// Changes, removes, repeats or inserts bytes; `other` is a source of inserted pieces.
void mutate(Bytes& bytes, const Bytes& other, Draws& draws) {
  const std::size_t at = draws.below(bytes.size() + 1);
  const std::size_t length = std::min<std::size_t>(bytes.size() - at, std::size_t{1} << draws.below(7));
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  switch (draws.below(8)) {
    case 0:
      if (length > 0) *begin = static_cast<std::uint8_t>(*begin ^ (1U << draws.below(8)));
      break;
    case 1:
      if (length > 0) *begin = static_cast<std::uint8_t>(draws.next());
      break;
    case 2:
      bytes.erase(begin, begin + static_cast<std::ptrdiff_t>(length));
      break;
    case 3:
      insert(bytes, at, Bytes(begin, begin + static_cast<std::ptrdiff_t>(length)));
      break;
    case 4: {
      const std::uint64_t number = hostile_number(draws);
      std::memcpy(bytes.data() + at, &number, std::min(length, sizeof number));
      break;
    }
    case 5: {
      const std::string digits = std::to_string(hostile_number(draws));
      insert(bytes, at, Bytes(digits.begin(), digits.end()));
      break;
    }
    case 6: {
      const std::size_t from = draws.below(other.size() + 1);
      const std::size_t count = std::min<std::size_t>(other.size() - from, 1 + draws.below(64));
      const auto first = other.begin() + static_cast<std::ptrdiff_t>(from);
      insert(bytes, at, Bytes(first, first + static_cast<std::ptrdiff_t>(count)));
      break;
    }
    default:
      bytes.resize(at);
  }
  if (bytes.size() > kMostBytes) bytes.resize(kMostBytes);
}

/// Stores the input that failed under libFuzzer's usual name, for examination and as a new seed.
void keep(const Bytes& bytes) {
  std::ofstream("crash-replay", std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s SEED_FOLDER MUTATIONS\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  if (paths.empty()) {
    std::fprintf(stderr, "%s holds no seeds\n", argv[1]);
    return 1;
  }
  std::vector<Bytes> seeds;
  for (const auto& path : paths) {
    const std::string content = weft::testing::TemporaryFolder::read(path);
    seeds.emplace_back(content.begin(), content.end());
  }
  const std::size_t mutations = std::stoul(argv[2]);
  Bytes bytes;
  std::string what;
  try {
    for (std::size_t i = 0; i < seeds.size(); ++i) {
      bytes = seeds[i];
      what = "seed " + paths[i].filename().string();
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    }
    for (std::size_t i = 0; i < mutations; ++i) {
      Draws draws(i);
      const std::size_t seed = draws.below(seeds.size());
      bytes = seeds[seed];
      what = "mutation " + std::to_string(i) + " of " + paths[seed].filename().string();
      for (std::size_t changes = 1 + draws.below(4); changes > 0; --changes) {
        mutate(bytes, seeds[draws.below(seeds.size())], draws);
      }
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    }
  } catch (const std::exception& error) {
    keep(bytes);
    std::fprintf(stderr, "%s: %s\n  the input is kept as crash-replay\n", what.c_str(), error.what());
    return 1;
  }
  std::printf("%zu seeds and %zu mutations without a finding\n", seeds.size(), mutations);
  return 0;
}
