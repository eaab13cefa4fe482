// The colours of charts and pages: one light and one dark value for each name, told apart by readers with any colour
// vision (neighbours also differ in lightness).
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace satformer {

struct Colour {
  std::string_view name;         // the CSS variable is --name
  std::string_view light, dark;  // #rrggbb
};

inline constexpr int series_colours = 8;

// The index of the series colour that an architecture has in every chart, from 0; -1: not an architecture's name.
// What follows the name after a character other than a letter counts as a variant of it: "satformer, per token".
int architecture_colour(std::string_view name);

// Hands out series colours: architectures theirs, other keys the next free one (again from the first after the last).
class SeriesColours {
 public:
  // A number not below 0 and below series_colours; the same key gets the same.
  int of(std::string_view key);

 private:
  std::map<std::string, int, std::less<>> given_;
};

// A scale of values: light to strong, or two hues around a neutral middle.
enum class ScaleKind { sequential, diverging };
inline constexpr int scale_steps = 33;  // colours of a scale; the middle one is 16

std::span<const Colour>
palette();  // all named colours, the steps of the scales too: sequential-0, diverging-32, series-7

// :root rules that define every colour as a CSS variable for both schemes. The root's attribute data-theme (light,
// dark) overrides the reader's preference; print is light.
std::string palette_css();

// The rules of charts (assets/chart.css) with colours written out for both schemes, for an SVG file that stands
// alone.
std::string standalone_chart_css(bool scales);

}  // namespace satformer
