//! I tell the report to a person.

use std::fmt::Write as _;

use punctual_core::reconcile::{Kind, Why};

use super::audit::{Audit, Listed};

/// So many deviations of each kind, and unreadable lines, are told; the rest is in the report.
const TOLD: usize = 20;

/// The report as a person wants to read it.
#[must_use]
pub fn text(audit: &Audit) -> String {
    let mut out = String::new();
    let mut line = |label: &str, value: String| {
        let _ = writeln!(out, "{label:<14}{value}");
    };
    line("destination", audit.destination_id.clone());
    line("period", format!("{} to {}, clocks within {} s", audit.from, audit.until, audit.tolerance_seconds));
    line("asked", format!("by {} at {}, of {}", audit.by, audit.at, audit.ledger));
    for input in &audit.inputs {
        let unreadable = if input.unreadable > 0 { format!(", {} of them unreadable", input.unreadable) } else { String::new() };
        line("export", format!("{}: {} records{unreadable}, {} bytes", input.file, input.records, input.bytes));
        line("", format!("sha256 {}", input.sha256));
    }
    line("ledger", format!("{} rows, {} read units", audit.scanned.rows, audit.scanned.read_units));
    let counts = &audit.counts;
    for (name, count, meaning) in [
        ("matched", counts.matched, "delivered, and once in the export"),
        ("missing", counts.missing, "delivered, and not in the export"),
        ("duplicate", counts.duplicate, "delivered, and more than once in the export"),
        ("unexpected", counts.unexpected, "in the export, and not delivered in this period"),
    ] {
        line(name, format!("{count:>10}  {meaning}"));
    }
    for why in Why::ALL {
        if let Some(count) = counts.unexpected_by.get(&why) {
            line("", format!("{count:>10}    of them: {}", why.meaning()));
        }
    }
    for (count, meaning) in [
        (counts.at_bound, "delivered at a bound of the period, and not in the export: not judged"),
        (counts.outside, "in the export at another time only: not judged"),
        (counts.agreed, "not delivered in this period, and not in the export"),
        (counts.matched_early, "matched, but before they were due by the receiver's clock"),
        (counts.matched_late, "matched, but after their deadline by the receiver's clock"),
        (counts.matched_apart, "matched, but at a time at which nobody called"),
        (audit.scanned.unreadable.len() as u64, "rows could not be read, with the ids below: not judged"),
    ] {
        if count > 0 {
            line("", format!("{count:>10}  {meaning}"));
        }
    }
    for kind in Kind::ALL {
        let all = audit.deviations.iter().filter(|one| one.kind == kind);
        for one in all.take(TOLD) {
            line(kind.as_str(), told(one));
        }
    }
    for bad in audit.unreadable_lines.iter().take(TOLD) {
        line("unreadable", format!("{}:{}: {}", bad.file, bad.line, bad.problem));
    }
    for id in audit.scanned.unreadable.iter().take(TOLD) {
        line("unreadable", format!("row {id}: the ledger has it, and it is damaged"));
    }
    let mut objections = Vec::new();
    let deviations = counts.missing + counts.duplicate + counts.unexpected;
    let lines: u64 = audit.inputs.iter().map(|input| input.unreadable).sum();
    for (count, what, so) in [
        (deviations, "deviating", ""),
        (lines, "unreadable in the export", " (what they say counts as missing)"),
        (audit.scanned.unreadable.len() as u64, "unreadable in the ledger", " (they are there, and not judged)"),
    ] {
        if count > 0 {
            objections.push(format!("{count} {what}{so}"));
        }
    }
    line("result", if audit.clean { "clean".to_owned() } else { format!("not clean: {}", objections.join(", ")) });
    out
}

fn told(one: &Listed) -> String {
    let mut parts = vec![one.delivery_id.clone()];
    parts.extend(one.why.map(|why| why.meaning().to_owned()));
    parts.extend(one.state.map(|state| format!("{state}, {} calls", one.calls)));
    if let (Some(attempt), Some(at)) = (one.accepted_attempt, one.accepted_at) {
        parts.push(format!("attempt {attempt} succeeded at {at}"));
    }
    if one.records > 0 {
        parts.push(format!("{} records: {}", one.records, one.found_at.join(", ")));
    }
    parts.join("; ")
}
