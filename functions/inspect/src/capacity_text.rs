//! I write a capacity report so that a person can check its arithmetic.

use punctual_core::capacity::{Breach, Window};
use punctual_core::time::Timestamp;

use crate::capacity::{BATCH, CapacityReport, DestinationCapacity};

/// 12000 as `12,000`.
fn grouped(number: u64) -> String {
    let (rest, last) = (number / 1_000, number % 1_000);
    if rest == 0 { last.to_string() } else { format!("{},{last:03}", grouped(rest)) }
}

/// Calls a minute as calls a second, with at most one decimal: a rate less its reserve is a multiple of 0.8.
fn per_second(per_minute: u64) -> String {
    let tenths = per_minute / 6;
    if tenths.is_multiple_of(10) { grouped(tenths / 10) } else { format!("{}.{}", grouped(tenths / 10), tenths % 10) }
}

/// Whole seconds; the part of a second is left out.
fn second(at: Timestamp) -> String {
    let text = at.to_string();
    format!("{}Z", text.split('.').next().unwrap_or_default())
}

/// `2026-12-01 09:00-09:15`.
fn span(from: Timestamp, until: Timestamp) -> String {
    let (from, until) = (from.to_string(), until.to_string());
    let part = |text: &str, range: std::ops::Range<usize>| text.get(range).unwrap_or_default().to_owned();
    format!("{} {}-{}", part(&from, 0..10), part(&from, 11..16), part(&until, 11..16))
}

/// What the report is about.
pub(crate) fn head(report: &CapacityReport) -> String {
    let CapacityReport { from, until, entries_read, .. } = report;
    let read = grouped(u64::try_from(*entries_read).unwrap_or(u64::MAX));
    let mut line = format!("What falls due from {} to {}, from {read} entries of the wake index", second(*from), second(*until));
    if !report.left_out.is_empty() {
        line += &format!("; {} more destinations are left out, ask for them by name", report.left_out.len());
    }
    line + if report.complete { "." } else { ". INCOMPLETE." }
}

/// One destination, line by line.
pub(crate) fn text(d: &DestinationCapacity) -> Vec<String> {
    let f = &d.forecast;
    let sustainable = per_second(d.sustainable_per_minute);
    let retries = if d.amplification_from == "stated" { "as stated" } else { "no retries, assumed" };
    let latency = if d.latency_from == "stated" { "as stated" } else { "its total timeout" };
    let mut lines = vec![
        format!(
            "{}: {} calls/s less {} % for redrives = {sustainable}/s; {} calls for 100 deliveries ({retries}); {} deliveries.",
            d.destination_id,
            grouped(d.rate_per_second.into()),
            d.redrive_reserve_percent,
            d.amplification_percent,
            grouped(f.deliveries),
        ),
        format!(
            "  consumers: {}/s × {} ms ({latency}) = {} calls at once: {} consumers at batch size 1, {} at {BATCH}.",
            grouped(d.rate_per_second.into()),
            grouped(d.latency_ms),
            grouped(d.calls_at_once),
            grouped(d.consumers_at_batch_1),
            grouped(d.consumers_at_batch_10),
        ),
    ];
    let mut note = |wanted: bool, line: String| lines.extend(wanted.then(|| format!("  {line}")));
    note(d.paused, "paused: nothing is called; this is what would be if it were resumed now.".to_owned());
    note(
        u64::from(d.max_in_flight) < d.sustainable_per_minute,
        format!(
            "max_in_flight {} is less than the {} calls of a minute: with a tick a minute, it holds back more than the rate does.",
            grouped(d.max_in_flight.into()),
            grouped(d.sustainable_per_minute),
        ),
    );
    note(!d.complete, format!("INCOMPLETE: read up to {} only; nothing is said of what falls due later.", second(d.read_until)));
    note(f.asleep > 0, format!("{} frozen ones sleep until their last safe start; not counted.", grouped(f.asleep)));
    note(f.hopeless > 0, format!("{} can no longer start in time and expire; not counted.", grouped(f.hopeless)));
    lines.extend(f.windows.iter().map(|window| line(window, &sustainable, d.amplification_percent)));
    lines.push(f.breach.as_ref().map_or_else(
        || {
            format!(
                "  no breach: all that is counted can start in time; the last one has been called at {}.",
                second(f.drained_at)
            )
        },
        |breach| reason(breach, &sustainable, f.late),
    ));
    lines
}

fn line(w: &Window, sustainable: &str, amplification_percent: u32) -> String {
    let held = if w.held > 0 { format!(" ({} on their way)", grouped(w.held)) } else { String::new() };
    let calls = if amplification_percent > 100 {
        format!(", × {amplification_percent} % = {} calls", grouped(w.calls))
    } else {
        String::new()
    };
    let deadline = w.nearest_deadline.map(|at| format!("; nearest deadline {}", second(at))).unwrap_or_default();
    let verdict = if w.late > 0 { format!("{} TOO LATE", grouped(w.late)) } else { "fine".to_owned() };
    let on = if w.carried_on > 0 { format!("; {} carried on", grouped(w.carried_on)) } else { String::new() };
    format!(
        "  {}: {} due{held} + {} carried{calls}, {sustainable}/s → {} s{deadline}: {verdict}{on}",
        span(w.from, w.until),
        grouped(w.due),
        grouped(w.carried),
        grouped(w.drain_seconds),
    )
}

fn reason(b: &Breach, sustainable: &str, late: u64) -> String {
    format!(
        "  FIRST BREACH {}: {} deliveries that are due from {} on must start by {}, and {sustainable}/s takes {}; {} are too late in all, the first is {}.",
        span(b.from, b.until),
        grouped(b.deliveries),
        second(b.since),
        second(b.last_start),
        grouped(b.possible),
        grouped(late),
        b.delivery_id,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_a_person_writes_them() {
        assert_eq!([7, 1_000, 12_345, 1_000_007].map(grouped), ["7", "1,000", "12,345", "1,000,007"]);
        assert_eq!([48, 4_800, 144, 48_000].map(per_second), ["0.8", "80", "2.4", "800"]);
    }
}
