// Bad input, given to the command itself: it leaves with exit code 2 and a message that names the found value and the
// fix, it writes nothing, and it takes no memory to speak of. Some inputs of every kind: tests of their readers have
// all.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

using Arguments = std::vector<std::string>;

std::set<std::string> files_below(const fs::path& folder) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) files.insert(entry.path().string());
  return files;
}

/// Runs `weft` in `folder` and expects a refusal with all of `parts` in the message, and no file more or less.
void expect_refused(const testing::TemporaryFolder& folder, const Arguments& arguments,
                    const std::vector<std::string>& parts) {
  std::string command = "weft";
  for (const std::string& argument : arguments) command += " " + argument;
  SCOPED_TRACE(command);
  const std::set<std::string> before = files_below(folder.path());
  const testing::CommandResult result = testing::run_weft(arguments, folder.path().string());
  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_EQ(result.output, "");
  EXPECT_TRUE(result.errors.starts_with("weft: error: ")) << result.errors;
  EXPECT_TRUE(has_parts(result.errors, {"\n  fix: "}));
  EXPECT_TRUE(has_parts(result.errors, parts));
  EXPECT_EQ(files_below(folder.path()), before);
}

/// The largest of the commands run so far stayed below 1 GiB.
void expect_little_memory() {
  rusage usage{};
  ASSERT_EQ(getrusage(RUSAGE_CHILDREN, &usage), 0);
  EXPECT_LT(usage.ru_maxrss, 1 << 20);
}

std::string little_endian(std::uint64_t value, std::size_t bytes) {
  std::string text(bytes, '\0');
  std::memcpy(text.data(), &value, bytes);
  return text;
}

/// llm.c's token file: magic number, version, count, and the ids in `width` bytes each.
std::string token_file(std::uint64_t magic, std::uint64_t version, std::uint64_t count, std::size_t ids,
                       std::size_t width, std::uint64_t id) {
  std::string text = little_endian(magic, 4) + little_endian(version, 4) + little_endian(count, 4);
  text.resize(1024);
  for (std::size_t i = 0; i < ids; ++i) text += little_endian(id, width);
  return text;
}

std::string safetensors(std::string_view header, std::string_view data) {
  return little_endian(header.size(), 8) + std::string(header) + std::string(data);
}

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " isn't in:\n" << text;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(BadInput, Data) {
  struct Case {
    std::string name, content;
    Arguments flags;
    std::vector<std::string> parts;
  };
  const std::string text(4000, 'a');
  const std::vector<Case> cases = {
      {"empty.txt", "", {}, {"empty.txt' is empty"}},
      {"binary.txt", text + std::string(1, '\0') + text, {}, {"isn't text: it has a NUL byte at 4000"}},
      {"rows.jsonl", R"({"text": ")" + text + "\"}\n", {}, {"rows.jsonl' is a JSON file"}},
      {"ids32.bin", token_file(20240801, 7, 2000, 2000, 4, 0xffffffff), {}, {"token 0 has id 4294967295"}},
      {"bare_ids.bin",
       std::string(4000, '\xff'),
       {"--model.vocab", "50257"},
       {"token 0 has id 65535", "token 0 has id 4294967295", "below 50257"}},
      {"count.bin", token_file(20240520, 1, 0xffffffff, 10, 2, 1), {}, {"8589935614 bytes for the 4294967295 tokens"}},
  };
  for (const Case& bad : cases) {
    const testing::TemporaryFolder folder;
    folder.write(bad.name, bad.content);
    expect_refused(folder, testing::joined({"train", "--run-dir", "run", "--data", bad.name}, bad.flags), bad.parts);
  }
  expect_little_memory();
}

TEST(BadInput, DataPaths) {
  const testing::TemporaryFolder folder;
  folder.write("text.txt", std::string(4000, 'a'));
  folder.write("mixed/text.txt", "a");
  folder.write("mixed/ids.bin", "a");
  const auto train = [](const Arguments& flags) { return testing::joined({"train", "--run-dir", "run"}, flags); };
  expect_refused(folder, train({"--data", "missing.txt"}), {"'missing.txt' doesn't exist"});
  expect_refused(folder, train({"--data", std::string(5000, 'x')}), {"doesn't exist"});
  expect_refused(folder, train({"--data", "mixed"}), {"holds 1 .bin files among 2 files"});
  expect_refused(folder, train({"--data", "/dev/zero"}), {"isn't a regular file"});
  expect_refused(folder, train({"--data", "caf\xe9.txt"}), {"is not plain text"});
  expect_refused(folder, train({"--data", "text.txt", "--val-data", "missing"}), {"'missing' doesn't exist"});
  expect_little_memory();
}

TEST(BadInput, Weights) {
  const std::string four = R"({"dtype":"F32","shape":[4],"data_offsets":[0,16]})";
  struct Case {
    std::string content;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases = {
      {little_endian(std::uint64_t{1} << 60, 8) + "{}", {"claims a header of 1152921504606846976 bytes"}},
      {safetensors(R"({"a":)" + four, std::string(16, 'x')), {"isn't valid JSON"}},
      {safetensors(R"({"a":)" + nested(100'000) + "}", ""), {"nests values more than 64 deep"}},
      {safetensors(R"({"a":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}})", ""), {"a.shape[0] is -4"}},
      {safetensors(R"({"\u001b[2Ja":1})", ""), {"\\u001b[2Ja"}},
      {safetensors(R"({"a":)" + four + "}", std::string(16, 'x')), {"has no tensor 'wte.weight'"}},
  };
  for (const Case& bad : cases) {
    const testing::TemporaryFolder folder;
    folder.write("model.safetensors", bad.content);
    expect_refused(folder, {"train", "--model", "tiny", "--run-dir", "run", "--init-from", "model.safetensors"},
                   bad.parts);
  }
  const testing::TemporaryFolder folder;
  folder.write("index/model.safetensors.index.json", R"({"weight_map":{"wte.weight":"../shard.safetensors"}})");
  folder.write("shard.safetensors", safetensors("{}", ""));
  expect_refused(folder, {"train", "--model", "tiny", "--run-dir", "run", "--init-from", "index"},
                 {"names the file '../shard.safetensors'"});
  expect_little_memory();
}

TEST(BadInput, Checkpoints) {
  const testing::TemporaryFolder folder;
  const testing::CommandResult good = testing::succeeded(testing::run_weft(
      {"train", "--model.layers", "1", "--model.hidden", "16", "--model.heads", "2", "--seq-len", "8", "--global-batch",
       "1", "--steps", "1", "--eval-sequences", "1", "--trace-steps", "0", "--run-dir", "good"},
      folder.path().string()));
  const std::string step = "good/checkpoints/step_00000001/";
  const std::string manifest = testing::TemporaryFolder::read(folder.path(step + "manifest.json"));
  const std::string model = testing::TemporaryFolder::read(folder.path(step + "model.safetensors"));
  const std::string optimizer = testing::TemporaryFolder::read(folder.path(step + "optimizer.safetensors"));
  struct Case {
    std::string file, content;
    std::vector<std::string> parts;
  };
  const auto altered = [](std::string text, std::size_t at) {
    text.at(at) = static_cast<char>(text.at(at) ^ 1);
    return text;
  };
  const std::vector<Case> cases = {
      {"manifest.json", "{\"format\":" + nested(100'000) + "}", {"nests values more than 64 deep"}},
      {"manifest.json", replaced(manifest, "{", "{\"step\": 1,"), {"has the key \"step\" twice"}},
      {"manifest.json",
       replaced(manifest, "\"model.safetensors\"", "\"../model.safetensors\""),
       {"../model.safetensors"}},
      {"manifest.json", replaced(manifest, "\"heads\":2", "\"heads\":3"), {"heads"}},
      {"manifest.json", replaced(manifest, "\"hidden\":16", "\"hidden\":4611686018427387904"), {"4611686018427387904"}},
      {"model.safetensors", model.substr(0, model.size() - 1), {"model.safetensors"}},
      {"model.safetensors", altered(model, model.size() - 1), {"model.safetensors"}},
      {"model.safetensors", altered(model, 9), {"model.safetensors"}},
      {"optimizer.safetensors", optimizer + "x", {"optimizer.safetensors"}},
      {"optimizer.safetensors", altered(optimizer, optimizer.size() - 1), {"optimizer.safetensors"}},
  };
  for (const Case& bad : cases) {
    fs::remove_all(folder.path("bad"));
    fs::copy(folder.path(step), folder.path("bad"), fs::copy_options::recursive);
    folder.write("bad/" + bad.file, bad.content);
    expect_refused(folder, {"train", "good/config.toml", "--run-dir", "run", "--resume", "bad"}, bad.parts);
    if (bad.file != "optimizer.safetensors") {
      expect_refused(folder, {"eval", "bad"}, bad.parts);
      expect_refused(folder, {"generate", "bad", "--max-tokens", "1"}, bad.parts);
    }
  }
  expect_refused(folder, {"generate", step, "--top-p", "nan"}, {"--top-p = nan"});
  expect_refused(folder, {"generate", step, "--temperature", "inf"}, {"--temperature"});
  expect_refused(folder, {"generate", step, "--prompt", std::string(1000, 'x')}, {"a prompt of 1000 bytes"});
  fs::remove(folder.path("bad/optimizer.safetensors"));
  expect_refused(folder, {"train", "good/config.toml", "--run-dir", "run", "--resume", "bad"},
                 {"optimizer.safetensors"});
  expect_refused(folder, {"train", "--run-dir", "run", "--resume", step, "--model", "tiny"}, {"model.layers = 4"});
  expect_refused(folder, {"train", "--run-dir", "run", "--resume", "missing"}, {"'missing' doesn't exist"});
  expect_refused(folder, {"train", "--run-dir", "run", "--resume", "good/config.toml"}, {"no complete checkpoint"});
  expect_refused(folder, {"eval", "."}, {"holds no complete checkpoint"});
  expect_refused(folder, {"generate", std::string(5000, 'x')}, {"doesn't exist"});
  expect_little_memory();
}

TEST(BadInput, ConfigurationFiles) {
  struct Case {
    std::string content;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases = {
      {"", {"bad.toml is empty"}},
      {std::string(1000, '\0'), {"bad.toml line 1"}},
      {std::string(1000, '\xff'), {"bad.toml line 1"}},
      {std::string(1 << 20, '#'), {"is larger than 65536 bytes"}},
      {"steps = 1\nlearning-rate = 1\n", {"line 2: unknown key \"learning-rate\""}},
      {"run-dir = \"a\\u0000b\"\n", {"is not plain text"}},
      {"a = " + nested(10'000), {"line 1"}},
      {"[model]\nhidden = 100\nheads = 3\n", {"heads that divide the hidden size"}},
      {"[model]\nfamily = \"llama\"\nheads = 8\nkv-heads = 3\n", {"key/value heads that divide the heads"}},
      {"[model]\nfamily = \"gtp2\"\n", {"did you mean \"gpt2\"?"}},
  };
  for (const Case& bad : cases) {
    const testing::TemporaryFolder folder;
    folder.write("bad.toml", bad.content);
    expect_refused(folder, {"train", "bad.toml", "--run-dir", "run"}, bad.parts);
  }
  const testing::TemporaryFolder folder;
  expect_refused(folder, {"train", "."}, {". is a folder"});
  expect_refused(folder, {"train", "/dev/zero"}, {"is larger than 65536 bytes"});
  expect_little_memory();
}

TEST(BadInput, Flags) {
  struct Case {
    Arguments flags;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases = {
      {{"--set", "=2"}, {"unknown key"}},
      {{"--set", std::string(100'000, 'x') + "=2"}, {"unknown key", "(100"}},
      {{"--goldfish", "h=100000"}, {"contexts that fit into a sequence"}},
      {{"--model.hidden", "100", "--model.heads", "3"}, {"set model.heads to one of 1, 2, 4, 5"}},
      {{"--model", "ids.bin"}, {"'ids.bin' is no folder"}},
      {{"--model", "llama-8b", "--data", "ids.bin", "--global-batch", "1", "--seq-len", "8", "--ranks", "1"},
       {"need at least", "memory"}},
      {{"--grid", "data=8192", "--global-batch", "8192"}, {"at most 4096", "mpirun -np 8192"}},
      {{"--grid", "pipe=8"}, {"8 pipeline stages (pipe = 8, 1 on each rank) for 4 layers", "smaller pipe"}},
      {{"--grid", "pipe=2", "--stages", "1,2"}, {"stages = 1,2: 2 stages of 3 layers", "4 layers in all"}},
      {{"--grid", "pipe=2", "--policy", "axonn"}, {"axonn", "1f1b"}},
      {{"--stages", "2,2"}, {"without a pipeline", "--grid pipe=2"}},
  };
  for (const Case& bad : cases) {
    const testing::TemporaryFolder folder;
    folder.write("ids.bin", token_file(20240801, 7, 2000, 2000, 4, 1));
    expect_refused(folder, testing::joined({"train", "--run-dir", "run"}, bad.flags), bad.parts);
  }
  expect_little_memory();
}

// Whatever a file is called: its name clears no screen, sets no title and turns no writing round.
TEST(BadInput, NamesOfFilesSteerNoTerminal) {
  const testing::TemporaryFolder folder;
  const std::string name = "a\x1b[2J\x1b]0;t\x07\xc2\x9b\xe2\x80\xae";
  for (const char* ending : {".txt", ".graph.json", ".json", ".sqlite", ".toml", ".safetensors", ".bin"}) {
    folder.write(name + ending, ending == std::string(".sqlite") ? std::string("SQLite format 3\0", 16) : "{[");
  }
  fs::create_directory(folder.path(name));
  for (const Arguments& arguments : std::vector<Arguments>{{"train", "--run-dir", "run", "--data", name},
                                                           {"train", "--run-dir", "run", "--data", name + ".none"},
                                                           {"train", "--run-dir", "run", "--data", name + ".bin"},
                                                           {"train", name + ".toml", "--run-dir", "run"},
                                                           {"train", "--run-dir", "run", "--init-from", name},
                                                           {"train", "--run-dir", "run", "--resume", name},
                                                           {"train", "--run-dir", name + ".txt"},
                                                           {"train", "--run-dir", "run", "--tokenizer", name},
                                                           {"eval", name + ".safetensors"},
                                                           {"generate", name},
                                                           {"export", name, "-o", "out"},
                                                           {"simulate", name + ".graph.json"},
                                                           {"simulate", "--machine", "./" + name + ".toml"},
                                                           {"simulate", "--profile", name + ".json"},
                                                           {"simulate", "--policy", "file:" + name + ".json"},
                                                           {"simulate", "--policy", "./" + name + ".py:mine"},
                                                           {"simulate", "--policy", "./" + name + ".so"},
                                                           {"trace", "import", name + ".json", "-o", "s.graph.json"},
                                                           {"trace", "import", name + ".sqlite", "-o", "s.graph.json"},
                                                           {"timeline", name + ".json"},
                                                           {"diff", name + ".json", name + ".json"},
                                                           {"report", name, "-o", "r.html"},
                                                           {"bench", "--instances", name},
                                                           {"tokenize", name + ".none", "-o", "t.bin"}}) {
    const testing::CommandResult result = testing::run_weft(arguments, folder.path().string());
    SCOPED_TRACE(::testing::PrintToString(arguments));
    EXPECT_EQ(result.exit_code, 2) << result.errors;
    EXPECT_TRUE(has_parts(result.errors, {"error: ", "a\\x1b[2J\\x1b]0;t\\x07\\u009b\\u202e"})) << result.errors;
    for (const std::string& text : {result.errors, result.output}) {
      EXPECT_EQ(text.find_first_of("\x1b\x07"), std::string::npos);
      EXPECT_EQ(text.find("\xc2\x9b"), std::string::npos);
      EXPECT_EQ(text.find("\xe2\x80\xae"), std::string::npos);
    }
  }
}

TEST(BadInput, FlagsOfTheOtherCommands) {
  const testing::TemporaryFolder folder;
  expect_refused(folder, {"train", "--resume", "auto"}, {"resume = auto without a run-dir"});
  expect_refused(folder, {"generate", "run", "--temperature", "-1"}, {"--temperature"});
  expect_refused(folder, {"generate", "run", "--max-tokens", "99999999999999999999"}, {"--max-tokens"});
  expect_refused(folder, {"generate", "run", "--seed", "x"}, {"--seed"});
  expect_refused(folder, {"eval", "run", "--seq-len", "0x10"}, {"doesn't exist"});
  expect_refused(folder, {"graph", "--kind", "inference"}, {"--kind"});
  expect_refused(folder, {"graph", "--policy", "none-such", "-o", "a.dot"}, {"none-such"});
  expect_refused(folder, {"graph", "--model.heads", "7", "-o", "a.dot"}, {"model.heads = 7"});
}

}  // namespace
}  // namespace weft::tools
