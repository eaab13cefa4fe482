#include "report/table.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/test_error.h"

namespace satformer {
namespace {

Table example() {
  Table table;
  table.caption = "Recall";
  table.columns = {{"model", false, ""}, {"accuracy", true, "%"}};
  table.rows = {{"a, \"b\"", Cell("71.2", 71.23456789012344, "± 0.3", true)},
                {"x|y <i>\nz", Cell(5.0)},
                {"宽", Cell("", std::numeric_limits<double>::quiet_NaN())}};
  table.notes = {"three seeds"};
  return table;
}

TEST(Table, CsvHoldsRawValuesAndQuotes) {
  EXPECT_EQ(table_csv(example()),
            "model,accuracy (%),accuracy note\r\n"
            "\"a, \"\"b\"\"\",71.23456789012344,± 0.3\r\n"
            "\"x|y <i>\nz\",5,\r\n"
            "宽,,\r\n");
}

TEST(Table, MarkdownEscapesWhatHasAMeaning) {
  EXPECT_EQ(table_markdown(example()),
            "Recall\n\n"
            "| model | accuracy (%) |\n"
            "| --- | ---: |\n"
            "| a, \"b\" | **71.2** ± 0.3 |\n"
            "| x\\|y &lt;i> z | 5 |\n"
            "| 宽 | – |\n"
            "\nthree seeds\n");
}

TEST(Table, TextIsAlignedByDisplayWidth) {
  EXPECT_EQ(table_text(example()),
            "Recall\n"
            "model      accuracy (%)\n"
            "─────────  ────────────\n"
            "a, \"b\"      71.2 ± 0.3*\n"
            "x|y <i> z            5\n"
            "宽                   –\n"
            "three seeds\n");
  EXPECT_EQ(display_width("e\u0301宽a"), 4);
}

TEST(Table, TextCannotMoveTheCursor) {
  Table table;
  table.columns = {{"t", false, ""}};
  table.rows = {{Cell("a\x1b[2J\r\nb\xc2\x9b")}};
  const std::string text = table_text(table);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(text.find("\xc2\x9b"), std::string::npos);
}

TEST(Table, ARowOfAnotherLengthIsRefused) {
  Table table = example();
  table.rows[1].pop_back();
  for (const auto write : {table_csv, table_markdown, table_text}) {
    EXPECT_EQ(error_text([&] { write(table); }, ExitCode::internal), "table 'Recall': row 1 has 1 cells, expected 2");
  }
}

TEST(Table, NumbersHaveFourDigits) {
  EXPECT_EQ(number_text(0.123456), "0.1235");
  EXPECT_EQ(number_text(1234567), "1234567");
  EXPECT_EQ(number_text(-2.5), "−2.5");
  EXPECT_EQ(number_text(-0.0), "0");
  EXPECT_EQ(number_text(1e20), "1e+20");
  EXPECT_EQ(number_text(std::numeric_limits<double>::infinity()), "–");
}

}  // namespace
}  // namespace satformer
