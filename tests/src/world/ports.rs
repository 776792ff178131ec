//! I am an actor's ports: every call goes to the world and comes back when an operation lets it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use punctual_core::acquire::Acquire;
use punctual_core::breaker::Reach;
use punctual_core::calendar::StoredCalendar;
use punctual_core::clock::{ClockError, Now};
use punctual_core::dead_letter::DeadLetter;
use punctual_core::delivery::{Delivery, Lane, Payload};
use punctual_core::destination::{Change, Destination};
use punctual_core::figures::Heartbeat;
use punctual_core::id::{CalendarId, Content, DeliveryId, DestinationId, MessageId, Reference, RunId};
use punctual_core::limiter::{Key, Move, Moved};
use punctual_core::operation::{Operation, OperationPage, OperationPlace};
use punctual_core::outcome::{CallResult, Failure};
use punctual_core::ports::{
    Acquired, Control, Created, Cursor, DeadLetters, EndedPage, EndedQuery, Ledger, Letter, Letters, Operations, Outgoing,
    Partition, PortError, Queue, Request, RunPage, SecretUnavailable, Secrets, ShadowPage, ShadowQuery, Slices, Stored, Time,
    WakePage, WakeQuery, Watched, Webhook, Written,
};
use punctual_core::redrive::Run;
use punctual_core::rejections::Rejections;
use punctual_core::settings::{Settings, Switch};
use punctual_core::shadow::ShadowEntry;
use punctual_core::signature::Secret;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_core::transition::Transition;

use super::effect::{Answer, Asked, Effect};
use super::inner::Inner;

/// One actor's way to the world.
#[derive(Clone)]
pub(super) struct Port {
    pub(super) world: Arc<Mutex<Inner>>,
    pub(super) actor: u32,
}

impl Port {
    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn ask(&self, effect: Effect) -> Asked {
        Asked::new(self.clone(), effect)
    }
}

fn fault(what: &'static str) -> PortError {
    PortError::Unavailable { what, source: "the simulated world refused".into() }
}

macro_rules! answer {
    ($port:expr, $effect:expr, $answer:ident, $what:literal) => {
        match $port.ask($effect).await {
            Answer::$answer(value) => Ok(value),
            _ => Err(fault($what)),
        }
    };
}

impl Ledger for Port {
    async fn create(&self, row: &Delivery, payload: &Payload) -> Result<Created, PortError> {
        answer!(self, Effect::Create(Box::new(row.clone()), Box::new(payload.clone())), Created, "create")
    }

    async fn acquire(&self, acquire: &Acquire) -> Result<Acquired, PortError> {
        if acquire.claim.state == State::Delivering {
            self.inner().check_pace(self.actor, &acquire.id);
        }
        answer!(self, Effect::Acquire(Box::new(acquire.clone())), Acquired, "acquire")
    }

    async fn write(&self, transition: &Transition) -> Result<Written, PortError> {
        if transition.after.state == State::Delivering && transition.before.state != State::Delivering {
            self.inner().check_pace(self.actor, &transition.before.id);
        }
        answer!(self, Effect::Write(Box::new(transition.clone())), Written, "write")
    }

    async fn read(&self, ids: &[DeliveryId]) -> Result<Vec<Delivery>, PortError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        answer!(self, Effect::Read(ids.to_vec()), Rows, "read")
    }

    async fn payload(&self, id: &DeliveryId, content: &Content) -> Result<Option<Payload>, PortError> {
        answer!(self, Effect::Payload(id.clone(), content.clone()), Payload, "payload")
    }

    async fn wake(&self, query: &WakeQuery) -> Result<WakePage, PortError> {
        answer!(self, Effect::Wake(query.clone()), Page, "wake")
    }

    async fn partition(&self, id: &DeliveryId) -> Result<Option<Partition>, PortError> {
        let found: Result<_, PortError> = answer!(self, Effect::Partition(id.clone()), Partition, "partition");
        found.map(|found| found.map(|found| *found))
    }

    async fn by_reference(&self, reference: &Reference) -> Result<Vec<DeliveryId>, PortError> {
        answer!(self, Effect::ByReference(reference.clone()), Ids, "by_reference")
    }

    /// No actor of this world asks.
    async fn count_ended(&self, _: &DestinationId, _: Timestamp) -> Result<u64, PortError> {
        Err(fault("count_ended"))
    }

    async fn count_reachable_dead(&self, after: Timestamp) -> Result<u64, PortError> {
        answer!(self, Effect::CountDead(after), Count, "count_reachable_dead")
    }

    async fn ended(&self, query: &EndedQuery) -> Result<EndedPage, PortError> {
        answer!(self, Effect::Ended(query.clone()), Ended, "ended")
    }

    /// All of a run is one page here.
    async fn of_run(&self, run: &RunId, _: Option<&DeliveryId>) -> Result<RunPage, PortError> {
        answer!(self, Effect::OfRun(run.clone()), OfRun, "of_run")
    }
}

/// The record of what operators do is not part of this world: a write of it costs no step and never fails.
impl Operations for Port {
    async fn switch(&self, switch: Switch) -> Result<(), PortError> {
        self.inner().control.switch(switch).now_or_never().unwrap_or_else(|| Err(fault("switch")))
    }

    async fn record(&self, operation: &Operation) -> Result<(), PortError> {
        self.inner().control.record(operation).now_or_never().unwrap_or_else(|| Err(fault("record")))
    }

    /// No actor of this world asks.
    async fn operations(&self, _: Option<&OperationPlace>, _: u32) -> Result<OperationPage, PortError> {
        Err(fault("operations"))
    }
}

impl Control for Port {
    async fn destinations(&self) -> Result<Vec<Destination>, PortError> {
        answer!(self, Effect::Destinations, Destinations, "destinations")
    }

    async fn lookup(&self, ids: &[DestinationId]) -> Result<(Vec<Destination>, Settings), PortError> {
        match self.ask(Effect::Lookup(ids.to_vec())).await {
            Answer::Found(destinations, settings) => Ok((destinations, settings)),
            _ => Err(fault("lookup")),
        }
    }

    async fn watch(&self, ids: &[DestinationId]) -> Result<Watched, PortError> {
        answer!(self, Effect::Watch(ids.to_vec()), Watched, "watch")
    }

    async fn note_rejections(&self, id: &DestinationId, rejections: &Rejections) -> Result<Stored, PortError> {
        answer!(self, Effect::NoteRejections(id.clone(), Box::new(rejections.clone())), Stored, "note_rejections")
    }

    /// Costs no step where no rate binds.
    async fn move_limit(&self, key: &Key, write: Move) -> Result<Moved, PortError> {
        if !self.inner().limits {
            let moved = self.inner().control.move_limit(key, write).now_or_never();
            return moved.unwrap_or_else(|| Err(fault("move_limit")));
        }
        answer!(self, Effect::MoveLimit(key.clone(), write), Moved, "move_limit")
    }

    async fn reaches(&self) -> Result<Vec<(DestinationId, Reach)>, PortError> {
        if !self.inner().reach_on {
            return Ok(Vec::new());
        }
        answer!(self, Effect::Reaches, Reaches, "reaches")
    }

    async fn note_reach(&self, id: &DestinationId, reach: &Reach) -> Result<Stored, PortError> {
        if !self.inner().reach_on {
            return Ok(Stored::Done);
        }
        answer!(self, Effect::NoteReach(id.clone(), Box::new(reach.clone())), Stored, "note_reach")
    }

    async fn put_destination(&self, destination: &Destination, expected: u64) -> Result<Stored, PortError> {
        answer!(self, Effect::PutDestination(Box::new(destination.clone()), expected), Stored, "put_destination")
    }

    /// No actor of this world asks.
    async fn calendars(&self) -> Result<Vec<StoredCalendar>, PortError> {
        Err(fault("calendars"))
    }

    /// There are none, and who names none asks for none.
    async fn lookup_calendars(&self, _: &[CalendarId]) -> Result<Vec<StoredCalendar>, PortError> {
        Ok(Vec::new())
    }

    /// No actor of this world asks.
    async fn put_calendar(&self, _: &StoredCalendar, _: u64) -> Result<Stored, PortError> {
        Err(fault("put_calendar"))
    }

    async fn run(&self, id: &RunId) -> Result<Option<Run>, PortError> {
        let found: Result<_, PortError> = answer!(self, Effect::Run(id.clone()), Run, "run");
        found.map(|found| found.map(|found| *found))
    }

    async fn runs(&self) -> Result<Vec<Run>, PortError> {
        answer!(self, Effect::Runs, Runs, "runs")
    }

    async fn put_run(&self, run: &Run, expected: u64) -> Result<Stored, PortError> {
        answer!(self, Effect::PutRun(Box::new(run.clone()), expected), Stored, "put_run")
    }

    async fn freeze(&self) -> Result<Option<Change>, PortError> {
        answer!(self, Effect::Freeze, Freeze, "freeze")
    }

    async fn put_freeze(&self, freeze: Option<&Change>) -> Result<(), PortError> {
        match self.ask(Effect::PutFreeze(freeze.cloned())).await {
            Answer::Done => Ok(()),
            _ => Err(fault("put_freeze")),
        }
    }

    async fn cursors(&self) -> Result<Vec<(Lane, Cursor)>, PortError> {
        answer!(self, Effect::Cursors, Cursors, "cursors")
    }

    async fn keep_cursor(&self, lane: &Lane, cursor: Option<&Cursor>) -> Result<(), PortError> {
        match self.ask(Effect::KeepCursor(lane.clone(), cursor.cloned())).await {
            Answer::Done => Ok(()),
            _ => Err(fault("keep_cursor")),
        }
    }

    /// Nobody in this world reads it: it costs no step.
    async fn note_heartbeat(&self, _: &str, _: &Heartbeat) -> Result<(), PortError> {
        Ok(())
    }

    async fn post_shadow(&self, entry: &ShadowEntry) -> Result<(), PortError> {
        match self.ask(Effect::PostShadow(entry.clone())).await {
            Answer::Done => Ok(()),
            _ => Err(fault("post_shadow")),
        }
    }

    /// No actor of this world reads the sink.
    async fn shadow_entries(&self, _: &ShadowQuery) -> Result<ShadowPage, PortError> {
        Err(fault("shadow_entries"))
    }
}

impl Queue for Port {
    async fn publish(&self, messages: &[Outgoing]) -> Vec<Result<MessageId, PortError>> {
        if messages.is_empty() {
            return Vec::new();
        }
        match self.ask(Effect::Publish(messages.to_vec())).await {
            Answer::Published(ids) => ids.into_iter().map(|id| id.ok_or_else(|| fault("publish"))).collect(),
            _ => messages.iter().map(|_| Err(fault("publish"))).collect(),
        }
    }

    async fn hide(&self, receipt: &str, seconds: u32) -> Result<(), PortError> {
        match self.ask(Effect::Hide(receipt.to_owned(), seconds)).await {
            Answer::Done => Ok(()),
            _ => Err(fault("hide")),
        }
    }
}

impl DeadLetters for Port {
    async fn send(&self, letter: &DeadLetter) -> Result<(), PortError> {
        match self.ask(Effect::Letter(letter.clone())).await {
            Answer::Done => Ok(()),
            _ => Err(fault("send")),
        }
    }
}

impl Letters for Port {
    async fn receive(&self, most: u32, hide_seconds: u32) -> Result<Vec<Letter>, PortError> {
        answer!(self, Effect::ReceiveLetters(most, hide_seconds), Letters, "receive")
    }

    async fn delete(&self, receipts: &[String]) -> Vec<Result<(), PortError>> {
        if receipts.is_empty() {
            return Vec::new();
        }
        each(self.ask(Effect::DeleteLetters(receipts.to_vec())).await, receipts, "delete")
    }

    async fn release(&self, receipts: &[String]) -> Vec<Result<(), PortError>> {
        if receipts.is_empty() {
            return Vec::new();
        }
        each(self.ask(Effect::ShowLetters(receipts.to_vec())).await, receipts, "release")
    }
}

fn each(answer: Answer, receipts: &[String], what: &'static str) -> Vec<Result<(), PortError>> {
    match answer {
        Answer::Each(worked) => worked.into_iter().map(|worked| if worked { Ok(()) } else { Err(fault(what)) }).collect(),
        _ => receipts.iter().map(|_| Err(fault(what))).collect(),
    }
}

impl Slices for Port {
    async fn schedule(&self, run: &RunId, slice: u32, at: Timestamp) -> Result<(), PortError> {
        match self.ask(Effect::PlanSlice(run.clone(), slice, at)).await {
            Answer::Done => Ok(()),
            _ => Err(fault("schedule")),
        }
    }
}

impl Time for Port {
    fn now(&self) -> Result<Now, ClockError> {
        self.inner().clock(self.actor)
    }

    fn best_guess(&self) -> Result<Timestamp, ClockError> {
        let mut inner = self.inner();
        let machine = Timestamp::from_millis(inner.now + inner.skew);
        Ok(inner.clock(self.actor)?.closest_to(machine))
    }

    fn time_left(&self) -> Duration {
        self.inner().time_left(self.actor)
    }

    async fn wait_until(&self, at: Timestamp) -> Result<Now, ClockError> {
        match self.ask(Effect::WaitUntil(at)).await {
            Answer::Time(now) => now,
            _ => Err(ClockError::Unknown),
        }
    }

    async fn pause(&self, how_long: Duration) {
        self.ask(Effect::Pause(how_long)).await;
    }

    fn random(&self) -> f64 {
        self.inner().random(self.actor)
    }

    fn unique(&self) -> String {
        self.inner().unique(self.actor)
    }
}

impl Secrets for Port {
    async fn active(&self, references: &[String]) -> Result<Vec<Secret>, SecretUnavailable> {
        let reference = references.first().cloned().unwrap_or_default();
        let unavailable = |problem: String| SecretUnavailable { reference: reference.clone(), problem };
        match self.ask(Effect::Secrets).await {
            Answer::Done => {
                let secret = Secret::parse("s1", "whsec_cHVuY3R1YWwtYmVuY2gtc2VjcmV0LTIwMjctMDE=");
                secret.map(|secret| vec![secret]).map_err(|e| unavailable(e.to_string()))
            }
            _ => Err(unavailable("the simulated world refused".into())),
        }
    }
}

impl Webhook for Port {
    async fn call(&self, request: &Request, may_start: &(dyn Fn() -> bool + Send + Sync)) -> CallResult {
        let to = destination_of(&request.url);
        if let Some(script) = &mut self.inner().script {
            script.handed(request);
        }
        match self.ask(Effect::Connect(to)).await {
            Answer::Connected(None) => {}
            Answer::Connected(Some(failure)) => return failure.into(),
            _ => return Failure::Connect.into(),
        }
        // The first byte leaves in the very poll in which the question is asked.
        if !may_start() {
            return CallResult::not_called();
        }
        let post = self.inner().first_byte(self.actor, to, request);
        let Some(post) = post else { return CallResult::not_called() };
        match self.ask(Effect::Post(post, request.total_timeout)).await {
            Answer::Called(result) => result,
            _ => Failure::Cut.into(),
        }
    }
}

/// The address of a destination's receiver.
pub(super) fn url_of(destination: usize) -> String {
    format!("https://r{destination}.example.com/hook")
}

fn destination_of(url: &str) -> usize {
    url.strip_prefix("https://r").and_then(|rest| rest.split('.').next()).and_then(|n| n.parse().ok()).unwrap_or(0)
}
