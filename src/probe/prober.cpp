#include "probe/prober.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "layout/quote.h"
#include "probe/prober_state.h"

namespace wb::probe {
namespace {

// Besides the tenth of the buffers: what small models need for random values and tables.
constexpr uint64_t kLeastBytes = uint64_t{64} << 20;
constexpr uint32_t kValueRounds = 4;

}  // namespace

uint64_t Prober::Target::memory() const {
  uint64_t bytes = claims.capacity() * sizeof(Claim) + refuted.capacity() * sizeof(ElementRange);
  for (const auto& segments : planes) bytes += segments.capacity() * sizeof(Segment);
  return bytes + (left ? left->memory() : 0);
}

Prober::Prober(TensorTable table, Options options)
    : table_(std::move(table)), options_(std::move(options)) {}

Prober::~Prober() { (void)abort(); }

Status Prober::fail(Status status) {
  if (!status.ok()) phase_ = Phase::kFailed;
  return status;
}

Result<uint32_t> Prober::add_buffer(BufferInfo info, std::byte* data) {
  if (phase_ != Phase::kFresh) {
    return Status(Code::kFailedPrecondition, "buffers are added before the first pass");
  }
  if (given_.size() >= std::numeric_limits<uint32_t>::max()) {
    return Status(Code::kInvalidArgument, "2^32 buffers");
  }
  if (data == nullptr && info.bytes != 0) {
    return Status(Code::kInvalidArgument, "buffer " + quote(info.name) + " has no memory");
  }
  if (!by_name_.emplace(info.name, given_.size()).second) {
    return Status(Code::kInvalidArgument, "there is a buffer " + quote(info.name) + " already");
  }
  given_.push_back({std::move(info), data, false});
  return static_cast<uint32_t>(given_.size() - 1);
}

Status Prober::find_aliases() {
  std::vector<size_t> order(given_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto begin = [&](size_t i) { return reinterpret_cast<uint64_t>(given_[i].data); };
  // Of buffers with the same bytes the owner is the first that is not plain bytes.
  const auto plain = [&](size_t i) { return given_[i].info.dtype == DType::kU8 ? 1 : 0; };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const uint64_t bytes_a = given_[a].info.bytes, bytes_b = given_[b].info.bytes;
    return std::make_tuple(begin(a), ~bytes_a, plain(a), a) <
           std::make_tuple(begin(b), ~bytes_b, plain(b), b);
  });
  std::vector<bool> inside(given_.size());
  const Given* owner = nullptr;
  for (const size_t i : order) {
    const Given& given = given_[i];
    if (given.info.bytes == 0) continue;
    const uint64_t owner_end =
        owner == nullptr ? 0 : reinterpret_cast<uint64_t>(owner->data) + owner->info.bytes;
    if (begin(i) >= owner_end) {
      owner = &given;
      continue;
    }
    if (begin(i) + given.info.bytes > owner_end) {
      return Status(Code::kInvalidArgument,
                    "buffers " + quote(owner->info.name) + " and " + quote(given.info.name) +
                        " share some bytes, but neither lies inside the other");
    }
    inside[i] = true;
    result_.aliases.push_back(
        {given.info.name, owner->info.name, begin(i) - reinterpret_cast<uint64_t>(owner->data)});
  }
  std::sort(result_.aliases.begin(), result_.aliases.end(),
            [](const Alias& a, const Alias& b) { return a.name < b.name; });
  for (size_t i = 0; i < given_.size(); ++i) {
    if (inside[i]) continue;
    Target target;
    const BufferInfo& info = given_[i].info;
    target.given = i;
    target.dtype = info.dtype;
    target.family = family_of(info.dtype);
    target.element = element_bytes(info.dtype);
    target.elements = info.bytes / target.element;
    target.data = given_[i].data;
    total_bytes_ += info.bytes;
    targets_.push_back(std::move(target));
  }
  return Status();
}

Status Prober::make_backup() {
  if (options_.restore != Restore::kBackup) return Status();
  if (options_.reserve && options_.backup_folder.empty()) {
    WB_RETURN_IF_ERROR(options_.reserve(total_bytes_));
  }
  WB_ASSIGN_OR_RETURN(backup_, Backup::make(total_bytes_, options_.backup_folder));
  std::byte* to = backup_.data();
  for (const Target& target : targets_) {
    const uint64_t bytes = given_[target.given].info.bytes;
    if (bytes == 0) continue;
    std::memcpy(to, target.data, bytes);
    to += bytes;
  }
  result_.backup_bytes = backup_.bytes();
  return Status();
}

Status Prober::prepare() {
  bool half = false;
  for (const TensorInfo& info : table_.tensors()) half |= info.dtype == DType::kF16;
  for (const Given& given : given_) half |= given.info.dtype == DType::kF16;
  WB_ASSIGN_OR_RETURN(schema_, Schema::make(table_, half));
  WB_RETURN_IF_ERROR(find_aliases());
  max_bytes_ = options_.max_bytes != 0 ? options_.max_bytes : total_bytes_ / 10 + kLeastBytes;
  blocks_ = std::make_unique<BlockStore>(max_bytes_ / 2,
                                         targets_.size() * static_cast<uint64_t>(schema_.planes()));
  for (int plane = 0; plane < schema_.planes(); ++plane) {
    names_.push_back(schema_.plane_name(plane));
  }
  names_.insert(names_.end(), {"values A", "values B", "values C", "values C again"});
  pass_count_ = static_cast<uint32_t>(names_.size());
  if (options_.restore == Restore::kReload) {
    names_.emplace_back("the real weights");
    ++pass_count_;
  }
  for (Target& target : targets_) target.planes.resize(static_cast<size_t>(schema_.planes()));
  return make_backup();
}

Prober::Round Prober::round() const {
  const auto planes = static_cast<uint32_t>(schema_.planes());
  if (pass_ < planes) return Round::kIndex;
  return static_cast<Round>(static_cast<uint32_t>(Round::kA) + pass_ - planes);
}

Status Prober::make_views() {
  const uint64_t budget = max_bytes_ / 2 - std::min(max_bytes_ / 2, view_bytes_);
  values_before_ = std::exchange(values_, nullptr);
  if (round() == Round::kIndex) {
    WB_ASSIGN_OR_RETURN(auto views,
                        IndexViews::make(table_, schema_, static_cast<int>(pass_), budget));
    views_.push_back(std::move(views));
  } else {
    // The second load of C is the same as the first.
    const auto number = round() == Round::kCAgain
                            ? 2u
                            : static_cast<unsigned>(round()) - static_cast<unsigned>(Round::kA);
    WB_ASSIGN_OR_RETURN(auto views,
                        ValueViews::make(table_, schema_, number, options_.seed, budget));
    values_ = views.get();
    views_.push_back(std::move(views));
    for (const Target& target : targets_) values_->prepare(target.dtype);
  }
  view_bytes_ += views_.back()->bytes();
  size_t ranks = 0;
  first_stride_.clear();
  for (const ProbedTensor& tensor : schema_.tensors()) {
    first_stride_.push_back(ranks);
    ranks += static_cast<size_t>(tensor.rank);
  }
  std::vector<int64_t> strides;
  strides.reserve(ranks);
  for (uint32_t t = 0; t < table_.size(); ++t) {
    const View view = views_.back()->view(t);
    strides.insert(strides.end(), view.stride.begin(),
                   view.stride.begin() + schema_.tensors()[t].rank);
  }
  view_bytes_ += strides.capacity() * sizeof(int64_t);
  strides_.push_back(std::move(strides));
  return Status();
}

Result<Pass> Prober::begin_pass() {
  if (phase_ == Phase::kFinished) return Pass{PassKind::kDone, pass_count_, pass_count_, "done"};
  if (phase_ == Phase::kFailed) {
    return Status(Code::kFailedPrecondition, "the probing has failed; it can only be aborted");
  }
  if (phase_ == Phase::kInPass || phase_ == Phase::kReloading) {
    return Status(Code::kFailedPrecondition, "the pass before has not been ended");
  }
  if (phase_ == Phase::kFresh) {
    WB_RETURN_IF_ERROR(fail(prepare()));
    phase_ = Phase::kReady;
  }
  Pass pass{PassKind::kLoad, pass_, pass_count_, names_[pass_].c_str()};
  if (pass_ == static_cast<uint32_t>(schema_.planes()) + kValueRounds) {
    pass.kind = PassKind::kReload;
    phase_ = Phase::kReloading;
    return pass;
  }
  WB_RETURN_IF_ERROR(fail(make_views()));
  if (round() == Round::kB) WB_RETURN_IF_ERROR(fail(save_leftovers()));
  modified_ = true;
  for (Target& target : targets_) {
    if (!target.left) continue;
    if (round() == Round::kB) target.left->before_b();
    if (round() == Round::kC) target.left->before_c();
    if (round() == Round::kCAgain) target.left->before_c_again();
  }
  phase_ = Phase::kInPass;
  began_ = Clock::now();
  return pass;
}

Result<TensorView> Prober::view(size_t tensor) const {
  if (phase_ != Phase::kInPass) {
    return Status(Code::kFailedPrecondition, "there are probe tensors during a pass only");
  }
  if (tensor >= table_.size()) {
    return Status(Code::kInvalidArgument,
                  "tensor " + std::to_string(tensor) + " of " + std::to_string(table_.size()));
  }
  const auto index = static_cast<uint32_t>(tensor);
  return TensorView{&table_[index], &schema_.tensors()[index],
                    strides_.back().data() + first_stride_[tensor],
                    views_.back()->view(index).data};
}

Status Prober::check_places(std::span<const Place> places) {
  std::vector<bool> seen(given_.size());
  Status first;
  const auto note = [&](Status status) {
    if (first.ok()) first = std::move(status);
  };
  for (const Place& place : places) {
    const auto found = by_name_.find(std::string(place.name));
    if (found == by_name_.end()) {
      note(Status(Code::kMismatch, "the loader made a new buffer " + quote(place.name) +
                                       ": probe the worker with all its buffers in place"));
      continue;
    }
    Given& given = given_[found->second];
    seen[found->second] = true;
    if (given.info.bytes == 0 && place.bytes == 0) continue;
    if (place.data == given.data && place.bytes == given.info.bytes) continue;
    given.gone = true;
    note(Status(Code::kMismatch,
                "the loader moved buffer " + quote(place.name) +
                    " to other memory; it must write into the tensors that are there"));
  }
  for (size_t i = 0; i < given_.size(); ++i) {
    if (seen[i]) continue;
    given_[i].gone = true;
    note(Status(Code::kMismatch, "buffer " + quote(given_[i].info.name) +
                                     " is not among the live tensors after the load"));
  }
  return first;
}

Status Prober::end_pass(std::span<const Place> places, bool listed) {
  if (phase_ != Phase::kInPass && phase_ != Phase::kReloading) {
    return Status(Code::kFailedPrecondition, "no pass has begun");
  }
  result_.load += Clock::now() - began_;
  if (listed) WB_RETURN_IF_ERROR(fail(check_places(places)));
  if (phase_ == Phase::kReloading) {
    phase_ = Phase::kFinished;
    modified_ = false;
    done_ = true;
    return Status();
  }
  WB_RETURN_IF_ERROR(fail(read()));
  ++pass_;
  phase_ = Phase::kReady;
  if (pass_ < static_cast<uint32_t>(schema_.planes()) + kValueRounds) return Status();
  WB_RETURN_IF_ERROR(fail(finish()));
  put_back();
  if (options_.restore == Restore::kReload) return Status();
  phase_ = Phase::kFinished;
  modified_ = false;
  done_ = true;
  return Status();
}

Status Prober::save_leftovers() {
  if (options_.restore != Restore::kReload) return Status();
  uint64_t bytes = 0;
  for (Target& target : targets_) {
    target.aside = bytes;
    if (target.left) bytes += target.left->bytes();
  }
  if (options_.reserve && options_.backup_folder.empty()) {
    WB_RETURN_IF_ERROR(options_.reserve(bytes));
  }
  WB_ASSIGN_OR_RETURN(backup_, Backup::make(bytes, options_.backup_folder));
  result_.backup_bytes = bytes;
  for (const Target& target : targets_) {
    if (target.left) target.left->save(backup_.data() + target.aside);
  }
  return Status();
}

void Prober::put_back() {
  if (!backup_.exists()) return;
  uint64_t from = 0;
  for (const Target& target : targets_) {
    const Given& given = given_[target.given];
    if (options_.restore == Restore::kReload) {
      if (target.left && !given.gone) target.left->put_back(backup_.data() + target.aside);
      continue;
    }
    if (given.info.bytes != 0 && !given.gone) {
      std::memcpy(target.data, backup_.data() + from, given.info.bytes);
    }
    from += given.info.bytes;
  }
  backup_ = Backup();
}

bool Prober::abort() {
  if (phase_ == Phase::kFinished) return false;
  phase_ = Phase::kFailed;
  if (!std::exchange(modified_, false)) return aborted_needs_reload_;
  put_back();
  aborted_needs_reload_ = options_.restore == Restore::kReload;
  return aborted_needs_reload_;
}

void Prober::note_memory(uint64_t extra) {
  uint64_t bytes = view_bytes_ + extra + (blocks_ ? blocks_->bytes() : 0);
  for (const Target& target : targets_) bytes += target.memory();
  result_.peak_bytes = std::max(result_.peak_bytes, bytes);
}

}  // namespace wb::probe
