// Pieces that this folder's charts are drawn with: an SVG document, text measures, legends.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace satformer {

inline constexpr double chart_width = 720, chart_margin = 16;

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
};

std::string pixels(double value);  // one decimal; what is far outside any chart is brought to its rim

// Upper estimates in pixels for common sans-serif fonts.
double text_width(std::string_view text, double size = 13);
std::string fit_text(std::string_view text, double width, double size = 13);  // shortened with "…"
std::vector<std::string> wrap_text(std::string_view text, double width, double size = 13);

enum class Anchor { start, middle, end };

// Texts are escaped here; classes are those of assets/chart.css.
class Svg {
 public:
  void text(double x, double y, std::string_view text, std::string_view classes = {}, Anchor anchor = Anchor::start);
  void fitted_text(const Box& box, std::string_view text, std::string_view classes,
                   Anchor anchor);  // box.y: base line
  void turned_text(double x, double y, std::string_view text, std::string_view classes,
                   Anchor anchor);  // reads upwards
  void line(double x1, double y1, double x2, double y2, std::string_view classes);
  void rect(const Box& box, std::string_view classes, std::string_view tip = {});
  void circle(double x, double y, double radius, std::string_view classes, std::string_view tip = {});
  void path(std::string_view data, std::string_view classes);
  void open_clip(const Box& box);  // until close(): nothing outside the box is drawn
  void open_group(std::string_view classes);
  void close();

  // Title and subtitle, wrapped, at the top; returns the y below them.
  double heading(const std::string& title, const std::string& subtitle);

  // The whole document. `description` is for readers who cannot see the picture.
  std::string document(const std::string& title, const std::string& description, double height, bool scales) const;

 private:
  void shape(std::string_view opening, std::string_view name, std::string_view tip);

  std::string body_;
  std::vector<std::string_view> open_;
};

struct LegendEntry {
  std::string label = {};
  int colour = 0;  // of the series
  bool dashed = false;
  bool reference = false;  // a reference line instead of a series
};

void legend_swatch(Svg& svg, double x, double y, const LegendEntry& entry);  // 16 wide, around y
double legend(Svg& svg, double top,
              const std::vector<LegendEntry>& entries);  // in rows from y = top; returns the y below

}  // namespace satformer
