// The lines of a terminal and of a log.
#include "train/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>

#include "base/utf8.h"
#include "tests/base/messages.h"
#include "tests/base/pseudo_terminal.h"

namespace weft::train {
namespace {

StepMetrics metrics_of(std::int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = 2.34561;
  metrics.grad_norm = 0.981;
  metrics.lr = 1e-3;
  metrics.tokens_per_s = 61234;
  return metrics;
}

/// The output of `use` to a file through a Progress of 100 steps.
template <class Use>
std::string printed(Use use, std::int64_t log_every = 0) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  {
    Progress progress(0, 100, log_every, file.get());
    use(progress);
  }
  std::string text(static_cast<std::size_t>(std::ftell(file.get())), '\0');
  std::rewind(file.get());
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  return text;
}

/// The output on a terminal.
template <class Use>
std::string shown(Use use) {
  const testing::PseudoTerminal terminal(100);
  {
    Progress progress(0, 100, 0, terminal.screen());
    use(progress);
  }
  return terminal.shown();
}

std::string progress_line(const StepMetrics& metrics, std::int64_t first_step, std::int64_t steps, double elapsed) {
  return status_text(progress_status(metrics, first_step, steps, elapsed));
}

std::int64_t count(const std::string& text, char c) {
  return std::count(text.begin(), text.end(), c);
}

TEST(ProgressLine, ShowsWhatIsDoneAndWhatIsLeft) {
  // 50 of 200 steps in 30 s: 90 s left.
  EXPECT_EQ(progress_line(metrics_of(49), 0, 200, 30),
            " 25% [=====>              ] 50/200  loss 2.3456  norm 0.98  lr 1.0e-03  61.2K tok/s  ETA 1:30");
}

TEST(ProgressLine, CountsTheTimeOfAResumedRunFromItsFirstStep) {
  EXPECT_TRUE(has_parts(progress_line(metrics_of(109), 100, 200, 10), {"110/200", "ETA 1:30"}));
}

TEST(ProgressLine, TheLastStepShowsTheTimeItTook) {
  StepMetrics last = metrics_of(199);
  last.val_loss = 2.5;
  EXPECT_EQ(progress_line(last, 0, 200, 61),
            "100% [====================] 200/200  loss 2.3456  val 2.5000  lr 1.0e-03  61.2K tok/s  in 1:01");
}

// What a person watches stays; the rest is in the metrics.
TEST(ProgressLine, TakesLessThan80Columns) {
  StepMetrics metrics = metrics_of(123455);
  metrics.val_loss = 2.5;
  metrics.mfu = 0.414;
  const auto line = [&](std::int64_t steps, double elapsed) {
    return status_text(progress_status(metrics, 0, steps, elapsed), 79);
  };
  EXPECT_EQ(line(200000, 60000), " 61% 123456/200000  loss 2.3456  val 2.5000  61.2K tok/s  MFU 41%  ETA 10:20:01");
  metrics.val_loss.reset();
  EXPECT_EQ(line(200000, 60000), " 61% 123456/200000  loss 2.3456  lr 1.0e-03  61.2K tok/s  MFU 41%  ETA 10:20:01");
  metrics.step = 83;
  EXPECT_EQ(line(200, 84), " 42% 84/200  loss 2.3456  norm 0.98  lr 1.0e-03  61.2K tok/s  MFU 41%  ETA 1:56");
  for (const double loss : {2.3, 12345.6, 1e30}) {
    metrics.loss = loss;
    metrics.val_loss = loss;
    EXPECT_LT(text_width(line(1'000'000'000, 1e9)), 80U) << loss;
  }
}

TEST(ProgressLine, ShowsNan) {
  StepMetrics metrics = metrics_of(0);
  metrics.loss = NAN;
  EXPECT_TRUE(has_parts(progress_line(metrics, 0, 200, 1), {"loss nan"}));
}

TEST(Progress, ATerminalsLineIsRewrittenInPlace) {
  const std::string text = shown([](Progress& progress) {
    for (std::int64_t step = 0; step < 5; ++step) progress.update(metrics_of(step), static_cast<double>(step));
  });
  EXPECT_EQ(count(text, '\r'), 6);
  EXPECT_EQ(count(text, '\n'), 1);  // the last, where the run leaves it
  EXPECT_EQ(text.back(), '\n');
}

TEST(Progress, OnATerminalEvaluationsAndTheLastLineStay) {
  const std::string text = shown([](Progress& progress) {
    StepMetrics evaluated = metrics_of(97);
    evaluated.val_loss = 2.0;
    progress.update(evaluated, 97);
    progress.update(metrics_of(98), 98);
    progress.update(metrics_of(99), 99);
  });
  EXPECT_EQ(count(text, '\n'), 2);
}

TEST(Progress, ALogGetsALineNowAndThen) {
  const std::string text = printed([](Progress& progress) {
    for (std::int64_t step = 0; step < 100; ++step) {
      StepMetrics metrics = metrics_of(step);
      if (step == 44) metrics.val_loss = 2.0;
      progress.update(metrics, 0.5 * static_cast<double>(step));
    }
  });
  EXPECT_EQ(count(text, '\r'), 0);
  // Step 1; 21 and 41, 10 s apart; 45, which evaluated; 65 and 85; 100, the last.
  EXPECT_EQ(count(text, '\n'), 7);
  EXPECT_TRUE(has_parts(text, {" 1/100", " 21/100", " 41/100", " 45/100", " 65/100", " 85/100", " 100/100"}));
}

TEST(Progress, ALogGetsALineEverySoManySteps) {
  const std::string text = printed(
      [](Progress& progress) {
        for (std::int64_t step = 0; step < 100; ++step) progress.update(metrics_of(step), static_cast<double>(step));
      },
      40);
  EXPECT_EQ(count(text, '\n'), 4);
  EXPECT_TRUE(has_parts(text, {" 1/100", " 40/100", " 80/100", " 100/100"}));
}

TEST(Progress, AnEvaluationShowsABar) {
  const std::string text = shown([](Progress& progress) {
    progress.evaluating(0, 40);
    std::this_thread::sleep_for(std::chrono::milliseconds(110));
    progress.evaluating(10, 40);
    progress.evaluating(11, 40);  // too soon
  });
  EXPECT_TRUE(has_parts(text, {" 25% [====", "held-out batch 10/40"}));
  EXPECT_EQ(text.find("11/40"), std::string::npos);
}

TEST(Progress, MessagesStandAboveTheLine) {
  const std::string text = shown([](Progress& progress) {
    progress.message("first");
    progress.update(metrics_of(0), 1);
    progress.message("saved");
  });
  EXPECT_TRUE(text.starts_with("first\n\r"));
  EXPECT_TRUE(has_parts(text, {"\r\x1b[Ksaved\n\r\x1b[K  1% ["}));
}

}  // namespace
}  // namespace weft::train
