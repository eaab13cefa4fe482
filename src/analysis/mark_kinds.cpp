#include "analysis/mark_kinds.h"

#include <array>

#include "base/error.h"

namespace satformer {
namespace {

class MarkKinds : public TokenKinds {
 public:
  MarkKinds(const WindowSource& windows, std::int64_t count) : windows_(windows) {
    std::array<bool, num_token_kinds> occurs{};
    for (std::int64_t w = 0; w < count; ++w) {
      for (const TokenMark mark : marks_of(w)) occurs.at(static_cast<std::size_t>(mark.kind())) = true;
    }
    for (std::size_t k = 0; k < num_token_kinds; ++k) {
      if (!occurs[k]) continue;
      number_[k] = static_cast<std::uint8_t>(names_.size());
      names_.emplace_back(token_kind_names[k]);
    }
  }
  const std::vector<std::string>& names() const override { return names_; }
  std::vector<std::uint8_t> of(std::int64_t window, std::span<const std::int64_t> tokens) override {
    if (window < 0) fail(ExitCode::internal, "a text without a window has no marks");
    const std::vector<TokenMark>& marks = marks_of(window);
    std::vector<std::uint8_t> kinds;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      kinds.push_back(number_.at(static_cast<std::size_t>(marks[t].kind())));
    }
    return kinds;
  }

 private:
  const std::vector<TokenMark>& marks_of(std::int64_t window) {
    const auto width = static_cast<std::size_t>(windows_.seq_length() + 1);
    ids_.resize(width);
    marks_.resize(width);
    windows_.read(window, ids_, marks_);
    return marks_;
  }

  const WindowSource& windows_;
  std::vector<std::string> names_;
  std::array<std::uint8_t, num_token_kinds> number_{};
  std::vector<std::int64_t> ids_;
  std::vector<TokenMark> marks_;
};

}  // namespace

std::unique_ptr<TokenKinds> make_mark_kinds(const WindowSource& windows, std::int64_t count) {
  return std::make_unique<MarkKinds>(windows, count);
}

}  // namespace satformer
