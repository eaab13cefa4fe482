#include "infer/stop_text.h"

#include <algorithm>

namespace satformer {

StopText::StopText(const Tokenizer& tokenizer, std::vector<std::string> stop)
    : decoder_(tokenizer), stop_(std::move(stop)) {
  std::erase_if(stop_, [](const std::string& text) { return text.empty(); });
}

void StopText::begin(const std::vector<std::int64_t>& prompt) {
  for (const std::int64_t id : prompt) decoder_.push(static_cast<std::int32_t>(id));
  decoder_.finish();  // bytes of a character that the prompt cut off are the prompt's
}

std::string StopText::push(std::int64_t id) {
  if (stopped_) return {};
  held_ += decoder_.push(static_cast<std::int32_t>(id));
  return release(false);
}

std::string StopText::finish() {
  if (stopped_) return {};
  held_ += decoder_.finish();
  return release(true);
}

std::string StopText::release(bool all) {
  std::size_t end = std::string::npos;
  for (const std::string& stop : stop_) end = std::min(end, held_.find(stop));
  std::size_t certain = held_.size();
  if (end != std::string::npos) {
    stopped_ = true;
    certain = end;
  } else if (!all) {
    for (const std::string& stop : stop_) {
      for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > held_.size() - certain; --n) {
        if (std::string_view(held_).substr(held_.size() - n) == std::string_view(stop).substr(0, n)) {
          certain = held_.size() - n;
          break;
        }
      }
    }
    // Characters stay whole.
    while (certain > 0 && certain < held_.size() && (static_cast<unsigned char>(held_[certain]) & 0xC0) == 0x80) {
      --certain;
    }
  }
  std::string text = held_.substr(0, certain);
  held_.erase(0, certain);
  return text;
}

}  // namespace satformer
