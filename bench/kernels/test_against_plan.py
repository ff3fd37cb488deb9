"""Joining a trace with a plan, on made-up numbers that are written here and nowhere else."""
import io
import unittest

import against_plan

PLAN = {"device_model": {"name": "h200"}, "context": 7, "floor_us": 6.0, "predicted_us": 20.0,
        "launches": [{"kernel": "embed", "part": "embedding", "block": [256, 1, 1], "predicted_us": 4.0, "gap_us": 1.0},
                     {"kernel": "product_onto", "part": "o", "block": [256, 1, 1], "predicted_us": 8.0, "gap_us": 2.0},
                     {"kernel": "product_onto", "part": "down", "block": [256, 1, 1], "predicted_us": 8.0, "gap_us": 2.0}]}
NAMES = ["void r::cuda::(anonymous namespace)::embed_kernel<(r::WeightType)1>(void const*)",
         "void r::cuda::(anonymous namespace)::product_onto_kernel<(r::WeightType)1, 1>(int)",
         "void r::cuda::(anonymous namespace)::product_onto_kernel<(r::WeightType)1, 1>(int)"]
HEADER = "start_ns,end_ns,grid_x,grid_y,grid_z,block_x,block_y,block_z,shared_bytes,kernel"


def trace(steps, block=256, names=NAMES, shuffle=False):
    """Launches of 3, 5 and 7 us, 1 us apart, in each step; the first of all steps is slower."""
    lines, now = [], 0
    for step in range(steps):
        for name, us in zip(names, [3, 5, 7]):
            took = us * 1000 * (10 if step == 0 else 1)
            lines.append(f'{now},{now + took},1,2,3,{block},1,1,0,"{name}"')
            now += took + 1000
        lines.append(f'{now},{now + 9000},1,1,1,32,1,1,0,"void at::native::elementwise<4>(int)"')
        now += 10000
    if shuffle:
        lines.reverse()  # CUPTI gives records as buffers fill
    return against_plan.read_trace(io.StringIO("\n".join([HEADER, *lines]) + "\n"))


class AgainstPlan(unittest.TestCase):
    def test_launches_are_told_apart_by_their_place_in_the_step(self):
        result = against_plan.compare(PLAN, trace(5, shuffle=True))
        self.assertEqual(result["steps"], 5 - against_plan.WARM_UPS)
        self.assertEqual([(row["part"], row["measured_us"]["median"]) for row in result["launches"]],
                         [("embedding", 3), ("o", 5), ("down", 7)])
        self.assertEqual(result["launches"][1]["predicted_us"], 6)
        self.assertEqual(result["launches"][1]["measured_gap_us"]["median"], 1)
        self.assertIsNone(result["launches"][0]["measured_gap_us"])
        self.assertEqual(result["step"]["measured_us"]["median"], 3 + 1 + 5 + 1 + 7)
        self.assertEqual(result["step"]["predicted_us"], 19)
        self.assertIn("down", against_plan.table_of(result))

    def test_warm_ups_do_not_count(self):
        self.assertEqual(against_plan.compare(PLAN, trace(9))["step"]["measured_us"]["high"], 17)
        with self.assertRaisesRegex(ValueError, "no step of the plan"):
            against_plan.compare(PLAN, trace(against_plan.WARM_UPS))

    def test_other_launches_are_no_step(self):
        with self.assertRaisesRegex(ValueError, "no step of the plan"):
            against_plan.compare(PLAN, trace(9, block=128))
        with self.assertRaisesRegex(ValueError, "no step of the plan"):
            against_plan.compare(PLAN, trace(9, names=[NAMES[0], NAMES[1], NAMES[0]]))
        with self.assertRaisesRegex(ValueError, "0 launches of our kernels"):
            against_plan.compare(PLAN, [])

    def test_names(self):
        self.assertEqual(against_plan.kernel_of(NAMES[1]), "product_onto")
        self.assertEqual(against_plan.kernel_of("attention_rows_kernel(int)"), "attention_rows")
        self.assertIsNone(against_plan.kernel_of("void at::native::elementwise<4>(int)"))


if __name__ == "__main__":
    unittest.main()
