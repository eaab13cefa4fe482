// The colours of charts and pages: one light and one dark value for each name, told apart by readers with any colour
// vision (neighbours also differ in lightness).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace satformer {

struct Colour {
  std::string name = {};              // the CSS variable is --name
  std::string light = {}, dark = {};  // #rrggbb
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

// All named colours: those of pages (ink, soft, paper ...), series-0 to series-7, and the steps of the scales from
// sequential-0 to diverging-32, and for text on them black or white, on-sequential-0 to on-diverging-32.
std::vector<Colour> palette();

// The step whose colour a value has; what is outside low and high has an end's. All finite, low < high.
int scale_step(double value, double low, double high);
std::string scale_class(ScaleKind kind, int step);  // of a cell: "sequential-12"

// :root rules that define every colour as a CSS variable for both schemes. The root's attribute data-theme (light,
// dark) overrides the reader's preference; print is light.
std::string palette_css();

// The rules of charts (assets/chart.css) and of the cells of scales, in those variables.
std::string chart_css();

// The same with the colours written out for both schemes, for an SVG file that stands alone.
std::string standalone_chart_css(bool scales);

}  // namespace satformer
