"""Tests of the judge: each verdict from a document that deserves it, and from breaks of this document. `crates/tidy/tests/python.rs` runs this."""

import copy
import json
import unittest

import judge
import page
import rows
from judge import Truth

TRUTH = Truth(culprit="^(sort|cmp)$", path="^(serve|dispatch)$")
CAUSE = {"cause": "itself", "callee": None, "end": "itself", "ns": 90, "of_ns": 100, "doubts": [], "levels": [], "sampled": None}
HEADLINE = {"text": "mostly running", "basis": "measured"}
CALLS = {"schema": "wakepath.calls/1", "functions": None, "causes": [], "headline": HEADLINE}


def drilled(path=("serve", "sort"), calls=None, **cause):
    return {"schema": "wakepath.drill/1", "root_causes": [list(path)], "causes": [{**CAUSE, **cause}], "notes": [], "explained_by": calls}


def by_samples(path, doubts=()):
    steps = [{"function": f"{name} (app)", "more_ns": 50} for name in path]
    return {**CALLS, "functions": {"path": steps, "doubts": list(doubts), "more_ns": 100}}


def code(kind, *functions, what="running"):
    total = sum(count for _, count in functions)
    ranked = [{"of": kind, "function": f"{name} (app)", "count": count, "total": total} for name, count in functions]
    return {**CALLS, "causes": [{"what": what, "code": ranked, "parts": []}]}


class Verdicts(unittest.TestCase):
    def check(self, document, verdict, reached="", truth=TRUTH, code=0, err=""):
        out = document if isinstance(document, str) else json.dumps(document)
        judged = judge.judge(truth, code, out, err)
        self.assertEqual((judged.verdict, judged.reached), (verdict, reached), judged)

    def test_a_measured_path_with_the_culprit_is_right(self):
        self.check(drilled(), "RIGHT", "measured")
        self.check(drilled(("serve", "sort", "memcpy")), "RIGHT", "measured")
        self.check(drilled(("serve", "dispatch"), cause="loop", callee="cmp"), "RIGHT", "measured")

    def test_a_path_that_ends_above_the_culprit_is_a_part(self):
        self.check(drilled(("serve", "dispatch")), "PART")
        self.check(drilled(("serve", "app+0x1234")), "PART")

    def test_another_function_is_wrong_only_without_a_mark(self):
        self.check(drilled(("serve", "other")), "WRONG")
        self.check(drilled(("serve", "other"), doubts=["call sites not measured"]), "UNCLEAR")
        self.check(drilled(("serve", "other"), cause=None), "UNCLEAR")
        self.check(drilled(("serve", "dispatch"), cause="loop", callee="rand"), "WRONG")
        self.check(drilled(("serve", "resort")), "WRONG")

    def test_an_undecided_path_names_nothing(self):
        self.check(drilled(("serve", "other"), end="stopped"), "UNCLEAR")
        self.check(drilled(("serve",), end="stopped"), "UNCLEAR")

    def test_samples_reach_the_culprit_below_a_measured_path(self):
        self.check(drilled(("serve", "dispatch"), by_samples(("dispatch", "sort"))), "RIGHT", "sampled")
        self.check(drilled(("serve", "dispatch"), code("samples", ("cmp", 6), ("rand", 4))), "RIGHT", "sampled")
        self.check(by_samples(("dispatch", "sort")), "RIGHT", "sampled")
        self.check({**by_samples(("sort",)), "schema": "wakepath.function_stacks/1"}, "RIGHT", "sampled")

    def test_the_culprits_need_half_of_the_samples_together(self):
        above = ("serve", "dispatch")
        self.check(drilled(above, code("samples", ("cmp", 4), ("rand", 6))), "PART")
        self.check(drilled(above, code("samples", ("cmp", 3), ("sort", 2), ("rand", 5))), "RIGHT", "sampled")
        few = code("samples", ("cmp", 9))
        few["causes"][0]["code"][0]["total"] = 19
        self.check(drilled(above, few), "PART")

    def test_a_step_of_the_path_by_samples_needs_a_tenth_of_the_time_with_a_cpu(self):
        calls = by_samples(("dispatch", "sort"))
        calls["functions"]["path"][1]["more_ns"] = 9
        self.check(drilled(("serve", "dispatch"), calls), "PART")
        calls["functions"]["ready_ns"] = 10
        self.check(drilled(("serve", "dispatch"), calls), "RIGHT", "sampled")

    def test_samples_do_not_mend_a_measured_path_elsewhere(self):
        self.check(drilled(("serve", "other"), by_samples(("sort",))), "WRONG", "sampled")
        self.check(drilled(("serve", "other"), by_samples(("sort",)), doubts=["close"]), "PART", "sampled")
        self.check(by_samples(("other",)), "WRONG")
        self.check(by_samples(("other",), [{"code": "few"}]), "UNCLEAR")

    def test_sampled_lines_of_the_last_function_count(self):
        places = {"samples": 10, "calls": 5, "places": [{"function": "cmp", "line": None, "samples": 7}]}
        self.check(drilled(("serve", "dispatch"), sampled=places), "RIGHT", "sampled")
        places["places"][0]["function"] = "rand"
        self.check(drilled(("serve", "dispatch"), sampled=places), "PART")

    def test_a_wait_needs_its_cause_beside_the_function(self):
        truth = Truth(culprit="^lock_wait$", path="^serve$", wait="nanosleep")
        waited = code("waits", ("lock_wait", 9), what="lock, then in clock_nanosleep")
        self.check(drilled(("serve", "lock_wait"), waited), "RIGHT", "measured", truth)
        self.check(drilled(("serve",), waited), "RIGHT", "sampled", truth)
        self.check(drilled(("serve", "lock_wait"), CALLS), "PART", "measured", truth)
        waited["causes"][0]["code"] = []
        self.check(drilled(("serve",), waited), "PART", "", truth)

    def test_time_without_a_cpu_is_no_function(self):
        self.check(drilled(("serve", "other"), cause="preempted"), "UNCLEAR")

    def test_an_answer_without_a_cpu_says_so_in_its_headline_or_at_its_paths_end(self):
        without = lambda document: judge.says_no_cpu(json.dumps(document))
        self.assertTrue(without(drilled(cause="preempted")))
        self.assertFalse(without(drilled()))
        calls = copy.deepcopy(CALLS)
        calls["headline"]["code"] = "cpu"
        self.assertTrue(without(drilled(("serve",), calls)))
        self.assertFalse(judge.says_no_cpu(""))

    def test_refusals_are_right_only_with_the_sentence(self):
        self.check("", "REFUSED", code=1, err="error: no function `f`")
        expected = Truth(refusal="no function")
        self.check("", "REFUSED-OK", truth=expected, code=1, err="error: no function `f`")
        self.check("", "REFUSED", truth=expected, code=1, err="error: something else")
        self.check(drilled(), "UNCLEAR", truth=expected)

    def test_ends_by_a_signal_a_panic_or_half_a_document_are_crashes(self):
        self.check(drilled(), "CRASH", code=-11)
        self.check("", "CRASH", code=101, err="thread main panicked at x.rs")
        self.check(drilled(), "CRASH", code=101)
        self.check(json.dumps(drilled())[:-1], "CRASH")

    def test_a_sentence_that_is_asked_for(self):
        truth = Truth(path="^serve$", says="poll")
        document = drilled(("serve",))
        self.check(document, "UNCLEAR", truth=truth)
        document["notes"] = ["each poll is a call"]
        self.check(document, "RIGHT", truth=truth)


class Twins(unittest.TestCase):
    def test_a_twin_that_names_the_cause_is_wrong_with_or_without_a_mark(self):
        twin = lambda document: judge.judge_twin(Truth(culprit="^sort$", wait="nanosleep"), 0, json.dumps(document), "").verdict
        self.assertEqual(twin(drilled(("serve", "load"))), "RIGHT")
        self.assertEqual(twin(drilled(("serve", "sort"))), "WRONG")
        self.assertEqual(twin(drilled(("serve", "sort"), doubts=["close"])), "WRONG")
        self.assertEqual(twin(drilled(("serve",), by_samples(("sort",)))), "WRONG")
        self.assertEqual(twin(drilled(("serve",), code("waits", ("x", 9), what="in clock_nanosleep"))), "WRONG")


class Rows(unittest.TestCase):
    def test_each_row_has_a_name_of_its_own_and_a_truth(self):
        names = [row.name for row in rows.ROWS]
        self.assertEqual(len(names), len(set(names)))
        for row in rows.ROWS:
            truth = row.truth
            self.assertTrue(truth.culprit or truth.wait or truth.refusal or truth.says, row.name)
            self.assertTrue(row.twin is None or row.absent, row.name)

    def test_no_culprit_is_among_the_functions_above_it(self):
        for row in rows.ROWS:
            for name in ("serve", "dispatch", "f0", "top", "processCommand", "route", "PortalRun", "ExecutorRun", "handle"):
                self.assertFalse(judge.found(row.truth.culprit, [name]), (row.name, name))


class Counts(unittest.TestCase):
    def test_a_cell_cannot_break_the_table(self):
        self.assertEqual(page.cell("a|b\n*c* <d>"), "a\\|b \\*c\\* \\<d>")


if __name__ == "__main__":
    unittest.main()
