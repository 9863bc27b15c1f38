"""Tests of the reports and the arithmetic. `samples/` has what the programs really printed; `crates/tidy/tests/loads.rs` runs this.

A report in a form that is not known has to be an error: each test breaks it by hand, too.
"""

import math
import pathlib
import unittest

import machine
import page
import pairs
import reports

SAMPLES = pathlib.Path(__file__).with_name("samples")
REDIS_ROWS = {"SET": "redis SET", "GET": "redis GET"}


def sample(name):
    return (SAMPLES / name).read_text(encoding="utf-8")


class Reports(unittest.TestCase):
    def unreadable(self, read, text, words):
        with self.assertRaises(reports.Unreadable) as caught:
            read(text)
        self.assertIn(words, str(caught.exception))

    def breaks(self, read, text, table):
        """Each break is a text in the sample, its replacement, and words of the error."""
        for was, instead, words in table:
            self.assertIn(was, text)
            self.unreadable(read, text.replace(was, instead), words)
        self.unreadable(read, "", "")


if __name__ == "__main__":
    unittest.main()
