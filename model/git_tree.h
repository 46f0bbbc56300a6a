// The name that git gives to the contents of a folder, without git: what `git rev-parse HEAD:<folder>` says
// of a clean checkout. A run is tied to the trees of the folders that decide its bytes, so that it survives a
// commit which touches none of them.
#pragma once

#include <string>

namespace h3 {

// 40 hexadecimal digits. What .gitignore leaves out stays out: *.tmp, __pycache__. Folders without files have
// no entry. Errors: a folder that cannot be read, something that is no file, folder or link.
std::string git_tree_id(const std::string& folder);

}  // namespace h3
