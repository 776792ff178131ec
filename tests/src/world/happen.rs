//! I let calls happen: each is one step of the tables, the queues or the receivers, and every row that it touches is checked.

use futures::FutureExt as _;
use punctual_core::breaker::{Open, Reach};
use punctual_core::delivery::Delivery;
use punctual_core::destination::Destination;
use punctual_core::id::{DeliveryId, DestinationId};
use punctual_core::limiter::Moved;
use punctual_core::ports::{
    Acquired, Control as _, DeadLetters as _, Ledger as _, PortError, Stored, WakeQuery, Watched, Written,
};
use punctual_core::time::Timestamp;

use super::effect::{Answer, Effect};
use super::inner::Inner;

/// The ports in memory answer at once.
fn at_once<T>(answer: impl Future<Output = Result<T, PortError>>) -> Option<T> {
    answer.now_or_never()?.ok()
}

impl Inner {
    /// One call happens. `age` is how long ago it left, in milliseconds.
    pub(super) fn happen(&mut self, actor: u32, effect: &Effect, age: i64, partial: bool) -> Answer {
        let now = self.now;
        match effect {
            Effect::Create(row, payload) => {
                let before = self.row(&row.id);
                let created = at_once(self.ledger.create(row, payload));
                self.touched(&row.id, before.as_ref(), actor, age);
                created.map_or(Answer::Fault, Answer::Created)
            }
            Effect::Acquire(acquire) => {
                let before = self.row(&acquire.id);
                let acquired = at_once(self.ledger.acquire(acquire));
                self.touched(&acquire.id, before.as_ref(), actor, age);
                if matches!(acquired, Some(Acquired::Refused(_))) {
                    self.count("claim refused");
                }
                acquired.map_or(Answer::Fault, Answer::Acquired)
            }
            Effect::Write(transition) => {
                let id = &transition.before.id;
                let before = self.row(id);
                let written = at_once(self.ledger.write(transition));
                self.touched(id, before.as_ref(), actor, age);
                if matches!(written, Some(Written::Conflict(_))) {
                    self.count("fence lost");
                }
                written.map_or(Answer::Fault, Answer::Written)
            }
            Effect::Read(ids) => at_once(self.ledger.read(ids)).map_or(Answer::Fault, Answer::Rows),
            Effect::Payload(id, content) => at_once(self.ledger.payload(id, content)).map_or(Answer::Fault, Answer::Payload),
            Effect::Wake(query) => {
                // A page may hold less than was asked for.
                let short = [1, 2, 3, u32::MAX].get(usize::try_from(self.seed % 4).unwrap_or(3)).copied().unwrap_or(u32::MAX);
                let query = WakeQuery { limit: query.limit.min(short), ..query.clone() };
                at_once(self.index.wake(&query)).map_or(Answer::Fault, Answer::Page)
            }
            Effect::Partition(id) => {
                at_once(self.ledger.partition(id)).map_or(Answer::Fault, |found| Answer::Partition(found.map(Box::new)))
            }
            Effect::ByReference(reference) => at_once(self.ledger.by_reference(reference)).map_or(Answer::Fault, Answer::Ids),
            Effect::CountDead(after) => at_once(self.ledger.count_reachable_dead(*after)).map_or(Answer::Fault, Answer::Count),
            Effect::Destinations => {
                let found = at_once(self.control.destinations());
                self.saw(actor, found.as_deref().unwrap_or_default());
                found.map_or(Answer::Fault, Answer::Destinations)
            }
            Effect::Lookup(ids) => {
                let found = at_once(self.control.lookup(ids));
                self.saw(actor, found.as_ref().map(|(found, _)| found.as_slice()).unwrap_or_default());
                found.map_or(Answer::Fault, |(found, settings)| Answer::Found(found, settings))
            }
            Effect::Watch(ids) => {
                let watched = at_once(self.control.watch(ids));
                self.saw(actor, watched.as_ref().map(|watched| watched.destinations.as_slice()).unwrap_or_default());
                let mut watched = watched;
                if let Some(watched) = &mut watched {
                    if !self.reach_on {
                        watched.reach.clear();
                    }
                    self.saw_rejections(actor, watched);
                    self.saw_reach(actor, watched);
                }
                watched.map_or(Answer::Fault, Answer::Watched)
            }
            Effect::NoteRejections(id, rejections) => {
                self.count("rejections noted");
                at_once(self.control.note_rejections(id, rejections)).map_or(Answer::Fault, Answer::Stored)
            }
            Effect::MoveLimit(key, write) => {
                let moved = at_once(self.control.move_limit(key, *write));
                if matches!(moved, Some(Moved::Refused { .. })) {
                    self.count("booking refused");
                }
                moved.map_or(Answer::Fault, Answer::Moved)
            }
            Effect::Reaches => at_once(self.control.reaches()).map_or(Answer::Fault, Answer::Reaches),
            Effect::NoteReach(id, reach) => {
                let before = self.reach(id);
                let stored = at_once(self.control.note_reach(id, reach));
                if stored == Some(Stored::Done) {
                    self.reach_changed(id, before.as_ref(), reach);
                }
                stored.map_or(Answer::Fault, Answer::Stored)
            }
            Effect::PutDestination(destination, expected) => {
                let stored = at_once(self.control.put_destination(destination, *expected));
                if stored == Some(Stored::Done) {
                    self.pause_changed(destination);
                }
                if let Some(pause) = &destination.paused {
                    self.count("destination paused");
                    if pause.why.contains("rejected") {
                        self.count("destination paused after rejections");
                    }
                }
                if destination.changed.why == "promoted" {
                    self.count("destination promoted");
                }
                stored.map_or(Answer::Fault, Answer::Stored)
            }
            Effect::Cursors => at_once(self.control.cursors()).map_or(Answer::Fault, Answer::Cursors),
            Effect::KeepCursor(lane, cursor) => {
                self.count("cursor kept");
                at_once(self.control.keep_cursor(lane, cursor.as_ref())).map_or(Answer::Fault, |()| Answer::Done)
            }
            Effect::PostShadow(entry) => {
                self.count("posted to the shadow sink");
                self.checks.shadowed.insert(entry.delivery_id.clone());
                at_once(self.control.post_shadow(entry)).map_or(Answer::Fault, |()| Answer::Done)
            }
            Effect::Publish(messages) => {
                let ids = messages
                    .iter()
                    .enumerate()
                    .map(|(i, outgoing)| if partial && i % 2 == 0 { None } else { self.queue.publish(outgoing, now) });
                Answer::Published(ids.collect())
            }
            Effect::Hide(receipt, seconds) => {
                if self.queue.hide(receipt, *seconds, now) {
                    Answer::Done
                } else {
                    Answer::Fault
                }
            }
            Effect::Letter(letter) => {
                self.letter(letter);
                self.letters.set_now(Timestamp::from_millis(now));
                at_once(self.letters.send(letter)).map_or(Answer::Fault, |()| Answer::Done)
            }
            Effect::Ended(_)
            | Effect::OfRun(_)
            | Effect::Run(_)
            | Effect::Runs
            | Effect::PutRun(..)
            | Effect::Freeze
            | Effect::PutFreeze(_)
            | Effect::ReceiveLetters(..)
            | Effect::DeleteLetters(_)
            | Effect::ShowLetters(_)
            | Effect::PlanSlice(..) => self.happen_to_redrive(actor, effect, partial),
            Effect::WaitUntil(_) => {
                self.narrow(actor);
                Answer::Time(self.clock(actor))
            }
            Effect::Secrets if self.script.as_mut().is_some_and(|script| script.lacks_secret(now)) => Answer::Fault,
            Effect::Secrets => Answer::Done,
            Effect::Pause(_) => {
                // Either a pause after a refusal, or the invocation's time is up: what it learned may be lost with it.
                if let Some(facts) = self.facts.get_mut(&actor) {
                    facts.faults += 1;
                }
                Answer::Done
            }
            Effect::Connect(to) => Answer::Connected(match &mut self.script {
                Some(script) => script.connect(now),
                None => self.receivers.get(*to).and_then(super::receiver::Receiver::connect),
            }),
            Effect::Post(post, _) => {
                self.arrive(post);
                Answer::Done
            }
            Effect::Acknowledge(receipts) => {
                receipts.iter().for_each(|receipt| self.queue.delete(receipt));
                Answer::Done
            }
        }
    }

    /// What an actor has read last of each destination.
    fn saw(&mut self, actor: u32, destinations: &[Destination]) {
        let Some(facts) = self.facts.get_mut(&actor) else { return };
        for d in destinations {
            let id = &d.spec.id;
            // One record of a batch may look anew: its neighbours go on with what the batch began with.
            let known = if facts.kind == "deliver" { facts.saw_budget.get(id).copied().unwrap_or(0) } else { 0 };
            facts.saw_budget.insert(id.clone(), d.spec.retry.attempts.max(known));
            if d.paused.is_some() {
                facts.saw_paused.insert(id.clone());
            } else {
                facts.saw_paused.remove(id);
            }
        }
    }

    /// Results that call for a pause are as good as one to deliver, which calls; whoever releases leaves that to it.
    fn saw_rejections(&mut self, actor: u32, watched: &Watched) {
        let Some(facts) = self.facts.get_mut(&actor).filter(|facts| facts.kind == "deliver") else { return };
        for destination in &watched.destinations {
            let mut of_it = watched.rejections.iter().filter(|(id, _)| *id == destination.spec.id);
            if of_it.any(|(_, rejections)| rejections.why_pause(destination).is_some()) {
                facts.saw_paused.insert(destination.spec.id.clone());
            }
        }
    }

    fn saw_reach(&mut self, actor: u32, watched: &Watched) {
        let Some(facts) = self.facts.get_mut(&actor) else { return };
        for destination in &watched.destinations {
            let id = &destination.spec.id;
            let open = watched.reach.iter().any(|(of, reach)| of == id && reach.open.is_some());
            if !open {
                facts.saw_open.remove(id);
                facts.saw_closed.insert(id.clone());
            } else if !facts.saw_closed.contains(id) {
                // Otherwise one record has looked anew, and its neighbours go on with what the batch began with.
                facts.saw_open.insert(id.clone());
            }
        }
    }

    /// How a destination is reached, as stored.
    pub(super) fn reach(&self, id: &DestinationId) -> Option<Reach> {
        let all = at_once(self.control.reaches())?;
        all.into_iter().find(|(of, _)| of == id).map(|(_, reach)| reach)
    }

    /// What is stored of a destination has changed: its breaker, and the lease of its probe.
    fn reach_changed(&mut self, id: &DestinationId, before: Option<&Reach>, after: &Reach) {
        let now = self.now;
        let open = |reach: Option<&Reach>| reach.and_then(|reach| reach.open.clone());
        let lease = |open: &Open| open.probe.clone();
        match (open(before), open(Some(after))) {
            (None, Some(_)) => {
                self.count("breaker opened");
                self.open_since.insert(id.clone(), now);
            }
            (Some(_), None) => {
                self.count("breaker closed");
                self.open_since.remove(id);
            }
            (Some(before), Some(after)) => {
                let live = lease(&before).filter(|probe| probe.until.as_millis() > now);
                match (lease(&before), lease(&after)) {
                    (_, Some(probe)) if live.as_ref().is_some_and(|live| live.owner != probe.owner) => {
                        self.violate("two_probes", format!("{id}: {before:?} -> {after:?}"));
                    }
                    (None, Some(_)) => self.count("probe begun"),
                    (Some(_), Some(_)) => self.count("probe begun after a lost one"),
                    (Some(_), None) if after.probes == before.probes => self.count("probe given back"),
                    (Some(_), None) => self.count("probe failed"),
                    (None, None) => {}
                }
            }
            (None, None) => self.count("reach noted"),
        }
    }

    fn pause_changed(&mut self, destination: &Destination) {
        let (id, now) = (destination.spec.id.clone(), self.now);
        if destination.paused.is_some() {
            self.paused_since.entry(id).or_insert(now);
        } else {
            self.paused_since.remove(&id);
        }
    }

    /// A row may have changed: it is checked, and the index sees it unless it lags.
    fn touched(&mut self, id: &DeliveryId, before: Option<&Delivery>, actor: u32, age: i64) {
        let Some(after) = self.row(id) else { return };
        if before == Some(&after) {
            return;
        }
        if !self.lagging.contains(id) {
            self.index.put_row(after.clone());
        }
        self.check_row(before, &after, actor, age);
    }

    /// The index sees everything again.
    pub(super) fn catch_up(&mut self) {
        for id in std::mem::take(&mut self.lagging) {
            if let Some(row) = self.row(&id) {
                self.index.put_row(row);
            }
        }
    }
}
