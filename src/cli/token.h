// The job's token file.
#pragma once

#include <string>

#include "base/status.h"

namespace wb::cli {

// Makes a file that only its owner may read, with a random token. kBusy when it exists.
Status create_token_file(const std::string& path);

// The same, unless the file is there already: true when it was made.
Result<bool> make_token_file(const std::string& path);

}  // namespace wb::cli
