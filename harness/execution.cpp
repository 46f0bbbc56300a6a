#include "harness/execution.h"

namespace h3 {

const char* name_of(Binding binding) {
  switch (binding) {
    case Binding::row:
      return "row";
    case Binding::interim:
      return "interim";
    case Binding::reference:
      return "reference";
    case Binding::native:
      return "native";
  }
  return "?";
}

}  // namespace h3
