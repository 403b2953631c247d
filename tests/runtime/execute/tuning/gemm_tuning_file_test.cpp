// Files of tuned products: read back as they were written, and refused when anything about them is wrong. The
// measurements of their cache, and the choices that it keeps.
#include "runtime/execute/tuning/gemm_tuning_file.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/checksum.h"
#include "runtime/execute/tuning/gemm_trials.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"

namespace weft::execute {
namespace {

using nlohmann::json;

GemmProblem problem(std::int64_t m) {
  GemmProblem result;
  result.m = m, result.n = 96, result.k = 32;
  result.trans_b = true;
  result.strides = {32, 32, 288};
  return result;
}

TunedGemms table() {
  GemmProblem half = problem(64);
  half.inputs = half.output = DType::bf16;
  half.has_bias = half.accumulate = half.trans_a = true;
  return {this_machine(), 3,
          GemmTuning({{problem(64), cpu::GemmMethod{cpu::GemmMethod::Engine::sgemm, 8, 96}},
                      {problem(128), cpu::GemmMethod{cpu::GemmMethod::Engine::matmul, 64, 48, cpu::GemmLayout::nn}},
                      {half, cpu::GemmMethod{cpu::GemmMethod::Engine::sgemm, 64, 48}}})};
}

/// The message that refuses `text`; "" if it is accepted.
std::string refusal(const std::string& text) {
  return testing::message_of<UserError>([&] { parse_gemm_tuning(text, "t.json"); });
}

std::string with_checksum(json document) {
  document.erase("crc32c");
  const std::string text = document.dump();
  document["crc32c"] = Crc32c().add(std::as_bytes(std::span(text.data(), text.size()))).text();
  return document.dump();
}

/// A file with one change and a checksum that fits it.
template <class Change>
std::string changed(Change change) {
  json document = json::parse(to_json(table()));
  change(document);
  return with_checksum(std::move(document));
}

TEST(GemmTuningFile, ProductsWithEpiloguesAreOthers) {
  GemmProblem gelu = problem(64), gradient = problem(64), bias = problem(64);
  gelu.epilogue = Epilogue::gelu, gradient.epilogue = Epilogue::gelu_gradient, bias.epilogue = Epilogue::bias_gradient;
  TunedGemms tuned = table();
  const cpu::GemmMethod method{cpu::GemmMethod::Engine::sgemm, 8, 96};
  tuned.table = GemmTuning({{problem(64), method}, {gelu, method}, {gradient, method}, {bias, method}});
  const TunedGemms read = parse_gemm_tuning(to_json(tuned), "t.json");
  EXPECT_EQ(read.table.fingerprint(), tuned.table.fingerprint());
  EXPECT_NE(read.table.find(gradient), nullptr);
  EXPECT_NE(read.table.find(bias), nullptr);
  EXPECT_EQ(to_json(table()).find("epilogue"), std::string::npos);
  EXPECT_NE(refusal(changed([](json& document) { document["products"][0]["epilogue"] = "relu"; })).find("epilogue"),
            std::string::npos);
}

TEST(GemmTuningFile, IsReadBack) {
  const std::string text = to_json(table());
  const TunedGemms read = parse_gemm_tuning(text, "t.json");
  EXPECT_EQ(read.machine, this_machine());
  EXPECT_EQ(read.threads, 3);
  EXPECT_EQ(read.table.fingerprint(), table().table.fingerprint());
  EXPECT_EQ(to_json(read), text);
  EXPECT_EQ(refusal(changed([](json&) {})), "");  // accepted without the other tests' changes
  const TunedGemms none{this_machine(), 1, GemmTuning()};
  EXPECT_EQ(parse_gemm_tuning(to_json(none), "t.json").table.choices().size(), 0U);
}

// If any single byte is changed or lost, the file is refused or has the same content.
TEST(GemmTuningFile, EveryAlteredByteIsRefused) {
  const std::string text = to_json(table());
  const auto expect_refused_or_same = [&](const std::string& altered, std::size_t at) {
    try {
      EXPECT_EQ(to_json(parse_gemm_tuning(altered, "t.json")), text) << "byte " << at;
    } catch (const UserError&) {
    }
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const char byte : {'0', '9', '"', ' ', '\0', '\xff', static_cast<char>(text[at] ^ 1)}) {
      std::string altered = text;
      altered[at] = byte;
      expect_refused_or_same(altered, at);
    }
    expect_refused_or_same(text.substr(0, at), at);
  }
  EXPECT_TRUE(has_parts(refusal(changed([](json&) {}).insert(1, "\"x\": 1,")), {"altered"}));
}

TEST(GemmTuningFile, OtherMachinesAreRefused) {
  const std::string isa = refusal(changed([](json& d) { d["isa"] = "x86-64 avx2, library level 0x7"; }));
  EXPECT_TRUE(has_parts(isa, {"t.json", "another instruction set: x86-64 avx2, library level 0x7", this_machine().isa,
                              "weft tune", "--gemm-tuning none"}));
  EXPECT_TRUE(has_parts(refusal(changed([](json& d) { d["library"] = "oneDNN 0.1.2"; })),
                        {"another library: oneDNN 0.1.2", this_machine().library}));
}

TEST(GemmTuningFile, ResultsDoNotDependOnThreadsSoNeitherDoesTheTable) {
  EXPECT_EQ(refusal(changed([](json& d) { d["threads"] = 64; })), "");
}

TEST(GemmTuningFile, WhatCannotBeIsRefused) {
  const auto product = [](json& document) -> json& { return document["products"][1]; };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "isn't valid JSON"},
      {"[]", "isn't a table"},
      {"{\"format\": \"weft-checkpoint\"}", "isn't a table"},
      {changed([](json& d) { d["version"] = 2; }), "version 2"},
      {changed([](json& d) { d.erase("products"); }), "has no products"},
      {changed([](json& d) { d["products"] = "many"; }), "products is \"many\""},
      {changed([](json& d) {
         d["products"] = json::array();
         d["products"].get_ptr<json::array_t*>()->resize(10001);
       }),
       "products has 10001 items"},
      {changed([](json& d) { d["products"] = json::array({1}); }), "products[0] is 1"},
      {changed([](json& d) { d["threads"] = 0; }), "threads is 0"},
      {changed([](json& d) { d["threads"] = 1.5; }), "threads is 1.5"},
      {changed([](json& d) { d["threads"] = 18446744073709551615ULL; }), "threads is 18446744073709551615"},
      {changed([](json& d) { d["isa"] = 7; }), "isa is 7"},
      {changed([&](json& d) { product(d)["m"] = 0; }), "products[1].m is 0"},
      {changed([&](json& d) { product(d)["n"] = -96; }), "products[1].n is -96"},
      {changed([&](json& d) { product(d)["k"] = "32"; }), "products[1].k is \"32\""},
      {changed([&](json& d) { product(d)["m"] = std::int64_t{1} << 41; }), "products[1].m is"},
      {changed([&](json& d) { product(d)["trans_a"] = 1; }), "trans_a is 1"},
      {changed([&](json& d) { product(d).erase("accumulate"); }), "products[1] has no accumulate"},
      {changed([&](json& d) { product(d)["inputs"] = "i32"; }), "products[1].inputs is \"i32\""},
      {changed([&](json& d) {
         product(d)["strides"] = {1, 2};
       }),
       "strides is [1,2]"},
      {changed([&](json& d) { product(d)["strides"][0] = -1; }), "strides[0] is -1"},
      {changed([&](json& d) { product(d)["method"] = "magic 8x8"; }), "method is \"magic 8x8\""},
      {changed([&](json& d) { product(d)["method"] = "sgemm 1x1"; }), "method is \"sgemm 1x1\""},
      {changed([&](json& d) { product(d)["method"] = {"sgemm 8x8"}; }), "method is [\"sgemm 8x8\"]"},
      {changed([&](json& d) { product(d)["method"] = "sgemm 8x8 tt"; }), "products[1].method is \"sgemm 8x8 tt\""},
      // Its own layout by another name.
      {changed([&](json& d) { d["products"][2]["method"] = "sgemm 8x8 nt"; }), "method is \"sgemm 8x8 nt\""},
      {changed([&](json& d) { product(d)["method"] = "packed 8x8 nn"; }), "method is \"packed 8x8 nn\""},
      {changed([&](json& d) { product(d)["method"] = "sgemm 8x8 xy"; }), "nn, nt or tn at its end"},
      // Its copies would take terabytes.
      {changed([&](json& d) { d["products"][2]["k"] = std::int64_t{1} << 36; }), "method is \"matmul 64x48 nn\""},
      {changed([&](json& d) { d["products"].push_back(d["products"][0]); }), "twice"},
  };
  for (const auto& [text, part] : cases) {
    EXPECT_TRUE(has_parts(refusal(text), {part})) << text.substr(0, 300);
  }
}

// A GPU's methods are named by the library and their layouts by us, so layouts are known without a GPU.
TEST(GemmTuningFile, LayoutsOfADevicesMethods) {
  const std::string digits(128, '5');
  const auto with = [&](const std::string& end, std::int64_t k, const char* epilogue = nullptr) {
    return changed([&](json& d) {
      d["isa"] = device_tuning_machine().isa;
      d["library"] = device_tuning_machine().library;
      for (json& product : d["products"]) product["method"] = "cublaslt " + digits;
      d["products"][2]["method"] = "cublaslt " + digits + end;
      d["products"][2]["k"] = k;
      if (epilogue != nullptr) d["products"][2]["epilogue"] = epilogue;
    });
  };
  const TunedGemms read = parse_gemm_tuning(with(" tn", 32), "t.json");
  ASSERT_NE(read.table.find<DeviceGemmMethod>(problem(128)), nullptr);
  EXPECT_EQ(*read.table.find<DeviceGemmMethod>(problem(128)), (DeviceGemmMethod{digits, cpu::GemmLayout::tn}));
  EXPECT_EQ(read.table.find<DeviceGemmMethod>(problem(64))->layout, cpu::GemmLayout::own);
  EXPECT_EQ(refusal(with("", std::int64_t{1} << 36)), "");
  const auto by_tf32 = [&](std::size_t product, const std::string& method) {
    json document = json::parse(with("", 32));
    document["products"][product]["tf32"] = true;
    document["products"][product]["method"] = method;
    return with_checksum(std::move(document));
  };
  const std::string method = "cublaslt " + digits;
  GemmProblem rounded = problem(128);
  rounded.tf32 = true;
  const GemmTuning table = parse_gemm_tuning(by_tf32(2, method), "t.json").table;
  EXPECT_NE(table.find<DeviceGemmMethod>(rounded), nullptr);
  EXPECT_EQ(table.find<DeviceGemmMethod>(problem(128)), nullptr);
  EXPECT_NE(table.fingerprint(), parse_gemm_tuning(with("", 32), "t.json").table.fingerprint());
  EXPECT_EQ(to_string(rounded), "128x96x32 NT f32 by TF32, C 288 apart");
  EXPECT_NE(refusal(by_tf32(2, "sgemm 8x96")), "") << "a CPU's method";
  EXPECT_NE(refusal(by_tf32(1, method)), "") << "of bf16";
  for (const std::string& refused :
       {with(" nn", std::int64_t{1} << 36), with(" nt", 32), with(" tt", 32), with(" tn", 32, "gelu")}) {
    EXPECT_TRUE(has_parts(refusal(refused), {"products[2].method is \"cublaslt 555", "nn, nt or tn", "weft tune"}));
  }
}

// A table of a machine without a GPU, as no GPU is needed to read and refuse it.
TEST(GemmTuningFile, AttentionOfADevice) {
  const AttentionProblem forward{3, 8, 4, 2, 8, {64, 64, 64, 32}},
      backward{3, 8, 4, 2, 8, {64, 64, 64, 32, 32, 64, 64, 64}, true, true};
  const TunedGemms tuned{device_tuning_machine(), 1,
                         GemmTuning({}, std::nullopt, {{forward, {"eng1_k24=3"}}, {backward, {"eng7", false}}})};
  const std::string text = to_json(tuned);
  const TunedGemms read = parse_gemm_tuning(text, "t.json");
  EXPECT_EQ(to_json(read), text);
  EXPECT_EQ(read.machine, device_tuning_machine());
  EXPECT_EQ(read.table.fingerprint(), tuned.table.fingerprint());
  EXPECT_EQ(*table_of(std::make_shared<const TunedGemms>(read), PackedUnit::f32)->find(backward),
            (AttentionMethod{"eng7", false}));
  EXPECT_EQ(contents_of(read.table), "0 matrix products and 2 attention kernels");

  const auto refused = [&](const auto& change) {
    json document = json::parse(text);
    change(document);
    return refusal(with_checksum(std::move(document)));
  };
  EXPECT_EQ(refused([](json&) {}), "");
  EXPECT_TRUE(has_parts(refused([](json& d) { d["attention_library"] = "cuDNN 1.2.3"; }), {"cuDNN 1.2.3"}));
  EXPECT_NE(refused([](json& d) { d.erase("attention_library"); }), "");
  const auto each = [&](const char* key, const json& value) {
    return refused([&](json& d) { d["attention"][1][key] = value; });
  };
  EXPECT_NE(each("batch", 0), "");
  EXPECT_NE(each("seq", "8"), "");
  EXPECT_NE(each("backward", 1), "");
  EXPECT_NE(each("strides", {1, 2}), "");
  EXPECT_NE(each("method", "cudnn"), "");
  EXPECT_NE(each("any_bits", false), "") << "an engine of any bits";
  EXPECT_EQ(each("method", "weft"), "");
  EXPECT_TRUE(has_parts(refused([](json& d) { d["attention"].push_back(d["attention"][0]); }), {"twice"}));
}

TEST(GemmTuningFile, FilesThatAreNone) {
  const testing::TemporaryFolder folder;
  EXPECT_NE(testing::message_of<UserError>([&] { read_gemm_tuning_text(folder.path("none.json")); }), "");
  EXPECT_NE(testing::message_of<UserError>([&] { read_gemm_tuning_text(folder.path()); }), "");
  const std::string large = folder.write("large.json", "");
  std::filesystem::resize_file(large, std::uintmax_t{1} << 40);
  EXPECT_TRUE(refuses([&] { read_gemm_tuning_text(large); }, {"is larger than"}));
}

GemmProblem product(std::int64_t m) {
  return {m, 64, 32, false, true, false, false, DType::f32, DType::f32, {32, 32, 64}};
}

// Measures nothing: every product gets a method that isn't the default.
class GemmTuningCacheTest : public ::testing::Test {
 protected:
  TunedGemms complete(std::span<const GemmProblem> products) {
    measured_.clear();
    lines_.clear();
    const auto measure = [&](const GemmProblem& problem) {
      measured_.push_back(problem.m);
      GemmTrial trial;
      trial.problem = problem;
      trial.usual = *parse_gemm_method("sgemm 64x64");
      trial.chosen = *parse_gemm_method("sgemm 64x32");
      return trial;
    };
    return cache_.complete(products, measure, [&](const Status& status) { lines_.push_back(status.text); });
  }

  testing::TemporaryFolder folder_;
  GemmTuningCache cache_{folder_.path("runs/gemm_tuning"), this_machine(), 2};
  std::vector<std::int64_t> measured_;
  std::vector<std::string> lines_;
};

using Sizes = std::vector<std::int64_t>;

TEST_F(GemmTuningCacheTest, MeasuresWhatTheFileLacks) {
  const std::vector<GemmProblem> first = {product(8), product(16)}, second = {product(16), product(24)};
  const TunedGemms of_first = complete(first);
  EXPECT_EQ(measured_, (Sizes{8, 16}));
  EXPECT_EQ(lines_.size(), 3U);
  EXPECT_NE(lines_.at(0).find("2 of the run's 2 matrix products"), std::string::npos) << lines_.at(0);
  EXPECT_NE(lines_.at(0).find(cache_.file().string()), std::string::npos) << lines_.at(0);

  complete(second);
  EXPECT_EQ(measured_, Sizes{24});
  const TunedGemms kept = parse_gemm_tuning(read_gemm_tuning_text(cache_.file()), "kept");
  EXPECT_EQ(kept.table.choices().size(), 3U);
  EXPECT_EQ(kept.machine, this_machine());
  EXPECT_EQ(kept.threads, 2);

  // Choices that another run added don't change the first run's.
  const TunedGemms again = complete(first);
  EXPECT_EQ(measured_, Sizes{});
  EXPECT_EQ(lines_.size(), 0U);
  EXPECT_EQ(again.table.choices().size(), 2U);
  EXPECT_EQ(again.table.fingerprint(), of_first.table.fingerprint());
}

TEST_F(GemmTuningCacheTest, KeepsAttentionBesideProducts) {
  const std::vector<GemmProblem> products = {product(8)};
  const std::vector<AttentionProblem> attention = {{3, 8, 4, 2, 8, {64, 64, 64, 32}},
                                                   {3, 9, 4, 2, 8, {64, 64, 64, 32}}};
  cache_.machine = device_tuning_machine();
  const auto measure = [&](const GemmProblem& problem) {
    measured_.push_back(problem.m);
    return GemmTrial{problem, {}, *parse_gemm_method("cublaslt " + std::string(128, '5'))};
  };
  const auto measure_attention = [&](const AttentionProblem& problem) {
    measured_.push_back(problem.seq);
    return AttentionTrial{problem, {}, {"eng" + std::to_string(problem.seq)}};
  };
  const auto complete_with = [&](std::span<const AttentionProblem> some) {
    measured_.clear();
    return cache_.complete(
        products, measure, [](const Status&) {}, some, measure_attention);
  };
  complete_with(std::span(attention).first(1));
  EXPECT_EQ(measured_, (Sizes{8, 8}));
  const TunedGemms both = complete_with(attention);
  EXPECT_EQ(measured_, Sizes{9});
  EXPECT_EQ(both.table.find(attention[0])->engine, "eng8");
  EXPECT_EQ(both.table.find(attention[1])->engine, "eng9");
  EXPECT_EQ(complete_with(std::span(attention).last(1)).table.attention().size(), 1U);
  EXPECT_EQ(complete_with({}).table.attention().size(), 0U);
  EXPECT_EQ(measured_, Sizes{});
}

TEST_F(GemmTuningCacheTest, ADamagedFileIsReplaced) {
  const std::vector<GemmProblem> products = {product(8)};
  complete(products);
  folder_.write("runs/gemm_tuning/" + cache_.file().filename().string(), "{\"format\": 1}");
  complete(products);
  EXPECT_EQ(measured_, Sizes{8});
  EXPECT_NE(lines_.at(0).find("tuned anew"), std::string::npos) << lines_.at(0);
  complete(products);
  EXPECT_EQ(measured_, Sizes{});
}

TEST_F(GemmTuningCacheTest, MachinesAndThreadsHaveFilesOfTheirOwn) {
  GemmTuningCache other = cache_;
  other.threads = 3;
  EXPECT_NE(other.file(), cache_.file());
  other = cache_;
  other.machine.isa += " amx";
  EXPECT_NE(other.file(), cache_.file());
  other.machine = {"NVIDIA H200", "cuBLASLt 13.1.0"};
  other.threads = 0;
  EXPECT_EQ(other.file().filename().string().rfind("NVIDIA-H200_cuBLASLt-13.1.0_", 0), 0U) << other.file();
}

TEST(TuningFolder, LiesBesideTheRun) {
  EXPECT_EQ(tuning_folder("runs/one"), "runs/gemm_tuning");
  EXPECT_EQ(tuning_folder("runs/one/"), "runs/gemm_tuning");
  EXPECT_EQ(tuning_folder("one"), "gemm_tuning");
}

TEST_F(GemmTuningCacheTest, AFolderThatCannotBeIsRefusedBeforeAnythingIsMeasured) {
  folder_.write("file", "");
  cache_.folder = folder_.path("file/gemm_tuning");
  const std::vector<GemmProblem> products = {product(8)};
  EXPECT_TRUE(refuses([&] { complete(products); }, {"--run-dir in another folder"}));
  EXPECT_EQ(measured_, Sizes{});
}

}  // namespace
}  // namespace weft::execute
