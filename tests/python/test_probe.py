"""Probing through real loaders: transformers' from_pretrained conversion, load_state_dict; and bad
loaders, after which the weights are as before."""

import os
import tempfile
import unittest

import numpy as np
import torch

import models
import weightbridge as wb

MINILM = os.environ.get("WB_MINILM", "")


def tensors_of(model):
    found = dict(model.named_parameters(remove_duplicate=False))
    found.update(model.named_buffers(remove_duplicate=False))
    return found


def transformers_loader(model):
    """Loads as from_pretrained does: renames, merges and converts, into the live parameters."""
    def load(weights):
        fresh = type(model).from_pretrained(None, config=model.config, state_dict=dict(weights),
                                            dtype=model.dtype)
        ours = tensors_of(model)
        for name, tensor in tensors_of(fresh).items():
            ours[name].data.copy_(tensor)

    return load


def pull_and_compare(test, model, probed, table, checkpoint_tensors):
    """Publishes the checkpoint's own tensors, pulls into the live model."""
    have = wb.Layout.create(table)
    for name, tensor in checkpoint_tensors.items():
        have.add_tensor(name, tensor)
    with wb.Job.open("embed:127.0.0.1:0", token="secret", timeout=20) as job, \
            wb.Publisher.create(job, have, timeout=20) as publisher, \
            wb.Receiver.create(job, probed.layout, name="r", timeout=20) as receiver:
        publisher.publish(1)
        receiver.pull(timeout=30)


class Transformers(unittest.TestCase):
    def family(self, family):
        with tempfile.TemporaryDirectory() as base:
            folder = models.folder(base, family, 1)
            import transformers
            live = transformers.AutoModelForCausalLM.from_pretrained(
                models.folder(base, family, 0), dtype=torch.bfloat16)
            want = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
            table = wb.checkpoint(folder)
            before = {n: t.clone() for n, t in tensors_of(live).items()}
            probed = wb.probe(transformers_loader(live), table, lambda: tensors_of(live))
            for name, tensor in tensors_of(live).items():
                self.assertTrue(torch.equal(tensor, before[name]), name)
            self.assertEqual(probed.homeless, [])
            from safetensors.torch import load_file
            pull_and_compare(self, live, probed, table, load_file(f"{folder}/model.safetensors"))
            for (name, ours), theirs in zip(live.named_parameters(), want.parameters(), strict=True):
                self.assertTrue(torch.equal(ours, theirs), name)
            ids = torch.arange(10).view(1, 10)
            self.assertTrue(torch.equal(live(ids).logits, want(ids).logits))

    def test_qwen3(self):
        self.family("qwen3")

    def test_qwen3_moe_with_fused_experts(self):
        self.family("qwen3_moe")

    def test_config_alone_names_the_checkpoint(self):
        for family in ("llama", "qwen2", "qwen3", "qwen3_moe", "deepseek_v3"):
            with self.subTest(family=family), tempfile.TemporaryDirectory() as base:
                folder = models.folder(base, family)
                self.assertEqual(wb.checkpoint(models.config(family)).tensors(),
                                 wb.checkpoint(folder).tensors())

    @unittest.skipUnless(MINILM, "WB_MINILM: no folder with the MiniLM checkpoint is given")
    def test_bert_with_real_weights(self):
        import transformers
        from safetensors.torch import load_file
        real = load_file(f"{MINILM}/model.safetensors")
        want = transformers.BertModel.from_pretrained(MINILM)
        torch.manual_seed(0)
        live = transformers.BertModel(want.config)
        table = wb.checkpoint(MINILM)
        probed = wb.probe(transformers_loader(live), table, lambda: tensors_of(live))
        # transformers makes position_ids itself and ignores the checkpoint's.
        self.assertEqual([h.name for h in probed.homeless], ["embeddings.position_ids"])
        pull_and_compare(self, live, probed, table, real)
        for (name, ours), theirs in zip(live.named_parameters(), want.parameters(), strict=True):
            self.assertTrue(torch.equal(ours, theirs), name)


class Loaders(unittest.TestCase):
    def setUp(self):
        self.table = wb.checkpoint({"a": torch.zeros(6, 8), "b": torch.zeros(4, 8)})
        self.fused = torch.randn(12, 8)
        self.scale = torch.randn(3)
        self.before = (self.fused.clone(), self.scale.clone())
        self.buffers = {"fused": self.fused, "scale": self.scale}

    def good(self, weights):
        self.fused[:6].copy_(weights["a"])
        self.fused[6:10].copy_(weights["b"])
        self.fused[10:].zero_()

    def tearDown(self):
        self.assertTrue(torch.equal(self.fused, self.before[0]))
        self.assertTrue(torch.equal(self.scale, self.before[1]))

    def probe(self, load, buffers=None, **options):
        return wb.probe(load, self.table, buffers or (lambda: self.buffers), **options)

    def test_padding_is_zero_filled_and_the_rest_kept(self):
        probed = self.probe(self.good)
        self.assertEqual({(r.buffer, r.kind) for r in probed.ranges},
                         {("fused", "constant"), ("scale", "untouched")})
        self.assertEqual({e.kind for e in probed.layout.extras()},
                         {wb.ExtraKind.ZERO_FILL, wb.ExtraKind.UNMAPPED})

    def test_order_and_mapping_do_not_matter(self):
        by_pairs = self.probe(lambda weights: [
            (self.fused[:6] if name == "a" else self.fused[6:10]).copy_(tensor)
            for name, tensor in reversed(list(weights))] + [self.fused[10:].zero_()])
        self.assertEqual(by_pairs.layout.digest, self.probe(self.good).layout.digest)

    def test_a_loader_that_throws_half_way(self):
        def load(weights):
            self.fused[:6].copy_(weights["a"])
            raise KeyError("half-way")
        with self.assertRaisesRegex(KeyError, "half-way"):
            self.probe(load)

    def test_a_loader_that_throws_in_a_later_pass(self):
        passes = []

        def load(weights):
            passes.append(1)
            self.good(weights)
            if len(passes) == 3:
                raise MemoryError("later")
        with self.assertRaises(MemoryError):
            self.probe(load)

    def test_a_dropped_tensor_and_a_computed_one_are_named(self):
        def load(weights):
            self.fused[:6].copy_(weights["a"])
            self.scale.copy_(weights["b"][0, :3] * 2)
        probed = self.probe(load)
        self.assertEqual([h.name for h in probed.homeless], ["b"])
        self.assertEqual([r.buffer for r in probed.computed], ["scale"])
        with self.assertRaisesRegex(wb.Mismatch, "of b"):
            probed.require_complete()

    def test_a_tensor_that_moves(self):
        listed = []

        def buffers():
            listed.append(1)
            return dict(self.buffers, scale=self.scale if len(listed) < 3 else torch.randn(3))
        with self.assertRaises(wb.Mismatch) as caught:
            self.probe(self.good, buffers)
        self.assertIn("scale", str(caught.exception))

    def test_a_tensor_that_goes(self):
        listed = []

        def buffers():
            listed.append(1)
            return self.buffers if len(listed) < 3 else {"fused": self.fused}
        with self.assertRaises(wb.Mismatch):
            self.probe(self.good, buffers)

    def test_a_loader_that_is_not_deterministic(self):
        calls = []

        def load(weights):
            calls.append(1)
            self.good(weights)
            self.fused[len(calls) % 6].copy_(weights["b"][0])
        with self.assertRaises(wb.Mismatch):
            self.probe(load)

    def test_unknown_names_are_the_loaders_own_error(self):
        with self.assertRaises(KeyError):
            self.probe(lambda weights: weights["c"])

    def test_references_that_a_loader_keeps_stay_readable(self):
        kept = []

        def load(weights):
            kept.extend(tensor for _, tensor in weights)
            self.good(weights)
        self.probe(load)
        self.assertTrue(all(bool(torch.isfinite(t.float()).all()) for t in kept))

    def test_views_strides_and_aliases(self):
        storage = torch.zeros(8, 20)
        part, tied = storage[:, 2:8].t(), self.fused

        def load(weights):
            part.copy_(weights["a"])
            self.good(weights)
        probed = self.probe(load, lambda: {"part": part, "fused": self.fused, "tied": tied,
                                           "scale": self.scale})
        self.assertEqual(len(probed.aliases), 1)
        self.assertEqual(probed.homes["a"].more_homes, 48)
        self.assertEqual(float(storage.abs().sum()), 0)

    def test_another_dtype_addition_and_quantising_are_no_copies(self):
        half = torch.zeros(6, 8, dtype=torch.bfloat16)
        loaders = {"cast": lambda w: half.copy_(w["a"]),
                   "added": lambda w: self.fused[:6].copy_(w["a"] + 1),
                   "quantised": lambda w: self.fused[:6].copy_((w["a"] * 7).round())}
        for kind, load in loaders.items():
            with self.subTest(kind=kind):
                probed = self.probe(load, lambda: dict(self.buffers, half=half))
                self.assertEqual({h.name for h in probed.homeless}, {"a", "b"})
                with self.assertRaises(wb.Mismatch):
                    probed.require_complete()
        self.assertEqual(float(half.abs().sum()), 0)

    def test_writing_elsewhere_leaves_tensors_without_a_home(self):
        elsewhere = {}
        probed = self.probe(lambda weights: elsewhere.update((n, t.clone()) for n, t in weights))
        self.assertEqual({h.name for h in probed.homeless}, {"a", "b"})

    def test_buffers_that_overlap_in_part(self):
        flat = self.fused.view(-1)
        with self.assertRaises(wb.Error) as caught:
            self.probe(self.good, lambda: {"x": flat[:60], "y": flat[40:]})
        self.assertRegex(str(caught.exception), "x|y")

    def test_memory_too_small_never_gives_wrong_places(self):
        try:
            probed = self.probe(self.good, max_bytes=1)
        except wb.Error as error:
            self.assertIn("memory", str(error) + error.code.name.lower())
        else:
            self.assertEqual({p.tensor for p in probed.layout.pieces()}
                             | {h.name for h in probed.homeless}, {"a", "b"})

    def test_absurd_shapes(self):
        for shape in ((1 << 40, 1 << 40), (-1, 4)):
            with self.subTest(shape=shape), self.assertRaises((wb.Error, OverflowError, TypeError)):
                table = wb.checkpoint({"a": (torch.float32, shape)})
                wb.probe(self.good, table, lambda: self.buffers)

    def test_reload_instead_of_a_backup(self):
        def reload():
            self.fused.copy_(self.before[0])
        probed = self.probe(self.good, restore="reload", reload=reload)
        self.assertLess(probed.summary["backup_bytes"], self.fused.nbytes)
        with self.assertRaises(KeyError):
            self.probe(lambda weights: weights["c"], restore="reload", reload=reload)

    def test_words(self):
        with self.assertRaises(wb.InvalidArgument):
            self.probe(self.good, restore="maybe")
        with self.assertRaises(wb.InvalidArgument):
            self.probe(self.good, restore="reload")
        with self.assertRaises(wb.InvalidArgument):
            self.probe(self.good, lambda: [("x", self.fused), ("x", self.scale)])
        with self.assertRaisesRegex(wb.InvalidArgument, "function"):
            wb.probe(self.good, self.table, {"x": self.fused})
        with self.assertRaisesRegex(wb.InvalidArgument, "no tensor"):
            self.probe(self.good, lambda: {})

    def test_numpy(self):
        target = np.zeros((6, 8), np.float32)

        def load(weights):
            assert isinstance(weights["a"], np.ndarray)
            target[...] = weights["a"]
        probed = wb.probe(load, self.table, lambda: {"t": target})
        self.assertEqual([h.name for h in probed.homeless], ["b"])
        self.assertEqual(target.sum(), 0)

    def test_every_dtype_of_torch(self):
        for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int8,
                      torch.uint8, torch.int16, torch.int32, torch.int64, torch.float8_e4m3fn,
                      torch.float8_e5m2):
            with self.subTest(dtype=dtype):
                table = wb.checkpoint({"w": (dtype, (5, 7))})
                target = torch.zeros(7, 5, dtype=dtype)
                probed = wb.probe(lambda weights: target.copy_(weights["w"].t()), table,
                                  lambda: {"t": target})
                self.assertEqual(probed.homes["w"].one_home, 35)
                self.assertEqual(len(probed.layout.pieces()), 1)


if __name__ == "__main__":
    unittest.main()
