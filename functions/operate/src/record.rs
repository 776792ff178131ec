//! I record what operators do: as begun before it is done, with its outcome after it.

use punctual_core::operation::{Operation, Outcome};
use punctual_core::ports::{Control, Operations, Time};
use punctual_flows::FlowError;
use punctual_flows::record::{self, Signed};

use crate::{Operate, Response};

impl<L, C: Control + Operations, K, T: Time> Operate<'_, L, C, K, T> {
    /// Nothing is done that is not recorded: without this write there is no other.
    pub(crate) async fn begin(&self, signed: &Signed) -> Result<Operation, FlowError> {
        // Every answer of the database tells its time: a fresh environment has seen none yet.
        self.control.lookup(&[]).await?;
        record::begin(self.control, self.time, &self.by, signed).await
    }

    pub(crate) async fn end(&self, begun: Operation, answer: &Result<Response, FlowError>) {
        let ended = match answer {
            Ok(response) if response.ok => {
                let (did, did_not) = (response.did.clone(), response.did_not.clone());
                Operation { outcome: Outcome::Done, did, did_not, ..begun }
            }
            Ok(response) => record::refused(begun, &response.errors),
            Err(error) => record::failed(begun, error),
        };
        record::end(self.control, &ended).await;
    }
}

/// What an action leaves as it is.
pub(crate) fn did_not(action: &str) -> &'static str {
    match action {
        "put_destination" => "no row, message or call that is on its way was changed",
        "put_calendar" | "import_holidays" => "no reminder that is stored was moved: reschedule moves it",
        "pause" => "no call in flight was stopped, no row was moved, and deadlines go on",
        "resume" => "nothing was claimed or called by this, and what is dead or expired stays so",
        "promote" => "no row was changed: what was shadowed stays so; the destination is still paused",
        "hold" => "no lease was taken away and no deadline was moved",
        "release" => "nothing was claimed, and no attempt was granted",
        "cancel" => "no call was called back, and a dead letter that was sent stays in its queue",
        "requeue" => {
            "no call was made and no other delivery was touched; its dead letter, if one was sent, stays in its queue until a redrive run deletes it"
        }
        "release_lease" => {
            "no call was made or called back; if one is still to have its effect, its answer is recorded as late evidence"
        }
        "retry_mode" => "nothing that is deferred, dead or expired already was moved",
        "pause_dispatch" => {
            "no run under way was stopped; what is in the queue is still delivered, and what is scheduled for the next minutes is still released; a deployment that changes the schedule switches it as its parameters say"
        }
        "resume_dispatch" => "nothing was claimed by this: the schedule's next start does it",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::ACTIONS;

    #[test]
    fn every_action_says_what_it_leaves() {
        for action in ACTIONS {
            assert!(!did_not(action).is_empty(), "{action}");
        }
    }
}
