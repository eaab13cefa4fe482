#include "track/metrics_log.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "io/file.h"
#include "io/test_folder.h"

namespace satformer {
namespace {

TEST(Metrics, OneLinePerStep) {
  const TestFolder folder;
  const std::string path = folder / "metrics.jsonl";
  MetricsLog log(path, 0);
  log.add(1, {{"train/loss", 2.5}});
  log.add(2, {{"train/loss", 2.0}});
  log.add(2, {{"val/loss", 3.0}});
  log.add(3, {{"train/loss", 1.0}});
  EXPECT_EQ(read_file(path),
            "{\"progress/step\":1,\"train/loss\":2.5}\n"
            "{\"progress/step\":2,\"train/loss\":2.0,\"val/loss\":3.0}\n"
            "{\"progress/step\":3,\"train/loss\":1.0}\n");
}

TEST(Metrics, ResumeDropsLaterAndCutLines) {
  const TestFolder folder;
  const std::string path = folder / "metrics.jsonl";
  write_file_atomic(path,
                    "{\"progress/step\":1}\n{\"progress/step\":2}\nnot json\n{\"progress/step\":3}\n{\"progress/st");
  MetricsLog log(path, 2);
  EXPECT_EQ(read_file(path), "{\"progress/step\":1}\n{\"progress/step\":2}\n");
  log.add(3, {{"a", 1}});
  EXPECT_EQ(read_file(path), "{\"progress/step\":1}\n{\"progress/step\":2}\n{\"progress/step\":3,\"a\":1}\n");
  MetricsLog anew(path, 0);
  EXPECT_EQ(read_file(path), "");
}

}  // namespace
}  // namespace satformer
