//! I prove that a normal build of the functions contains no fault point: those are compiled for drills only.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail loudly")]

use punctual_tests::drill::build::has_points;
use punctual_tests::stack::{FUNCTIONS, package};

#[test]
fn a_normal_build_has_no_fault_points() {
    let binaries = package::built_binaries().expect("this program has a directory");
    for function in FUNCTIONS {
        let binary = binaries.join(function);
        assert!(!has_points(&binary).expect("cargo built it"), "{} has fault points", binary.display());
    }
}
