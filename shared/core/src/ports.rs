//! I am the list of what the functions need from the world, named for the need.
//!
//! One contract suite runs on every adapter of [`Ledger`], [`Rows`], [`Control`] and [`Letters`].

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use crate::acquire::Acquire;
use crate::admission::Candidate;
use crate::breaker::Reach;
use crate::calendar::StoredCalendar;
use crate::clock::{ClockError, Now};
use crate::dead_letter::DeadLetter;
use crate::delivery::{Delivery, Lane, Payload};
use crate::destination::{Change, Destination};
use crate::figures::{Calls, Depth, Heartbeat};
use crate::id::{CalendarId, Content, DeliveryId, DestinationId, IdempotencyKey, MessageId, Reference, RunId};
use crate::limiter;
use crate::message::Message;
use crate::operation::{Operation, OperationPage, OperationPlace};
use crate::outcome::{CallResult, Failure};
use crate::reason::Reason;
use crate::redrive::Run;
use crate::rejections::Rejections;
use crate::settings::{Settings, Switch};
use crate::shadow::{ShadowEntry, ShadowPlace};
use crate::signature::Secret;
use crate::state::State;
use crate::time::Timestamp;
use crate::transition::Transition;

/// Why a port could not answer.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Throttled, timed out, unreachable: the same call may succeed later.
    #[error("{what} is unavailable")]
    Unavailable {
        /// Which call.
        what: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Stored data cannot be read. Names the item, never its content.
    #[error("{item} is corrupt: {problem}")]
    Corrupt {
        /// Which item.
        item: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The service refused the call for good: a missing permission, a missing table.
    #[error("{what} was refused")]
    Refused {
        /// Which call.
        what: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What became of a row's creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// It is new.
    New,
    /// The delivery exists; here is its row.
    Exists(Box<Delivery>),
    /// Another delivery has this idempotency key, or was migrated under another id.
    Taken(DeliveryId),
}

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// The row is ours; as it is now.
    Won(Box<Delivery>),
    /// The guard refused; the row as it is.
    Refused(Box<Delivery>),
    /// There is no such row.
    Absent,
}

/// What became of a guarded write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// It is written.
    Done,
    /// The guard was lost; the row as it is.
    Conflict(Box<Delivery>),
    /// There is no such row.
    Absent,
}

/// Which part of a lane to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WakeQuery {
    /// Which lane.
    pub lane: Lane,
    /// Entries with `wake_at` up to this instant, inclusive.
    pub until: Timestamp,
    /// Only entries whose deadline is at or before this instant.
    pub deadline_by: Option<Timestamp>,
    /// Where to go on.
    pub start: Option<Cursor>,
    /// The most entries to read (not: to return).
    pub limit: u32,
}

/// A place in a lane.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Cursor {
    /// The last entry that was read: its instant.
    pub wake_at: Timestamp,
    /// The last entry that was read: its id.
    pub id: DeliveryId,
}

/// A page of a lane, in the order of `wake_at`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WakePage {
    /// What it holds.
    pub candidates: Vec<Candidate>,
    /// Where to go on, if there is more.
    pub next: Option<Cursor>,
    /// The read units that it cost.
    pub read_units: f64,
}

/// Which part of the dead or of the expired rows to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedQuery {
    /// [`State::Dead`] or [`State::Expired`]; of any other state there are none.
    pub state: State,
    /// Only rows whose deadline is at this instant or later; none: all.
    pub from: Option<Timestamp>,
    /// Where to go on.
    pub start: Option<EndedPlace>,
    /// The most entries to read.
    pub limit: u32,
}

/// A place among the dead or the expired rows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct EndedPlace {
    /// The last entry that was read: its deadline.
    pub deliver_by: Timestamp,
    /// The last entry that was read: its id.
    pub id: DeliveryId,
}

/// A dead or expired row, as an index tells it: a moment old. The row decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedEntry {
    /// Which row.
    pub id: DeliveryId,
    /// Dead or expired.
    pub state: State,
    /// Its deadline.
    pub deliver_by: Timestamp,
    /// Its last reason.
    pub reason: Option<Reason>,
    /// How often it died or expired.
    pub death: u32,
    /// The last death whose dead letter was sent.
    pub dlq_sent: u32,
    /// Whom it goes to.
    pub destination: DestinationId,
}

/// A page of dead or expired rows, in the order of their deadlines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EndedPage {
    /// What it holds; an entry that cannot be read is left out and reported.
    pub entries: Vec<EndedEntry>,
    /// Where to go on, if there is more.
    pub next: Option<EndedPlace>,
}

/// A row that a redrive run moved last, as an index tells it: a moment old.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    /// Which row.
    pub id: DeliveryId,
    /// Where it stands.
    pub state: State,
    /// Its last reason.
    pub reason: Option<Reason>,
    /// Its deadline.
    pub deliver_by: Timestamp,
}

/// A page of the rows of a run, in the order of their ids.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunPage {
    /// What it holds; a row that cannot be read is left out and reported.
    pub rows: Vec<RunRow>,
    /// The last id that was read, if there is more.
    pub next: Option<DeliveryId>,
}

/// All that the ledger has of one delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// The hot row.
    pub row: Delivery,
    /// What it sends; none once erased.
    pub payload: Option<Payload>,
}

/// The authority: one row for each delivery.
pub trait Ledger: Send + Sync {
    /// Stores the payload, then the row, each only if it is new.
    fn create(&self, row: &Delivery, payload: &Payload) -> impl Future<Output = Result<Created, PortError>> + Send;
    /// Claims a row without having read it.
    fn acquire(&self, acquire: &Acquire) -> impl Future<Output = Result<Acquired, PortError>> + Send;
    /// Writes a transition if its guard holds.
    fn write(&self, transition: &Transition) -> impl Future<Output = Result<Written, PortError>> + Send;
    /// Reads rows, each as of now; those that do not exist are left out.
    fn read(&self, ids: &[DeliveryId]) -> impl Future<Output = Result<Vec<Delivery>, PortError>> + Send;
    /// Reads one row as of now. Unlike [`Ledger::read`], which leaves out what cannot be read, it says so.
    fn read_one(&self, id: &DeliveryId) -> impl Future<Output = Result<Option<Delivery>, PortError>> + Send {
        async move { Ok(self.read(std::slice::from_ref(id)).await?.into_iter().next()) }
    }
    /// What a row sends; none once erased.
    fn payload(&self, id: &DeliveryId, content: &Content) -> impl Future<Output = Result<Option<Payload>, PortError>> + Send;
    /// Reads a part of a lane of the wake index.
    fn wake(&self, query: &WakeQuery) -> impl Future<Output = Result<WakePage, PortError>> + Send;
    /// All of one delivery, in one read. The derived id of a migrated reminder leads to the delivery that it became.
    fn partition(&self, id: &DeliveryId) -> impl Future<Output = Result<Option<Partition>, PortError>> + Send;
    /// The deliveries with a reference.
    fn by_reference(&self, reference: &Reference) -> impl Future<Output = Result<Vec<DeliveryId>, PortError>> + Send;
    /// How many dead or expired rows a destination has whose deadline is `from` or later.
    fn count_ended(&self, destination: &DestinationId, from: Timestamp) -> impl Future<Output = Result<u64, PortError>> + Send;
    /// How many dead rows have a deadline after `after`: exact up to some thousands, and never zero if there are any.
    fn count_reachable_dead(&self, after: Timestamp) -> impl Future<Output = Result<u64, PortError>> + Send;
    /// Reads a part of the dead or of the expired rows.
    fn ended(&self, query: &EndedQuery) -> impl Future<Output = Result<EndedPage, PortError>> + Send;
    /// Reads a page of the rows that this run moved last, from behind `start` on.
    fn of_run(&self, run: &RunId, start: Option<&DeliveryId>) -> impl Future<Output = Result<RunPage, PortError>> + Send;
}

/// Which rows of a destination to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowsQuery {
    /// Whose rows.
    pub destination: DestinationId,
    /// Only rows whose deadline is at or after this instant.
    pub from: Timestamp,
    /// Only rows that were created before this instant.
    pub until: Timestamp,
    /// Where to go on.
    pub start: Option<RowsPlace>,
    /// The most items to look at (not: to return); none: as many as the store reads at a time.
    pub limit: Option<u32>,
}

/// A place in the whole ledger, in the order in which its store happens to have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowsPlace {
    /// The last item that was looked at: whose.
    pub partition: String,
    /// The last item that was looked at: which of its items.
    pub item: String,
}

/// A page of rows, in no order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RowsPage {
    /// What it holds.
    pub rows: Vec<Delivery>,
    /// The ids of rows that are there and cannot be read.
    pub unreadable: Vec<String>,
    /// Where to go on, if there is more.
    pub next: Option<RowsPlace>,
    /// The read units that it cost.
    pub read_units: f64,
}

/// Rows that were asked for by their ids, in no order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowsNamed {
    /// Those that exist.
    pub rows: Vec<Delivery>,
    /// The ids of those that are there and cannot be read.
    pub unreadable: Vec<String>,
}

/// The ledger from its one end to the other, for what compares a whole destination: no index has all of its rows.
///
/// A call of a row lies between its creation and its deadline, so the two bounds of a query leave out no row that was
/// called between them. What was written within the last seconds may be missing.
pub trait Rows: Send + Sync {
    /// Reads a page.
    fn rows(&self, query: &RowsQuery) -> impl Future<Output = Result<RowsPage, PortError>> + Send;
    /// Reads rows of any destination by their ids; those that do not exist are left out.
    fn rows_named(&self, ids: &[DeliveryId]) -> impl Future<Output = Result<RowsNamed, PortError>> + Send;
}

/// What became of a versioned write of a control row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// It is written.
    Done,
    /// Somebody wrote it since it was read.
    Conflict,
}

/// What deliver must know of the destinations of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Watched {
    /// Those that exist.
    pub destinations: Vec<Destination>,
    /// How their receivers answered last, where a rejection was among it.
    pub rejections: Vec<(DestinationId, Rejections)>,
    /// How they have been reached lately, where anything is stored.
    pub reach: Vec<(DestinationId, Reach)>,
    /// The switches.
    pub settings: Settings,
}

/// Which part of a destination's shadow entries to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShadowQuery {
    /// Whose entries.
    pub destination: DestinationId,
    /// Due at this instant or later.
    pub from: Timestamp,
    /// Due before this instant.
    pub until: Timestamp,
    /// Where to go on.
    pub start: Option<ShadowPlace>,
}

/// A page of shadow entries, in the order of their due times.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShadowPage {
    /// What it holds.
    pub entries: Vec<ShadowEntry>,
    /// Where to go on, if there is more.
    pub next: Option<ShadowPlace>,
}

/// The control table: destinations, calendars, switches, places in lanes, the shadow sink.
pub trait Control: Send + Sync {
    /// Every destination.
    fn destinations(&self) -> impl Future<Output = Result<Vec<Destination>, PortError>> + Send;
    /// The named destinations (those that exist) and the switches, as of now.
    fn lookup(&self, ids: &[DestinationId]) -> impl Future<Output = Result<(Vec<Destination>, Settings), PortError>> + Send;
    /// The same with what deliver must know besides, in one read. Rejections and reach that cannot be read are left
    /// out and reported.
    fn watch(&self, ids: &[DestinationId]) -> impl Future<Output = Result<Watched, PortError>> + Send;
    /// Writes a destination's rejections if the stored ones are one version older (version 1: there must be none).
    fn note_rejections(
        &self,
        id: &DestinationId,
        rejections: &Rejections,
    ) -> impl Future<Output = Result<Stored, PortError>> + Send;
    /// Moves the number that a destination's calls are booked on, if it is as the write wants it: [`limiter::Move::apply`] is
    /// the meaning. A write whose answer was lost may be made twice: what it booked is spent then.
    fn move_limit(
        &self,
        key: &limiter::Key,
        write: limiter::Move,
    ) -> impl Future<Output = Result<limiter::Moved, PortError>> + Send;
    /// The same; if it is written, what calls have come to is added to the destination's counts in the very write. A store
    /// that keeps no counts drops them.
    fn move_limit_counting(
        &self,
        key: &limiter::Key,
        write: limiter::Move,
        calls: Calls,
    ) -> impl Future<Output = Result<limiter::Moved, PortError>> + Send {
        let _ = calls;
        self.move_limit(key, write)
    }
    /// How every destination has been reached lately, as of now, where anything is stored; what cannot be read is left out
    /// and reported.
    fn reaches(&self) -> impl Future<Output = Result<Vec<(DestinationId, Reach)>, PortError>> + Send;
    /// Writes how a destination is reached if what is stored is one version older (version 1: there must be nothing).
    fn note_reach(&self, id: &DestinationId, reach: &Reach) -> impl Future<Output = Result<Stored, PortError>> + Send;
    /// Writes a destination if its stored version is `expected` (0: it must not exist).
    fn put_destination(&self, destination: &Destination, expected: u64)
    -> impl Future<Output = Result<Stored, PortError>> + Send;
    /// Every calendar, as of now, in the order of their names; one that cannot be read is left out and reported.
    fn calendars(&self) -> impl Future<Output = Result<Vec<StoredCalendar>, PortError>> + Send;
    /// The named calendars (those that exist), as of now. One that cannot be read is an error: left out, it would pass for
    /// one that does not exist.
    fn lookup_calendars(&self, ids: &[CalendarId]) -> impl Future<Output = Result<Vec<StoredCalendar>, PortError>> + Send;
    /// Writes a calendar if its stored version is `expected` (0: it must not exist).
    fn put_calendar(&self, calendar: &StoredCalendar, expected: u64) -> impl Future<Output = Result<Stored, PortError>> + Send;
    /// A redrive run as of now, if there is one of this name; one that cannot be read is an error.
    fn run(&self, id: &RunId) -> impl Future<Output = Result<Option<Run>, PortError>> + Send;
    /// Every redrive run, in the order of their names. One that cannot be read is an error: it may be active.
    fn runs(&self) -> impl Future<Output = Result<Vec<Run>, PortError>> + Send;
    /// Writes a run if its stored version is `expected` (0: it must not exist).
    fn put_run(&self, run: &Run, expected: u64) -> impl Future<Output = Result<Stored, PortError>> + Send;
    /// Who has frozen all redriving, if it is frozen.
    fn freeze(&self) -> impl Future<Output = Result<Option<Change>, PortError>> + Send;
    /// Freezes all redriving, or lets it go on.
    fn put_freeze(&self, freeze: Option<&Change>) -> impl Future<Output = Result<(), PortError>> + Send;
    /// The places where the last run stopped early.
    fn cursors(&self) -> impl Future<Output = Result<Vec<(Lane, Cursor)>, PortError>> + Send;
    /// Keeps or forgets a place.
    fn keep_cursor(&self, lane: &Lane, cursor: Option<&Cursor>) -> impl Future<Output = Result<(), PortError>> + Send;
    /// A function leaves behind that it came to its end; only the last one is kept.
    fn note_heartbeat(&self, function: &str, heartbeat: &Heartbeat) -> impl Future<Output = Result<(), PortError>> + Send;
    /// Posts a request to the shadow sink. The same delivery again replaces its entry.
    fn post_shadow(&self, entry: &ShadowEntry) -> impl Future<Output = Result<(), PortError>> + Send;
    /// Reads a part of what the shadow sink has; an entry that cannot be read is an error.
    fn shadow_entries(&self, query: &ShadowQuery) -> impl Future<Output = Result<ShadowPage, PortError>> + Send;
}

/// What the control table tells of all destinations at once. What cannot be read is left out and reported.
pub trait Overview: Send + Sync {
    /// How receivers answered last, where a rejection was among it.
    fn rejections(&self) -> impl Future<Output = Result<Vec<(DestinationId, Rejections)>, PortError>> + Send;
    /// What calls have come to, ever since somebody counted.
    fn calls(&self) -> impl Future<Output = Result<Vec<(DestinationId, Calls)>, PortError>> + Send;
    /// What a function left behind last, if it ever did.
    fn heartbeat(&self, function: &str) -> impl Future<Output = Result<Option<Heartbeat>, PortError>> + Send;
}

/// What is booked of a destination's rate, for those who only look.
pub trait Limits: Send + Sync {
    /// The number that its calls are booked on, as of now; none if none was ever booked. Looking moves nothing.
    fn limit(&self, key: &limiter::Key) -> impl Future<Output = Result<Option<limiter::Micros>, PortError>> + Send;
}

/// What operators do to the stage as a whole, and the record of everything that they do.
pub trait Operations: Send + Sync {
    /// Moves one of the stage's switches; the others stay as they are.
    fn switch(&self, switch: Switch) -> impl Future<Output = Result<(), PortError>> + Send;
    /// Stores an operation; one of the same place is replaced.
    fn record(&self, operation: &Operation) -> impl Future<Output = Result<(), PortError>> + Send;
    /// Reads at most `limit` operations, newest first, from behind `start` on. One that cannot be read is left out and
    /// reported.
    fn operations(
        &self,
        start: Option<&OperationPlace>,
        limit: u32,
    ) -> impl Future<Output = Result<OperationPage, PortError>> + Send;
}

/// The schedule that starts dispatch.
pub trait Ticks: Send + Sync {
    /// Switches it on or off, and leaves everything else of it as it is. Says whether it was on before.
    fn switch(&self, on: bool) -> impl Future<Output = Result<bool, PortError>> + Send;
}

/// A message to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// What it says.
    pub message: Message,
    /// How long it stays invisible, in whole seconds; at most 900.
    pub delay_seconds: u16,
}

/// The queue of deliveries.
pub trait Queue: Send + Sync {
    /// Publishes messages; one result each, in order.
    fn publish(&self, messages: &[Outgoing]) -> impl Future<Output = Vec<Result<MessageId, PortError>>> + Send;
    /// Hides a received message for so many whole seconds from now.
    fn hide(&self, receipt: &str, seconds: u32) -> impl Future<Output = Result<(), PortError>> + Send;
}

/// How full a queue is.
pub trait Gauge: Send + Sync {
    /// What the queue says of itself; approximate.
    fn fill(&self) -> impl Future<Output = Result<Depth, PortError>> + Send;
}

/// The dead-letter queue.
pub trait DeadLetters: Send + Sync {
    /// Sends one dead letter.
    fn send(&self, letter: &DeadLetter) -> impl Future<Output = Result<(), PortError>> + Send;
}

/// A message of the dead-letter queue, as it was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// Names this receive; for [`Letters::delete`] and [`Letters::release`].
    pub receipt: String,
    /// The queue's name for it.
    pub id: MessageId,
    /// Its body.
    pub body: String,
    /// Its attributes by name.
    pub attributes: BTreeMap<String, String>,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// How often it was received, this time included, as far as the queue knows.
    pub receives: u32,
}

/// The dead-letter queue, read.
pub trait Letters: Send + Sync {
    /// Receives up to `most` messages (1 to 10) and hides them for so many whole seconds. Fewer, or none, says little: a
    /// queue that is nearly empty answers with what it finds at once.
    fn receive(&self, most: u32, hide_seconds: u32) -> impl Future<Output = Result<Vec<Letter>, PortError>> + Send;
    /// Deletes received messages; one result each, in order. A message whose receipt is stale may stay.
    fn delete(&self, receipts: &[String]) -> impl Future<Output = Vec<Result<(), PortError>>> + Send;
    /// Shows received messages again, untouched; one result each, in order. One that fails shows itself when its time is up.
    fn release(&self, receipts: &[String]) -> impl Future<Output = Vec<Result<(), PortError>>> + Send;
}

/// The starter of a redrive run's slices.
pub trait Slices: Send + Sync {
    /// Plans the start of a slice at `at`, in whole seconds, rounded up; one that is planned already is a success, whatever
    /// its instant. A start may come late or twice.
    fn schedule(&self, run: &RunId, slice: u32, at: Timestamp) -> impl Future<Output = Result<(), PortError>> + Send;
}

/// The database's time, and this invocation's end.
pub trait Time: Send + Sync {
    /// The database's time.
    ///
    /// # Errors
    /// [`ClockError`] if it is not known well enough to claim anything.
    fn now(&self) -> Result<Now, ClockError>;
    /// One instant within what is known of the database's time: what this machine's clock says, as far as that is within it; where there is none, the earliest instant.
    /// For pacing calls, never for what is due or late.
    ///
    /// # Errors
    /// As [`Time::now`].
    fn best_guess(&self) -> Result<Timestamp, ClockError> {
        Ok(self.now()?.lo)
    }
    /// How much of this invocation is left.
    fn time_left(&self) -> Duration;
    /// Waits until the instant has surely come, narrowing the estimate on the way.
    fn wait_until(&self, at: Timestamp) -> impl Future<Output = Result<Now, ClockError>> + Send;
    /// Lets this much time pass.
    fn pause(&self, how_long: Duration) -> impl Future<Output = ()> + Send;
    /// A random number in `[0, 1)`.
    fn random(&self) -> f64;
    /// A text that no other claim has.
    fn unique(&self) -> String;
}

/// Why a destination's secrets cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("signing secret {reference} is unavailable: {problem}")]
pub struct SecretUnavailable {
    /// Which one.
    pub reference: String,
    /// What is wrong; never the value.
    pub problem: String,
}

/// The store of signing secrets.
pub trait Secrets: Send + Sync {
    /// The secrets with these references, in this order.
    fn active(&self, references: &[String]) -> impl Future<Output = Result<Vec<Secret>, SecretUnavailable>> + Send;
}

/// One request, ready to go.
#[derive(Clone)]
pub struct Request {
    /// Where to.
    pub url: String,
    /// Header names (lower case) and values.
    pub headers: Vec<(&'static str, String)>,
    /// The exact bytes.
    pub body: Vec<u8>,
    /// For the connection.
    pub connect_timeout: Duration,
    /// For everything, the answer's body included.
    pub total_timeout: Duration,
}

impl std::fmt::Debug for Request {
    /// Shows neither body nor headers.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("body_bytes", &self.body.len()).finish_non_exhaustive()
    }
}

/// The way to receivers.
pub trait Webhook: Send + Sync {
    /// Makes one call. `may_start` is asked right before the first byte; if it says no, the result is
    /// [`CallResult::NotCalled`] and nothing was sent.
    fn call(&self, request: &Request, may_start: &(dyn Fn() -> bool + Send + Sync)) -> impl Future<Output = CallResult> + Send;
}

impl CallResult {
    /// A call that was stopped right before its first byte.
    #[must_use]
    pub fn not_called() -> Self {
        Self::NotCalled(Reason::NotCalled)
    }
}

impl From<Failure> for CallResult {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// The lock that makes two deliveries with one key impossible.
#[must_use]
pub fn key_lock(key: &IdempotencyKey) -> String {
    format!("key.{key}")
}
