//! The mutants: each breaks one rule that the product stands on.

/// A replacement of text that must stand once in the file, and no more.
#[derive(Debug, Clone, Copy)]
pub struct Patch {
    /// The file, from the repository's root.
    pub file: &'static str,
    /// What stands there.
    pub find: &'static str,
    /// What is put there.
    pub put: &'static str,
}

/// A broken rule.
#[derive(Debug, Clone, Copy)]
pub struct Mutant {
    /// Its name.
    pub name: &'static str,
    /// The patches that break the rule.
    pub patches: &'static [Patch],
}

const TRANSITION: &str = "shared/core/src/transition.rs";
const ACQUIRE: &str = "shared/core/src/acquire.rs";
const DECIDE: &str = "shared/core/src/decide.rs";
const ATTEMPT: &str = "functions/deliver/src/attempt.rs";
const REDRIVE: &str = "shared/core/src/transition/redrive.rs";
const REDRIVE_DECIDE: &str = "shared/core/src/redrive/decide.rs";
const MOVING: &str = "functions/redrive/src/moving.rs";
const RECALL: &str = "shared/core/src/transition/recall.rs";
const RECALLER: &str = "shared/flows/src/recall.rs";
const SEARCH: &str = "shared/core/src/calendar/search.rs";
const RECORD: &str = "functions/deliver/src/record.rs";

/// All of them.
pub const ALL: &[Mutant] = &[
    Mutant {
        name: "no fence",
        patches: &[Patch {
            file: TRANSITION,
            find: "        current.version == self.before.version\n            && current.late_success",
            put: "        current.late_success",
        }],
    },
    Mutant {
        name: "no fence in DynamoDB",
        patches: &[Patch {
            file: "shared/adapters/src/dynamodb/diff.rs",
            find: "p.compare(names::VERSION, \"=\", number(before.version)),",
            put: "p.compare(names::VERSION, \">=\", number(0_u64)),",
        }],
    },
    Mutant {
        name: "acknowledgement before the record",
        patches: &[Patch {
            file: ATTEMPT,
            find: "        let written = write_until(",
            put: "        if class == Class::Delivered {\n            return Ok(Disposition::Acknowledge);\n        }\n        let written = write_until(",
        }],
    },
    Mutant {
        name: "rescue by due time instead of lease",
        patches: &[
            Patch {
                file: DECIDE,
                find: "        State::Delivering if live => ForDispatch::Outstanding,\n",
                put: "        State::Delivering if live && !now.reached(row.next_attempt_at) => ForDispatch::Outstanding,\n",
            },
            Patch {
                file: TRANSITION,
                find: "    if row.lease_may_be_live(stamp.now) {\n        return Err(Refusal::InFlight);\n    }\n    let number",
                put: "    let number",
            },
        ],
    },
    Mutant {
        name: "key per attempt",
        patches: &[Patch {
            file: "shared/adapters/src/webhook/headers.rs",
            find: "KeyForm::Bare => key.to_owned(),",
            put: "KeyForm::Bare => format!(\"{key}-{}\", input.attempt),",
        }],
    },
    Mutant {
        name: "claim ignores hold",
        patches: &[Patch { file: ACQUIRE, find: "        from && row.hold.is_none()\n", put: "        from\n" }],
    },
    Mutant {
        name: "early call allowed",
        patches: &[
            Patch {
                file: ACQUIRE,
                find: ".map(|state| TakeFrom { state, due_by: Some(now.lo), dispatch_lease_ended_by: None })",
                put: ".map(|state| TakeFrom { state, due_by: None, dispatch_lease_ended_by: None })",
            },
            Patch {
                file: RECORD,
                find: "        if now.reached(at) {\n            return Ok(Ok(now));\n        }",
                put: "        if now.hi <= at || now.reached(at) {\n            return Ok(Ok(now));\n        }",
            },
            Patch {
                file: ATTEMPT,
                find: "                now.reached(row.next_attempt_at)\n                    && now.reached(row.deliver_after)\n                    && can_start",
                put: "                can_start",
            },
        ],
    },
    Mutant {
        name: "redriven calls book of the rate alone",
        patches: &[Patch {
            file: "functions/deliver/src/slots.rs",
            find: "        let share = match redriven {\n",
            put: "        let share = match redriven && record.number > usize::MAX / 2 {\n",
        }],
    },
    Mutant {
        name: "DLQ before state",
        patches: &[Patch {
            file: ATTEMPT,
            find: "        let written = write_until(",
            put: "        if outcome.after.owes_dead_letter() {\n            self.dead_letters.send(&punctual_core::dead_letter::DeadLetter::of(&outcome.after)).await?;\n        }\n        let written = write_until(",
        }],
    },
    Mutant {
        name: "ids from the attempt",
        patches: &[Patch {
            file: "functions/schedule/src/check.rs",
            find: "                let id = DeliveryId::derive(&parts);",
            put: "                let id = DeliveryId::derive(&IdentityParts { reminder_kind: format!(\"{:?}\", self.deliver_after), ..parts.clone() });",
        }],
    },
    Mutant {
        name: "rescue gated by queue counts",
        patches: &[Patch {
            file: "functions/dispatch/src/run.rs",
            find: "            if self.out_of_time() || rescued >= RESCUE_CAP {",
            put: "            if self.out_of_time() || candidates.len() < 3 {",
        }],
    },
    Mutant {
        name: "dlq_sent set without the version",
        patches: &[Patch {
            file: TRANSITION,
            find: "        current.version == self.before.version\n            && current.late_success",
            put: "        (current.version == self.before.version || self.after.dlq_sent != self.before.dlq_sent)\n            && current.late_success",
        }],
    },
    Mutant {
        name: "lease shorter than the invocation",
        patches: &[Patch {
            file: RECORD,
            find: "until: now.hi.plus(self.time.time_left() + CLOCK_BOUND)",
            put: "until: now.hi.plus(CLOCK_BOUND)",
        }],
    },
    Mutant {
        name: "no check before the first byte",
        patches: &[Patch {
            file: ATTEMPT,
            find: "self.webhook.call(&request, &may_start).await",
            put: "self.webhook.call(&request, &|| may_start() || true).await",
        }],
    },
    Mutant {
        name: "a late 2xx dropped",
        patches: &[Patch {
            file: TRANSITION,
            find: "    let after = if !effect {\n",
            put: "    let after = if !effect || effect {\n",
        }],
    },
    Mutant {
        name: "cancel allowed under a live deliver lease",
        patches: &[Patch {
            file: RECALL,
            find: "    if row.lease_may_be_live(stamp.now) || row.late_success.is_some() {",
            put: "    if row.late_success.is_some() {",
        }],
    },
    Mutant {
        name: "a cancel that lost its race is acknowledged",
        patches: &[Patch {
            file: RECALLER,
            find: "row: Box::new(cancelled.after) }),\n                Written::Conflict(current) => row = *current,",
            put: "row: Box::new(cancelled.after) }),\n                Written::Conflict(_) => return Ok(Recalled::Done { from: row.state, row: Box::new(cancelled.after) }),",
        }],
    },
    Mutant {
        name: "a reschedule keeps the row's version",
        patches: &[Patch {
            file: RECALL,
            find: "Some(Reason::Rescheduled), stamp)?;\n    after.version = row.version.saturating_add(1);",
            put: "Some(Reason::Rescheduled), stamp)?;\n    after.version = row.version;",
        }],
    },
    Mutant {
        name: "a reschedule keeps the old due time",
        patches: &[
            Patch { file: RECALL, find: "    after.deliver_after = to.deliver_after;\n", put: "" },
            Patch {
                file: RECALL,
                find: "map_or(to.deliver_after, |floor|",
                put: "map_or(row.next_attempt_at.min(to.deliver_after), |floor|",
            },
        ],
    },
    Mutant {
        name: "a reschedule forgets the wait that it moved over",
        patches: &[Patch { file: RECALL, find: "row.floor.max(waits)", put: "waits" }],
    },
    Mutant {
        name: "a reschedule after a lost answer asks nobody",
        patches: &[Patch {
            file: RECALLER,
            find: "transition::lost_answer(&row).filter(|_| bounds.review_unknown)",
            put: "transition::lost_answer(&row).filter(|_| bounds.review_unknown && row.granted > 9)",
        }],
    },
    Mutant {
        name: "other instants grant attempts",
        patches: &[Patch {
            file: RECALLER,
            find: "            if made >= allowed {",
            put: "            if made >= allowed && row.granted > 0 {",
        }],
    },
    Mutant {
        name: "the business instant is the next day's",
        patches: &[Patch {
            file: SEARCH,
            find: "        let (mut date, mut time) = (from.date(), from.time());\n        while",
            put: "        let (mut date, mut time) = (from.date(), from.time());\n        if !self.intervals(date).iter().any(|i| i.open_from(time) == Some(time)) {\n            (date, time) = (date.tomorrow().ok()?, Time::midnight());\n        }\n        while",
        }],
    },
    Mutant {
        name: "the business instant is the day's first",
        patches: &[Patch {
            file: SEARCH,
            find: "find_map(|interval| interval.open_from(time))",
            put: "find_map(|interval| interval.open_from(time.min(Time::midnight())))",
        }],
    },
    Mutant {
        name: "a day that the month does not have becomes its first",
        patches: &[Patch {
            file: "shared/core/src/calendar/due.rs",
            find: "    Ok(counted.date)\n",
            put: "    Ok(if counted.clamped { counted.date.first_of_month() } else { counted.date })\n",
        }],
    },
    Mutant {
        name: "a fold is the later",
        patches: &[Patch { file: "shared/core/src/calendar/zone.rs", find: "ambiguous.compatible()", put: "ambiguous.later()" }],
    },
    Mutant {
        name: "a host's clock trusted",
        patches: &[Patch {
            file: "shared/adapters/src/clock.rs",
            find: "        check_machine(now, machine_time())?;\n",
            put: "",
        }],
    },
    Mutant {
        name: "the receiver is called in shadow mode",
        patches: &[Patch {
            file: ATTEMPT,
            find: "        let result = if row.shadow {",
            put: "        let result = if row.shadow && row.attempts.len() > 99 {",
        }],
    },
    Mutant {
        name: "a called row is stamped as shadow",
        patches: &[
            Patch {
                file: ACQUIRE,
                find: "        let closed_attempts = (mode == Mode::Shadow).then_some(0);",
                put: "        let closed_attempts = None;",
            },
            Patch {
                file: TRANSITION,
                find: "    after.shadow |= mode == Mode::Shadow && !row.was_called();",
                put: "    after.shadow |= mode == Mode::Shadow;",
            },
        ],
    },
    Mutant {
        name: "a run moves a row twice",
        patches: &[
            Patch {
                file: REDRIVE,
                find: "    if row.redrives.iter().any(|redrive| redrive.run.as_ref() == Some(run)) {",
                put: "    if row.redrives.len() > 99 && row.redrives.iter().any(|redrive| redrive.run.as_ref() == Some(run)) {",
            },
            Patch {
                file: REDRIVE_DECIDE,
                find: "    if row.state.needs_operator() && row.redrives.iter().any(",
                put: "    if row.redrives.len() > 99 && row.redrives.iter().any(",
            },
        ],
    },
    Mutant {
        name: "the sweep deletes letters that nobody moved",
        patches: &[Patch {
            file: REDRIVE_DECIDE,
            find: "        Some(_) if row.state.needs_operator() => Leave(LeaveWhy::Unselected),\n",
            put: "",
        }],
    },
    Mutant {
        name: "a slice takes a run whose lease is live",
        patches: &[Patch {
            file: "shared/core/src/redrive/run.rs",
            find: "filter(|lease| lease.owner != owner && !now.reached(lease.until))",
            put: "filter(|lease| lease.owner != owner && !now.reached(lease.until) && self.version == 0)",
        }],
    },
    Mutant {
        name: "the canary is not waited for",
        patches: &[Patch {
            file: "shared/core/src/redrive/judge.rs",
            find: "    if waiting == 0 && !past(failures.all) {",
            put: "    if !past(failures.all) {",
        }],
    },
    Mutant {
        name: "failures of moved rows are not judged",
        patches: &[Patch {
            file: "shared/core/src/redrive/judge.rs",
            find: "    if let Some((class, n)) = worst {",
            put: "    if let Some((class, n)) = worst.filter(|_| moved == 0) {",
        }],
    },
    Mutant {
        name: "a redrive grants no attempts",
        patches: &[Patch {
            file: REDRIVE,
            find: "    after.granted = row.granted.saturating_add(attempts);\n",
            put: "    after.granted = row.granted;\n",
        }],
    },
    Mutant {
        name: "a freeze is seen at a slice's begin alone",
        patches: &[Patch {
            file: MOVING,
            find: "        if now.hi >= p.ends_at || self.control.freeze().await?.is_some() {",
            put: "        if now.hi >= p.ends_at {",
        }],
    },
    Mutant {
        name: "what a slice moved that died is not counted",
        patches: &[Patch {
            file: "functions/redrive/src/slice.rs",
            find: "            if totals.rows > held.run.counters.moved\n",
            put: "            if totals.rows > held.run.counters.moved.saturating_add(1_000_000)\n",
        }],
    },
    Mutant {
        name: "a write whose answer was lost is not counted",
        patches: &[Patch {
            file: MOVING,
            find: "held.run.may_move(held.run.counters.moved.saturating_add(unknown));",
            put: "held.run.may_move(held.run.counters.moved);",
        }],
    },
    Mutant {
        name: "a run that is resumed while it is swept counts as swept",
        patches: &[Patch {
            file: "functions/redrive/src/sweep.rs",
            find: "                run.swept = !matches!(run.phase, Phase::Canary | Phase::Moving);\n",
            put: "                run.swept = true;\n",
        }],
    },
    Mutant {
        name: "a pass begins while letters are hidden",
        patches: &[Patch {
            file: "functions/redrive/src/sweep.rs",
            find: ".filter(|until| !now.reached(*until)) {",
            put: ".filter(|until| !now.reached(*until) && until.as_millis() == 0) {",
        }],
    },
];
