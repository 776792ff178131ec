//! Ports that end their caller after its n-th effect, as a crash does: the effect is there, and nobody goes on.

use std::future::{Future, pending, poll_fn};
use std::sync::Mutex;
use std::task::{Poll, Waker};

use punctual_core::acquire::Acquire;
use punctual_core::breaker::Reach;
use punctual_core::calendar::StoredCalendar;
use punctual_core::delivery::{Delivery, Lane, Payload};
use punctual_core::destination::{Change, Destination};
use punctual_core::figures::Heartbeat;
use punctual_core::id::{CalendarId, Content, DeliveryId, DestinationId, MessageId, Reference, RunId};
use punctual_core::limiter::{Key, Move, Moved};
use punctual_core::operation::{Operation, OperationPage, OperationPlace};
use punctual_core::ports::{
    Acquired, Control, Created, Cursor, EndedPage, EndedQuery, Ledger, Letter, Letters, Operations, Outgoing, Partition,
    PortError, Queue, RunPage, ShadowPage, ShadowQuery, Slices, Stored, WakePage, WakeQuery, Watched, Written,
};
use punctual_core::redrive::Run;
use punctual_core::rejections::Rejections;
use punctual_core::settings::{Settings, Switch};
use punctual_core::shadow::ShadowEntry;
use punctual_core::time::Timestamp;
use punctual_core::transition::Transition;

/// Counts the effects of one invocation, and ends it after one of them.
#[derive(Default)]
pub(crate) struct Fuse {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    effects: u32,
    ends_after: Option<u32>,
    blown: bool,
    waker: Option<Waker>,
}

impl Fuse {
    /// One that ends its invocation after so many effects; never, if none.
    pub(crate) fn new(ends_after: Option<u32>) -> Self {
        Self { state: Mutex::new(State { ends_after, ..State::default() }) }
    }

    async fn effect<T>(&self, made: impl Future<Output = T>) -> T {
        let made = made.await;
        let blown = {
            let mut state = self.state.lock().unwrap();
            state.effects += 1;
            state.blown |= state.ends_after == Some(state.effects);
            if let Some(waker) = state.waker.take().filter(|_| state.blown) {
                waker.wake();
            }
            state.blown
        };
        if blown { pending().await } else { made }
    }

    /// Comes back when the invocation is to end.
    pub(crate) async fn blown(&self) {
        poll_fn(|context| {
            let mut state = self.state.lock().unwrap();
            state.waker = Some(context.waker().clone());
            if state.blown { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// A port with a fuse.
pub(crate) struct Fused<'a, P> {
    pub(crate) port: &'a P,
    pub(crate) fuse: &'a Fuse,
}

impl<P: Ledger> Ledger for Fused<'_, P> {
    async fn create(&self, row: &Delivery, payload: &Payload) -> Result<Created, PortError> {
        self.fuse.effect(self.port.create(row, payload)).await
    }
    async fn acquire(&self, acquire: &Acquire) -> Result<Acquired, PortError> {
        self.fuse.effect(self.port.acquire(acquire)).await
    }
    async fn write(&self, transition: &Transition) -> Result<Written, PortError> {
        self.fuse.effect(self.port.write(transition)).await
    }
    async fn read(&self, ids: &[DeliveryId]) -> Result<Vec<Delivery>, PortError> {
        self.port.read(ids).await
    }
    async fn payload(&self, id: &DeliveryId, content: &Content) -> Result<Option<Payload>, PortError> {
        self.port.payload(id, content).await
    }
    async fn wake(&self, query: &WakeQuery) -> Result<WakePage, PortError> {
        self.port.wake(query).await
    }
    async fn partition(&self, id: &DeliveryId) -> Result<Option<Partition>, PortError> {
        self.port.partition(id).await
    }
    async fn by_reference(&self, reference: &Reference) -> Result<Vec<DeliveryId>, PortError> {
        self.port.by_reference(reference).await
    }
    async fn count_ended(&self, destination: &DestinationId, from: Timestamp) -> Result<u64, PortError> {
        self.port.count_ended(destination, from).await
    }
    async fn count_reachable_dead(&self, after: Timestamp) -> Result<u64, PortError> {
        self.port.count_reachable_dead(after).await
    }
    async fn ended(&self, query: &EndedQuery) -> Result<EndedPage, PortError> {
        self.port.ended(query).await
    }
    async fn of_run(&self, run: &RunId, start: Option<&DeliveryId>) -> Result<RunPage, PortError> {
        self.port.of_run(run, start).await
    }
}

impl<P: Control> Control for Fused<'_, P> {
    async fn destinations(&self) -> Result<Vec<Destination>, PortError> {
        self.port.destinations().await
    }
    async fn lookup(&self, ids: &[DestinationId]) -> Result<(Vec<Destination>, Settings), PortError> {
        self.port.lookup(ids).await
    }
    async fn watch(&self, ids: &[DestinationId]) -> Result<Watched, PortError> {
        self.port.watch(ids).await
    }
    async fn note_rejections(&self, id: &DestinationId, rejections: &Rejections) -> Result<Stored, PortError> {
        self.fuse.effect(self.port.note_rejections(id, rejections)).await
    }
    async fn move_limit(&self, key: &Key, write: Move) -> Result<Moved, PortError> {
        self.fuse.effect(self.port.move_limit(key, write)).await
    }
    async fn reaches(&self) -> Result<Vec<(DestinationId, Reach)>, PortError> {
        self.port.reaches().await
    }
    async fn note_reach(&self, id: &DestinationId, reach: &Reach) -> Result<Stored, PortError> {
        self.fuse.effect(self.port.note_reach(id, reach)).await
    }
    async fn put_destination(&self, destination: &Destination, expected: u64) -> Result<Stored, PortError> {
        self.fuse.effect(self.port.put_destination(destination, expected)).await
    }
    async fn calendars(&self) -> Result<Vec<StoredCalendar>, PortError> {
        self.port.calendars().await
    }
    async fn lookup_calendars(&self, ids: &[CalendarId]) -> Result<Vec<StoredCalendar>, PortError> {
        self.port.lookup_calendars(ids).await
    }
    async fn put_calendar(&self, calendar: &StoredCalendar, expected: u64) -> Result<Stored, PortError> {
        self.fuse.effect(self.port.put_calendar(calendar, expected)).await
    }
    async fn run(&self, id: &RunId) -> Result<Option<Run>, PortError> {
        self.port.run(id).await
    }
    async fn runs(&self) -> Result<Vec<Run>, PortError> {
        self.port.runs().await
    }
    async fn put_run(&self, run: &Run, expected: u64) -> Result<Stored, PortError> {
        self.fuse.effect(self.port.put_run(run, expected)).await
    }
    async fn freeze(&self) -> Result<Option<Change>, PortError> {
        self.port.freeze().await
    }
    async fn put_freeze(&self, freeze: Option<&Change>) -> Result<(), PortError> {
        self.fuse.effect(self.port.put_freeze(freeze)).await
    }
    async fn cursors(&self) -> Result<Vec<(Lane, Cursor)>, PortError> {
        self.port.cursors().await
    }
    async fn keep_cursor(&self, lane: &Lane, cursor: Option<&Cursor>) -> Result<(), PortError> {
        self.fuse.effect(self.port.keep_cursor(lane, cursor)).await
    }
    async fn note_heartbeat(&self, function: &str, heartbeat: &Heartbeat) -> Result<(), PortError> {
        self.fuse.effect(self.port.note_heartbeat(function, heartbeat)).await
    }
    async fn post_shadow(&self, entry: &ShadowEntry) -> Result<(), PortError> {
        self.fuse.effect(self.port.post_shadow(entry)).await
    }
    async fn shadow_entries(&self, query: &ShadowQuery) -> Result<ShadowPage, PortError> {
        self.port.shadow_entries(query).await
    }
}

impl<P: Operations> Operations for Fused<'_, P> {
    async fn switch(&self, switch: Switch) -> Result<(), PortError> {
        self.fuse.effect(self.port.switch(switch)).await
    }
    async fn record(&self, operation: &Operation) -> Result<(), PortError> {
        self.fuse.effect(self.port.record(operation)).await
    }
    async fn operations(&self, start: Option<&OperationPlace>, limit: u32) -> Result<OperationPage, PortError> {
        self.port.operations(start, limit).await
    }
}

impl<P: Queue> Queue for Fused<'_, P> {
    async fn publish(&self, messages: &[Outgoing]) -> Vec<Result<MessageId, PortError>> {
        self.fuse.effect(self.port.publish(messages)).await
    }
    async fn hide(&self, receipt: &str, seconds: u32) -> Result<(), PortError> {
        self.fuse.effect(self.port.hide(receipt, seconds)).await
    }
}

impl<P: Letters> Letters for Fused<'_, P> {
    async fn receive(&self, most: u32, hide_seconds: u32) -> Result<Vec<Letter>, PortError> {
        self.fuse.effect(self.port.receive(most, hide_seconds)).await
    }
    async fn delete(&self, receipts: &[String]) -> Vec<Result<(), PortError>> {
        self.fuse.effect(self.port.delete(receipts)).await
    }
    async fn release(&self, receipts: &[String]) -> Vec<Result<(), PortError>> {
        self.fuse.effect(self.port.release(receipts)).await
    }
}

impl<P: Slices> Slices for Fused<'_, P> {
    async fn schedule(&self, run: &RunId, slice: u32, at: Timestamp) -> Result<(), PortError> {
        self.fuse.effect(self.port.schedule(run, slice, at)).await
    }
}
