"""The pages of `plan` and `simulate` in a real browser: what they show, that they show it without an error and
without the network, and that names from outside stay names."""

import html.parser
import json
import pathlib
import re
import shutil
import struct
import subprocess
import unittest
import zlib

import harness
from harness import model, run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LARGE = ("--model", "deepseek-v3", "--trainer", "megatron:tp=8,pp=4,dp=8,ep=8,etp=1",
         "--rollout", "vllm:tp=1,dp=32,ep=32,engines=4")


class Browser:
    """Headless Chromium with a profile of its own, so that runs do not meet."""

    def __init__(self):
        if CHROMIUM is None:
            raise unittest.SkipTest("no chromium: install the Debian package chromium")
        self.profile = harness.scratch("chromium")

    def __call__(self, page, *words, size="1360,1000", theme="light"):
        result = subprocess.run(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-dev-shm-usage", "--disable-extensions", "--disable-background-networking",
             "--hide-scrollbars", "--enable-logging=stderr", "--v=0", f"--window-size={size}",
             "--virtual-time-budget=20000", f"--user-data-dir={self.profile}", *words,
             f"{pathlib.Path(page).resolve().as_uri()}#{theme}"],
            capture_output=True, text=True, timeout=harness.HANG, check=True)
        console = [line for line in result.stderr.splitlines() if "CONSOLE" in line]
        return result.stdout, console

    def dom(self, page, **options):
        text, console = self(page, "--dump-dom", **options)
        return Dom(text), console

    def pixels(self, page, file, **options):
        _, console = self(page, f"--screenshot={file}", **options)
        return read_png(file), console


class Dom(html.parser.HTMLParser):
    """All elements with their attributes and the text below them."""

    VOID = {"meta", "input", "br", "img", "link", "hr"}

    def __init__(self, text):
        super().__init__()
        self.elements, self._open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        node = {"tag": tag, "attributes": dict(attrs), "text": ""}
        self.elements.append(node)
        if tag not in self.VOID:
            self._open.append(node)

    def handle_startendtag(self, tag, attrs):
        self.elements.append({"tag": tag, "attributes": dict(attrs), "text": ""})

    def handle_endtag(self, tag):
        while self._open and self._open.pop()["tag"] != tag:
            pass

    def handle_data(self, data):
        for node in self._open:
            node["text"] += data

    def all(self, tag=None, **attributes):
        return [node for node in self.elements
                if (tag is None or node["tag"] == tag) and
                all(node["attributes"].get(name.replace("_", "-")) == value
                    for name, value in attributes.items())]

    def one(self, tag=None, **attributes):
        found = self.all(tag, **attributes)
        assert len(found) == 1, (tag, attributes, len(found))
        return found[0]

    def value(self, key):
        return float(self.one(data_key=key)["attributes"]["data-value"])


def read_png(file):
    """Rows of (r, g, b) of an 8-bit screenshot, without any library."""
    data = pathlib.Path(file).read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, header = 8, b"", None
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            header = struct.unpack(">IIBBBBB", data[at + 8:at + 8 + size])
        if kind == b"IDAT":
            packed += data[at + 8:at + 8 + size]
        at += size + 12
    width, height, depth, color, _, _, interlaced = header
    assert depth == 8 and color in (2, 6) and not interlaced
    step = 3 if color == 2 else 4
    raw, stride, rows, before = zlib.decompress(packed), width * step, [], bytearray(width * step)
    for y in range(height):
        kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for x in range(stride):
            left = line[x - step] if x >= step else 0
            up, corner = before[x], before[x - step] if x >= step else 0
            if kind == 1:
                line[x] = (line[x] + left) & 255
            elif kind == 2:
                line[x] = (line[x] + up) & 255
            elif kind == 3:
                line[x] = (line[x] + (left + up) // 2) & 255
            elif kind == 4:
                guess = left + up - corner
                a, b, c = abs(guess - left), abs(guess - up), abs(guess - corner)
                line[x] = (line[x] + (left if a <= b and a <= c else up if b <= c else corner)) & 255
        rows.append([tuple(line[x:x + 3]) for x in range(0, stride, step)])
        before = line
    return rows


def colors(rows):
    """How often each colour occurs, of every third pixel of every third row."""
    out = {}
    for row in rows[::3]:
        for pixel in row[::3]:
            out[pixel] = out.get(pixel, 0) + 1
    return out


class Page(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()

    def pages(self, *words, command="plan"):
        folder = harness.scratch("page")
        result = run(command, *words, "--html", folder / "page.html", "--json", folder / "out.json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return folder / "page.html", json.loads((folder / "out.json").read_text()), result.stdout

    def assert_drawn(self, dom, console):
        self.assertEqual(console, [])
        self.assertEqual(dom.one("html")["attributes"].get("data-drawn"), "yes")

    def assert_self_contained(self, page):
        text = page.read_text()
        self.assertNotRegex(text, r"(?i)\b(src|href)\s*=")
        self.assertNotRegex(re.sub(r"http://www\.w3\.org/2000/svg", "", text), r"(?i)https?://")


class Plan(Page):
    def test_the_numbers_of_a_small_plan(self):
        page, out, _ = self.pages("--model", model("tiny-qwen3-moe"), "--trainer",
                                  "megatron:tp=2,dp=2,ep=2", "--rollout", "vllm:tp=1,dp=2,ep=2")
        self.assert_self_contained(page)
        dom, console = self.browser.dom(page)
        self.assert_drawn(dom, console)
        self.assertEqual(dom.value("needed"), out["needed"])
        self.assertEqual(dom.value("read"), out["from_trainers"])
        self.assertEqual(dom.value("saved"),
                         out["distinct"] * len(out["receivers"]) - out["needed"])
        self.assertEqual(dom.value("memory"), out["peak_memory_receiver"])
        self.assertAlmostEqual(dom.value("time"), out["simulated_seconds"])
        self.assertEqual(dom.one(data_key="proof")["attributes"]["data-value"], "ok")
        drawn = [(float(node["attributes"]["data-largest"]), float(node["attributes"]["data-bound"]))
                 for node in dom.all() if "data-load" in node["attributes"]]
        self.assertEqual(drawn, [(link["largest"], link["bound"]) for link in out["links"]])
        self.assertEqual(sum("this binds" in node["text"] for node in dom.all("h3")), 1)
        canvas = dom.one("canvas")["attributes"]
        self.assertEqual((canvas["data-rows"], canvas["data-columns"]), ("2", "4"))
        # Both sides of the chosen tensor, with the workers that hold it.
        for side in ("cut-from", "cut-to"):
            self.assertRegex(dom.one(id=side)["text"], r"\d+ box")
        # Every tensor can be chosen.
        self.assertEqual(len(dom.all("option")), 4 * (9 + 3 * 8) + 3)

    def test_names_from_outside_stay_names(self):
        evil = "</script><img src=x onerror=document.title='owned'><script>document.title='owned'//"
        folder = harness.scratch("evil") / "<b>&amp;'\"<!--<script>"
        shutil.copytree(model("tiny-qwen3"), folder)
        nic = {"speed": "400Gb/s"}
        cluster = {"hosts": [{"name": evil, "nics": [nic], "inside": "1GB/s"},
                             {"name": "r\u2028\u0000<!--", "nics": [nic], "inside": "1GB/s"}],
                   "trainer": [{"host": evil, "per_host": 2}],
                   "rollout": [{"host": "r\u2028\u0000<!--", "per_host": 4}]}
        file = harness.scratch("evil") / "cluster.json"
        file.write_text(json.dumps(cluster))
        for command in ("plan", "simulate"):
            with self.subTest(command):
                page, _, _ = self.pages("--model", folder, "--trainer", "megatron:tp=2", "--rollout",
                                        "vllm:tp=4", "--cluster", file, command=command)
                dom, console = self.browser.dom(page)
                self.assert_drawn(dom, console)
                self.assertIn("<b>&amp;'\"<!--<script>", dom.one("title")["text"])
                self.assertIn("<b>&amp;'\"<!--<script>", dom.one(id="title")["text"])
                self.assertEqual(dom.all("img") + dom.all("b"), [])
                self.assertEqual(len(dom.all("script")), 2)

    def test_256_trainers_and_128_receivers_are_readable(self):
        page, out, text = self.pages(*LARGE)
        self.assertLess(page.stat().st_size, 4 << 20)
        self.assertIn("proof: ok", text)
        dom, console = self.browser.dom(page)
        self.assert_drawn(dom, console)
        canvas = dom.one("canvas", data_rows="128")["attributes"]
        self.assertEqual(canvas["data-columns"], "256")
        self.assertEqual(dom.value("needed"), out["needed"])
        pictures = {}
        for theme in ("light", "dark"):
            file = harness.scratch("shot") / f"{theme}.png"
            rows, console = self.browser.pixels(page, file, size="1360,2600", theme=theme)
            self.assertEqual(console, [])
            pictures[theme] = colors(rows)
            # A heat map has many shades; a blank or broken page has few colours.
            self.assertGreater(len(pictures[theme]), 60)
        background = {theme: max(seen, key=seen.get) for theme, seen in pictures.items()}
        self.assertGreater(sum(background["light"]), 600)
        self.assertLess(sum(background["dark"]), 150)

    def test_a_tensor_that_is_asked_for(self):
        name = "model.layers.33.mlp.experts.77.up_proj.weight"
        page, _, _ = self.pages("--model", "qwen3-30b-a3b", "--trainer", "megatron:tp=2,dp=2,ep=4,etp=1",
                                "--rollout", "vllm:tp=1,dp=4,ep=4", "--tensor", name)
        dom, console = self.browser.dom(page)
        self.assert_drawn(dom, console)
        self.assertTrue(any(node["text"].startswith(name + " ") for node in dom.all("option")))
        # Expert 77 of 128 over four ranks: the third has it.
        self.assertRegex(dom.one(id="cut-to")["text"], r"1 box, 1 set of workers")
        self.assert_fails(run("plan", "--model", "qwen3-0.6b", "--trainer", "fsdp:shards=2",
                              "--rollout", "vllm:tp=1", "--html", page, "--tensor", "none"), 10,
                          "none")


class Simulate(Page):
    def test_three_ways(self):
        page, out, text = self.pages("--model", "qwen3-30b-a3b", "--trainer",
                                     "megatron:tp=2,pp=2,dp=2,ep=4,etp=1", "--rollout",
                                     "vllm:tp=1,dp=8,ep=8", command="simulate")
        self.assert_self_contained(page)
        dom, console = self.browser.dom(page)
        self.assert_drawn(dom, console)
        ways = {way["way"]: way for way in out["ways"]}
        self.assertEqual(list(ways), ["plan", "gather", "rank0"])
        for key, way in ways.items():
            row = dom.one("tr", data_way=key)
            self.assertAlmostEqual(float(row["attributes"]["data-seconds"]), way["seconds"])
            self.assertTrue(dom.all("section", id="usage-" + key))
        self.assertGreater(ways["gather"]["factor"], 1)
        self.assertIn("broadcast from rank 0", text)
        rows, console = self.browser.pixels(page, harness.scratch("shot") / "page.png",
                                            size="1360,1400")
        self.assertEqual(console, [])
        self.assertGreater(len(colors(rows)), 20)


if __name__ == "__main__":
    unittest.main()
