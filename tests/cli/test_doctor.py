"""`weightbridge doctor`: the report of this machine, and a doctor that reads from another."""

import json
import re
import unittest

import harness
from harness import run, scratch, token_file


class Machine(harness.Case):
    def test_text_names_each_part_and_counts(self):
        result = run("doctor")
        self.assertIn(result.returncode, (0, 16), result.stderr)
        for part in ("system", "rdma", "limits", "memory", "local", "ucx", "gpu"):
            self.assertRegex(result.stdout, rf"(?m)^(OK|note|PROBLEM) +{part}\b")
        last = result.stdout.strip().splitlines()[-1]
        self.assertRegex(last, r"^\d+ problems?, \d+ notes?$")
        problems = int(re.match(r"(\d+)", last).group(1))
        self.assertEqual(result.returncode, 16 if problems else 0)
        # Each note and problem is followed by its cure.
        lines = result.stdout.splitlines()
        for line, following in zip(lines, lines[1:]):
            if line.startswith(("note", "PROBLEM")):
                self.assertRegex(following, r"^ +-> \S")

    def test_json_is_one_object_that_agrees_with_the_exit_code(self):
        result = run("doctor", "--json")
        report = json.loads(result.stdout)
        self.assertEqual(result.returncode, 16 if report["verdict"] == "problem" else 0)
        for finding in report["findings"]:
            self.assertIn(finding["verdict"], ("ok", "note", "problem"))
            self.assertEqual(finding["cure"] == "", finding["verdict"] == "ok", finding)
        self.assertTrue(report["numa_nodes"])

    def test_what_is_needed_and_missing_is_a_problem(self):
        report = json.loads(run("doctor", "--json").stdout)
        if any(port["state"] == "ACTIVE" for device in report["devices"] for port in device["ports"]):
            self.skipTest("this machine has RDMA")
        result = run("doctor", "--need", "verbs", "--json")
        self.assertEqual(result.returncode, 16)
        self.assertIn("problem", {finding["verdict"] for finding in json.loads(result.stdout)["findings"]
                                  if finding["subject"].startswith("rdma")})

    def test_words(self):
        for words in (("--need", "pigeon"), ("--serve",), ("--peer", "127.0.0.1:1"),
                      ("--serve", "--peer", "127.0.0.1:1", "--token-file", token_file()),
                      ("--peer", "nowhere", "--token-file", token_file()),
                      ("--serve", "--listen", "nowhere", "--token-file", token_file()),
                      ("--serve", "--mib", "0", "--token-file", token_file()),
                      ("--peer", "127.0.0.1:1", "--timeout", "nan", "--token-file", token_file()),
                      # What would be ignored is refused.
                      ("--mib", "8"), ("--listen", "127.0.0.1:0"), ("--transport", "local"),
                      ("--timeout", "5"),
                      ("--serve", "--transport", "local", "--token-file", token_file())):
            with self.subTest(words):
                self.assert_fails(run("doctor", *words), 2)


class Peer(harness.Case):
    def serve(self, *words):
        doctor = self.start("doctor", "--serve", "--json", *words)
        return doctor, doctor.wait_for_event("listening")

    def test_reads_and_checks_every_byte(self):
        token = f"{scratch('doctor')}/token"
        doctor, event = self.serve("--mib", "8", "--token-file", token)
        result = run("doctor", "--peer", event["endpoint"], "--token-file", token, "--transport", "local",
                     "--json")
        self.assertIn(result.returncode, (0, 16), result.stderr)
        found = [finding for finding in json.loads(result.stdout)["findings"]
                 if finding["subject"] == "peer local"]
        self.assertEqual(len(found), 1)
        self.assertEqual(found[0]["verdict"], "ok")
        self.assertIn("every byte checked", found[0]["text"])

        result = run("doctor", "--peer", event["endpoint"], "--token-file", token, "--json")
        peers = {finding["subject"]: finding for finding in json.loads(result.stdout)["findings"]
                 if finding["subject"].startswith("peer")}
        self.assertEqual(peers["peer local"]["verdict"], "ok")
        self.assertEqual(peers["peer ucx"]["verdict"], "ok", peers["peer ucx"])
        self.assertEqual(doctor.stop(), 0)

    def test_failures_have_their_codes(self):
        token = token_file()
        doctor, event = self.serve("--mib", "1", "--token-file", token)
        endpoint = event["endpoint"]
        self.assert_fails(run("doctor", "--peer", endpoint, "--token-file", token_file("another")), 6)
        doctor.stop()
        self.assert_fails(run("doctor", "--peer", endpoint, "--token-file", token, "--timeout", "5"), 5)
        self.assert_fails(run("doctor", "--peer", endpoint, "--token-file", "/nowhere"), 10)


if __name__ == "__main__":
    unittest.main()
