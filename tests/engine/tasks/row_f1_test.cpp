#include "engine/tasks/row_f1.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

using refreshlab::row_f1;

TEST_CASE("row F1: rows in any order, cells without case, marks and articles", "[tasks]") {
    // The vector of reference/cache-definitions.md, section 13: precision 2/3, recall 1.
    CHECK(row_f1("x\ty\nb\t2\nC\t3\nThe A\t1.", "p\tq\nA\t1\nB\t2") == Catch::Approx(0.8));
    CHECK(row_f1("x\ty\nA\t1\nB\t2\n\n", "x\ty\nA\t1\nB\t2") == 1);
    CHECK(row_f1("x\ty\nA\t1\nB", "x\ty\nA\t1\nB\t2") ==
          Catch::Approx(2.0 / 3)); // cut off: precision 1, recall 1/2
    CHECK(row_f1("x\ty\nA\nB\t2", "x\ty\nA\t1\nB\t2") == Catch::Approx(0.5)); // not at the end: a wrong row
    CHECK(row_f1("x\ty", "x\ty\nA\t1") == 0);
    CHECK(row_f1("", "x\ty\nA\t1") == 0);
    CHECK(row_f1("x\ty\tz\nA\t1\t2", "x\ty\nA\t1") == 0);
}
