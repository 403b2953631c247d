#include "runtime/execute/tuning/gemm_tuning_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/hash.h"

namespace weft::execute {
namespace {

// Letters and digits of it, for a file's name.
std::string readable(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.';
    if (plain) name += c;
    if (!plain && !name.empty() && name.back() != '-') name += '-';
  }
  return name;
}

}  // namespace

std::filesystem::path GemmTuningCache::file() const {
  constexpr std::size_t kMostOfIsa = 40;  // a CPU's is a long list of features; the number after it makes names unique
  const std::uint64_t exact = Fingerprint().add(machine.isa).add(machine.library).value();
  const std::string with_threads = threads > 0 ? fmt::format("_{}-threads", threads) : "";
  return folder / fmt::format("{}_{}{}_{:08x}.json", readable(machine.isa.substr(0, kMostOfIsa)),
                              readable(machine.library), with_threads, exact & 0xffffffffU);
}

TunedGemms GemmTuningCache::complete(std::span<const GemmProblem> products,
                                     const std::function<GemmTrial(const GemmProblem& problem)>& measure,
                                     const TellStatus& tell) const {
  const std::filesystem::path path = file();
  std::map<GemmProblem, GemmMethod> known;
  if (std::filesystem::exists(path)) {
    try {
      const TunedGemms cached = parse_gemm_tuning(read_gemm_tuning_text(path), in_quotes(path));
      for (const GemmChoice& choice : cached.table.choices()) known.emplace(choice.problem, choice.method);
    } catch (const UserError& error) {
      const std::string_view text = error.what();
      tell({fmt::format("{}: tuned anew", text.substr(0, text.find('\n')))});
    }
  }
  const auto missing =
      std::ranges::count_if(products, [&](const GemmProblem& problem) { return !known.contains(problem); });
  if (missing > 0) {
    tell({fmt::format("tuning {} of the run's {} matrix products, kept for later runs in {}", missing, products.size(),
                      path.string()),
          0, missing});
    std::error_code made;  // where it couldn't be, the file can't be written
    std::filesystem::create_directories(folder, made);
    expect_writable(path, "--run-dir in another folder, or --gemm-tuning none");
  }
  std::int64_t measured = 0;
  std::vector<GemmChoice> of_run;
  for (const GemmProblem& problem : products) {
    auto found = known.find(problem);
    if (found == known.end()) {
      const GemmTrial trial = measure(problem);
      found = known.emplace(problem, trial.chosen).first;
      ++measured;
      tell({fmt::format("[{}/{}] {}", measured, missing, to_string(trial)), measured, missing});
    }
    of_run.push_back({found->first, found->second});
  }
  if (missing > 0) {
    std::vector<GemmChoice> all;
    for (const auto& [problem, method] : known) all.push_back({problem, method});
    write_durable(path, to_json({machine, std::max(threads, 1), GemmTuning(std::move(all))}));
  }
  return {machine, std::max(threads, 1), GemmTuning(std::move(of_run))};
}

std::string readable_file_name(const std::string& text) {
  return fmt::format("{}_{:08x}", readable(text), Fingerprint().add(text).value() & 0xffffffffU);
}

std::filesystem::path tuning_folder(const std::filesystem::path& run_dir) {
  // "runs/one/" names the same folder as "runs/one".
  const std::filesystem::path run = run_dir.has_filename() ? run_dir : run_dir.parent_path();
  return run.parent_path() / "gemm_tuning";
}

}  // namespace weft::execute
