//! I write destinations: register, replace, pause, resume, promote. Each write is versioned and says who and why.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual_core::destination::{Change, Destination, FieldError, Mode, Pause, Spec};
use punctual_core::id::DestinationId;
use punctual_core::ports::{Control, Ledger, Stored, Time};
use punctual_flows::FlowError;

use crate::input::{OnDestination, PutDestination};
use crate::{Operate, Response};

/// A run of dispatch or schedule that read a destination before it was paused claims for it no longer than this: their
/// longest invocation, and the bound on clocks.
pub const CLAIMS_END: Duration = Duration::from_secs(62);

impl<L: Ledger, C: Control, K, T: Time> Operate<'_, L, C, K, T> {
    pub(crate) async fn put_destination(&self, input: PutDestination) -> Result<Response, FlowError> {
        let Some(spec) = input.spec else { return Ok(Response::wrong("missing_field", "destination", "a destination")) };
        let stored = self.stored(&spec.id).await?;
        let mut problems: Vec<FieldError> = spec
            .problems(self.rules)
            .into_iter()
            .map(|p| FieldError { field: format!("destination.{}", p.field), ..p })
            .collect();
        if let Some(stored) = &stored {
            problems.extend(shrinks(&stored.spec, &spec));
            problems.extend(changes_mode(&stored.spec, &spec));
        }
        if !problems.is_empty() {
            return Ok(Response::refused(problems));
        }
        let version = stored.as_ref().map_or(0, |d| d.version);
        if let Some(expected) = input.expected_version.filter(|expected| *expected != version) {
            let message = format!("the stored version, {version}; got {expected}");
            return Ok(Response::wrong("conflict", "expected_version", message));
        }
        if let Some(stored) = stored.as_ref().filter(|stored| stored.spec == spec) {
            // What the receivers answered is remembered for a version: the same again must not forget it.
            return Ok(Response::done(format!("nothing: {} is so already", stored.spec.id), version));
        }
        let did = match &stored {
            None => format!("registered destination {}", spec.id),
            Some(stored) => format!("replaced destination {}, version {version}: {}", spec.id, changes(&stored.spec, &spec)),
        };
        let next = Destination {
            spec,
            version: version.saturating_add(1),
            paused: stored.and_then(|d| d.paused),
            changed: self.change(input.by, input.why)?,
        };
        let id = next.spec.id.clone();
        let stored = self.store(next, did).await?;
        self.hurry(&id, stored).await
    }

    pub(crate) async fn pause(&self, input: OnDestination) -> Result<Response, FlowError> {
        let Some(stored) = self.stored(&input.destination_id).await? else { return Ok(unknown()) };
        if let Some(pause) = &stored.paused {
            return Ok(Response::done(
                format!("nothing: {} was paused already by {} since {}", stored.spec.id, pause.by, pause.since),
                stored.version,
            ));
        }
        let changed = self.change(input.by.clone(), input.why.clone())?;
        let paused = Some(Pause { since: changed.at, by: input.by, why: input.why });
        let did =
            format!("paused destination {}: nothing more is claimed for it; calls in flight end by themselves", stored.spec.id);
        self.store(Destination { version: stored.version.saturating_add(1), paused, changed, ..stored }, did).await
    }

    pub(crate) async fn resume(&self, input: OnDestination) -> Result<Response, FlowError> {
        let Some(stored) = self.stored(&input.destination_id).await? else { return Ok(unknown()) };
        if stored.paused.is_none() {
            return Ok(Response::done(format!("nothing: {} was not paused", stored.spec.id), stored.version));
        }
        let changed = self.change(input.by, input.why)?;
        let did = format!("resumed destination {}: the next dispatch run claims what is due", stored.spec.id);
        let id = stored.spec.id.clone();
        let resumed = Destination { version: stored.version.saturating_add(1), paused: None, changed, ..stored };
        let response = self.store(resumed, did).await?;
        self.hurry(&id, response).await
    }

    pub(crate) async fn promote(&self, input: OnDestination) -> Result<Response, FlowError> {
        let Some(mut stored) = self.stored(&input.destination_id).await? else { return Ok(unknown()) };
        if stored.spec.mode == Mode::Live {
            return Ok(Response::done(format!("nothing: {} is live", stored.spec.id), stored.version));
        }
        let now = self.time.now()?;
        if !stored.paused.as_ref().is_some_and(|pause| now.reached(pause.since.plus(CLAIMS_END))) {
            let from = stored
                .paused
                .map_or_else(String::new, |pause| format!("; paused as it is, from {}", pause.since.plus(CLAIMS_END)));
            let message = format!(
                "a destination that has been paused for {} s, so that no run that still sees the old mode claims for it{from}; \
                 resume it afterwards",
                CLAIMS_END.as_secs()
            );
            return Ok(Response::wrong("not_paused", "destination_id", message));
        }
        stored.spec.mode = Mode::Live;
        let changed = self.change(input.by, input.why)?;
        let did = format!(
            "promoted destination {}: once it is resumed, what nobody has claimed yet goes to its receiver when it falls due, under \
             its own id; what was claimed in shadow mode ends as shadowed",
            stored.spec.id
        );
        self.store(Destination { version: stored.version.saturating_add(1), changed, ..stored }, did).await
    }

    /// A destination that was put right need not wait for the next probe of its breaker: it is due at once. Whoever wrote
    /// it meanwhile knows better.
    async fn hurry(&self, id: &DestinationId, mut response: Response) -> Result<Response, FlowError> {
        if !response.ok {
            return Ok(response);
        }
        let (now, reaches) = (self.time.now()?, self.control.watch(std::slice::from_ref(id)).await?.reach);
        if let Some(soon) = reaches.first().and_then(|(_, reach)| reach.hurried(now, &self.by))
            && self.control.note_reach(id, &soon).await? == Stored::Done
        {
            response.did.push_str("; its breaker is open: the next dispatch run sends a probe");
        }
        Ok(response)
    }

    async fn stored(&self, id: &DestinationId) -> Result<Option<Destination>, FlowError> {
        Ok(self.control.lookup(std::slice::from_ref(id)).await?.0.into_iter().next())
    }

    fn change(&self, by: String, why: String) -> Result<Change, FlowError> {
        Ok(Change { at: self.time.now()?.lo, by, why })
    }

    async fn store(&self, next: Destination, did: String) -> Result<Response, FlowError> {
        match self.control.put_destination(&next, next.version.saturating_sub(1)).await? {
            Stored::Done => Ok(Response::done(did, next.version)),
            Stored::Conflict => {
                Ok(Response::wrong("conflict", "destination_id", "somebody wrote it just now; look at it and send this again"))
            }
        }
    }
}

fn unknown() -> Response {
    Response::wrong("unknown_destination", "destination_id", "a registered destination")
}

/// A replacement that forgets the mode must not promote, and a receiver that was called can't be said to never have been.
fn changes_mode(stored: &Spec, next: &Spec) -> Option<FieldError> {
    let (code, message) = match (stored.mode, next.mode) {
        (Mode::Shadow, Mode::Live) => ("must_not_change", "shadow, as it is stored; the promote action makes it live"),
        (Mode::Live, Mode::Shadow) => {
            ("must_not_change", "live, as it is stored; register another destination to shadow, or pause this one")
        }
        _ => return None,
    };
    Some(FieldError::new(code, "destination.mode", message))
}

/// Rows are spread over the lanes that existed when they were stored: lanes may only be added.
fn shrinks(stored: &Spec, next: &Spec) -> Option<FieldError> {
    (next.shards < stored.shards).then(|| {
        FieldError::new("must_not_shrink", "destination.shards", format!("{} or more: rows live in those lanes", stored.shards))
    })
}

/// What an operation changes of a destination, field by field, from what to what: the record is all that is left of the old one.
/// A destination names its secrets and holds none.
fn changes(old: &Spec, new: &Spec) -> String {
    let fields = |spec: &Spec| match serde_json::to_value(spec) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (old, new) = (fields(old), fields(new));
    let none = serde_json::Value::Null;
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let change = |name: &String| {
        let (was, is) = (old.get(name).unwrap_or(&none), new.get(name).unwrap_or(&none));
        (was != is).then(|| format!("{name} {was} to {is}"))
    };
    names.into_iter().filter_map(change).collect::<Vec<_>>().join("; ")
}
