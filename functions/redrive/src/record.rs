//! I record what operators do to redriving: as begun before it is done, with its outcome after it.

use punctual_core::operation::{Operation, Outcome};
use punctual_core::ports::{Control, Operations, Time};
use punctual_flows::FlowError;
use punctual_flows::record::{self, Signed};

use crate::{Redrive, Response};

/// What begins an answer of an action that found nothing to do.
pub(crate) const NOTHING: &str = "Nothing was done: ";
/// What an action is done to, if it is to no run of that name yet, or to all of them.
pub(crate) const REDRIVING: &str = "redriving";

impl<L, C: Control + Operations, Q, D, S, T: Time> Redrive<'_, L, C, Q, D, S, T> {
    /// Acts between two writes of the record: without the first nothing is done. The database must have answered before, for
    /// the sake of its time.
    pub(crate) async fn recorded(
        &self,
        signed: Signed,
        act: impl Future<Output = Result<Response, FlowError>>,
    ) -> Result<Response, FlowError> {
        let begun = record::begin(self.control, self.time, &self.by, &signed).await?;
        let mut answer = act.await;
        if let Ok(response) = &mut answer
            && response.ok
            && response.text.first().is_some_and(|did| !did.starts_with(NOTHING))
        {
            response.did_not = did_not(&signed.action).to_owned();
        }
        record::end(self.control, &ended(begun, &answer)).await;
        answer
    }
}

fn ended(begun: Operation, answer: &Result<Response, FlowError>) -> Operation {
    match answer {
        Ok(response) if response.ok => {
            let first = response.text.first().map(String::as_str).unwrap_or_default();
            let did = first.strip_prefix(NOTHING).map_or_else(|| first.to_owned(), |why| format!("nothing: {why}"));
            let target = response.run.as_ref().map_or(begun.target, |view| format!("run {}", view.run.id));
            Operation { outcome: Outcome::Done, did, did_not: response.did_not.clone(), target, ..begun }
        }
        Ok(response) => record::refused(begun, &response.errors),
        Err(error) => record::failed(begun, error),
    }
}

/// What an action leaves as it is.
fn did_not(action: &str) -> &'static str {
    match action {
        "start" => "no row was moved and no dead letter deleted by this: the run's slices do that",
        "abort" => "nothing that was moved already was called back: cancel, hold or pause stops it",
        "resume" => "no row was moved by this: the run's slices do that, and what died again in it is left",
        "freeze" => "no run was ended, and nothing that was moved already was called back: cancel, hold or pause stops it",
        "unfreeze" => "no row was moved by this: the slices of active runs do that; what has stopped or was aborted stays so",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::ACTIONS;

    #[test]
    fn every_write_says_what_it_leaves() {
        let silent: Vec<&str> = ACTIONS.into_iter().filter(|action| did_not(action).is_empty()).collect();
        assert_eq!(silent, ["plan", "status", "slice"]);
    }
}
