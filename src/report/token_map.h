// Values over the tokens of a text (gates per layer and head, losses) for an interactive view: the text coloured by
// one track above a map of all tracks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/palette.h"

namespace satformer {

struct TokenScale {
  std::string name = {};  // of the values: "gate", "loss (nats)"
  ScaleKind kind = ScaleKind::sequential;
  std::optional<double> low = {}, high = {};  // colours' ends; unset: those of the values, around zero if diverging
};

struct TokenTrack {
  std::string name = {};            // "head 5"
  std::string group = {};           // "layer 3"
  std::vector<double> values = {};  // one for each token; not finite: blank
  int scale = 0;                    // index into TokenMap::scales
};

struct TokenMap {
  std::string title = {};
  std::vector<std::string> tokens = {};  // pieces of text; white space is shown as signs
  std::vector<TokenScale> scales = std::vector<TokenScale>(1);
  std::vector<TokenTrack> tracks = {};  // those of a group in a row
};

inline constexpr std::size_t max_tokens = 4096, max_tracks = 256;

// The map as JSON for assets/token_map.js. Values are 16-bit steps over the range of their scale (error at most
// 1/131,064 of the range; zero is exact and nothing else becomes zero). Error(internal) if a track has not one value
// for each token, names no scale, or there are more than max_tokens or max_tracks.
std::string token_map_json(const TokenMap& map);

}  // namespace satformer
