//! I name what a slice did, as metrics.

use punctual_adapters::telemetry::metric;
use punctual_core::redrive::Phase;

use crate::slice::SliceReport;

/// The metrics of a slice that did anything: every name in [`metric::OF_REDRIVE`]. None for one that was idle.
#[must_use]
pub fn metrics(slice: &SliceReport) -> Option<Vec<(&'static str, f64)>> {
    let is = |truth: bool| f64::from(u8::from(truth));
    (slice.idle.is_none() && !slice.unknown_run).then(|| {
        vec![
            (metric::REDRIVEN, f64::from(slice.moved)),
            (metric::LETTERS_SWEPT, f64::from(slice.deleted)),
            (metric::REDRIVE_STOPPED, is(slice.stopped.is_some())),
            (metric::REDRIVE_DONE, is(slice.phase == Some(Phase::Done))),
        ]
    })
}

#[cfg(test)]
mod tests {
    use punctual_core::id::RunId;

    use super::*;

    #[test]
    fn emits_every_metric_of_redrive_unless_it_was_idle() {
        let slice = SliceReport::new(&RunId::new("run_1").expect("a run"), 3);
        let worked =
            SliceReport { moved: 7, deleted: 2, phase: Some(Phase::Done), stopped: Some("it is over".into()), ..slice.clone() };
        let expected: Vec<(&str, f64)> = metric::OF_REDRIVE.iter().copied().zip([7.0, 2.0, 1.0, 1.0]).collect();
        assert_eq!(metrics(&worked), Some(expected));
        assert_eq!(metrics(&SliceReport { idle: Some("all redriving is frozen".into()), ..slice }), None);
    }
}
