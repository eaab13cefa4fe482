#include "report/token_map.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "base/json.h"
#include "report/axis.h"
#include "report/base64.h"
#include "report/escape.h"

#include <nlohmann/json.hpp>

namespace satformer {
namespace {

// Code 0 is blank; code c stands for (base + c - 1) * step with whole base and c, so that zero is on the grid.
struct Grid {
  double step = 1, base = 0;
  double low = 0, high = 1;  // ends of the colours

  std::uint16_t code(double value) const {
    if (!drawable(value)) return 0;
    double place = std::round(value / step);
    if (place == 0 && value != 0) place = value > 0 ? 1 : -1;
    return static_cast<std::uint16_t>(std::clamp(place - base + 1, 1.0, 65535.0));
  }
};

Grid grid_of(const TokenMap& map, std::size_t scale) {
  double lowest = 0, highest = 0;
  bool any = false;
  for (const TokenTrack& track : map.tracks) {
    if (static_cast<std::size_t>(track.scale) != scale) continue;
    for (const double value : track.values) {
      if (!drawable(value)) continue;
      lowest = any ? std::min(lowest, value) : value;
      highest = any ? std::max(highest, value) : value;
      any = true;
    }
  }
  Grid grid;
  const double range = highest - lowest, largest = std::max(std::abs(lowest), std::abs(highest));
  if (range > largest * 1e-10 && range > 1e-280) {
    grid.step = range / 65532;
  } else if (largest > 1e-280) {
    grid.step = largest;
  }
  grid.base = std::floor(lowest / grid.step);
  if (lowest < 0) grid.base = std::min(grid.base, -1.0);
  const TokenScale& wanted = map.scales[scale];
  if (wanted.kind == ScaleKind::diverging) {
    lowest = -largest;
    highest = largest;
  }
  grid.low = wanted.low.value_or(lowest);
  grid.high = wanted.high.value_or(highest);
  if (!drawable(grid.low) || !drawable(grid.high)) {
    fail(ExitCode::internal, "token map '", map.title, "': the ends of scale '", wanted.name, "' are not finite");
  }
  if (grid.low >= grid.high) grid.high = grid.low + std::max(1.0, std::abs(grid.low));
  return grid;
}

void check(const TokenMap& map) {
  if (map.tokens.size() > max_tokens || map.tracks.size() > max_tracks) {
    fail(ExitCode::internal, "token map '", map.title, "': ", map.tokens.size(), " tokens and ", map.tracks.size(),
         " tracks, expected at most ", max_tokens, " and ", max_tracks);
  }
  for (const TokenTrack& track : map.tracks) {
    if (track.values.size() != map.tokens.size()) {
      fail(ExitCode::internal, "token map '", map.title, "': track '", track.name, "' has ", track.values.size(),
           " values for ", map.tokens.size(), " tokens");
    }
    if (track.scale < 0 || static_cast<std::size_t>(track.scale) >= map.scales.size()) {
      fail(ExitCode::internal, "token map '", map.title, "': track '", track.name, "' names scale ", track.scale,
           " of ", map.scales.size());
    }
  }
}

}  // namespace

std::string token_map_json(const TokenMap& map) {
  check(map);
  std::vector<Grid> grids;
  std::string scales, tracks, tokens;
  for (std::size_t i = 0; i < map.scales.size(); ++i) {
    const Grid grid = grids.emplace_back(grid_of(map, i));
    const auto number = [](double value) { return Json(value).dump(); };
    scales += concat(i == 0 ? "" : ",", "{\"name\":", json_literal(map.scales[i].name), ",\"kind\":\"",
                     map.scales[i].kind == ScaleKind::sequential ? "sequential" : "diverging",
                     "\",\"low\":", number(grid.low), ",\"high\":", number(grid.high),
                     ",\"step\":", number(grid.step), ",\"base\":", number(grid.base), "}");
  }
  std::vector<std::uint8_t> bytes;
  bytes.reserve(2 * map.tracks.size() * map.tokens.size());
  for (const TokenTrack& track : map.tracks) {
    tracks += concat(tracks.empty() ? "" : ",", "{\"name\":", json_literal(track.name),
                     ",\"group\":", json_literal(track.group), ",\"scale\":", track.scale, "}");
    for (const double value : track.values) {
      const std::uint16_t code = grids[static_cast<std::size_t>(track.scale)].code(value);
      bytes.push_back(static_cast<std::uint8_t>(code & 0xff));
      bytes.push_back(static_cast<std::uint8_t>(code >> 8));
    }
  }
  for (const std::string& token : map.tokens) tokens += concat(tokens.empty() ? "" : ",", json_literal(token));
  return concat("{\"title\":", json_literal(map.title), ",\"scales\":[", scales, "],\"tracks\":[", tracks,
                "],\"tokens\":[", tokens, "],\"values\":\"", base64(bytes), "\"}");
}

}  // namespace satformer
