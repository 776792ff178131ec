//! I shorten a list of operations that breaks a rule to one that still breaks it: big pieces first, then one by one.

use super::{Op, Report, replay};

/// So many lists are tried at most.
const MOST_TRIES: usize = 4_000;

/// The shortest list found that breaks the same rule.
#[must_use]
pub fn shrink(seed: u64, report: &Report) -> Vec<Op> {
    let Some(rule) = report.violation.as_ref().map(|v| v.rule) else { return report.ops.clone() };
    let mut ops = report.ops.clone();
    let mut tries = 0;
    let mut fails = |ops: &[Op]| {
        tries += 1;
        (tries <= MOST_TRIES).then(|| replay(seed, ops, false).violation.is_some_and(|v| v.rule == rule))
    };
    let mut size = ops.len().div_ceil(2).max(1);
    loop {
        let mut shorter = false;
        let mut from = 0;
        while from < ops.len() {
            let without: Vec<Op> = ops.iter().take(from).chain(ops.iter().skip(from + size)).cloned().collect();
            match fails(&without) {
                Some(true) => {
                    ops = without;
                    shorter = true;
                }
                Some(false) => from += size,
                None => return ops,
            }
        }
        if size > 1 {
            size = size.div_ceil(2);
            continue;
        }
        // Two waits in a row are one.
        let mut at = 0;
        while let Some(two) = ops.get(at..at + 2) {
            let [Op::Advance { ms: a }, Op::Advance { ms: b }] = two else {
                at += 1;
                continue;
            };
            let (a, b) = (*a, *b);
            let mut merged = ops.clone();
            merged.splice(at..at + 2, [Op::Advance { ms: a.saturating_add(b) }]);
            match fails(&merged) {
                Some(true) => {
                    ops = merged;
                    shorter = true;
                }
                Some(false) => at += 1,
                None => return ops,
            }
        }
        if !shorter {
            return ops;
        }
    }
}
