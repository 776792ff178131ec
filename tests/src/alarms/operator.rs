//! I am an operator of the stage: I pause, hold and cancel as the function operate does, with the same transitions, and I can
//! ask the shipped function itself.

use anyhow::{Context as _, Result, ensure};
use punctual_adapters::memory::MemoryTicks;
use punctual_core::clock::Now;
use punctual_core::delivery::{Cancel, Delivery, Hold};
use punctual_core::destination::{Change, Destination, Pause, StageRules};
use punctual_core::id::{DeliveryId, DestinationId};
use punctual_core::ports::{Control as _, Ledger as _, Stored, Written};
use punctual_core::transition::{self, Stamp, Transition};
use punctual_operate::metrics::{COUNTED_AS, metrics};
use punctual_operate::{Operate, Response};
use serde_json::Value;
use serde_json::value::RawValue;

use super::stage::{STAGE, Stage};

impl Stage {
    /// Sends the shipped operate a test event, and notes what it emits.
    ///
    /// # Errors
    /// If the function fails.
    pub async fn operate(&mut self, event: &Value) -> Result<Response> {
        self.time.begin_invocation();
        let rules = StageRules { allow_local: false, secret_prefix: "punctual/dev/".into() };
        let operate = Operate {
            ledger: &self.world.ledger(),
            control: &self.world.control(),
            ticks: &MemoryTicks::default(),
            time: &self.time,
            rules: &rules,
            margin: self.world.margin,
            by: self.by()?,
        };
        let response = operate.handle(&RawValue::from_string(event.to_string())?).await?;
        if let Some(values) = metrics(&response) {
            self.stream.note_all(STAGE, COUNTED_AS, self.time.instant(), &values);
        }
        Ok(response)
    }

    /// Pauses a destination.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub async fn pause(&self, destination: &str) -> Result<()> {
        let since = self.time.instant();
        self.change(destination, |now| now.paused = Some(Pause { since, by: "ann".into(), why: "a drill".into() })).await
    }

    /// Resumes it, with so much that may be out at a time.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub async fn resume(&self, destination: &str, max_in_flight: u32) -> Result<()> {
        self.change(destination, |now| {
            now.paused = None;
            now.spec.max_in_flight = max_in_flight;
        })
        .await
    }

    async fn change(&self, destination: &str, change: impl FnOnce(&mut Destination)) -> Result<()> {
        let control = self.world.control();
        let (found, _) = control.lookup(&[DestinationId::new(destination)?]).await?;
        let before = found.into_iter().next().context("no such destination")?;
        let changed = Change { at: self.time.instant(), by: "ann".into(), why: "a drill".into() };
        let mut after = Destination { version: before.version + 1, changed, ..before.clone() };
        change(&mut after);
        ensure!(control.put_destination(&after, before.version).await? == Stored::Done, "{destination} was changed by somebody");
        Ok(())
    }

    /// Holds rows.
    ///
    /// # Errors
    /// If one cannot be held.
    pub async fn hold(&self, ids: &[DeliveryId]) -> Result<()> {
        let (since, margin) = (self.time.instant(), self.world.margin);
        let hold = || Hold { since, by: "ann".into(), why: "a drill".into() };
        self.each(ids, |row, stamp| transition::held(row, hold(), margin, stamp).map_err(|e| anyhow::anyhow!("{e:?}"))).await
    }

    /// Cancels rows.
    ///
    /// # Errors
    /// If one cannot be cancelled.
    pub async fn cancel(&self, ids: &[DeliveryId]) -> Result<()> {
        let since = self.time.instant();
        let cancel = || Cancel { since, by: "ann".into(), why: "a drill".into() };
        self.each(ids, |row, stamp| transition::cancelled(row, cancel(), stamp).map_err(|e| anyhow::anyhow!("{e:?}"))).await
    }

    async fn each(&self, ids: &[DeliveryId], step: impl Fn(&Delivery, &Stamp) -> Result<Transition>) -> Result<()> {
        let stamp = Stamp { now: Now::exactly(self.time.instant()), by: self.by()? };
        for row in self.rows(ids).await? {
            let done = step(&row, &stamp)?;
            ensure!(self.world.ledger().write(&done).await? == Written::Done, "{} was changed by somebody", row.id);
        }
        Ok(())
    }
}
