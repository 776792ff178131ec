//! I count what a lease that was taken back came to, as dispatch's next run would have counted it.

use punctual_adapters::telemetry::metric;
use punctual_core::state::State;

use crate::Response;

/// Whose counts they are: a release does what dispatch's rescue does, and the alarms read dispatch's and deliver's.
pub const COUNTED_AS: &str = "dispatch";

/// The metrics of an answer: every name in [`metric::OF_OPERATE`]. None unless a lease was taken back.
#[must_use]
pub fn metrics(response: &Response) -> Option<Vec<(&'static str, f64)>> {
    let left_in = response.left_in?;
    let is = |state: State| f64::from(u8::from(left_in == state));
    Some(vec![(metric::EXPIRED, is(State::Expired)), (metric::DEAD, is(State::Dead)), (metric::LEASES_ENDED, 1.0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emits_every_metric_of_operate_and_only_for_a_lease_that_was_taken_back() {
        let answer = |left_in| Response { left_in, ..Response::done("something".into(), 3) };
        for (state, values) in
            [(State::Expired, [1.0, 0.0, 1.0]), (State::Dead, [0.0, 1.0, 1.0]), (State::Scheduled, [0.0, 0.0, 1.0])]
        {
            let expected: Vec<(&str, f64)> = metric::OF_OPERATE.iter().copied().zip(values).collect();
            assert_eq!(metrics(&answer(Some(state))), Some(expected), "{state}");
        }
        assert_eq!(metrics(&answer(None)), None);
    }
}
