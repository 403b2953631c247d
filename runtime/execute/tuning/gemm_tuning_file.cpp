// Writing a table of tuned products, and reading one with checks of every value.
#include "runtime/execute/tuning/gemm_tuning_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/checksum.h"
#include "base/files/document.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/hash.h"
#include "base/text/json_object.h"

namespace weft::execute {
namespace {

constexpr std::string_view kDeviceLibrary = "cuBLASLt";
constexpr const char* kFormat = "weft-gemm-tuning";
constexpr std::int64_t kVersion = 1;
constexpr const char* kEpilogue = "epilogue";  // of products that have one
constexpr const char* kTf32 = "tf32";          // true of products in TF32; others don't have it
constexpr const char* kTuneAgain = "`weft tune` makes one here; --gemm-tuning none: the default methods";
constexpr std::int64_t kLongest = std::int64_t{1} << 40;  // rows, columns, strides
constexpr std::size_t kMostProducts = 10000;
constexpr std::size_t kLargestFile = std::size_t{8} << 20;

JsonObject product_json(const GemmChoice& choice) {
  const GemmProblem& p = choice.problem;
  JsonObject product;
  product.add("m", p.m).add("n", p.n).add("k", p.k);
  product.add("trans_a", p.trans_a).add("trans_b", p.trans_b);
  product.add("accumulate", p.accumulate).add("bias", p.has_bias);
  product.add("inputs", to_string(p.inputs)).add("output", to_string(p.output));
  product.add("strides", p.strides);
  if (p.epilogue != Epilogue::none) product.add(kEpilogue, to_string(p.epilogue));
  if (p.tf32) product.add(kTf32, true);
  return product.add("method", to_string(choice.method));
}

bool can_run(const GemmMethod& method, const GemmProblem& p) {
  if (const auto* on_cpu = std::get_if<cpu::GemmMethod>(&method)) {
    return !p.tf32 && cpu::can_run(*on_cpu, p.shape(), p.inputs, p.output);
  }
  if (p.tf32 && p.inputs != DType::f32) return false;
  const cpu::GemmLayout layout = std::get<DeviceGemmMethod>(method).layout;
  if (p.epilogue != Epilogue::none) return layout == cpu::GemmLayout::own;
  return cpu::layout_fits(layout, p.shape(), p.inputs);
}

GemmChoice choice_of(const DocumentValue& product) {
  GemmProblem p;
  const auto size = [&](const char* key) { return product[key].integer(1, kLongest); };
  p.m = size("m"), p.n = size("n"), p.k = size("k");
  p.trans_a = product["trans_a"].boolean();
  p.trans_b = product["trans_b"].boolean();
  p.accumulate = product["accumulate"].boolean();
  p.has_bias = product["bias"].boolean();
  p.inputs = product["inputs"].one_of({DType::f32, DType::bf16});
  p.output = product["output"].one_of({DType::f32, DType::bf16});
  const auto strides = product["strides"].items(p.strides.size(), "the strides of A, B and C");
  for (std::size_t i = 0; i < p.strides.size(); ++i) p.strides[i] = strides[i].integer(1, kLongest);
  if (const auto epilogue = product.find(kEpilogue)) {
    p.epilogue = epilogue->one_of({Epilogue::gelu, Epilogue::gelu_gradient, Epilogue::add, Epilogue::bias_gradient});
  }
  if (const auto tf32 = product.find(kTf32)) p.tf32 = tf32->boolean();
  const std::optional<GemmMethod> method = parse_gemm_method(product["method"].text());
  if (!method || !can_run(*method, p)) {
    product["method"].refuse(
        "one that this version has for the product here, with nn, nt or tn at its end if it copies operands into "
        "another layout than their own");
  }
  return {p, *method};
}

void expect_this_machine(const TuningMachine& machine, const std::string& name) {
  const bool on_device = machine.library.starts_with(kDeviceLibrary);
  const TuningMachine here = on_device ? device_tuning_machine() : this_machine();
  const auto expect = [&](const std::string& found, const std::string& wanted, std::string_view what) {
    if (found == wanted) return;
    throw UserError(fmt::format("{} was measured with another {}: {}", name, what, found), wanted + ", as here",
                    kTuneAgain);
  };
  expect(machine.isa, here.isa, on_device ? "GPU" : "instruction set");
  expect(machine.library, here.library, "library");
}

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

std::string to_json(const TunedGemms& tuned) {
  JsonArray products;
  for (const GemmChoice& choice : tuned.table.choices()) products.add(product_json(choice));
  JsonObject document;
  document.add("format", kFormat)
      .add("version", kVersion)
      .add("isa", tuned.machine.isa)
      .add("library", tuned.machine.library)
      .add("threads", tuned.threads)
      .add("products", products);
  return json_lines(document.add(kChecksumKey, checksum_of_rest(document.text())).text());
}

TunedGemms parse_gemm_tuning(std::string_view json_text, const std::string& name) {
  const Document document = read_json(json_text, name, {.fix = kTuneAgain});
  const DocumentValue in = document.of_format("a table of tuned matrix products", kFormat, kVersion);
  TunedGemms tuned;
  tuned.machine.isa = in["isa"].text();
  tuned.machine.library = in["library"].text();
  tuned.threads = static_cast<int>(in["threads"].integer(1, 4096));
  const std::vector<DocumentValue> products = in["products"].items();
  if (products.size() > kMostProducts) {
    in["products"].refuse(fmt::format("has {} items", products.size()), fmt::format("up to {}", kMostProducts));
  }
  // Last of the whole, but before the parts: a method that can't run here is no news on another machine.
  expect_checksum(in);
  expect_this_machine(tuned.machine, name);
  std::vector<GemmChoice> choices;
  std::set<GemmProblem> known;
  for (const DocumentValue& product : products) {
    choices.push_back(choice_of(product));
    if (!known.insert(choices.back().problem).second) {
      product.refuse(fmt::format("is the product {} twice", to_string(choices.back().problem)), "each once");
    }
  }
  tuned.table = GemmTuning(std::move(choices));
  return tuned;
}

std::string read_gemm_tuning_text(const std::filesystem::path& path) {
  return read_text_file(path, "the file of GEMM methods", kLargestFile, "a file that `weft tune` has written",
                        kTuneAgain);
}

std::shared_ptr<const GemmTuning> table_of(const std::shared_ptr<const TunedGemms>& tuned,
                                           std::optional<PackedUnit> bf16) {
  if (!bf16) return tuned ? std::shared_ptr<const GemmTuning>(tuned, &tuned->table) : nullptr;
  const auto choices = tuned ? tuned->table.choices() : std::span<const GemmChoice>();
  return std::make_shared<const GemmTuning>(std::vector<GemmChoice>(choices.begin(), choices.end()), bf16);
}

std::filesystem::path GemmTuningCache::file() const {
  constexpr std::size_t kMostOfIsa = 40;  // a CPU's is a long list of features; the number after it makes names unique
  const std::uint64_t exact = Fingerprint().add(machine.isa).add(machine.library).value();
  const std::string with_threads = threads > 0 ? fmt::format("_{}-threads", threads) : "";
  return folder / fmt::format("{}_{}{}_{:08x}.json", readable(machine.isa.substr(0, kMostOfIsa)),
                              readable(machine.library), with_threads, exact & 0xffffffffU);
}

TunedGemms GemmTuningCache::complete(std::span<const GemmProblem> products, const TryGemm& measure,
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
