// Writing a table of tuned products, and reading one as if it were hostile.
#include "runtime/execute/tuning/gemm_tuning_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/checksum.h"
#include "base/files/json_file.h"
#include "base/files/mapped_file.h"
#include "runtime/execute/tuning/device_gemm_trials.h"

namespace weft {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kDeviceLibrary = "cuBLASLt";
constexpr const char* kFormat = "weft-gemm-tuning";
constexpr std::int64_t kVersion = 1;
constexpr const char* kChecksum = "crc32c";
constexpr const char* kEpilogue = "epilogue";  // of products that have one
constexpr const char* kTuneAgain = "`weft tune` makes one here; --gemm-tuning none: the default methods";
constexpr std::int64_t kLongest = std::int64_t{1} << 40;  // rows, columns, strides
constexpr std::size_t kMostProducts = 10000;
constexpr std::size_t kLargestFile = std::size_t{8} << 20;

ordered_json product_json(const GemmChoice& choice) {
  const GemmProblem& p = choice.problem;
  ordered_json product;
  product["m"] = p.m, product["n"] = p.n, product["k"] = p.k;
  product["trans_a"] = p.trans_a, product["trans_b"] = p.trans_b;
  product["accumulate"] = p.accumulate, product["bias"] = p.has_bias;
  product["inputs"] = to_string(p.inputs), product["output"] = to_string(p.output);
  product["strides"] = p.strides;
  if (p.epilogue != Epilogue::none) product[kEpilogue] = to_string(p.epilogue);
  product["method"] = to_string(choice.method);
  return product;
}

std::string checksum_of(json document) {
  document.erase(kChecksum);
  const std::string text = document.dump();  // keys in their one order, without blanks
  return Crc32c().add(std::as_bytes(std::span(text.data(), text.size()))).text();
}

std::int64_t number_of(const json& value, std::int64_t least, std::int64_t most, const std::string& where) {
  const bool integer = value.is_number_integer() &&
                       (!value.is_number_unsigned() || value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most));
  if (integer && value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= most) {
    return value.get<std::int64_t>();
  }
  throw UserError(fmt::format("{} is {}", where, value.dump()), fmt::format("an integer from {} to {}", least, most),
                  kTuneAgain);
}

DType dtype_of(const json& value, const std::string& where) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    if (value == std::string(to_string(dtype))) return dtype;
  }
  throw UserError(fmt::format("{} is {}", where, value.dump()), "f32 or bf16", kTuneAgain);
}

bool can_run(const GemmMethod& method, const GemmProblem& p) {
  if (const auto* on_cpu = std::get_if<cpu::GemmMethod>(&method)) {
    return cpu::can_run(*on_cpu, p.shape(), p.inputs, p.output);
  }
  const cpu::GemmLayout layout = std::get<DeviceGemmMethod>(method).layout;
  if (p.epilogue != Epilogue::none) return layout == cpu::GemmLayout::own;
  return cpu::layout_fits(layout, p.shape(), p.inputs);
}

Epilogue epilogue_of(const json& value, const std::string& where) {
  for (const Epilogue epilogue : {Epilogue::gelu, Epilogue::gelu_gradient}) {
    if (value == std::string(to_string(epilogue))) return epilogue;
  }
  throw UserError(fmt::format("{} is {}", where, value.dump()), "gelu or gelu_gradient", kTuneAgain);
}

GemmChoice choice_from_json(const json& product, const std::string& where) {
  GemmProblem p;
  const auto size = [&](const char* key) {
    return number_of(product.at(key), 1, kLongest, fmt::format("{}: {}", where, key));
  };
  p.m = size("m"), p.n = size("n"), p.k = size("k");
  product.at("trans_a").get_to(p.trans_a);
  product.at("trans_b").get_to(p.trans_b);
  product.at("accumulate").get_to(p.accumulate);
  product.at("bias").get_to(p.has_bias);
  p.inputs = dtype_of(product.at("inputs"), where + ": inputs");
  p.output = dtype_of(product.at("output"), where + ": output");
  const json& strides = product.at("strides");
  for (std::size_t i = 0; i < p.strides.size(); ++i) {
    p.strides[i] = number_of(strides.at(i), 1, kLongest, where + ": a stride");
  }
  if (product.contains(kEpilogue)) p.epilogue = epilogue_of(product.at(kEpilogue), where + ": epilogue");
  const auto name = product.at("method").get<std::string>();
  const std::optional<GemmMethod> method = parse_gemm_method(name);
  if (!method || !can_run(*method, p)) {
    throw UserError(
        fmt::format("{}: the method \"{}\"", where, name),
        "one that this version has for the product here, with nn, nt or tn at its end if it copies operands "
        "into another layout than their own",
        kTuneAgain);
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

TunedGemms tuned_from_json(const json& document, const std::string& name) {
  TunedGemms tuned;
  document.at("isa").get_to(tuned.machine.isa);
  document.at("library").get_to(tuned.machine.library);
  tuned.threads = static_cast<int>(number_of(document.at("threads"), 1, 4096, name + ": threads"));
  const json& products = document.at("products");
  if (!products.is_array() || products.size() > kMostProducts) {
    throw UserError(fmt::format("{}: products is no array of up to {}", name, kMostProducts), "", kTuneAgain);
  }
  // Last of the whole, but before the parts: a method that can't run here is no news on another machine.
  if (const std::string checksum = checksum_of(document); document.at(kChecksum) != checksum) {
    throw UserError(fmt::format("{} has the checksum {}", name, checksum),
                    document.at(kChecksum).dump() + ", as it says itself: it was altered", kTuneAgain);
  }
  expect_this_machine(tuned.machine, name);
  std::vector<GemmChoice> choices;
  std::set<GemmProblem> known;
  for (const json& product : products) {
    choices.push_back(choice_from_json(product, fmt::format("{}: product {}", name, choices.size() + 1)));
    if (!known.insert(choices.back().problem).second) {
      throw UserError(fmt::format("{} has the product {} twice", name, to_string(choices.back().problem)), "each once",
                      kTuneAgain);
    }
  }
  tuned.table = GemmTuning(std::move(choices));
  return tuned;
}

}  // namespace

std::string to_json(const TunedGemms& tuned) {
  ordered_json document;
  document["format"] = kFormat;
  document["version"] = kVersion;
  document["isa"] = tuned.machine.isa;
  document["library"] = tuned.machine.library;
  document["threads"] = tuned.threads;
  document["products"] = ordered_json::array();
  for (const GemmChoice& choice : tuned.table.choices()) document["products"].push_back(product_json(choice));
  document[kChecksum] = checksum_of(json::parse(document.dump()));
  return json_lines(document);
}

TunedGemms parse_gemm_tuning(std::string_view json_text, const std::string& name) {
  const json document = parse_json(json_text, name);
  if (!document.is_object() || document.value("format", json()) != kFormat) {
    throw UserError(name + " isn't a table of tuned matrix products", "a file that `weft tune` has written",
                    kTuneAgain);
  }
  if (document.value("version", json()) != kVersion) {
    throw UserError(fmt::format("{} has version {}", name, document.value("version", json()).dump()),
                    fmt::format("version {}", kVersion), kTuneAgain);
  }
  try {
    return tuned_from_json(document, name);
  } catch (const json::exception& error) {
    throw UserError(name + " is damaged: " + error.what(), "a file that `weft tune` has written", kTuneAgain);
  }
}

std::string read_gemm_tuning_text(const std::filesystem::path& path) {
  const MappedFile file(path);
  if (file.bytes().size() > kLargestFile) {
    throw UserError(fmt::format("{} is larger than {} bytes", in_quotes(path), kLargestFile),
                    "a file that `weft tune` has written", kTuneAgain);
  }
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

std::shared_ptr<const GemmTuning> table_of(const std::shared_ptr<const TunedGemms>& tuned,
                                           std::optional<PackedUnit> bf16) {
  if (!bf16) return tuned ? std::shared_ptr<const GemmTuning>(tuned, &tuned->table) : nullptr;
  const auto choices = tuned ? tuned->table.choices() : std::span<const GemmChoice>();
  return std::make_shared<const GemmTuning>(std::vector<GemmChoice>(choices.begin(), choices.end()), bf16);
}

}  // namespace weft
