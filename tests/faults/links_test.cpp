// A run folder of somebody else, as out of an archive or in a shared place: whatever lies where a run writes, nothing
// outside of the folder changes.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/faults/child_process.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class PlantedLinks : public ::testing::Test {
 protected:
  std::vector<std::string> training(const std::vector<std::string>& more) const {
    return testing::tiny_training(
        folder_.path("run").string(),
        testing::joined({"--save-every", "1", "--keep-last", "1", "--tensorboard", "true"}, more));
  }
  void SetUp() override {
    testing::ChildProcess first(training({"--steps", "1"}));
    ASSERT_EQ(first.wait().exit_code, 0) << first.errors();
    fs::rename(folder_.path("run"), folder_.path("template"));
  }
  /// Writes things outside of the run, which it must leave alone: a file, a folder like one of checkpoints, and one
  /// like TensorBoard's.
  void write_precious() const {
    fs::remove_all(folder_.path("precious"));
    folder_.write("precious/file", "precious\n");
    folder_.write("precious/empty", "");
    fs::create_directories(folder_.path("precious/folder"));
    fs::copy(folder_.path("template/checkpoints"), folder_.path("precious/folder"), fs::copy_options::recursive);
    folder_.write("precious/folder/.writing_step_00000002/model.safetensors", "half");
    folder_.write("precious/folder/.removing_step_00000000/a", "old");
    folder_.write("precious/folder/events.out.tfevents.0000000001.a.1.0", "events");
  }
  std::map<std::string, std::string> precious() const {
    std::map<std::string, std::string> content;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path("precious"))) {
      content[entry.path().string()] =
          entry.is_regular_file() ? testing::TemporaryFolder::read(entry.path()) : "a folder";
    }
    return content;
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(PlantedLinks, LeadNowhere) {
  struct Planted {
    std::string name;    // in the run folder
    std::string target;  // beside it
    int exit_code = 0;   // of a run that goes on
    bool hard = false;   // a hard link
    bool overwrites = false;
  };
  for (const Planted& planted :
       std::vector<Planted>{{.name = ".lock", .target = "file"},
                            {.name = ".lock", .target = "file", .hard = true},
                            {.name = ".lock", .target = "none"},
                            {.name = ".lock", .target = "folder"},
                            {.name = "log.txt", .target = "file"},
                            {.name = "log.txt", .target = "file", .hard = true},
                            {.name = "log.txt", .target = "none"},
                            {.name = "metrics.jsonl", .target = "empty"},
                            {.name = "metrics.jsonl", .target = "empty", .hard = true},
                            {.name = "config.toml", .target = "file", .overwrites = true},
                            {.name = "config.toml", .target = "file", .hard = true, .overwrites = true},
                            {.name = "graph.dot", .target = "file"},
                            {.name = "graph.svg", .target = "file", .hard = true},
                            {.name = "trace.json", .target = "file"},
                            {.name = "checkpoints", .target = "folder", .exit_code = 2},
                            {.name = "checkpoints", .target = "folder", .exit_code = 2, .overwrites = true},
                            {.name = "checkpoints", .target = "none", .exit_code = 2},
                            {.name = "tensorboard", .target = "folder", .exit_code = 2},
                            {.name = "tensorboard", .target = "folder", .exit_code = 2, .overwrites = true},
                            {.name = "checkpoints/step_00000002", .target = "folder"},
                            {.name = "checkpoints/step_00000000", .target = "folder/step_00000001"},
                            {.name = "checkpoints/.writing_step_00000002", .target = "folder"},
                            {.name = "checkpoints/.removing_step_00000001", .target = "folder"},
                            {.name = ".writing_config.toml", .target = "file"},
                            {.name = ".writing_metrics.jsonl", .target = "file", .hard = true}}) {
    SCOPED_TRACE(planted.name + " -> " + planted.target + (planted.hard ? ", hard" : ""));
    fs::remove_all(folder_.path("run"));
    fs::copy(folder_.path("template"), folder_.path("run"), fs::copy_options::recursive);
    write_precious();
    const fs::path link = folder_.path("run") / planted.name, target = folder_.path("precious") / planted.target;
    fs::remove_all(link);
    planted.hard ? fs::create_hard_link(target, link) : fs::create_symlink(target, link);
    const std::map<std::string, std::string> before = precious();
    testing::ChildProcess child(training(
        planted.overwrites ? std::vector<std::string>{"--steps", "2", "--overwrite"}
                           : std::vector<std::string>{"--steps", "2", "--resume", "auto", "--trace-steps", "1"}));
    EXPECT_EQ(child.wait().exit_code, planted.exit_code) << child.errors();
    if (planted.exit_code != 0) {
      EXPECT_TRUE(has_parts(child.errors(), {link.string(), "is a link", "fix: "}));
    }
    EXPECT_EQ(precious(), before);
  }
}

// Names that are no files.
TEST_F(PlantedLinks, WhatIsNoFileIsRefusedOrReplaced) {
  const std::map<std::string, std::function<void(const fs::path&)>> makers = {
      {"folder", [](const fs::path& path) { fs::create_directory(path); }},
      {"pipe", [](const fs::path& path) { ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); }}};
  for (const char* name : {".lock", "log.txt", "metrics.jsonl", "trace.json"}) {
    for (const auto& [what, make] : makers) {
      SCOPED_TRACE(std::string(name) + ", a " + what);
      fs::remove_all(folder_.path("run"));
      fs::copy(folder_.path("template"), folder_.path("run"), fs::copy_options::recursive);
      fs::remove_all(folder_.path("run") / name);
      make(folder_.path("run") / name);
      testing::ChildProcess child(training({"--steps", "2", "--resume", "auto", "--trace-steps", "1"}));
      const testing::Ending ending = child.wait();
      EXPECT_TRUE(ending.in_time);
      EXPECT_TRUE(ending.exit_code == 0 || ending.exit_code == 2 || ending.exit_code == 3) << ending.exit_code;
      if (ending.exit_code != 0 || std::string(name) == "log.txt") {
        const char* const said = name == std::string(".lock") ? "can't be locked" : name;
        EXPECT_TRUE(has_parts(child.errors(), {said})) << child.errors();
      }
    }
  }
}

}  // namespace
}  // namespace weft
