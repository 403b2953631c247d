// Writing a table of tuned products, and reading one with checks of every value.
#include "runtime/execute/tuning/gemm_tuning_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <span>
#include <system_error>
#include <type_traits>
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
constexpr const char* kEpilogue = "epilogue";    // of products that have one
constexpr const char* kTf32 = "tf32";            // true of products in TF32; others don't have it
constexpr const char* kAttention = "attention";  // and its library, of tables that have some
constexpr const char* kAttentionLibrary = "attention_library";
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

JsonObject attention_json(const AttentionChoice& choice) {
  const AttentionProblem& p = choice.problem;
  JsonObject attention;
  attention.add("batch", p.batch).add("seq", p.seq);
  attention.add("heads", p.heads).add("kv_heads", p.kv_heads).add("head_dim", p.head_dim);
  attention.add("backward", p.backward).add("any_bits", p.any_bits).add("strides", p.strides);
  return attention.add("method", to_string(choice.method));
}

AttentionChoice attention_choice_of(const DocumentValue& attention) {
  AttentionProblem p;
  const auto size = [&](const char* key) { return attention[key].integer(1, kLongest); };
  p.batch = size("batch"), p.seq = size("seq");
  p.heads = size("heads"), p.kv_heads = size("kv_heads"), p.head_dim = size("head_dim");
  p.backward = attention["backward"].boolean();
  p.any_bits = attention["any_bits"].boolean();
  const auto strides = attention["strides"].items(p.strides.size(), "the strides of q, k, v, out and their gradients");
  for (std::size_t i = 0; i < p.strides.size(); ++i) p.strides[i] = strides[i].integer(0, kLongest);
  const std::optional<AttentionMethod> method = parse_attention_method(attention["method"].text());
  if (!method || (!method->deterministic && !p.any_bits)) {
    attention["method"].refuse("weft, or cudnn with an engine, which repeats its bits unless any_bits is true");
  }
  return {p, *method};
}

// A choice for each item, each problem once.
template <class ChoiceOf>
auto distinct(const DocumentValue& list, const ChoiceOf& choice_of, std::string_view what) {
  using Choice = std::invoke_result_t<ChoiceOf, const DocumentValue&>;
  const std::vector<DocumentValue> items = list.items();
  std::vector<Choice> choices;
  std::set<decltype(Choice::problem)> known;
  for (const DocumentValue& item : items) {
    choices.push_back(choice_of(item));
    if (!known.insert(choices.back().problem).second) {
      item.refuse(fmt::format("is the {} {} twice", what, to_string(choices.back().problem)), "each once");
    }
  }
  return choices;
}

void expect_few(const DocumentValue& list) {
  const std::size_t count = list.items().size();
  if (count > kMostProducts) list.refuse(fmt::format("has {} items", count), fmt::format("up to {}", kMostProducts));
}

// Choices by their problems.
template <class Choice>
using Known = std::map<decltype(Choice::problem), Choice>;

template <class Choice>
Known<Choice> by_problem(std::span<const Choice> choices) {
  Known<Choice> known;
  for (const Choice& choice : choices) known.emplace(choice.problem, choice);
  return known;
}

template <class Choice>
std::vector<Choice> all_of(const std::map<decltype(Choice::problem), Choice>& known) {
  std::vector<Choice> all;
  for (const auto& [problem, choice] : known) all.push_back(choice);
  return all;
}

std::int64_t lacks(const auto& known, const auto& problems) {
  return std::ranges::count_if(problems, [&](const auto& problem) { return !known.contains(problem); });
}

void expect_this_machine(const TuningMachine& machine, bool with_attention, const std::string& name) {
  const bool on_device = machine.library.starts_with(kDeviceLibrary);
  const TuningMachine here = on_device ? device_tuning_machine() : this_machine();
  const auto expect = [&](const std::string& found, const std::string& wanted, std::string_view what) {
    if (found == wanted) return;
    throw UserError(fmt::format("{} was measured with another {}: {}", name, what, found), wanted + ", as here",
                    kTuneAgain);
  };
  expect(machine.isa, here.isa, on_device ? "GPU" : "instruction set");
  expect(machine.library, here.library, "library");
  if (with_attention) expect(machine.of_attention, here.of_attention, "library of attention");
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
  if (!tuned.table.attention().empty()) {
    JsonArray attention;
    for (const AttentionChoice& choice : tuned.table.attention()) attention.add(attention_json(choice));
    document.add(kAttentionLibrary, tuned.machine.of_attention).add(kAttention, attention);
  }
  return json_lines(document.add(kChecksumKey, checksum_of_rest(document.text())).text());
}

TunedGemms parse_gemm_tuning(std::string_view json_text, const std::string& name) {
  const Document document = read_json(json_text, name, {.fix = kTuneAgain});
  const DocumentValue in = document.of_format("a table of tuned matrix products", kFormat, kVersion);
  TunedGemms tuned;
  tuned.machine.isa = in["isa"].text();
  tuned.machine.library = in["library"].text();
  tuned.threads = static_cast<int>(in["threads"].integer(1, 4096));
  expect_few(in["products"]);
  const std::optional<DocumentValue> attention = in.find(kAttention);
  if (attention) {
    expect_few(*attention);
    tuned.machine.of_attention = in[kAttentionLibrary].text();
  }
  // Last of the whole, but before the parts: a method that can't run here is no news on another machine.
  expect_checksum(in);
  expect_this_machine(tuned.machine, attention.has_value(), name);
  std::vector<AttentionChoice> of_attention;
  if (attention) of_attention = distinct(*attention, attention_choice_of, "attention");
  tuned.table = GemmTuning(distinct(in["products"], choice_of, "product"), std::nullopt, std::move(of_attention));
  return tuned;
}

std::string contents_of(const GemmTuning& table) {
  std::string text = fmt::format("{} matrix products", table.choices().size());
  if (!table.attention().empty()) text += fmt::format(" and {} attention kernels", table.attention().size());
  return text;
}

std::string read_gemm_tuning_text(const std::filesystem::path& path) {
  return read_text_file(path, "the file of GEMM methods", kLargestFile, "a file that `weft tune` has written",
                        kTuneAgain);
}

std::shared_ptr<const GemmTuning> table_of(const std::shared_ptr<const TunedGemms>& tuned,
                                           std::optional<PackedUnit> bf16) {
  if (!bf16) return tuned ? std::shared_ptr<const GemmTuning>(tuned, &tuned->table) : nullptr;
  const auto choices = tuned ? tuned->table.choices() : std::span<const GemmChoice>();
  const auto attention = tuned ? tuned->table.attention() : std::span<const AttentionChoice>();
  return std::make_shared<const GemmTuning>(std::vector<GemmChoice>(choices.begin(), choices.end()), bf16,
                                            std::vector<AttentionChoice>(attention.begin(), attention.end()));
}

std::filesystem::path GemmTuningCache::file() const {
  constexpr std::size_t kMostOfIsa = 40;  // a CPU's is a long list of features; the number after it makes names unique
  const std::uint64_t exact = Fingerprint().add(machine.isa).add(machine.library).value();
  const std::string with_threads = threads > 0 ? fmt::format("_{}-threads", threads) : "";
  return folder / fmt::format("{}_{}{}_{:08x}.json", readable(machine.isa.substr(0, kMostOfIsa)),
                              readable(machine.library), with_threads, exact & 0xffffffffU);
}

TunedGemms GemmTuningCache::complete(std::span<const GemmProblem> products, const TryGemm& measure,
                                     const TellStatus& tell, std::span<const AttentionProblem> attention,
                                     const TryAttention& measure_attention) const {
  const std::filesystem::path path = file();
  Known<GemmChoice> known;
  Known<AttentionChoice> known_attention;
  if (std::filesystem::exists(path)) {
    try {
      const TunedGemms cached = parse_gemm_tuning(read_gemm_tuning_text(path), in_quotes(path));
      known = by_problem(cached.table.choices());
      known_attention = by_problem(cached.table.attention());
    } catch (const UserError& error) {
      const std::string_view text = error.what();
      tell({fmt::format("{}: tuned anew", text.substr(0, text.find('\n')))});
    }
  }
  const std::int64_t missing = lacks(known, products) + lacks(known_attention, attention);
  if (missing > 0) {
    const std::string_view what = attention.empty() ? "matrix products" : "matrix products and attention kernels";
    tell({fmt::format("tuning {} of the run's {} {}, kept for later runs in {}", missing,
                      products.size() + attention.size(), what, path.string()),
          0, missing});
    std::error_code made;  // where it couldn't be, the file can't be written
    std::filesystem::create_directories(folder, made);
    expect_writable(path, "--run-dir in another folder, or --gemm-tuning none");
  }
  std::int64_t measured = 0;
  const auto choices_of = [&](const auto& problems, auto& all, const auto& try_one) {
    std::vector<typename std::remove_reference_t<decltype(all)>::mapped_type> chosen;
    for (const auto& problem : problems) {
      auto found = all.find(problem);
      if (found == all.end()) {
        const auto trial = try_one(problem);
        found = all.insert({problem, {problem, trial.chosen}}).first;
        ++measured;
        tell({fmt::format("[{}/{}] {}", measured, missing, to_string(trial)), measured, missing});
      }
      chosen.push_back(found->second);
    }
    return chosen;
  };
  const auto tuned = [&](std::vector<GemmChoice> of_products, std::vector<AttentionChoice> of_attention) {
    return TunedGemms{machine, std::max(threads, 1),
                      GemmTuning(std::move(of_products), std::nullopt, std::move(of_attention))};
  };
  std::vector<GemmChoice> of_products = choices_of(products, known, measure);
  TunedGemms of_run = tuned(std::move(of_products), choices_of(attention, known_attention, measure_attention));
  if (missing > 0) write_durable(path, to_json(tuned(all_of(known), all_of(known_attention))));
  return of_run;
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
