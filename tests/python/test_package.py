"""The package on torch and numpy tensors: tables, layouts, a whole life, errors, callbacks, fork."""

import gc
import logging
import multiprocessing
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest
import weakref

import numpy as np
import torch

import weightbridge as wb


def job(**options):
    return wb.Job.open("embed:127.0.0.1:0", token="secret", timeout=20, **options)


def table_of(**tensors):
    return wb.checkpoint(tensors)


class Life(unittest.TestCase):
    def test_a_pull_goes_straight_into_parameters(self):
        source = {"w": torch.randn(6, 4).bfloat16(), "v": torch.randn(5)}
        table = wb.checkpoint(source)
        have, need = wb.Layout.create(table), wb.Layout.create(table)
        live = {n: torch.nn.Parameter(t.clone()) for n, t in source.items()}
        for name, parameter in live.items():
            have.add_tensor(name, parameter)
        transposed = torch.zeros(4, 6, dtype=torch.bfloat16)
        array = np.zeros(5, np.float32)
        need.add_tensor("w", transposed.t())
        need.add_tensor("v", array)
        with job() as one, wb.Publisher.create(one, have, timeout=20) as publisher, \
                wb.Receiver.create(one, need, name="r", timeout=20) as receiver:
            for number in (1, 2, 3):
                if number > 1:
                    publisher.begin_update()
                with torch.no_grad():
                    for parameter in live.values():
                        parameter.add_(number)
                publisher.publish(number)
                report = receiver.pull(wb.exactly(number), timeout=20)
                self.assertEqual(report.version.number, number)
                self.assertEqual(report.memory, wb.MemoryState.COMPLETE)
                self.assertTrue(torch.equal(transposed.t(), live["w"]))
                self.assertTrue(np.array_equal(array, live["v"].detach().numpy()))
            self.assertEqual(publisher.stats().published, 3)
            self.assertIn("read", {entry.step.name.lower() for entry in report.timeline})

    def test_staging_leaves_the_tensors_until_install(self):
        table = table_of(w=torch.zeros(8))
        source, target = torch.arange(8.0), torch.zeros(8)
        have, need = wb.Layout.create(table), wb.Layout.create(table)
        have.add_tensor("w", source)
        need.add_tensor("w", target)
        with job() as one, wb.Publisher.create(one, have, timeout=20) as publisher, \
                wb.Receiver.create(one, need, name="r", staging=True, timeout=20) as receiver:
            with self.assertRaises(wb.FailedPrecondition):
                receiver.install()
            publisher.publish(1)
            receiver.pull(timeout=20)
            self.assertEqual(target.abs().sum(), 0)
            receiver.install()
            self.assertTrue(torch.equal(source, target))

    def test_events_and_what_they_raise(self):
        table = table_of(w=torch.zeros(8))
        have, need = wb.Layout.create(table), wb.Layout.create(table)
        source, target = torch.arange(8.0), torch.zeros(8)
        have.add_tensor("w", source)
        need.add_tensor("w", target)
        seen = []

        def event(one):
            seen.append((one.kind, one.step))
            if bad:
                raise KeyError("mine")

        bad = False
        with job() as one, wb.Publisher.create(one, have, timeout=20) as publisher, \
                wb.Receiver.create(one, need, name="r", on_event=event, timeout=20) as receiver:
            publisher.publish(1)
            receiver.pull(timeout=20)
            self.assertIn((wb.EventKind.STEP_BEGIN, wb.PullStep.READ), seen)
            bad = True
            with self.assertRaisesRegex(KeyError, "mine"):
                receiver.pull(timeout=20)
            bad = False
            receiver.pull(timeout=20)

    def test_a_wait_leaves_the_interpreter_to_others_and_closing_ends_it(self):
        table = table_of(w=torch.zeros(8))
        need = wb.Layout.create(table)
        need.add_tensor("w", torch.zeros(8))
        with job() as one:
            receiver = wb.Receiver.create(one, need, name="r", timeout=20)
            ended = []

            def wait():
                try:
                    receiver.pull(timeout=60)
                except wb.Error as error:
                    ended.append(error)

            thread = threading.Thread(target=wait)
            thread.start()
            turns = 0
            while turns < 1000 and not ended:  # with the GIL held, this would not turn
                turns += 1
            self.assertEqual(turns, 1000)
            while True:
                try:
                    receiver.pull(timeout=0.01)
                except wb.FailedPrecondition:
                    break  # the other thread is inside
                except wb.Deadline:
                    continue
            receiver.close()
            thread.join(20)
            self.assertIsInstance(ended[0], wb.Cancelled)


class Errors(unittest.TestCase):
    def test_the_class_says_the_code_and_the_facts_are_there(self):
        with self.assertRaises(wb.NotFound) as caught:
            wb.Table.open("/nowhere/at/all")
        self.assertEqual(caught.exception.code, wb.Code.NOT_FOUND)
        self.assertIn("/nowhere/at/all", str(caught.exception))
        copy = pickle.loads(pickle.dumps(caught.exception))
        self.assertIsInstance(copy, wb.NotFound)
        self.assertEqual(copy.sentence, caught.exception.sentence)

    def test_every_code_has_its_class(self):
        from weightbridge._errors import make
        for code in wb.Code:
            error = make(int(code), "words", True, 2, 3, "peer", "tensor")
            self.assertIsNot(type(error), wb.Error)
            self.assertEqual((error.code, error.peer, error.tensor, error.vendor),
                             (code, "peer", "tensor", 3))

    def test_timeouts(self):
        for timeout in (-1.0, float("nan"), float("inf")):
            with self.assertRaises(wb.InvalidArgument):
                wb.Job.open("embed:127.0.0.1:0", token="x", timeout=timeout)

    def test_a_deadline_has_its_report(self):
        table = table_of(w=torch.zeros(8))
        have, need = wb.Layout.create(table), wb.Layout.create(table)
        have.add_tensor("w", torch.zeros(8))
        need.add_tensor("w", torch.zeros(8))
        with job() as one, wb.Publisher.create(one, have, timeout=20) as publisher, \
                wb.Receiver.create(one, need, name="r", timeout=20) as receiver:
            publisher.publish(1)
            with self.assertRaises(TimeoutError) as caught:
                receiver.pull(wb.exactly(7), timeout=0.2)
            self.assertEqual(caught.exception.report.memory, wb.MemoryState.UNTOUCHED)
            self.assertTrue(caught.exception.retryable)

    def test_tensors_that_do_not_fit(self):
        layout = wb.Layout.create(table_of(w=torch.zeros(4, 4)))
        with self.assertRaisesRegex(wb.Mismatch, "BF16"):
            layout.add_tensor("w", torch.zeros(4, 4, dtype=torch.bfloat16))
        with self.assertRaises(wb.Mismatch):
            layout.add_tensor("w", torch.zeros(4, 5))
        with self.assertRaises(wb.InvalidArgument):
            layout.add_tensor("x", torch.zeros(4, 4))
        with self.assertRaisesRegex(wb.InvalidArgument, "gaps"):
            layout.add_tensor("w", torch.zeros(4, 8)[:, :4])
        with self.assertRaises(wb.Unsupported):
            layout.add_tensor("w", torch.zeros(4, 4, device="meta"))
        with self.assertRaises(wb.InvalidArgument):
            layout.add_tensor("w", [1, 2, 3])

    def test_numbers_are_whole_and_fit(self):
        layout = wb.Layout.create(table_of(w=torch.zeros(4, 4)))
        index = layout.add_buffer("w", torch.zeros(4, 4))
        for bad in (1.5, 4.0, 1 << 70, -(1 << 70), "4", None):
            with self.subTest(bad=bad):
                with self.assertRaises(wb.InvalidArgument):
                    wb.Table.create([("a", "F32", (bad,))])
                with self.assertRaises(wb.InvalidArgument):
                    layout.add_buffer("b", dtype="F32", shape=[bad])
                with self.assertRaises(wb.InvalidArgument):
                    layout.add_piece("w", index, start=[bad, 0], count=[1, 4])
                with self.assertRaises(wb.InvalidArgument):
                    layout.add_piece("w", index, offset=bad)

    def test_no_text_is_cut_at_a_nul(self):
        table = table_of(w=torch.zeros(4))
        layout = wb.Layout.create(table)
        calls = (
            lambda: wb.Table.create([("a\0b", "F32", (1,))]),
            lambda: layout.add_tensor("w\0", torch.zeros(4)),
            lambda: layout.add_buffer("w\0x", torch.zeros(4)),
            lambda: layout.add_extra(0, 0, 1, wb.ExtraKind.ZERO_FILL, "\0"),
            lambda: layout.save("/tmp/x\0y"),
            lambda: wb.Layout.load("/tmp/x\0y"),
            lambda: wb.Table.open("x\0"),
            lambda: wb.Layout.from_rules(table, "m\0", "vllm:tp=1", 0),
            lambda: wb.Job.open("embed:127.0.0.1:0", token="secret\0rest", timeout=5),
        )
        for number, call in enumerate(calls):
            with self.subTest(call=number), self.assertRaisesRegex(wb.InvalidArgument, "NUL|no tensor"):
                call()

    def test_read_only_memory_is_no_target(self):
        table = table_of(w=torch.zeros(4))
        array = np.zeros(4, np.float32)
        array.flags.writeable = False
        need = wb.Layout.create(table)
        need.add_tensor("w", array)
        with job() as one, self.assertRaisesRegex(wb.InvalidArgument, "read-only"):
            wb.Receiver.create(one, need, name="r", timeout=20)
        with self.assertRaisesRegex(wb.InvalidArgument, "read-only"):
            wb.probe(lambda weights: None, table, lambda: {"w": array})

    def test_closed_objects_say_so(self):
        one = job()
        one.close()
        one.close()
        with self.assertRaisesRegex(wb.FailedPrecondition, "closed"):
            one.store_url


class Layouts(unittest.TestCase):
    def test_pieces_extras_digest_files_and_differences(self):
        table = table_of(w=torch.zeros(8, 4))
        layouts = []
        for rows in (5, 5, 4):
            layout = wb.Layout.create(table)
            buffer = layout.add_buffer("part", dtype=torch.float32, shape=(6, 4))
            layout.add_piece("w", buffer, start=[0, 0], count=[rows, 4])
            layout.add_extra(buffer, 16 * rows, 96 - 16 * rows, wb.ExtraKind.ZERO_FILL, "padding")
            layouts.append(layout)
        self.assertEqual(layouts[0].digest, layouts[1].digest)
        self.assertNotEqual(layouts[0].digest, layouts[2].digest)
        self.assertEqual(layouts[0].pieces()[0].stride, (16, 4))
        self.assertEqual(layouts[0].extras()[0].kind, wb.ExtraKind.ZERO_FILL)
        self.assertTrue(wb.Layout.diff(layouts[0], layouts[1])["equal"])
        self.assertFalse(wb.Layout.diff(layouts[0], layouts[2])["equal"])
        with tempfile.TemporaryDirectory() as folder:
            layouts[0].save(pathlib.Path(folder) / "a.layout")
            loaded = wb.Layout.load(pathlib.Path(folder) / "a.layout")
            self.assertEqual(loaded.digest, layouts[0].digest)
            self.assertEqual(loaded.table.tensors(), table.tensors())
            loaded.allocate()
            loaded.numpy(0)[...] = 3
            self.assertEqual(loaded.numpy(0).sum(), 72)

    def test_bind_by_name(self):
        layout = wb.Layout.create(table_of(w=torch.zeros(3, 4)))
        layout.add_tensor("w")
        with self.assertRaises(wb.Mismatch):
            layout.bind("w", torch.zeros(4, 3))
        with self.assertRaises(wb.InvalidArgument):
            layout.bind("v", torch.zeros(3, 4))
        layout.bind("w", torch.zeros(3, 4))
        self.assertNotEqual(layout.buffers()[0].data, 0)

    def test_a_layout_keeps_its_tensors(self):
        table = table_of(w=torch.zeros(1 << 16))
        have, need = wb.Layout.create(table), wb.Layout.create(table)
        have.add_tensor("w", torch.full((1 << 16,), 7.0))
        target = torch.zeros(1 << 16)
        need.add_tensor("w", target)
        with job() as one:
            publisher = wb.Publisher.create(one, have, timeout=20)
            del have
            gc.collect()
            garbage = [torch.zeros(1 << 16) for _ in range(8)]
            receiver = wb.Receiver.create(one, need, name="r", timeout=20)
            publisher.publish(1)
            receiver.pull(timeout=20)
            self.assertEqual(float(target.sum()), 7.0 * (1 << 16))
            del garbage
            receiver.close()
            publisher.close()

    def test_tables(self):
        table = wb.checkpoint({"b": (torch.bfloat16, (2, 3)), "a": np.zeros(4, np.int64)})
        self.assertEqual([t.name for t in table.tensors()], ["a", "b"])
        self.assertEqual(table.tensors()[1].dtype, wb.DType.BF16)
        with self.assertRaises(wb.Error):
            wb.Table.create([("a", "F32", (1,)), ("a", "F32", (1,))])
        with self.assertRaises(wb.Unsupported):
            wb.checkpoint({"a": (torch.complex128, (2,))})


def _in_child(layout, queue):
    try:
        layout.digest
        queue.put("no error")
    except wb.FailedPrecondition:
        queue.put("refused")
    gc.collect()


class Processes(unittest.TestCase):
    def test_a_forked_child_neither_uses_nor_closes(self):
        layout = wb.Layout.create(table_of(w=torch.zeros(4)))
        layout.add_tensor("w", torch.zeros(4))
        with job() as one, wb.Publisher.create(one, layout, timeout=20) as publisher:
            context = multiprocessing.get_context("fork")
            queue = context.Queue()
            child = context.Process(target=_in_child, args=(layout, queue))
            child.start()
            self.assertEqual(queue.get(timeout=30), "refused")
            child.join(30)
            self.assertEqual(child.exitcode, 0)
            publisher.publish(1)

    def test_a_program_that_closes_nothing_ends_well(self):
        script = (
            "import torch, logging, weightbridge as wb\n"
            "logging.basicConfig(level=logging.DEBUG)\n"
            "t = wb.checkpoint({'w': torch.zeros(4)}); l = wb.Layout.create(t)\n"
            "l.add_tensor('w', torch.zeros(4))\n"
            "j = wb.Job.open('embed:127.0.0.1:0', token='x', timeout=20, log_level=logging.DEBUG)\n"
            "p = wb.Publisher.create(j, l, timeout=20)\n"
            "r = wb.Receiver.create(j, l, name='r', timeout=20)\n"
            "import threading\n"
            "def wait():\n"
            "    try: r.pull(timeout=60)\n"
            "    except wb.Error: pass\n"
            "threading.Thread(target=wait, daemon=True).start()\n")
        result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                                timeout=60, check=False, env=os.environ)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_callbacks_of_what_holds_them_do_not_keep_it(self):
        class Holder:
            def __init__(self, close):
                self.job = job(log=self.log)
                table = table_of(w=torch.zeros(4))
                layout = wb.Layout.create(table)
                layout.add_tensor("w", torch.zeros(4))
                if close:
                    self.receiver = wb.Receiver.create(
                        self.job, layout, name="r", timeout=20, on_event=self.event)
                    self.receiver.close()
                    self.job.close()

            def log(self, level, room, message, fields):
                pass

            def event(self, event):
                pass

        for close in (False, True):
            with self.subTest(close=close):
                kept = weakref.ref(Holder(close))
                gc.collect()
                self.assertIsNone(kept())

    def test_records_reach_logging(self):
        with self.assertLogs("weightbridge", logging.DEBUG) as logs:
            with job(log_level=logging.DEBUG) as one:
                layout = wb.Layout.create(table_of(w=torch.zeros(4)))
                layout.add_tensor("w", torch.zeros(4))
                wb.Publisher.create(one, layout, timeout=20).close()
        self.assertTrue(logs.records)


class NoViews(unittest.TestCase):
    """What the memory holds is not what the tensor shows: refused, not published."""

    def test_negated_views_are_refused(self):
        import torch
        negated = torch.imag(torch.complex(torch.ones(4), torch.ones(4)).conj())
        self.assertTrue(negated.is_neg())
        table = wb.checkpoint({"w": torch.zeros(4)})
        layout = wb.Layout.create(table)
        with self.assertRaisesRegex(wb.Unsupported, "negated"):
            layout.add_tensor("w", negated)

    def test_exports_that_change_in_place_are_refused(self):
        import torch
        import weightbridge.torch as wbt
        module = torch.nn.Module()
        module.w = torch.nn.Parameter(torch.ones(4, 4))
        table = wb.checkpoint({"w": torch.zeros(4, 4)})
        wbt.layout(module, table, export=lambda tensors: {"w": tensors["w"].clone()})
        for change in (lambda w: w.clone().mul_(2), lambda w: w.clone().t().add_(1).t()):
            with self.assertRaisesRegex(wb.Unsupported, "in place"):
                wbt.layout(module, table, export=lambda tensors: {"w": change(tensors["w"])})


if __name__ == "__main__":
    unittest.main()
