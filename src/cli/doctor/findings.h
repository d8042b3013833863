// How checks write down what they find.
#pragma once

#include <string>
#include <utility>

#include "cli/doctor/check.h"

namespace wb::cli::doctor {

inline void ok(Findings* out, std::string subject, std::string text) {
  out->push_back({std::move(subject), Verdict::kOk, std::move(text), ""});
}
inline void note(Findings* out, std::string subject, std::string text, std::string cure) {
  out->push_back({std::move(subject), Verdict::kNote, std::move(text), std::move(cure)});
}
inline void problem(Findings* out, std::string subject, std::string text, std::string cure) {
  out->push_back({std::move(subject), Verdict::kProblem, std::move(text), std::move(cure)});
}
// A thing that is missing: a problem to those who need it.
inline void missing(Findings* out, bool needed, std::string subject, std::string text,
                    std::string cure) {
  out->push_back({std::move(subject), needed ? Verdict::kProblem : Verdict::kNote, std::move(text),
                  std::move(cure)});
}

}  // namespace wb::cli::doctor
