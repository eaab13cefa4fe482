// The text of one growing sequence as it may be shown: complete characters only, and nothing that may yet turn out to
// be the beginning of a stop string.
#pragma once

#include <string>
#include <vector>

#include "io/tokenizer.h"

namespace satformer {

class StopText {
 public:
  // The prompt's ids decide how the first new piece joins them; they give no text. Empty stop strings are ignored.
  StopText(const Tokenizer& tokenizer, std::vector<std::string> stop);
  void begin(const std::vector<std::int64_t>& prompt);
  std::string push(std::int64_t id);         // text that is certain now
  std::string finish();                      // what was kept back
  bool stopped() const { return stopped_; }  // a stop string came: the text ends before it

 private:
  std::string release(bool all);

  StreamDecoder decoder_;
  std::vector<std::string> stop_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace satformer
