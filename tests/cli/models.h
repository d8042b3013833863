// Checkpoints for these tests, made once per test program by tools/make-checkpoint.
#pragma once

#include <filesystem>
#include <string>

namespace wb::test {

// The folder of the model; made on first use. Fails the test program when it cannot be made.
std::filesystem::path model_folder(const std::string& name);

}  // namespace wb::test
