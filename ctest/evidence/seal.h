// The seal of an evidence folder: SHA256SUMS lists every file, and COMPLETE, which has the hash of that list,
// is written last. Both are in the format of sha256sum, so that `sha256sum -c COMPLETE SHA256SUMS` checks the
// bytes; that the list is closed (nothing else, no link, no folder) only check_seal() does.
//
// A folder looks sealed when COMPLETE is there. Whatever ends the program that writes it, at whatever moment,
// the folder either holds everything or does not look sealed: all else is on the disk before COMPLETE is.
#pragma once

#include <string>
#include <vector>

namespace h3::gate {

bool looks_sealed(const std::string& folder);

// What in the folder does not belong there (folder.h): other files, links, folders. One line each, beginning
// with the name.
std::vector<std::string> strangers(const std::string& folder);

// First thing before anything in a folder changes; the signature goes, too, and what a killed writer left.
void break_seal(const std::string& folder);

// Errors: a stranger, or a file that is missing.
void write_seal(const std::string& folder);

// What is wrong, one line each, each beginning with the name of the file; empty for a whole seal.
std::vector<std::string> check_seal(const std::string& folder);

}  // namespace h3::gate
