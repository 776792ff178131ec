//! I print what was measured: tables for a person, JSON lines for a program.

use punctual_deliver::tally::Tally;
use serde::Serialize;

use super::cost::Bill;
use super::pace::{BURST, Course, Pace, RATE};
use super::redrive::{self, Seen};

/// One measured value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Its name.
    pub figure: String,
    /// The value, rounded to three decimals.
    pub value: f64,
    /// What it counts.
    pub unit: &'static str,
    /// The most that it may be; none if it only informs.
    pub goal: Option<f64>,
    /// The least that it may be; none if it may be nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
}

impl Figure {
    /// A figure; its value is rounded.
    #[must_use]
    pub fn new(figure: impl Into<String>, value: f64, unit: &'static str, goal: Option<f64>) -> Self {
        Self { figure: figure.into(), value: (value * 1_000.0).round() / 1_000.0, unit, goal, at_least: None }
    }

    /// A figure that may not be less than its goal.
    #[must_use]
    pub fn at_least(figure: impl Into<String>, value: f64, unit: &'static str, least: f64) -> Self {
        Self { at_least: Some(least), ..Self::new(figure, value, unit, None) }
    }

    /// Whether it has no goal, or meets it.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.goal.is_none_or(|goal| self.value <= goal) && self.at_least.is_none_or(|least| self.value >= least)
    }
}

/// One JSON object a line.
///
/// # Errors
/// If a value is no number.
pub fn json_lines(figures: &[Figure]) -> serde_json::Result<String> {
    figures.iter().map(|figure| serde_json::to_string(figure).map(|line| line + "\n")).collect()
}

/// What each step cost.
pub fn print_bill(bill: &Bill) {
    println!("\nOne first-try delivery, {}, 512-byte payload, longest fields:\n", bill.path);
    println!("    {:<10}{:<9}{:<22}{:>6}{:>8}{:>7}  of which indexes", "function", "table", "step", "calls", "writes", "reads");
    for line in &bill.lines {
        let usage = &line.usage;
        let parts = usage.index_units.iter().filter(|(_, units)| **units > 0.0);
        let indexes: Vec<String> = parts.map(|(index, units)| format!("{index} {units}")).collect();
        println!(
            "    {:<10}{:<9}{:<22}{:>6}{:>8}{:>7}  {}",
            line.function,
            line.table,
            line.step,
            usage.calls,
            shown(usage.write_units),
            shown(usage.read_units),
            indexes.join(", ")
        );
    }
    println!("    {:<47}{:>8}{:>7}", "ledger's writes, all reads", bill.ledger_write_units(), bill.read_units());
    println!("    the row at its end: {} bytes", bill.row_bytes);
}

fn shown(units: f64) -> String {
    if units == 0.0 { String::new() } else { units.to_string() }
}

/// Which requests a batch made.
pub fn print_calls(bill: &Bill) {
    let list = |counts: &super::calls::Counts| {
        counts.iter().map(|(operation, count)| format!("{operation} {count}")).collect::<Vec<_>>().join(", ")
    };
    println!("\nRequests of a batch of {}, {}:", bill.deliveries, bill.path);
    println!("    DynamoDB  {}", list(&bill.dynamodb_calls));
    println!("    SQS       {}", list(&bill.sqs_calls));
}

/// How a receiver was called.
pub fn print_pace(course: Course, pace: &Pace) {
    println!(
        "\n{} reminders due at once, every fifth failing once, {RATE} calls/s (burst {BURST}), {} consumers, batches of {}:\n",
        course.reminders, course.consumers, course.batch
    );
    println!(
        "    {} calls; {} in the fullest second; the backlog took {:.1} s",
        pace.calls,
        pace.fullest,
        pace.backlog.as_secs_f64()
    );
    println!("    per delivery: {:.3} receives, {:.3} limiter writes", pace.receives, pace.writes);
    let Tally { slots_booked, slots_wasted, slots_denied, .. } = pace.tally;
    println!("    slots: {slots_booked} booked, {slots_wasted} of them without a call, {slots_denied} denied");
}

/// What a redrive did.
pub fn print_redrive(seen: &Seen) {
    let ms = |wait: std::time::Duration| wait.as_millis();
    println!(
        "\n    fresh deliveries, {} a second, from due to first call, p99: {} ms alone, {} ms beside the redrive",
        redrive::FRESH,
        ms(seen.alone_p99),
        ms(seen.beside_p99)
    );
    println!(
        "    {} redriven in {} s at {} a second at most (burst {}): {} in the fullest second, {} in the fullest ten",
        redrive::REDRIVEN,
        seen.took.as_secs(),
        redrive::CAP,
        redrive::BURST,
        seen.second,
        seen.ten
    );
    println!(
        "    a dead-letter queue of {} with {} selected: {} letters received",
        redrive::LETTERS,
        redrive::SELECTED,
        seen.scan_receives
    );
}

/// All figures with their goals.
pub fn print_figures(figures: &[Figure]) {
    println!("\n    {:<48}{:>12}  {:<12}{:>8}", "figure", "value", "unit", "goal");
    for figure in figures {
        let most = figure.goal.map(|goal| format!("<= {goal}"));
        let goal = most.or(figure.at_least.map(|least| format!(">= {least}"))).unwrap_or_default();
        let mark = if figure.is_met() { "" } else { "  MISSED" };
        println!("    {:<48}{:>12}  {:<12}{goal:>8}{mark}", figure.figure, figure.value, figure.unit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_four_fields_and_a_goal_can_be_missed() {
        let met = Figure::new("row_bytes_attempt_1", 798.0, "bytes", Some(1_024.0));
        let missed = Figure::new("ledger_write_units_per_delivery", 10.000_6, "write units", Some(10.0));
        let informs = Figure::new("schedule_per_second", f64::from(u32::MAX), "reminders/s", None);
        assert_eq!([&met, &missed, &informs].map(Figure::is_met), [true, false, true]);
        let least = |value| Figure::at_least("limiter_utilisation", value, "of the rate", 0.95);
        assert_eq!([0.949, 0.95, 1.01].map(|value| least(value).is_met()), [false, true, true]);
        assert_eq!(
            json_lines(&[met, informs]).expect("numbers"),
            "{\"figure\":\"row_bytes_attempt_1\",\"value\":798.0,\"unit\":\"bytes\",\"goal\":1024.0}\n\
             {\"figure\":\"schedule_per_second\",\"value\":4294967295.0,\"unit\":\"reminders/s\",\"goal\":null}\n"
        );
    }
}
