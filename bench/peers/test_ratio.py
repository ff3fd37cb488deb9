"""When a ratio is refused. `python -m unittest discover -s bench/peers -p 'test_*.py'`"""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ratio


def side(ids, rates):
    return {"ids": ids, "rates": rates}


class Ratio(unittest.TestCase):
    def test_the_same_ids_give_the_median_of_the_rounds(self):
        found = ratio.verdict(side([1, 2, 3], [20, 30, 90]), side([1, 2, 3], [10, 10, 10]))
        self.assertIsNone(found["first_difference"])
        self.assertEqual(found["ratio"]["median"], 3)
        self.assertEqual(found["ratio"]["low"], 2.5)
        self.assertNotIn("refused", found)

    def test_other_ids_are_refused_and_the_first_is_named(self):
        found = ratio.verdict(side([1, 2, 3], [20]), side([1, 9, 3], [10]))
        self.assertNotIn("ratio", found)
        self.assertEqual(found["first_difference"], 1)
        self.assertIn("from token 2 on", found["refused"])

    def test_fewer_ids_are_other_ids(self):
        self.assertNotIn("ratio", ratio.verdict(side([1, 2], [20]), side([1, 2, 3], [10])))
        self.assertEqual(ratio.first_difference([1, 2], [1, 2, 3]), 2)

    def test_a_reason_lets_a_ratio_pass_and_stands_beside_it(self):
        found = ratio.verdict(side([1, 2], [20]), side([1, 3], [10]), " quantised blocks ")
        self.assertEqual(found["ratio"]["median"], 2)
        self.assertEqual(found["because"], "quantised blocks")

    def test_blanks_are_no_reason(self):
        self.assertIn("refused", ratio.verdict(side([1], [20]), side([2], [10]), "  "))

    def test_a_reason_that_is_not_needed_is_not_told(self):
        self.assertNotIn("because", ratio.verdict(side([1], [20]), side([1], [10]), "rounding"))

    def test_rounds_belong_together(self):
        with self.assertRaises(ValueError):
            ratio.verdict(side([1], [20, 30]), side([1], [10]))
        with self.assertRaises(ValueError):
            ratio.verdict(side([1], []), side([1], []))


if __name__ == "__main__":
    unittest.main()
