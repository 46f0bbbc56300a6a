#!/usr/bin/env python3
"""What other programs read in an evidence folder: JUnit XML, CTRF and report.json.

  ctest/evidence/readers.py build/evidence/host build/evidence/block0     checks folders
  ctest/evidence/readers.py --misbehave build                             those of gates that go wrong in every known way

Needs xmllint and the Python packages junitparser and jsonschema (./run setup installs them). Exit code 0: all as it should be.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import jsonschema
import junitparser

HERE = pathlib.Path(__file__).resolve().parent
MOST_CASES = 5000  # a larger file is refused whole by one of the readers

# Gates of ctest/false_greens: name, required cases.
MISBEHAVIOURS = {
    "honest": ["Honest.passes/row_1", "Honest.passes/row_2", "Honest.passes/row_3"],
    "aborts": ["Aborts.on_row_2/row_1", "Aborts.on_row_2/row_2", "Aborts.on_row_2/row_3"],
    "hangs": ["Hangs.on_row_2/row_1", "Hangs.on_row_2/row_2", "Hangs.on_row_2/row_3"],
    "suite_setup_fails": ["SuiteSetup.never_runs/row_1", "SuiteSetup.never_runs/row_2"],
    "fails_then_skips": ["FailsThenSkips.both/row_1"],
    "skips_for_a_reason": ["SkipsForAReason.in_set_up/row_1", "SkipsForAReason.in_set_up/row_2"],
    "control_characters": ["ControlCharacters.in_the_message/row_1"],
    "nan_metric": ["NanMetric.that_never_exceeds/row_1"],
    "beyond_bound": ["BeyondBound.is_reported/row_1"],
    "no_such_suite": ["Renamed.passes/row_1"],
}


class Findings(list):
    def expect(self, right, text):
        if not right:
            self.append(text)


def outcome_of(case):
    """The one outcome that a reader of JUnit XML sees."""
    kinds = {"Failure": "failed", "Error": "not-run", "Skipped": "skipped"}
    seen = [kinds[type(result).__name__] for result in case.result]
    return seen[0] if len(seen) == 1 else "passed" if not seen else "several"


def check_junit(folder, report, found):
    schema = subprocess.run(["xmllint", "--noout", "--schema", str(HERE / "junit.xsd"), str(folder / "junit.xml")],
                            capture_output=True, text=True)
    found.expect(schema.returncode == 0, "junit.xml: " + schema.stderr.strip().split("\n")[0])
    suites = list(junitparser.JUnitXml.fromfile(str(folder / "junit.xml")))
    found.expect(len(suites) == 1, f"junit.xml: {len(suites)} suites")
    suite = suites[0]
    cases = list(suite)
    outcomes = [outcome_of(case) for case in cases]
    found.expect(suite.tests == len(cases) and len(cases) < MOST_CASES, f"junit.xml: {suite.tests} tests, {len(cases)} cases")
    found.expect(suite.failures == outcomes.count("failed"), "junit.xml: failures are not the cases' own")
    found.expect(suite.errors == outcomes.count("not-run"), "junit.xml: errors are not the cases' own")
    found.expect(not {"skipped", "several"} & set(outcomes), "junit.xml: a case is skipped, or has several outcomes")

    # The same cases with the same outcomes as the report, then one for each problem of the run.
    shown = [(f"{c.classname[3:].replace('.', '/', 1)}.{c.name}", o) for c, o in zip(cases, outcomes)]
    told = [(one["name"], one["outcome"]) for one in report["cases"]]
    told += [(f"{report['gate']}/run.{problem['name']}", "not-run") for problem in report["problems"]]
    found.expect(shown == told, "junit.xml: not the cases and outcomes of report.json")
    for case, one in zip(cases, report["cases"]):
        text = "".join(result.text or "" for result in case.result)
        found.expect(one["outcome"] == "passed" or "rerun: " in text, f"{one['name']}: the failure does not say how to run it again")
        numbers = [one["properties"].get(key) for key in ("rejected_limit", "rejected_measured")]
        found.expect(one["outcome"] != "failed" or None in numbers or all(f"{float(n):.4g}" in text or n in text for n in numbers),
                     f"{one['name']}: the numbers that decided are not in the failure's text")


def check_ctrf(folder, report, found):
    results = json.loads((folder / "ctrf.json").read_text())["results"]
    summary, tests = results["summary"], results["tests"]
    found.expect(summary["tests"] == len(tests), "ctrf.json: tests are not counted")
    for status in ("passed", "failed", "skipped", "pending", "other"):
        found.expect(summary[status] == sum(test["status"] == status for test in tests), f"ctrf.json: {status} are not counted")
    found.expect(summary["passed"] == sum(one["outcome"] == "passed" for one in report["cases"]), "ctrf.json: not the report's outcomes")
    found.expect((summary["failed"] == 0) == (report["verdict"] == "closed"), "ctrf.json: green although the gate is not closed, or red")


def check(folder):
    found = Findings()
    report = json.loads((folder / "report.json").read_text())
    schema = json.loads((HERE / "report.schema.json").read_text())
    for error in jsonschema.Draft202012Validator(schema).iter_errors(report):
        found.append(f"report.json: {error.json_path}: {error.message[:200]}")
    counts = report["counts"]
    found.expect(counts["required"] == sum(counts[key] for key in ("passed", "failed", "skipped", "missing")), "report.json: counts")
    check_junit(folder, report, found)
    check_ctrf(folder, report, found)
    return found


def misbehave(build, work):
    for gate, cases in MISBEHAVIOURS.items():
        required = work / f"{gate}.txt"
        required.write_text("".join(f"{gate}/{case}\n" for case in cases))
        subprocess.run([build / "h3_gate", "--gate", gate, "--binary", build / "h3_false_greens", "--required", required,
                        "--evidence", work / gate, "--time-limit", "2"], stdout=subprocess.DEVNULL, check=False)
        yield work / gate


# What readers disagree about, or drop: put into a good file, each has to be found.
SPOILED = [
    ("<error ", "<skipped/><error "),
    ('type="not-run"', ""),
    (' name="on_row_2/row_2"', ' name=""'),
    (' name="on_row_2/row_3"', ' name="on_row_2/row_2"'),
    (' file="', ' file="/'),
    (' errors="', ' errors="1'),
    (' hostname="node"', ' hostname="login7"'),
]


def spoil(folder):
    """Edits that go unnoticed."""
    junit = folder / "junit.xml"
    good = junit.read_text()
    for old, new in SPOILED:
        assert old in good, old
        junit.write_text(good.replace(old, new))
        if not check(folder):
            yield f"{old} -> {new}"
    junit.write_text(good)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--misbehave", metavar="BUILD", type=pathlib.Path)
    arguments = parser.parse_args()
    red = checked = 0
    with tempfile.TemporaryDirectory() as work:
        folders = list(arguments.folders)
        if arguments.misbehave:
            folders += misbehave(arguments.misbehave.resolve(), pathlib.Path(work))
        for folder in folders:
            checked += 1
            for finding in check(folder):
                red += 1
                print(f"{folder.name}: {finding}")
        for edit in spoil(pathlib.Path(work) / "aborts") if arguments.misbehave else []:
            red += 1
            print(f"not noticed: {edit}")
    print(f"{checked} evidence folders read by xmllint, junitparser and jsonschema, {red} findings")
    return 1 if red or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
