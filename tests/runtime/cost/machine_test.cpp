#include "runtime/cost/machine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "runtime/cost/cost_model.h"
#include "runtime/cost/machine_numbers.h"
#include "tests/base/messages.h"

namespace weft::cost {
namespace {

const std::string kSmall = R"(name = "box"
devices-per-node = 2
[device]
flops-f32 = 1e12
flops-bf16 = { value = 4e12, source = "a paper", status = "unverified" }
memory-bandwidth = 1e11
memory-bytes = 1_000_000
[node]
latency = 1e-6
bandwidth = 1e10
[network]
latency = 2e-6
bandwidth = 1e9
)";

std::string refusal(const std::string& text) {
  return testing::message_of<UserError>([&] { parse_machine(text, "box.toml"); });
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(Machine, CongestionGrowsWithTheLogarithmOfTheNodes) {
  const Machine machine = parse_machine(kSmall +
                                            "[[network.congestion]]\nnodes = 4\nfactor = 1.5\n"
                                            "[[network.congestion]]\nnodes = 64\nfactor = 3.5\n",
                                        "box.toml");
  EXPECT_EQ(machine.congestion_of(1), 1);
  EXPECT_EQ(machine.congestion_of(2), 1.25);
  EXPECT_EQ(machine.congestion_of(4), 1.5);
  EXPECT_EQ(machine.congestion_of(16), 2.5);
  EXPECT_EQ(machine.congestion_of(64), 3.5);
  EXPECT_EQ(machine.congestion_of(1 << 20), 3.5);
  EXPECT_EQ(Machine().congestion_of(1 << 20), 1);
  EXPECT_NE(refusal(kSmall + "[[network.congestion]]\nnodes = 1\nfactor = 2\n"), "");
  EXPECT_NE(refusal(kSmall + "[[network.congestion]]\nnodes = 8\nfactor = 0.5\n"), "");
  EXPECT_NE(refusal(kSmall + "[[network.congestion]]\nnodes = 8\nfactor = 2\n" +
                    "[[network.congestion]]\nnodes = 8\nfactor = 3\n"),
            "");
}

TEST(Machine, ReadsNumbersPlainAndWithTheirSources) {
  const Machine machine = parse_machine(kSmall, "box.toml");
  EXPECT_EQ(machine.name, "box");
  EXPECT_EQ(machine.devices_per_node, 2);
  EXPECT_EQ(machine.flops(DType::f32), 1e12);
  EXPECT_EQ(machine.flops(DType::bf16), 4e12);
  EXPECT_EQ(machine.memory_bytes, 1e6);
  EXPECT_EQ(machine.network.bandwidth, 1e9);
  EXPECT_EQ(machine.network_ports, 1);
  EXPECT_FALSE(machine.shared_cores);
  ASSERT_EQ(machine.provenance.size(), 1U);
  EXPECT_EQ(machine.provenance[0].key, "device.flops-bf16");
  EXPECT_EQ(machine.provenance[0].source, "a paper");
  EXPECT_EQ(machine.provenance[0].status, "unverified");
  const Machine sourced =
      parse_machine(replaced(kSmall, "per-node = 2", "per-node = {value = 3, source = \"a page\"}") +
                        "[[slowdown]]\nfactor = {value = 2, status = \"assumed\"}\n",
                    "box.toml");
  EXPECT_EQ(sourced.devices_per_node, 3);
  ASSERT_EQ(sourced.provenance.size(), 3U);
  EXPECT_EQ(sourced.provenance[0].key, "devices-per-node");
  EXPECT_EQ(sourced.provenance[2].key, "slowdown.factor");
  EXPECT_EQ(sourced.provenance[2].item, 0U);
  const std::string plain_factor = "[[slowdown]]\ncompute = \"gemm\"\nfactor = 2\n";
  const Machine second =
      parse_machine(kSmall + plain_factor + "[[slowdown]]\nfactor = {value = 2, status = \"assumed\"}\n", "box.toml");
  ASSERT_EQ(second.provenance.size(), 2U);
  EXPECT_EQ(second.provenance[1].item, 1U);
}

TEST(Machine, ReadsTables) {
  const Machine machine = parse_machine(kSmall + R"(ports = 4
[[node.group]]
ranks = 2
stride = 1
bandwidth = 7e9
[transport]
cpu = 1e-10
shared_cores = true
[[slowdown]]
compute = "gemm"
collective = "all_reduce"
factor = 1.3
[[slowdown]]
collective = "all_reduce"
factor = 1.1
[[calibration]]
kind = "gemm"
m = 8
n = 9
k = 10
dtype = "f32"
seconds = 1.0
error = 0.5
source = "a clock"
)",
                                        "box.toml");
  EXPECT_EQ(machine.network_ports, 4);
  ASSERT_EQ(machine.node_groups.size(), 1U);
  EXPECT_EQ(machine.node_groups[0].stride, 1);
  EXPECT_TRUE(machine.shared_cores);
  EXPECT_EQ(machine.slowdown("gemm", "all_reduce"), 1.3);
  EXPECT_EQ(machine.slowdown("add", "all_reduce"), 1.1);
  EXPECT_EQ(machine.slowdown("gemm", "all_gather"), 1.0);
  ASSERT_EQ(machine.calibration.size(), 1U);
  EXPECT_EQ(machine.calibration[0].k, 10);
  EXPECT_EQ(machine.calibration[0].dtype, DType::f32);
}

const std::string kGemm = R"([[gemm]]
m = 512
n = 256
k = 128
layout = "nt"
dtype = "bf16"
seconds = 1e-4
source = "a clock"
)";
const std::string kAttention = R"([[attention]]
kind = "backward"
batch = 2
heads = 4
seq = 128
head-dim = 64
dtype = "f32"
seconds = { value = 1e-3, source = "a clock", status = "measured" }
error = 0.2
)";

TEST(Machine, ReadsMeasuredPoints) {
  const Machine machine =
      parse_machine(replaced(kSmall, "[node]", "efficiency = 0.5\n[node]") + kGemm + kAttention, "box.toml");
  EXPECT_EQ(machine.efficiency, 0.5);
  ASSERT_EQ(machine.gemms.size(), 1U);
  const GemmPoint& gemm = machine.gemms[0];
  EXPECT_EQ(point_text(gemm), "gemm 512x256x128 nt bf16");
  EXPECT_EQ(gemm.seconds, 1e-4);
  EXPECT_EQ(gemm.error, kPointError);
  EXPECT_EQ(gemm.source, "a clock");
  ASSERT_EQ(machine.attention.size(), 1U);
  const AttentionPoint& attention = machine.attention[0];
  EXPECT_EQ(point_text(attention), "attention backward, 2 x 4 heads of 64, seq 128, f32");
  EXPECT_EQ(attention.seconds, 1e-3);
  EXPECT_EQ(attention.error, 0.2);
  const Machine plain = parse_machine(kSmall, "box.toml");
  EXPECT_TRUE(plain.gemms.empty());
  EXPECT_EQ(plain.efficiency, 1);
}

using Cases = std::vector<std::pair<std::string, std::vector<std::string>>>;

TEST(Machine, RefusesImplausiblePoints) {
  for (const auto& [text, parts] :
       Cases{{replaced(kGemm, "m = 512", "m = 0"), {"line 15", "gemm[0].m is 0"}},
             {replaced(kGemm, "\"nt\"", "\"tt\""), {"line 18", "gemm[0].layout", "nn, nt, tn"}},
             {replaced(kGemm, "bf16", "i32"), {"gemm[0].dtype"}},
             {replaced(kGemm, "1e-4", "0"), {"gemm[0].seconds is 0", "above 0"}},
             {replaced(kGemm, "1e-4", "8e-7"),
              {"line 20", "gemm[0].seconds means 4.19e+13 operations a second, 10.5 times"}},
             {replaced(kGemm, "k = 128\n", ""), {"gemm[0] has no k"}},
             {replaced(kGemm, "layout", "layouts"), {"did you mean gemm[0].layout?"}},
             {kGemm + kGemm, {"line 22", "gemm[1] measures what gemm[0] does", "each point once"}},
             {kAttention + replaced(replaced(kAttention, "batch = 2", "batch = 4"), "heads = 4", "heads = 2"),
              {"attention[1] measures what attention[0] does"}},
             {replaced(kAttention, "backward", "back"), {"attention[0].kind", "forward, backward"}},
             {replaced(kAttention, "1e-3", "1e-9"), {"attention[0].seconds means"}},
             {replaced(kAttention, "head-dim = 64", "head-dim = -64"), {"attention[0].head-dim is -64"}},
             {replaced(kAttention, "error = 0.2", "error = 0"), {"attention[0].error"}}}) {
    EXPECT_TRUE(has_parts(refusal(kSmall + text), parts));
  }
  // A product that is shorter than the start of its task may be faster than device.flops, which count the start.
  EXPECT_EQ(refusal(replaced(kSmall, "[node]", "task-overhead = 1e-4\n[node]") + replaced(kGemm, "1e-4", "8e-7")), "");
  // Equal sizes in another layout are another point.
  EXPECT_EQ(refusal(kSmall + kGemm + replaced(kGemm, "\"nt\"", "\"tn\"")), "");
  EXPECT_TRUE(has_parts(refusal(replaced(kSmall, "[node]", "efficiency = 1.5\n[node]")), {"device.efficiency is 1.5"}));
}

TEST(Machine, RefusesWithFileLineAndWhatWasMeant) {
  for (const auto& [text, parts] :
       Cases{{replaced(kSmall, "latency = 1e-6", "latensy = 1e-6"), {"box.toml line 9", "did you mean node.latency?"}},
             {kSmall + "prts = 4\n", {"box.toml line 14", "unknown key network.prts", "did you mean network.ports?"}},
             {replaced(kSmall, "[network]", "[netwrk]"), {"line 11", "did you mean network?"}},
             {replaced(kSmall, "memory-bandwidth = 1e11\n", ""), {"line 3", "device has no memory-bandwidth"}},
             {replaced(kSmall, "= 1e12", "= \"1e12\""), {"line 4", "device.flops-f32 is \"1e12\"", "a number"}},
             {replaced(kSmall, "= 1e12", "= -1"), {"line 4", "device.flops-f32 is -1", "above 0"}},
             {replaced(kSmall, "= 1e12", "= inf"), {"line 4", "inf"}},
             {replaced(kSmall, "= 1e12", "= nan"), {"line 4", "nan"}},
             {replaced(kSmall, "per-node = 2", "per-node = 2.5"), {"line 2", "devices-per-node is 2.5", "an integer"}},
             {replaced(kSmall, "per-node = 2", "per-node = 0"), {"line 2", "an integer from 1"}},
             {replaced(kSmall, "value = 4e12", "valu = 4e12"), {"line 5", "device.flops-bf16.value"}},
             {kSmall + "[[slowdown]]\nfactor = 0.5\n", {"line 15", "slowdown[0].factor is 0.5", "from 1 to 1000"}},
             {kSmall + "[[slowdown]]\ncompute = \"gem\"\nfactor = 2\n", {"line 15", "did you mean \"gemm\"?"}},
             {kSmall + "[slowdown]\nfactor = 2\n", {"line 14", "[[slowdown]]"}},
             {kSmall + "bandwidth = 3\n", {"line 14"}},
             {kSmall + "latency_ = \n", {"line 14"}},
             {replaced(kSmall, "memory-bytes", "memory_bytes = 3\nmemory-bytes"), {"given twice"}},
             {"", {"has no name"}},
             {std::string(100'000, '#'), {"larger than"}}}) {
    EXPECT_TRUE(has_parts(refusal(text), parts));
    EXPECT_TRUE(has_parts(refusal(text), {"box.toml"}));
  }
  EXPECT_THROW(load_machine("/no/such/machine.toml"), UserError);
  EXPECT_THROW(load_machine("/"), UserError);
}

TEST(Machine, RefusesNumbersThatNoDeviceHas) {
  const std::string eight = replaced(kSmall, "per-node = 2", "per-node = 8");
  const std::string group = "[[node.group]]\nranks = 4\nstride = 1\nbandwidth = 1e10\n";
  const std::string slowdown = "[[slowdown]]\ncompute = \"gemm\"\nfactor = 2\n";
  for (const auto& [text, parts] :
       Cases{{replaced(kSmall, "1_000_000", "0.4"), {"device.memory-bytes is 0.4"}},
             {replaced(kSmall, "1_000_000", "40"), {"device.memory-bytes is 40"}},
             {replaced(kSmall, "= 1e11", "= 0.5"), {"device.memory-bandwidth is 0.5"}},
             {replaced(kSmall, "bandwidth = 1e10", "bandwidth = 1e-3"), {"node.bandwidth"}},
             {replaced(kSmall, "bandwidth = 1e9", "bandwidth = 0.9"), {"network.bandwidth"}},
             {fmt::format("{}{}{}", eight, group, group), {"node.group[1]"}},
             {eight + replaced(group, "= 4", "= 1"), {"node.group[0].ranks"}},
             {eight + replaced(group, "1e10", "0.1"), {"node.group[0].bandwidth"}},
             {fmt::format("{}{}{}", kSmall, slowdown, slowdown), {"slowdown[1]"}},
             {kSmall + "[[calibration]]\nkind = \"all_reduce\"\nranks = 2\nbytes = 0.4\nseconds = 1\nerror = 1\n"
                       "source = \"s\"\n",
              {"calibration[0].bytes"}}}) {
    EXPECT_TRUE(has_parts(refusal(text), parts)) << refusal(text);
  }
  EXPECT_EQ(refusal(eight + group + replaced(group, "stride = 1", "stride = 2") + slowdown), "");
}

// Readable files whose numbers are of the right type. No two are wrong in one way.
TEST(Machine, RefusesWhatItWouldTakeForSomethingElse) {
  const std::string eight = replaced(kSmall, "per-node = 2", "per-node = 8");
  const auto reduce = [](const std::string& members) {
    return kSmall + "[[calibration]]\nkind = \"all_reduce\"\nseconds = 1\nerror = 1\nsource = \"s\"\n" + members;
  };
  const std::string any = "[[slowdown]]\nfactor = 2\n", gemm = "[[slowdown]]\ncompute = \"gemm\"\nfactor = 3\n";
  for (const auto& [text, parts] :
       Cases{{eight + "[[node.group]]\nranks = 8\nstride = 2\nbandwidth = 1e10\n", {"node.group[0]", "14 ranks after"}},
             {eight + "[[node.group]]\nranks = 2\nstride = 0\nbandwidth = 1e10\n", {"node.group[0].stride is 0"}},
             {eight + "[node.group]\nranks = 2\nstride = 1\nbandwidth = 1e10\n", {"[[node.group]]"}},
             {replaced(kSmall, "[network]", "small-bandwidth = 0.4\n[network]"), {"node.small-bandwidth is 0.4"}},
             {replaced(kSmall, "[network]", "pair-bandwidth = 0.4\n[network]"), {"node.pair-bandwidth is 0.4"}},
             {any + kSmall, {"name"}},
             {fmt::format("{}{}{}", kSmall, any, gemm), {"slowdown[1]", "never counts", "slowdown[0]"}},
             {kSmall + "[[slowdown]]\ncompute = \"all_reduce\"\nfactor = 2\n", {"slowdown[0].compute"}},
             {reduce("ranks = 1\nbytes = 1e6\n"), {"calibration[0].ranks is 1"}},
             {reduce("ranks = 2\nbytes = 1e6\nm = 8\n"), {"calibration[0].m"}},
             {reduce("ranks = 2\nbytes = 1e6\ndtype = \"bf16\"\n"), {"calibration[0].dtype"}},
             {replaced(kSmall, "\"box\"", "\"\""), {"name is \"\""}},
             {replaced(kSmall, "value = 4e12", "value = \"4e12\""), {"device.flops-bf16.value is \"4e12\""}},
             {replaced(kSmall, "value = 4e12, ", ""), {"device.flops-bf16 has no value"}},
             {replaced(kSmall, "value = 4e12", "value = { value = 4e12 }"), {"device.flops-bf16.value"}},
             {replaced(kSmall, "\"a paper\"", "1999"), {"device.flops-bf16.source is 1999"}},
             {replaced(kSmall, "= 1e12", "= 1979-05-27"), {"device.flops-f32"}},
             {replaced(kSmall, "= 1e12", "= [1e12, 2e12]"), {"device.flops-f32"}},
             {replaced(kSmall, "= 1e12", "= true"), {"device.flops-f32 is true"}},
             {replaced(kSmall, "per-node = 2", "per-node = 1e3"), {"devices-per-node", "an integer"}},
             {replaced(kSmall, "per-node = 2", "per-node = 99999999999999999999"), {"line 2"}},
             {replaced(kSmall, "per-node = 2", "per-node = 2_000_000_000"), {"devices-per-node is 2000000000"}},
             {replaced(kSmall, "[device]", "[[device]]"), {"device"}},
             {kSmall + "hierarchical = 1\n", {"network.hierarchical is 1"}},
             {"device.flops-f32 = 1e12\n" + kSmall, {"device"}},
             {replaced(kSmall, "_000_000", "_000_000 # \xff"), {"line 7"}},
             {"\xff\xfe" + std::string("n\0a\0m\0e\0", 8), {"line 1"}},
             {"{\"name\": \"box\"}", {"line 1"}}}) {
    EXPECT_TRUE(has_parts(refusal(text), parts)) << text << refusal(text);
  }
  EXPECT_EQ(refusal(eight + "[[node.group]]\nranks = 4\nstride = 2\nbandwidth = 1e10\n"), "");
  EXPECT_EQ(refusal(fmt::format("{}{}{}", kSmall, gemm, any)), "");
  EXPECT_EQ(refusal("\xef\xbb\xbf" + kSmall), "") << "a byte order mark";
}

TEST(Machine, RatesAThousandTimesOffAreTold) {
  const auto lines = [](const std::string& from, const std::string& to) {
    return implausible_numbers(parse_machine(replaced(kSmall, from, to), "box.toml")).size();
  };
  EXPECT_EQ(lines("1_000_000", "1_000_000_000"), 0U);
  EXPECT_EQ(lines("flops-f32 = 1e12", "flops-f32 = 312"), 1U);  // in Tflop/s
  EXPECT_EQ(lines("flops-f32 = 1e12", "flops-f32 = 1e21"), 1U);
  EXPECT_EQ(lines("bandwidth = 1e10", "bandwidth = 25"), 1U);  // in GB/s
  EXPECT_EQ(lines("latency = 2e-6", "latency = 20"), 1U);      // in us
  EXPECT_EQ(lines("1_000_000", "80e18"), 1U);
}

std::vector<std::filesystem::path> machine_files() {
  std::vector<std::filesystem::path> files;
  for (const char* folder : {WEFT_SOURCE_DIR "/machines", WEFT_SOURCE_DIR "/machines/overlap"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  return files;
}

TEST(Machine, EveryFileThatComesWithWeftLoadsAndMeetsItsCalibrationPoints) {
  ASSERT_GE(machine_files().size(), 5U);
  std::size_t points = 0;
  for (const std::filesystem::path& file : machine_files()) {
    const Machine machine = load_machine(file.string());
    EXPECT_EQ(machine.name, file.stem().string());
    EXPECT_FALSE(machine.source.empty()) << file;
    EXPECT_FALSE(machine.provenance.empty()) << file;
    for (const Provenance& number : machine.provenance) {
      EXPECT_FALSE(number.source.empty() && number.status.empty()) << file << " " << number.key;
    }
    for (const CalibrationPoint& point : machine.calibration) {
      ++points;
      const double predicted = predicted_seconds(machine, point);
      EXPECT_LE(std::abs(predicted / point.seconds - 1), point.error)
          << machine.name << ": " << point.kind << " of " << point.bytes << " bytes on " << point.ranks
          << " ranks: " << predicted << " s for " << point.seconds << " s (" << point.source << ")";
    }
  }
  EXPECT_GE(points, 15U);
  const Machine kept = find_machine("overlap/frontier", machine_folders());
  EXPECT_EQ(kept.name, "frontier");
  EXPECT_TRUE(refuses([] { (void)find_machine("overlap/nowhere", machine_folders()); }, {"overlap/nowhere"}));
}

TEST(Machine, ThePageNamesEveryKeyOfTheFiles) {
  std::ifstream page(WEFT_SOURCE_DIR "/docs/machines.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  for (const std::filesystem::path& path : machine_files()) {
    std::ifstream file(path);
    std::string line, table;
    while (std::getline(file, line)) {
      if (line.starts_with("["))
        table = line.substr(line.find_first_not_of('['), line.find(']') - line.find_first_not_of('['));
      const std::size_t equals = line.find(" =");
      // Points in lists of their own have the keys of [[gemm]] and [[attention]].
      if (line.starts_with("#") || line.starts_with("[") || line.starts_with("  {") || equals == std::string::npos)
        continue;
      const std::string key = line.substr(0, equals);
      const auto names = [&](const std::string& words) { return text.find(words) != std::string::npos; };
      const bool listed = line.starts_with("[") || names(fmt::format("`{}`", key)) ||
                          names(fmt::format("`{}.{}`", table, key)) || names(fmt::format("\n{} = ", key));
      EXPECT_TRUE(listed) << path << ": " << table << "." << key;
    }
  }
}

void expect_same(const Machine& machine, const Machine& read) {
  EXPECT_EQ(read.name, machine.name);
  EXPECT_EQ(read.source, machine.source);
  const std::vector<MachineNumber> before = machine_numbers(machine), after = machine_numbers(read);
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after[i].key, before[i].key);
    EXPECT_EQ(after[i].value, before[i].value) << before[i].key;
    EXPECT_EQ(after[i].source, before[i].source) << before[i].key;
    EXPECT_EQ(after[i].status, before[i].status) << before[i].key;
  }
  EXPECT_EQ(unsure_numbers(read), unsure_numbers(machine));
  ASSERT_EQ(read.calibration.size(), machine.calibration.size());
  for (std::size_t i = 0; i < read.calibration.size(); ++i) {
    EXPECT_EQ(point_text(read.calibration[i]), point_text(machine.calibration[i]));
    EXPECT_NEAR(read.calibration[i].seconds / machine.calibration[i].seconds, 1, 1e-3);
    EXPECT_EQ(read.calibration[i].error, machine.calibration[i].error);
    EXPECT_EQ(read.calibration[i].source, machine.calibration[i].source);
  }
}

TEST(MachineToml, WritesWhatIsReadBack) {
  for (const std::filesystem::path& file : machine_files()) {
    const Machine machine = load_machine(file.string());
    expect_same(machine, parse_machine(machine_toml(machine), "written"));
  }
}

TEST(MachineToml, WritesPointsListsAndAnyText) {
  Machine machine;
  machine.name = "a \"box\"\n\\";
  machine.source = "µ";
  machine.efficiency = 0.25;
  machine.gemms = {
      {.m = 1, .n = 2, .k = 3, .trans_a = true, .dtype = DType::bf16, .seconds = 1.23456e-7, .source = "x"},
      {.m = 4, .n = 5, .k = 6, .trans_b = true, .seconds = 2, .error = 0.15}};
  machine.attention = {{.backward = true, .batch = 1, .heads = 2, .seq = 3, .head_dim = 4, .seconds = 1e-4}};
  CalibrationPoint product;
  product.kind = "gemm";
  product.m = product.n = product.k = 100;
  product.seconds = 1;
  machine.calibration = {product};
  machine.slowdowns = {{"gemm", "", 1.5}, {"", "all_reduce", 1.25}};
  machine.devices_per_node = 2;
  machine.node_groups = {{2, 1, 5e9}};
  machine.shared_cores = true;
  machine.hierarchical = true;
  machine.congestion = {{16, 1.5}, {1024, 2}};
  machine.provenance = {{"slowdown.factor", "a clock", "measured", 1}, {"network.latency", "", "assumed", 0}};
  const Machine read = parse_machine(machine_toml(machine), "written");
  expect_same(machine, read);
  ASSERT_EQ(read.gemms.size(), 2U);
  EXPECT_EQ(point_text(read.gemms[0]), "gemm 1x2x3 tn bf16");
  EXPECT_EQ(read.gemms[0].seconds, 1.235e-7);
  EXPECT_EQ(read.gemms[0].source, "x");
  EXPECT_EQ(read.gemms[1].error, 0.15);
  ASSERT_EQ(read.attention.size(), 1U);
  EXPECT_EQ(point_text(read.attention[0]), point_text(machine.attention[0]));
  EXPECT_TRUE(read.shared_cores);
}

}  // namespace
}  // namespace weft::cost
