//! I am a call that an actor makes to the world: registered when it is made, decided by an operation, answered by a later poll.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use punctual_core::acquire::Acquire;
use punctual_core::breaker::Reach;
use punctual_core::clock::{ClockError, Now};
use punctual_core::dead_letter::DeadLetter;
use punctual_core::delivery::{Delivery, Lane, Payload};
use punctual_core::destination::{Change, Destination};
use punctual_core::id::{Content, DeliveryId, DestinationId, MessageId, Reference, RunId};
use punctual_core::limiter::{Key, Move, Moved};
use punctual_core::outcome::{CallResult, Failure};
use punctual_core::ports::{
    Acquired, Created, Cursor, EndedPage, EndedQuery, Letter, Outgoing, Partition, RunPage, Stored, WakePage, WakeQuery, Watched,
    Written,
};
use punctual_core::redrive::Run;
use punctual_core::rejections::Rejections;
use punctual_core::settings::Settings;
use punctual_core::shadow::ShadowEntry;
use punctual_core::time::Timestamp;
use punctual_core::transition::Transition;

use super::ports::Port;
use super::receiver::{Post, Reply};

/// What an actor asks for.
#[derive(Debug, Clone)]
pub(super) enum Effect {
    Create(Box<Delivery>, Box<Payload>),
    Acquire(Box<Acquire>),
    Write(Box<Transition>),
    Read(Vec<DeliveryId>),
    Payload(DeliveryId, Content),
    Wake(WakeQuery),
    Partition(DeliveryId),
    ByReference(Reference),
    CountDead(Timestamp),
    Ended(EndedQuery),
    OfRun(RunId),
    Destinations,
    Lookup(Vec<DestinationId>),
    Watch(Vec<DestinationId>),
    NoteRejections(DestinationId, Box<Rejections>),
    MoveLimit(Key, Move),
    Reaches,
    NoteReach(DestinationId, Box<Reach>),
    PutDestination(Box<Destination>, u64),
    Run(RunId),
    Runs,
    PutRun(Box<Run>, u64),
    Freeze,
    PutFreeze(Option<Change>),
    Cursors,
    KeepCursor(Lane, Option<Cursor>),
    PostShadow(ShadowEntry),
    Publish(Vec<Outgoing>),
    Hide(String, u32),
    Letter(DeadLetter),
    ReceiveLetters(u32, u32),
    DeleteLetters(Vec<String>),
    ShowLetters(Vec<String>),
    PlanSlice(RunId, u32, Timestamp),
    WaitUntil(Timestamp),
    Pause(Duration),
    Secrets,
    Connect(usize),
    Post(Post, Duration),
    Acknowledge(Vec<String>),
}

impl Effect {
    /// In a few words, for a trace.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Create(row, _) => format!("create {}", short(&row.id)),
            Self::Acquire(a) => format!("acquire {} for {}", short(&a.id), a.claim.state),
            Self::Write(t) => {
                format!(
                    "write {} v{} {} -> v{} {}",
                    short(&t.before.id),
                    t.before.version,
                    t.before.state,
                    t.after.version,
                    t.after.state
                )
            }
            Self::Read(ids) => format!("read {}", ids.iter().map(short).collect::<Vec<_>>().join(" ")),
            Self::Payload(id, _) => format!("payload {}", short(id)),
            Self::Wake(query) => format!("wake {} until {}", query.lane, query.until),
            Self::Partition(id) => format!("partition {}", short(id)),
            Self::ByReference(reference) => format!("by reference {reference}"),
            Self::CountDead(_) => "count dead".into(),
            Self::Ended(query) => format!("ended {}", query.state),
            Self::OfRun(run) => format!("of run {run}"),
            Self::Run(run) => format!("run {run}"),
            Self::Runs => "runs".into(),
            Self::PutRun(run, _) => {
                let owner = run.lease.as_ref().map_or("-", |lease| lease.owner.as_str());
                format!(
                    "put run {} v{} {} slice {} moved {} lease {owner}",
                    run.id, run.version, run.phase, run.slice, run.counters.moved
                )
            }
            Self::Freeze => "freeze?".into(),
            Self::PutFreeze(change) => {
                if change.is_some() {
                    "freeze".into()
                } else {
                    "unfreeze".into()
                }
            }
            Self::ReceiveLetters(most, _) => format!("receive {most} letters"),
            Self::DeleteLetters(receipts) => format!("delete letters {}", receipts.join(" ")),
            Self::ShowLetters(receipts) => format!("show letters {}", receipts.join(" ")),
            Self::PlanSlice(run, slice, at) => format!("plan slice {slice} of {run} at {at}"),
            Self::Destinations => "destinations".into(),
            Self::Lookup(_) => "lookup".into(),
            Self::Watch(_) => "watch".into(),
            Self::NoteRejections(id, noted) => format!("note rejections {id} v{} {}", noted.version, noted.results),
            Self::MoveLimit(key, write) => format!("move limit {key} {write:?}"),
            Self::Reaches => "reaches".into(),
            Self::NoteReach(id, reach) => format!("note reach {id} v{} silent {} {:?}", reach.version, reach.silent, reach.open),
            Self::PutDestination(d, _) => {
                format!("put destination {} v{}{}", d.spec.id, d.version, if d.paused.is_some() { " paused" } else { "" })
            }
            Self::Cursors => "cursors".into(),
            Self::KeepCursor(lane, _) => format!("keep cursor {lane}"),
            Self::PostShadow(entry) => format!("post {} to the shadow sink", short(&entry.delivery_id)),
            Self::Publish(messages) => {
                let each = messages
                    .iter()
                    .map(|m| format!("{}#{}+{}s", short(&m.message.delivery_id), m.message.attempt, m.delay_seconds));
                format!("publish {}", each.collect::<Vec<_>>().join(" "))
            }
            Self::Hide(receipt, seconds) => format!("hide {receipt} {seconds}s"),
            Self::Letter(letter) => {
                format!("dead letter {}", letter.attributes.iter().map(|(_, v)| v.as_str()).take(4).collect::<Vec<_>>().join(" "))
            }
            Self::WaitUntil(at) => format!("wait until {at}"),
            Self::Pause(how_long) => format!("pause {}ms", how_long.as_millis()),
            Self::Secrets => "secrets".into(),
            Self::Connect(to) => format!("connect r{to}"),
            Self::Post(post, _) => format!("POST {} to r{}", short(&post.id), post.destination),
            Self::Acknowledge(receipts) => format!("acknowledge {}", receipts.join(" ")),
        }
    }

    /// A slice's own calls in a word.
    pub(super) fn word(&self) -> Option<&'static str> {
        Some(match self {
            Self::Write(t) if t.after.redrives.len() > t.before.redrives.len() => "ledger",
            Self::Acquire(_) => "claim",
            Self::Publish(_) => "send",
            Self::PlanSlice(..) => "plan",
            Self::PutRun(..) => "run",
            Self::ReceiveLetters(..) => "receive",
            Self::DeleteLetters(_) => "delete",
            Self::ShowLetters(_) => "show",
            Self::MoveLimit(..) => "booking",
            _ => return None,
        })
    }

    /// Whether a request of a dead actor could still arrive and change something.
    pub(super) fn outlives_its_sender(&self) -> bool {
        matches!(
            self,
            Self::Create(..)
                | Self::Acquire(_)
                | Self::Write(_)
                | Self::NoteRejections(..)
                | Self::MoveLimit(..)
                | Self::NoteReach(..)
                | Self::PutDestination(..)
                | Self::PostShadow(_)
                | Self::Publish(_)
                | Self::Hide(..)
                | Self::PutRun(..)
                | Self::PutFreeze(_)
                | Self::Letter(_)
                | Self::ReceiveLetters(..)
                | Self::DeleteLetters(_)
                | Self::ShowLetters(_)
                | Self::PlanSlice(..)
                | Self::Post(..)
                | Self::Acknowledge(_)
        )
    }
}

/// The end of an id is enough to tell it from the others.
pub(super) fn short(id: &DeliveryId) -> String {
    id.as_str().chars().skip(4).take(4).collect()
}

/// What an actor learns.
#[derive(Debug)]
pub(super) enum Answer {
    Fault,
    Done,
    Created(Created),
    Acquired(Acquired),
    Written(Written),
    Rows(Vec<Delivery>),
    Payload(Option<Payload>),
    Page(WakePage),
    Partition(Option<Box<Partition>>),
    Ids(Vec<DeliveryId>),
    Count(u64),
    Ended(EndedPage),
    OfRun(RunPage),
    Run(Option<Box<Run>>),
    Runs(Vec<Run>),
    Freeze(Option<Change>),
    Letters(Vec<Letter>),
    /// Of each entry, whether it worked.
    Each(Vec<bool>),
    Destinations(Vec<Destination>),
    Found(Vec<Destination>, Settings),
    Watched(Watched),
    Stored(Stored),
    Moved(Moved),
    Reaches(Vec<(DestinationId, Reach)>),
    Cursors(Vec<(Lane, Cursor)>),
    Published(Vec<Option<MessageId>>),
    Time(Result<Now, ClockError>),
    Connected(Option<Failure>),
    Called(CallResult),
}

/// How far a call has come.
#[derive(Debug)]
pub(super) enum Stage {
    /// Not yet happened.
    Open,
    /// It has happened; the answer is on its way.
    Happened(Answer),
    /// The receiver has it, and will answer.
    AtReceiver(Reply),
    /// The actor may take it.
    Answered(Answer),
}

/// A call that is not finished.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) actor: u32,
    pub(super) effect: Effect,
    pub(super) stage: Stage,
    pub(super) since: i64,
    pub(super) waker: Option<Waker>,
}

/// Waits for the world to answer.
pub(super) struct Asked {
    port: Port,
    effect: Option<Effect>,
    number: Option<u64>,
}

impl Asked {
    pub(super) fn new(port: Port, effect: Effect) -> Self {
        Self { port, effect: Some(effect), number: None }
    }
}

impl Future for Asked {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let port = self.port.clone();
        let mut inner = port.inner();
        if let Some(effect) = self.effect.take() {
            self.number = Some(inner.register(port.actor, effect, cx.waker().clone()));
            return Poll::Pending;
        }
        match self.number.and_then(|number| inner.take_answer(number, cx.waker())) {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        }
    }
}
