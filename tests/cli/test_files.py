"""Checkpoints, token files and dumps that are not what they should be."""

import json
import os
import resource
import stat
import struct
import unittest

import harness
from harness import run


def show(folder):
    return run("layout", "--model", folder, "--side", "vllm:tp=1", "--rank", 0)


def rewrite_header(folder, change):
    """Applies change(header) to the JSON header and keeps the data."""
    path = folder / "model.safetensors"
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size:])


class Checkpoints(harness.Case):
    def setUp(self):
        self.folder = harness.copy_model("tiny-qwen3", "bad")
        self.file = self.folder / "model.safetensors"

    def test_no_folder(self):
        self.assert_fails(show(self.folder / "nowhere"), 10)

    def test_no_weights(self):
        self.file.unlink()
        self.assert_fails(show(self.folder), 10)

    def test_config_is_not_json(self):
        (self.folder / "config.json").write_text("{ model")
        self.assert_fails(show(self.folder), 3)

    def test_unknown_family(self):
        harness.set_config(self.folder, model_type="gpt_from_tomorrow")
        self.assert_fails(show(self.folder), 12, "gpt_from_tomorrow")

    def test_control_characters_stay_on_one_line(self):
        harness.set_config(self.folder, model_type="a\nb\x1b[31mc")
        result = show(self.folder)
        self.assertNotIn("\x1b", result.stderr)
        self.assert_fails(result, 12)

    def test_config_of_another_model(self):
        harness.set_config(self.folder, vocab_size=999)
        self.assert_fails(show(self.folder), 9, "embed_tokens")

    def test_truncated(self):
        data = self.file.read_bytes()
        for size in (0, 4, 8, 100, len(data) - 1):
            with self.subTest(size):
                self.file.write_bytes(data[:size])
                self.assert_fails(show(self.folder), 3)

    def test_header_that_lies(self):
        data = self.file.read_bytes()
        for length in (2**63, 2**32, len(data), 0):
            with self.subTest(length):
                self.file.write_bytes(struct.pack("<Q", length) + data[8:])
                self.assert_fails(show(self.folder), 3)

    def test_overlapping_oversized_and_unknown(self):
        name = "model.norm.weight"

        def shift(header):
            header[name]["data_offsets"] = [0, 128]

        def grow(header):
            header[name]["shape"] = [2**62, 4]

        def negative(header):
            header[name]["shape"] = [-64]

        def dtype(header):
            header[name]["dtype"] = "BF17"

        for change, code in ((shift, 3), (grow, 3), (negative, 3), (dtype, 12)):
            with self.subTest(change.__name__):
                folder = harness.copy_model("tiny-qwen3", "lie")
                rewrite_header(folder, change)
                self.assert_fails(show(folder), code)

    def test_index_that_points_outside(self):
        folder = harness.copy_model("tiny-qwen3-moe", "index")
        path = folder / "model.safetensors.index.json"
        index = json.loads(path.read_text())
        index["weight_map"]["model.norm.weight"] = "../../../../etc/passwd"
        path.write_text(json.dumps(index))
        self.assert_fails(show(folder), 3)


class Tokens(harness.Case):
    def publish(self, token):
        return run("publish", "--model", harness.model("tiny-qwen3"), "--trainer", "megatron:tp=1",
                   "--rank", 0, "--store", "embed:127.0.0.1:0", "--token-file", token, "--timeout",
                   5)

    def test_readable_by_others(self):
        self.assert_fails(self.publish(harness.token_file(mode=0o644)), 7)

    def test_missing(self):
        self.assert_fails(self.publish("/nowhere/token"), 10)

    def test_empty(self):
        result = self.publish(harness.token_file(text=""))
        self.assertIn(result.returncode, (2, 3), result.stderr)
        self.assertEqual(len(result.stderr.strip().splitlines()), 1)


class Dump(harness.Case):
    def pull(self, name, rollout, rank, *words, **options):
        token = harness.token_file()
        publisher = self.start("publish", "--model", harness.model(name), "--trainer",
                               "megatron:tp=1", "--rank", 0, "--store", "embed:127.0.0.1:0",
                               "--token-file", token, "--values", "checkpoint", "--json")
        publisher.wait_for_event("published")
        url = publisher.wait_for_event("ready")["store"]
        return run("pull", "--model", harness.model(name), "--rollout", rollout, "--rank", rank,
                   "--store", url, "--token-file", token, "--values", "checkpoint", "--verify",
                   "--timeout", 30, *words, **options)

    def test_is_what_the_framework_holds(self):
        file = harness.scratch("dump") / "rank3.safetensors"
        result = self.pull("tiny-qwen3", "vllm:tp=4", 3, "--dump", file)
        self.assertEqual(result.returncode, 0, result.stderr)
        held = harness.read_safetensors(file)
        source = harness.read_safetensors(harness.model("tiny-qwen3") / "model.safetensors")

        def rows(name, first, count):
            row = len(source[name][2]) // source[name][1][0]
            return source[name][2][first * row:(first + count) * row]

        layer = "model.layers.2."
        self.assertEqual(held[layer + "self_attn.qkv_proj.weight"],
                         ("BF16", [64, 64],
                          rows(layer + "self_attn.q_proj.weight", 96, 32) +
                          rows(layer + "self_attn.k_proj.weight", 16, 16) +
                          rows(layer + "self_attn.v_proj.weight", 16, 16)))
        self.assertEqual(held[layer + "mlp.gate_up_proj.weight"][2],
                         rows(layer + "mlp.gate_proj.weight", 72, 24) +
                         rows(layer + "mlp.up_proj.weight", 72, 24))
        down = source[layer + "mlp.down_proj.weight"][2]
        self.assertEqual(held[layer + "mlp.down_proj.weight"][2],
                         b"".join(down[r * 192 + 144:r * 192 + 192] for r in range(64)))
        self.assertEqual(held["model.embed_tokens.weight"][2],
                         rows("model.embed_tokens.weight", 768, 232) + bytes(24 * 128))

    def test_disk_full_leaves_nothing(self):
        folder = harness.scratch("full")
        # A limit on the size of files stands for a full disk: 20 MB do not fit into 8 MB. SIGXFSZ
        # stays ignored, as Python has it, so that writing past the limit is an error.
        result = self.pull("small-llama", "replicated:n=1", 0, "--dump", folder / "all.safetensors",
                           "--memory", "host", "--transport", "local", restore_signals=False,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE,
                                                                 (8 << 20, 8 << 20)))
        self.assert_fails(result, 14, "all.safetensors")
        self.assertIn("verified", result.stdout)
        self.assertEqual(os.listdir(folder), [])

    def test_what_is_no_regular_file_is_refused_before_anything_is_contacted(self):
        folder = harness.scratch("refused")
        (folder / "file").write_text("kept")
        (folder / "link").symlink_to("file")
        os.mkfifo(folder / "fifo")
        for name, word in (("link", "symbolic link"), ("fifo", "FIFO"), (".", "folder")):
            with self.subTest(name):
                # No store is there, which would be exit code 5.
                self.assert_fails(run("pull", "--model", harness.model("tiny-qwen3"), "--rollout",
                                      "vllm:tp=1", "--rank", 0, "--store", "http://127.0.0.1:9",
                                      "--token-file", harness.token_file(), "--timeout", 5,
                                      "--dump", f"{folder}/{name}"), 2, word, str(folder))
        self.assertEqual(sorted(os.listdir(folder)), ["fifo", "file", "link"])
        self.assertEqual((folder / "file").read_text(), "kept")
        self.assertEqual(os.readlink(folder / "link"), "file")

    def test_mode_follows_the_umask(self):
        file = harness.scratch("mode") / "all.safetensors"
        file.write_text("replaced")
        file.chmod(0o600)
        result = self.pull("tiny-qwen3", "vllm:tp=1", 0, "--dump", file,
                           preexec_fn=lambda: os.umask(0o027))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o640)
        self.assertIn("model.norm.weight", harness.read_safetensors(file))

    def test_no_such_folder(self):
        self.assert_fails(self.pull("tiny-qwen3", "vllm:tp=1", 0, "--dump",
                                    "/nowhere/at/all.safetensors"), 10)


if __name__ == "__main__":
    unittest.main()
