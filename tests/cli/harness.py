"""What the tests of the command share: checkpoints, running it, jobs of several processes."""

import atexit
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

WEIGHTBRIDGE = os.environ["WB_WEIGHTBRIDGE"]
MAKE_CHECKPOINT = os.environ["WB_MAKE_CHECKPOINT"]
# A run that outlives this hangs; nothing in these tests comes near it.
HANG = 100

_folder = pathlib.Path(tempfile.mkdtemp(prefix="wb-cli-"))
_folder.chmod(0o755)
atexit.register(shutil.rmtree, _folder, ignore_errors=True)
_models = {}


def model(name):
    """The folder of a checkpoint, made on first use."""
    if name not in _models:
        subprocess.run([sys.executable, MAKE_CHECKPOINT, name, str(_folder / name)], check=True,
                       stdout=subprocess.DEVNULL)
        _models[name] = _folder / name
    return _models[name]


def scratch(name):
    """A new path for this test's own files."""
    return pathlib.Path(tempfile.mkdtemp(prefix=name + "-", dir=_folder))


def token_file(text="a-token-for-tests", mode=0o600):
    path = scratch("token") / "token"
    path.write_text(text + "\n")
    path.chmod(mode)
    return path


def run(*words, timeout=HANG, **options):
    return subprocess.run([WEIGHTBRIDGE, *map(str, words)], capture_output=True, text=True,
                          timeout=timeout, check=False, **options)


class Process:
    """A command that goes on; its stdout is read line by line."""

    def __init__(self, *words, **options):
        self.child = subprocess.Popen([WEIGHTBRIDGE, *map(str, words)], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, **options)
        self.lines, self.errors = [], []
        self._news = threading.Condition()
        self._readers = [threading.Thread(target=self._read, args=pair, daemon=True) for pair in
                         ((self.child.stdout, self.lines), (self.child.stderr, self.errors))]
        for reader in self._readers:
            reader.start()

    def _read(self, stream, lines):
        for line in stream:
            with self._news:
                lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def wait_for(self, wanted, timeout=HANG):
        """The first line of stdout for which wanted(line) holds."""
        end = time.monotonic() + timeout
        with self._news:
            while True:
                for line in self.lines:
                    if wanted(line):
                        return line
                if not self._readers[0].is_alive():
                    raise AssertionError(f"it ended: {self.lines} {self.errors}")
                if time.monotonic() > end:
                    raise AssertionError(f"no such line: {self.lines} {self.errors}")
                self._news.wait(0.5)

    def wait_for_event(self, name, timeout=HANG):
        return json.loads(self.wait_for(lambda line: json.loads(line).get("event") == name,
                                        timeout))

    def events(self, name):
        return [event for event in map(json.loads, self.lines) if event.get("event") == name]

    def end(self, timeout=HANG):
        """Waits for its end; returns the exit code."""
        code = self.child.wait(timeout)
        for reader in self._readers:
            reader.join(timeout)
        self.child.stdout.close()
        self.child.stderr.close()
        return code

    def stop(self, number=signal.SIGTERM):
        """Ends it with a signal, if it has not ended; returns the exit code."""
        if self.child.poll() is None:
            self.child.send_signal(number)
        return self.end()


class Case(unittest.TestCase):
    def assert_fails(self, result, code, *words):
        """An exit code, and one line on stderr that says what and what to do."""
        self.assertEqual(result.returncode, code, result.stderr + result.stdout)
        lines = result.stderr.strip().splitlines()
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertTrue(lines[0].startswith("weightbridge"), lines[0])
        self.assertIn("(hint: ", lines[0])
        for word in words:
            self.assertIn(word, lines[0])

    def start(self, *words, **options):
        """A process that ends with the test."""
        process = Process(*words, **options)
        self.addCleanup(process.stop, signal.SIGKILL)
        return process

    def start_store(self, token=None):
        """(URL, token file) of a store in a process of its own."""
        token = token or token_file()
        store = self.start("store", "--token-file", token, "--json")
        return store.wait_for_event("listening")["endpoint"], token


@contextlib.contextmanager
def socket_on_a_free_port():
    """A port that is free when the block ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        yield free.getsockname()[1]


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children_of(pid):
    return [int(child) for child in
            pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def read_safetensors(path):
    """name -> (dtype, shape, bytes), without any library."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    body = data[8 + size:]
    return {name: (entry["dtype"], entry["shape"],
                   body[entry["data_offsets"][0]:entry["data_offsets"][1]])
            for name, entry in header.items()}


def copy_model(name, label):
    folder = scratch(label)
    for file in model(name).iterdir():
        shutil.copy(file, folder)
    return folder


def set_config(folder, **values):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config.update(values)
    path.write_text(json.dumps(config))
