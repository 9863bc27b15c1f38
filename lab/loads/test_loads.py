"""Tests of the reports and the arithmetic. `samples/` has what the programs really printed; `crates/tidy/tests/python.rs` runs this.

A report in a form that is not known has to be an error: each test breaks it by hand, too.
"""

import math
import pathlib
import subprocess
import sys
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

    def test_pgbench_has_its_own_rate_and_latencies_from_its_logs(self):
        report, logs = sample("pgbench.txt"), [sample("pgbench-log.0.txt"), sample("pgbench-log.1.txt")]
        figures = reports.pgbench("pgbench", report, logs)
        self.assertEqual(figures, reports.Figures("pgbench", 500.941547, "transactions/s", 11.946, 68.159))
        self.breaks(
            lambda text: reports.pgbench("pgbench", text, logs),
            report,
            [
                ("tps = 500.941547 (without initial connection time)", "tps = 500.941547", "`tps = …` stands 0 times"),
                ("tps = 500.941547", "tps = 0.000000", "nothing was measured"),
                ("tps = 500.941547", "tps = nan", "nothing was measured"),
                ("tps = 500.941547", "tps = 500,94", "no number"),
                ("processed: 494", "processed: 495", "495 transactions in its report, 494 in its log"),
                ("failed transactions: 0", "failed transactions: 1", "1 transactions failed"),
                ("number of failed transactions", "number of failures", "failed transactions stands 0 times"),
            ],
        )
        read_log = lambda log: reports.pgbench("pgbench", report, [log])
        self.breaks(
            read_log,
            "".join(logs),
            [(logs[0].splitlines()[0], "0 1 failed 0 1 2", "has not six numbers"), (logs[0].splitlines()[0], "0 1 2 3", "not six numbers")],
        )

    def test_sysbench_has_its_median_from_its_histogram(self):
        report = sample("sysbench.txt")
        read = lambda text: reports.sysbench("sysbench", text)
        self.assertEqual(read(report), reports.Figures("sysbench", 1364.01, "transactions/s", 4.823, 15.0))
        self.breaks(
            read,
            report,
            [
                ("(1364.01 per sec.)", "(1364.01/s)", "the rate of transactions stands 0 times"),
                ("(1364.01 per sec.)", "(0.00 per sec.)", "nothing was measured"),
                ("99th percentile:                       15.00", "95th percentile:                       15.00", "99th percentile stands 0 times"),
                ("99th percentile:                       15.00", "99th percentile:                        0.00", "nothing was measured"),
                ("(values are in milliseconds)", "(values are in microseconds)", "the histogram stands 0 times"),
                ("      28.673 |*                                        1\n", "", "1392 transactions, 1391 in its histogram"),
                ("      28.673 |*  ", "      28.673 |+  ", "a bar of the histogram stands 0 times"),
            ],
        )

    def test_the_median_of_a_histogram_is_the_bar_that_reaches_half(self):
        bars = "       1.000 |**** 2\n       2.000 |** 1\n       4.000 |** 1\n"
        text = (
            "Latency histogram (values are in milliseconds)\n value  --- distribution --- count\n" + bars + " \n"
            "    transactions: 4 (4.00 per sec.)\n    99th percentile: 4.00\n"
        )
        self.assertEqual(reports.sysbench("x", text).p50_ms, 1.0)
        self.assertEqual(reports.sysbench("x", text.replace("**** 2", "**** 1").replace(": 4 (", ": 3 (")).p50_ms, 2.0)

    def test_redis_benchmark_has_a_line_for_each_test(self):
        report = sample("redis-benchmark.csv")
        read = lambda text: reports.redis_benchmark(REDIS_ROWS, text)
        expected = [
            reports.Figures("redis SET", 48973.16, "requests/s", 0.583, 4.463),
            reports.Figures("redis GET", 45043.21, "requests/s", 0.519, 4.639),
        ]
        self.assertEqual(read(report), expected)
        self.breaks(
            read,
            report,
            [
                ('"p50_latency_ms",', "", "its first line is not"),
                ('"p50_latency_ms","p95_latency_ms"', '"p95_latency_ms","p50_latency_ms"', "its first line is not"),
                ('"GET","45043.21","0.727","0.112","0.519","2.687","4.639","7.207"', "", "no line for GET"),
                ('"GET"', '"SET"', "not a line for a test"),
                ('"GET"', '"PING"', "not a line for a test"),
                (',"7.207"', "", "not a line for a test"),
                ('"45043.21"', '"0.00"', "nothing was measured"),
                ('"4.639"', '"inf"', "nothing was measured"),
            ],
        )

    def test_iperf3_has_the_received_rate_and_no_latency(self):
        report = sample("iperf3.json")
        read = lambda text: reports.iperf3("iperf3", text)
        figures = read(report)
        self.assertAlmostEqual(figures.throughput, 22.198323365)
        self.assertEqual((figures.unit, figures.p50_ms, figures.p99_ms), ("Gbit/s", None, None))
        self.breaks(
            read,
            report,
            [
                ("22198323365.423244", "0", "nothing was measured"),
                ("22198323365.423244", '"fast"', "no number"),
                ('"sum_received"', '"received"', "no `end.sum_received.bits_per_second`"),
                ('"end":	{\n		"streams"', '"error":	"unable to connect",\n	"end":	{\n		"streams"', "iperf3: unable to connect"),
            ],
        )
        self.unreadable(read, "iperf3: error - unable to connect", "no JSON")

    def test_dd_has_its_bytes_by_its_own_time(self):
        report = sample("dd.txt")
        read = lambda text: reports.dd("dd", [report, text])
        self.assertAlmostEqual(reports.dd("dd", [report]).throughput, 839680 / 0.642016 / 1e3)
        twice = read(report.replace("0.642016", "1.357984").replace("839680", "160320"))
        self.assertAlmostEqual(twice.throughput, 1_000_000 / 2 / 1e3)
        self.unreadable(lambda texts: reports.dd("dd", texts), [], "nothing was measured")
        self.breaks(
            read,
            report,
            [
                (" s, 1.3 MB/s", " s", "the last line stands 0 times"),
                ("0.642016 s", "0 s", "nothing was measured"),
                ("839680 bytes (840 kB, 820 KiB)", "0 bytes", "nothing was measured"),
                (report, report * 2, "stands 2 times"),
            ],
        )

    def test_a_percentile_needs_a_value_beyond_it(self):
        report = sample("dsync.txt")
        figures = reports.dsync("pwrite", report)
        self.assertEqual((figures.p50_ms, figures.p99_ms), (3.377362, 4.426068))
        self.assertAlmostEqual(figures.throughput, 206 / 0.507964822)
        self.unreadable(lambda text: reports.dsync("pwrite", text), "0.5\n", "no write")
        self.unreadable(lambda text: reports.dsync("pwrite", text), "0.5\n0\n", "nothing was measured")
        hundred = list(range(100, 0, -1))
        self.assertEqual([reports.percentile(hundred, percent) for percent in (50, 99)], [50, 99])
        self.assertEqual([reports.percentile(hundred[1:], percent) for percent in (50, 99)], [50, None])
        self.assertEqual([reports.percentile([*hundred, 101], percent) for percent in (50, 99)], [51, 100])
        self.assertEqual([reports.percentile([], 50), reports.percentile([7], 50), reports.percentile([8, 7], 50)], [None, None, 7])

    def test_only_losses_of_the_recorder_are_lost_records(self):
        answer = '{"losses": [{"count": 3, "reported": true}, {"count": null, "reported": false}, {"count": 1, "reported": true}]}'
        self.assertEqual(machine.lost(answer), 4)
        self.assertEqual(machine.lost('{"losses": []}'), 0)
        self.assertIsNone(machine.lost('{"losses": [{"count": null, "reported": true}, {"count": 1, "reported": true}]}'))
        for other in ("", "{}", '{"losses": [{"count": 3}]}', '{"losses": null}'):
            with self.assertRaises(machine.Failed):
                machine.lost(other)


class Intervals(unittest.TestCase):
    def test_ranks_are_those_of_the_sign_test(self):
        # The number of values, the rank from either side, and the confidence: 1 - 2 P(B < k), as in tables of the binomial.
        table = [(6, 1, 0.96875), (8, 1, 0.9921875), (9, 2, 0.9609375), (10, 2, 0.978515625), (12, 3, 0.96142578125)]
        for count, k, confidence in [*table, (16, 4, 0.978729248046875), (20, 6, 0.9586105346679688)]:
            self.assertEqual(pairs.rank(count), (k, confidence))
        self.assertEqual([pairs.rank(count) for count in range(6)], [None] * 6)

    def test_an_interval_is_made_of_ranks_alone(self):
        values = [5, 1, 9, 3, 7, 2, 8, 4, 6, 1000]
        self.assertEqual(pairs.interval(values), pairs.Interval(2, 9, 0.978515625))
        self.assertEqual(pairs.interval(values[:6]), pairs.Interval(1, 9, 0.96875))
        self.assertIsNone(pairs.interval(values[:5]))
        self.assertEqual(pairs.compare(values).median, 5.5)
        self.assertIsNone(pairs.compare([]))

    def test_medians_of_coins_lie_inside_as_often_as_is_said(self):
        # All outcomes of ten values above or below the median: the interval misses it where fewer than two lie on a side.
        inside = sum(2 <= bin(outcome).count("1") <= 8 for outcome in range(2**10))
        self.assertEqual(inside / 2**10, pairs.rank(10)[1])

    def test_each_pair_is_recorded_to_alone_in_both_orders(self):
        self.assertEqual(pairs.recorded_ratios([100, 90, 80, 200]), [0.9, 0.4])

    def test_a_drift_cancels_in_pairs_alone(self):
        ratios = pairs.null_ratios([(100, 110), (110, 121), (121, 133.1), (133.1, 146.41)])
        self.assertAlmostEqual(math.prod(ratios), 1)
        self.assertEqual(pairs.null_ratios([(1, 2), (1, 2)]), [2, 0.5])
        # In a block too: 100 runs slower from run to run by a tenth.
        self.assertAlmostEqual(math.prod(pairs.recorded_ratios([100, 90, 81, 72.9])), 1)

    def test_each_round_has_each_mode_and_begins_with_another(self):
        order = pairs.blocks(["a", "b", "c"], 4)
        self.assertEqual("".join(order), "abcbcacababc")

    def test_a_difference_is_seen_beside_both_intervals(self):
        def comparison(low, median, high):
            return pairs.Comparison(median, pairs.Interval(low, high, 0.97), 10)

        null = comparison(0.97, 1.0, 1.02)
        self.assertTrue(pairs.is_seen(comparison(0.90, 0.96, 0.99), null))
        self.assertTrue(pairs.is_seen(comparison(1.01, 1.03, 1.1), null))
        for low, median, high in [(0.90, 0.97, 0.99), (0.90, 0.96, 1.0), (1.0, 1.03, 1.1), (1.01, 1.02, 1.1)]:
            self.assertIs(pairs.is_seen(comparison(low, median, high), null), False, (low, median, high))
        # A machine that drifted between all pairs alone still allows no difference at all.
        self.assertIs(pairs.is_seen(comparison(1.001, 1.003, 1.1), comparison(1.005, 1.01, 1.02)), False)
        self.assertIs(pairs.is_seen(comparison(0.9, 0.997, 0.999), comparison(0.98, 0.99, 0.995)), False)
        self.assertIsNone(pairs.is_seen(pairs.Comparison(0.5, None, 2), null))
        self.assertIsNone(pairs.is_seen(comparison(0.9, 0.96, 0.99), pairs.Comparison(1, None, 4)))


class Page(unittest.TestCase):
    def rows(self, recorded, p99=1.0, rounds=5):
        """A row whose recorded runs have this throughput beside 100 alone."""
        row = page.Row("requests/s")
        runs = [reports.Figures("x", value, "requests/s", 1.0, p99) for value in (100, recorded, recorded, 100)]
        for _ in range(rounds):
            row.add_block("–", runs)
            row.add_edge(runs[3], runs[0])
        for value in (99, 99, 101, 101) * 2:
            row.add_edge(runs[0], reports.Figures("x", value, "requests/s", 1.0, p99))
        return {"it": row}

    def test_a_cell_says_what_is_not_seen(self):
        cell = lambda recorded: page.table("throughput", self.rows(recorded), ["–"], 5)[4]
        self.assertIn("| it | – | 100 requests/s | 80.0 | -20.0% (-20.0 to -20.0) | +0.0% (-1.0 to +1.0) |", cell(80))
        self.assertIn("| not seen: -0.5% (-0.5 to -0.5) |", cell(99.5))
        self.assertIn("| 125 | +25.0% (+25.0 to +25.0) |", cell(125))

    def test_a_load_without_latencies_has_no_row_there_and_a_short_one_says_so(self):
        self.assertEqual(page.table("p99_ms", self.rows(90, p99=None), ["–"], 5), [])
        self.assertIn(", 10 pairs |", page.table("p99_ms", self.rows(90), ["–"], 6)[4])
        self.assertIn("too few pairs for an interval", page.table("p99_ms", self.rows(90, rounds=1), ["–"], 1)[4])

    def test_the_page_says_which_loads_were_not_measured_and_how_sure_it_is(self):
        sessions = {"it": {"–": [(0.05, 2e6, 0), (0.07, 4e6, 3)], "`--flight 10s`": [(0.05, None, None)]}}
        text = page.page("Machine: x.", self.rows(80), sessions, ["–", "`--flight 10s`"], 5, {"dd": "no\nroom"})
        self.assertIn("**Not measured: dd**, by an error: no room", text)
        self.assertIn("recorded to alone, number 2 from below and from above of 10 pairs (97.9% confidence)", text)
        self.assertIn("alone to alone, number 2 from below and from above of 10 pairs", text)
        self.assertIn("| it | – | 6.0 (5.0 to 7.0)% | 3.0 (2.0 to 4.0) | 3 |", text)
        self.assertIn("| it | `--flight 10s` | 5.0 (5.0 to 5.0)% | in memory | not known |", text)

    def test_figures_have_three_digits(self):
        self.assertEqual([page.figure(it) for it in (1234.5, 99.95, 12.34, 1.234, 0.1234)], ["1,234", "100.0", "12.3", "1.23", "0.123"])


class Machines(unittest.TestCase):
    def test_memory_is_no_disk(self):
        with self.assertRaises(machine.Failed) as caught:
            machine.Machine("/dev/shm")
        self.assertIn("not on a disk", str(caught.exception))
        with self.assertRaises(machine.Failed):
            machine.Machine("/nowhere")

    def test_the_cpu_clock_of_a_process_is_its_own(self):
        work = "import time\nwhile time.process_time() < 0.3: pass\nprint(time.process_time(), flush=True)\ninput()"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen([sys.executable, "-ESc", work], **pipes) as child:
            used = float(child.stdout.readline())
            self.assertTrue(used <= machine.cpu_seconds(child.pid) < used + 0.05)
            child.communicate("\n")


if __name__ == "__main__":
    unittest.main()
