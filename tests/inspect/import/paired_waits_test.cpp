// Which event a wait is for, from the order of calls, times and marks.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "inspect/import/device_edges.h"
#include "inspect/import/readers/kineto_file.h"
#include "tests/inspect/import/kineto_text.h"

namespace weft::inspect {
namespace {

/// One thread that calls at once, long before the device begins. Kernels are named by hand; streams below 20 compute.
class Issued {
 public:
  Issued& wait() { return call("cudaStreamWaitEvent"); }
  Issued& record() { return call("cudaEventRecord"); }
  Issued& run(const std::string& name, std::int64_t stream, std::int64_t begin, std::int64_t length) {
    call(stream < 20 ? "cudaLaunchKernel" : "cudaLaunchKernelExC");
    text_.kernel(stream < 20 ? name : "ncclDevKernel_" + name, stream, 1'000'000 + begin, length, correlation_);
    return *this;
  }
  Issued& mark(const std::string& name) {
    if (!mark_.empty()) text_.mark(mark_, 77, mark_begin_, time_ - mark_begin_ + 50);
    mark_ = name;
    mark_begin_ = time_ + 50;
    return *this;
  }
  std::set<std::pair<std::string, std::string>> pairs() {
    mark("");
    const std::string content = text_.text();
    const TraceOutline outline = parse_kineto_outline(text_source(content), "t.json");
    const DeviceTrace trace = parse_kineto_events(text_source(content), outline, std::nullopt);
    const StepTimeline timeline = make_timeline(trace, std::nullopt);
    std::set<std::pair<std::string, std::string>> out;
    const auto name = [&](std::uint32_t op) {
      const std::string& text = trace.names.text(timeline.ops[op].name);
      return text.starts_with("nccl") ? text.substr(14) : text;
    };
    for (const FoundEdge& wait : pair_waits(trace, timeline)) out.emplace(name(wait.from), name(wait.to));
    return out;
  }

 private:
  Issued& call(std::string_view name) {
    text_.call(name, 77, time_ += 100, 60, ++correlation_);
    return *this;
  }

  testing::KinetoText text_;
  std::int64_t time_ = 0, correlation_ = 0, mark_begin_ = 0;
  std::string mark_;
};

using Pairs = std::set<std::pair<std::string, std::string>>;

TEST(PairedWaits, AreForTheEventsInTheirTurn) {
  // Both products are recorded before the first sum is launched.
  Issued issued;
  issued.run("a", 7, 0, 50'000).record().run("b", 7, 50'000, 50'000).record();
  issued.wait().run("sum_a", 20, 60'000, 80'000).record().wait().run("sum_b", 20, 140'000, 80'000).record();
  issued.wait().run("use_a", 7, 150'000, 1'000).wait().run("use_b", 7, 230'000, 1'000);
  EXPECT_EQ(issued.pairs(), (Pairs{{"a", "sum_a"}, {"b", "sum_b"}, {"sum_a", "use_a"}, {"sum_b", "use_b"}}));
}

TEST(PairedWaits, AreForWhatEndedWhenTheWorkBegan) {
  Issued issued;
  issued.run("gather", 20, 0, 90'000).record().run("sum", 21, 0, 40'000).record();
  issued.run("a", 7, 0, 10'000).wait().run("b", 7, 40'500, 10'000).wait().run("c", 7, 200'000, 10'000);
  EXPECT_EQ(issued.pairs(), (Pairs{{"sum", "b"}, {"gather", "c"}}));
}

TEST(PairedWaits, AreForWorkOfTheSameLayer) {
  Issued issued;
  issued.mark("layer 1 forward").run("gather1", 20, 0, 10'000).record();
  issued.mark("layer 2 forward").run("gather2", 20, 10'000, 10'000).record();
  issued.mark("layer 2 forward").wait().run("b", 7, 100'000, 10'000);
  EXPECT_EQ(issued.pairs(), (Pairs{{"gather2", "b"}}));
}

TEST(PairedWaits, OfUpdatesAreForTheBackwardPass) {
  Issued issued;
  issued.mark("forward").run("loss", 20, 0, 10'000).record();
  issued.mark("backward").run("grad", 20, 10'000, 10'000).record();
  issued.mark("optimizer").wait().run("adam", 7, 100'000, 10'000);
  EXPECT_EQ(issued.pairs(), (Pairs{{"grad", "adam"}}));
}

TEST(PairedWaits, ForAnEventAreForEarlierOnesOfItsStream) {
  Issued issued;
  issued.run("sum1", 20, 0, 10'000).record().run("sum2", 20, 10'000, 10'000).record();
  issued.run("a", 7, 0, 1'000).wait().run("b", 7, 20'000, 10'000).wait().run("c", 7, 90'000, 10'000);
  EXPECT_EQ(issued.pairs(), (Pairs{{"sum2", "b"}}));
}

TEST(PairedWaits, AreNeverForLaterWork) {
  Issued issued;
  issued.run("sum", 20, 0, 90'000).record().wait().run("a", 7, 5'000, 10'000);
  EXPECT_EQ(issued.pairs(), Pairs());
}

}  // namespace
}  // namespace weft::inspect
