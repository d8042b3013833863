/* A program outside the tree, in C99: publishes two versions and pulls both, transposed, through
 * the transports of argv[1] (default: the library's own choice). Exit code 0: every byte verified. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weightbridge/weightbridge.h>

enum { ROWS = 4, COLUMNS = 6, FIRST = 2, TAKEN = 3, TIMEOUT_MS = 20000 };

static void must(wb_code code, const char* what) {
  const wb_error* error = wb_last_error();
  if (code == WB_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, wb_code_name(code), error->sentence);
  exit(1);
}

static void expect(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "expected %s\n", what);
  exit(1);
}

static float value(uint64_t version, int row, int column) {
  return (float)version * 1000.0F + (float)(row * COLUMNS + column);
}

static void train(float* weights, uint64_t version) {
  int row, column;
  for (row = 0; row < ROWS; ++row) {
    for (column = 0; column < COLUMNS; ++column) {
      weights[row * COLUMNS + column] = value(version, row, column);
    }
  }
}

static void pull_and_verify(wb_receiver* receiver, float (*served)[ROWS], uint64_t version) {
  const wb_pull_report* report = NULL;
  int row, column;
  memset(served, 0xff, sizeof(float) * TAKEN * ROWS);
  must(wb_receiver_pull(receiver, WB_EXACTLY, version, TIMEOUT_MS, &report), "pull");
  expect(report->memory == WB_MEMORY_COMPLETE, "complete memory");
  expect(report->version.number == version, "the version asked for");
  expect(report->bytes == sizeof(float) * TAKEN * ROWS, "each byte once");
  expect(report->source_count == 1 && report->timeline_count > 0, "a source and a timeline");
  for (row = 0; row < ROWS; ++row) {
    for (column = 0; column < TAKEN; ++column) {
      expect(served[column][row] == value(version, row, column + FIRST), "the trained value");
    }
  }
  printf("version %d: %d bytes from %s over %s (%s)\n", (int)version, (int)report->bytes,
         report->sources[0].worker, report->sources[0].transport, report->sources[0].mechanism);
}

int main(int argc, char** argv) {
  const int64_t shape[2] = {ROWS, COLUMNS};
  const int64_t local_shape[2] = {TAKEN, ROWS};
  const int64_t start[2] = {0, FIRST}, count[2] = {ROWS, TAKEN};
  const int64_t transposed[2] = {sizeof(float), ROWS * sizeof(float)};
  static float served[TAKEN][ROWS];
  wb_tensor tensor;
  wb_job_options job_options;
  wb_publisher_options publisher_options;
  wb_receiver_options receiver_options;
  wb_buffer buffer;
  wb_piece piece;
  wb_job* job;
  wb_table* table;
  wb_layout *have, *need;
  wb_publisher* publisher;
  wb_receiver* receiver;
  const wb_pull_report* report;

  memset(&job_options, 0, sizeof job_options);
  job_options.struct_size = sizeof job_options;
  job_options.store = "embed:127.0.0.1:0";
  job_options.token = "shared-secret";
  job_options.transports = argc > 1 ? argv[1] : NULL;
  must(wb_job_open(&job_options, TIMEOUT_MS, &job), "job");

  tensor.name = "w";
  tensor.dtype = WB_F32;
  tensor.rank = 2;
  tensor.shape = shape;
  must(wb_table_create(&tensor, 1, &table), "table");

  must(wb_layout_create(table, &have), "layout");
  must(wb_layout_add_tensor(have, "w", NULL, 0, NULL), "tensor");
  must(wb_layout_allocate(have, NULL), "allocate");
  memset(&buffer, 0, sizeof buffer);
  buffer.struct_size = sizeof buffer;
  must(wb_layout_buffer(have, 0, &buffer), "buffer");
  train(buffer.data, 1);

  must(wb_layout_create(table, &need), "layout");
  {
    wb_buffer local;
    uint32_t index;
    memset(&local, 0, sizeof local);
    local.struct_size = sizeof local;
    local.name = "w_transposed";
    local.dtype = WB_F32;
    local.rank = 2;
    local.shape = local_shape;
    local.data = served;
    local.bytes = sizeof served;
    must(wb_layout_add_buffer(need, &local, &index), "local buffer");
    memset(&piece, 0, sizeof piece);
    piece.struct_size = sizeof piece;
    piece.tensor = "w";
    piece.buffer = index;
    piece.rank = 2;
    piece.start = start;
    piece.count = count;
    piece.stride = transposed;
    must(wb_layout_add_piece(need, &piece), "piece");
  }

  memset(&publisher_options, 0, sizeof publisher_options);
  publisher_options.struct_size = sizeof publisher_options;
  must(wb_publisher_create(job, have, &publisher_options, TIMEOUT_MS, &publisher), "publisher");
  memset(&receiver_options, 0, sizeof receiver_options);
  receiver_options.struct_size = sizeof receiver_options;
  receiver_options.name = "rollout-0";
  must(wb_receiver_create(job, need, &receiver_options, TIMEOUT_MS, &receiver), "receiver");

  must(wb_publisher_publish(publisher, 1, NULL), "publish 1");
  pull_and_verify(receiver, served, 1);
  must(wb_publisher_begin_update(publisher, NULL), "begin update");
  train(buffer.data, 2);
  must(wb_publisher_publish(publisher, 2, NULL), "publish 2");
  pull_and_verify(receiver, served, 2);
  expect(wb_receiver_pull(receiver, WB_AT_LEAST, 3, 200, &report) == WB_DEADLINE,
         "a deadline for a version that never comes");

  must(wb_receiver_close(receiver, TIMEOUT_MS), "close receiver");
  must(wb_publisher_close(publisher, TIMEOUT_MS), "close publisher");
  must(wb_layout_free(need), "free");
  must(wb_layout_free(have), "free");
  must(wb_table_free(table), "free");
  must(wb_job_close(job, TIMEOUT_MS), "close job");
  return 0;
}
