#include "cli/doctor/check.h"

#include <algorithm>
#include <iterator>

#include "cli/doctor/findings.h"

namespace wb::cli::doctor {

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kNote:
      return "note";
    case Verdict::kProblem:
      return "problem";
  }
  return "problem";
}

Findings check_all(const MachineFacts& facts, const Needs& needs) {
  Findings all;
  ok(&all, "system", "Linux " + facts.kernel);
  for (Findings part : {check_rdma(facts, needs), check_pci(facts), check_near(facts),
                        check_limits(facts), check_memory(facts), check_local(facts, needs),
                        check_ucx(facts, needs), check_gpu(facts, needs)}) {
    std::move(part.begin(), part.end(), std::back_inserter(all));
  }
  return all;
}

Verdict worst(const Findings& findings) {
  Verdict verdict = Verdict::kOk;
  for (const Finding& finding : findings) verdict = std::max(verdict, finding.verdict);
  return verdict;
}

}  // namespace wb::cli::doctor
