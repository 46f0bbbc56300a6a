// Pictures as SVG: no script, no style sheet and no font of their own, so that every viewer and every CI
// server shows them. A picture is drawn for a light or a dark page and for a width.
#pragma once

#include <array>

#include "harness/report/markup.h"

namespace h3 {

struct Theme {
  const char *paper, *ink, *muted, *grid, *limit;
  std::array<const char*, 5> series;  // told apart by colour-blind eyes, and by shape or label besides
};
inline constexpr Theme kLight = {"#ffffff", "#16202b",
                                 "#5b6875", "#e1e5ea",
                                 "#b93d00", {"#0b5fa5", "#00745a", "#b8860b", "#8a4fa3", "#5b6875"}};
inline constexpr Theme kDark = {"#161c24", "#e6ebf0",
                                "#9aa7b4", "#2b3541",
                                "#ff8a4c", {"#6cb6f5", "#4cc9a4", "#e6b94d", "#cf9be6", "#9aa7b4"}};

struct Style {
  Theme theme = kLight;
  double width = 880;
  bool narrow() const { return width < 600; }
};

class Svg {
 public:
  Svg(const Style& style, double height, const std::string& title, const std::string& description = "");

  // Anchor: start, middle or end. An empty colour is the ink's.
  void text(double x, double y, const char* anchor, const std::string& words, const char* colour = "",
            double size = 11, bool bold = false);
  void line(double x1, double y1, double x2, double y2, const char* colour, bool dashed = false,
            double width = 1);
  void rect(double x, double y, double width, double height, const char* fill, double opacity = 1);
  void frame(double x, double y, double width, double height, const char* colour);
  void circle(double x, double y, double radius, const char* fill);
  void path(const std::string& d, const char* stroke, const char* fill, double opacity = 1);
  void line_through(const std::vector<std::pair<double, double>>& points, const char* colour,
                    double width = 1.5);
  std::string code() const;

 private:
  Attributes root_;
  Markup inside_;
  const char* ink_;
};

// "1e-3", as an axis names a power of ten.
std::string power_of_ten(int exponent);

}  // namespace h3
