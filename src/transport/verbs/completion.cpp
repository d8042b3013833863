#include "transport/verbs/completion.h"

#include <array>

namespace wb::verbs {
namespace {

struct Row {
  const char* name;
  Blame blame;
  Code code;
  const char* meaning;
};

constexpr const char* kLocalFault = "the reader's own request is wrong";

// In the order of ibv_wc_status.
constexpr std::array<Row, 24> kRows = {{
    {"SUCCESS", Blame::kFlushed, Code::kOk, ""},
    {"LOC_LEN_ERR", Blame::kRequest, Code::kInternal, kLocalFault},
    {"LOC_QP_OP_ERR", Blame::kPath, Code::kUnavailable,
     "the NIC cannot send: its link is down, or the queue pair is broken"},
    {"LOC_EEC_OP_ERR", Blame::kPath, Code::kIo, "the NIC reports a broken context"},
    {"LOC_PROT_ERR", Blame::kRequest, Code::kFailedPrecondition,
     "the memory that the read lands in is no longer registered"},
    {"WR_FLUSH_ERR", Blame::kFlushed, Code::kUnavailable, "the queue pair was closed"},
    {"MW_BIND_ERR", Blame::kRequest, Code::kInternal, kLocalFault},
    {"BAD_RESP_ERR", Blame::kPath, Code::kIo, "the answer was of no known form"},
    {"LOC_ACCESS_ERR", Blame::kRequest, Code::kFailedPrecondition,
     "the memory that the read lands in cannot be written"},
    {"REM_INV_REQ_ERR", Blame::kRequest, Code::kPeerLost,
     "the source's NIC does not answer such a read"},
    {"REM_ACCESS_ERR", Blame::kRequest, Code::kPeerLost,
     "the source refuses the key: it deregistered the memory, or is another incarnation"},
    {"REM_OP_ERR", Blame::kPath, Code::kPeerLost, "the source's NIC failed"},
    {"RETRY_EXC_ERR", Blame::kPath, Code::kPeerLost,
     "the source does not answer: it ended, or the network between is broken"},
    {"RNR_RETRY_EXC_ERR", Blame::kPath, Code::kPeerLost, "the source's NIC is not ready"},
    {"LOC_RDD_VIOL_ERR", Blame::kRequest, Code::kInternal, kLocalFault},
    {"REM_INV_RD_REQ_ERR", Blame::kRequest, Code::kInternal, kLocalFault},
    {"REM_ABORT_ERR", Blame::kPath, Code::kPeerLost, "the source's NIC aborted"},
    {"INV_EECN_ERR", Blame::kPath, Code::kIo, "the NIC reports a broken context"},
    {"INV_EEC_STATE_ERR", Blame::kPath, Code::kIo, "the NIC reports a broken context"},
    {"FATAL_ERR", Blame::kPath, Code::kUnavailable, "the NIC failed"},
    {"RESP_TIMEOUT_ERR", Blame::kPath, Code::kPeerLost, "the source does not answer"},
    {"GENERAL_ERR", Blame::kPath, Code::kIo, "the NIC gives no reason"},
    {"TM_ERR", Blame::kPath, Code::kIo, "tag matching, which is not used"},
    {"TM_RNDV_INCOMPLETE", Blame::kPath, Code::kIo, "tag matching, which is not used"},
}};
static_assert(kRows.size() == IBV_WC_TM_RNDV_INCOMPLETE + 1);
static_assert(IBV_WC_WR_FLUSH_ERR == 5 && IBV_WC_REM_ACCESS_ERR == 10 &&
              IBV_WC_RETRY_EXC_ERR == 12 && IBV_WC_GENERAL_ERR == 21);

constexpr Row kUnknown = {"unknown", Blame::kPath, Code::kIo, "a status of no known meaning"};

const Row& row(ibv_wc_status status) {
  const auto index = static_cast<size_t>(status);
  return index < kRows.size() ? kRows[index] : kUnknown;
}

}  // namespace

Blame blame_of(ibv_wc_status status) { return row(status).blame; }

const char* completion_name(ibv_wc_status status) { return row(status).name; }

Status completion_status(ibv_wc_status status, uint32_t vendor_error, const FailedReads& where) {
  const Row& found = row(status);
  std::string sentence = found.meaning;
  sentence += " (" + std::string(found.name) + ", vendor error " + std::to_string(vendor_error) +
              ", queue pair " + std::to_string(where.queue_pair) + " of " + where.rail;
  if (where.count != 0) {
    sentence += ", reads " + std::to_string(where.first) + " to " +
                std::to_string(where.first + where.count - 1);
  }
  sentence += ")";
  return Status(found.code, std::move(sentence))
      .with_peer(where.peer)
      .with_vendor(
          static_cast<int64_t>(uint64_t{vendor_error} << 32 | static_cast<uint32_t>(status)));
}

}  // namespace wb::verbs
