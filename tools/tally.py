#!/usr/bin/env python3
"""Counts the cases of a JUnit file as Meson writes it: prints "passed failed skipped", and on stderr each
case that failed or was skipped, with its reason."""
import sys
import xml.etree.ElementTree as ElementTree


def main() -> None:
    passed = failed = skipped = 0
    for case in ElementTree.parse(sys.argv[1]).getroot().iter("testcase"):
        name = f"{case.get('classname') or ''}.{case.get('name')}"
        bad = [child for child in case if child.tag in ("failure", "error")]
        skip = case.find("skipped")
        if bad:
            failed += 1
            reason = (bad[0].get("message") or bad[0].text or "").strip()
            print(f"  FAILED {name}: {reason[:2000]}", file=sys.stderr)
        elif skip is not None:
            skipped += 1
            print(f"  skipped {name}: {(skip.get('message') or skip.text or '').strip()[:200]}", file=sys.stderr)
        else:
            passed += 1
    print(passed, failed, skipped)


main()
