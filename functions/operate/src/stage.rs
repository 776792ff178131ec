//! I move what holds for the whole stage: the kill switch, and dispatch's schedule.

use punctual_core::ports::{Control, Operations, Ticks, Time};
use punctual_core::settings::{RetryMode, Settings, Switch};
use punctual_flows::FlowError;

use crate::{Operate, Response};

impl<L, C: Control + Operations, K: Ticks, T: Time> Operate<'_, L, C, K, T> {
    pub(crate) async fn retry_mode(&self, mode: RetryMode) -> Result<Response, FlowError> {
        if self.settings().await?.retry_mode == mode {
            return Ok(Response::stage("nothing: the retry mode was that already".into()));
        }
        self.control.switch(Switch::RetryMode(mode)).await?;
        let did = match mode {
            RetryMode::Retry => "switched the kill switch off: a retryable failure is retried by its policy",
            RetryMode::DeadLetter => {
                "switched the kill switch on: within 15 s a retryable failure is dead at once, as retry_disabled"
            }
        };
        Ok(Response::stage(did.into()))
    }

    /// The schedule is what counts; the note beside it is what `explain` reads.
    pub(crate) async fn pause_dispatch(&self) -> Result<Response, FlowError> {
        let was_on = self.ticks.switch(false).await?;
        if self.settings().await?.dispatch_paused.is_none() {
            self.control.switch(Switch::DispatchPaused(Some(self.time.now()?.lo))).await?;
        }
        Ok(Response::stage(if was_on {
            "switched dispatch's schedule off: until it is resumed no run starts by itself, nothing leaves the ledger by one, and nothing is \
             rescued"
                .into()
        } else {
            "nothing: dispatch's schedule was off already".into()
        }))
    }

    pub(crate) async fn resume_dispatch(&self) -> Result<Response, FlowError> {
        let was_on = self.ticks.switch(true).await?;
        if self.settings().await?.dispatch_paused.is_some() {
            self.control.switch(Switch::DispatchPaused(None)).await?;
        }
        Ok(Response::stage(if was_on {
            "nothing: dispatch's schedule was on already".into()
        } else {
            "switched dispatch's schedule on".into()
        }))
    }

    async fn settings(&self) -> Result<Settings, FlowError> {
        Ok(self.control.lookup(&[]).await?.1)
    }
}

impl Response {
    /// Done to the stage, which has no version.
    fn stage(did: String) -> Self {
        Self { version: None, ..Self::done(did, 0) }
    }
}
