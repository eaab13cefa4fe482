// Reads paths from standard input and writes a line for each: "accept", or "reject" and why. For
// tests/faults/safetensors_test.py.
#include <algorithm>
#include <iostream>
#include <string>

#include "base/error.h"
#include "io/safetensors.h"

int main() {
  for (std::string path; std::getline(std::cin, path);) {
    try {
      const satformer::SafetensorsFile file(path);
      std::cout << "accept\n";
    } catch (const satformer::Error& error) {
      std::string why = error.what();
      std::replace(why.begin(), why.end(), '\n', ' ');  // names come from the file
      std::replace(why.begin(), why.end(), '\r', ' ');
      std::cout << "reject " << why << "\n";
    }
  }
}
