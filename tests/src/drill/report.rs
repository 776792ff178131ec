//! I tell what became of each drill, from the ledger, the receiver's own log and the dead letters, and what failed.

use std::time::Duration;

use punctual_core::delivery::Delivery;
use punctual_core::history::HistoryEntry;
use punctual_flows::fault::Point;

use super::cases::{Blow, Case};
use super::letters::Letters;
use crate::receiver::Call;

/// An expectation that was not met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(pub String);

/// The columns of the table, for both kinds of drill.
pub(crate) struct Columns<'a> {
    pub(crate) what: &'a str,
    pub(crate) calls: String,
    pub(crate) effects: String,
    pub(crate) letters: String,
    pub(crate) took: String,
    pub(crate) bound: String,
    pub(crate) verdict: &'a str,
}

impl Columns<'_> {
    /// Prints one line of the table.
    pub(crate) fn print(&self) {
        let Self { what, calls, effects, letters, took, bound, verdict } = self;
        println!("    {what:<62} {calls:>5} {effects:>7} {letters:>7} {took:>9} {bound:>7}  {verdict}");
    }
}

/// One drill at its end.
pub(super) struct Outcome {
    pub(super) case: Case,
    pub(super) row: Delivery,
    pub(super) calls: Vec<Call>,
    pub(super) effects: usize,
    pub(super) letters: Letters,
    /// What inspect says.
    pub(super) explained: String,
    /// From the blow to the final state; none if it was not reached.
    pub(super) took: Option<Duration>,
    pub(super) bound: Duration,
    /// What was wrong when the blow was struck.
    pub(super) problems: Vec<String>,
}

/// Prints the table and checks it.
pub(super) fn tell(outcomes: &[Outcome]) -> Vec<Failure> {
    let titles = ["calls", "effects", "letters", "converged", "bound"].map(str::to_owned);
    let [calls, effects, letters, took, bound] = titles;
    let what = "drill, and the history that it left";
    Columns { what, calls, effects, letters, took, bound, verdict: "verdict" }.print();
    let mut failures = Vec::new();
    for outcome in outcomes {
        let problems = outcome.all_problems();
        let columns = Columns {
            what: outcome.case.what,
            calls: outcome.calls.len().to_string(),
            effects: outcome.effects.to_string(),
            letters: outcome.letters.shown(),
            took: outcome.took.map_or_else(|| "never".to_owned(), seconds),
            bound: seconds(outcome.bound),
            verdict: verdict(&problems),
        };
        columns.print();
        println!("        {}", outcome.row.history.iter().map(short).collect::<Vec<_>>().join(" > "));
        for problem in problems {
            println!("        FAILED: {problem}");
            failures.push(Failure(format!("{}: {problem}", outcome.case.what)));
        }
    }
    println!(
        "\n    What killed invocations left hidden came back after its visibility and was acknowledged without a call:\n\
         \x20   the queues are empty, and calls, effects and letters were counted after that."
    );
    failures
}

impl Outcome {
    fn all_problems(&self) -> Vec<String> {
        let Self { case, row, .. } = self;
        let mut problems = self.problems.clone();
        let mut expect = |met: bool, what: &dyn Fn() -> String| {
            if !met {
                problems.push(what());
            }
        };
        expect(self.took.is_some_and(|took| took <= self.bound), &|| "it did not converge in time".to_owned());
        expect(row.state == case.ends, &|| format!("it ends {}, not {}", row.state, case.ends));
        expect(self.calls.len() == case.calls, &|| format!("{} calls, not {}", self.calls.len(), case.calls));
        expect(self.effects == case.effects(), &|| format!("{} effects, not {}", self.effects, case.effects()));
        expect(self.calls.iter().all(|call| !call.is_early()), &|| "a call was early".to_owned());
        expect(self.calls.iter().all(|call| !call.is_badly_signed()), &|| "a call was badly signed".to_owned());
        let deaths = usize::from(case.letters > 0);
        expect(self.letters.deaths.len() == deaths && self.letters.sent == case.letters, &|| {
            format!(
                "{} dead letters of {} deaths, not {} of {deaths}",
                self.letters.sent,
                self.letters.deaths.len(),
                case.letters
            )
        });
        let attempts: Vec<&str> = row.attempts.iter().map(|attempt| attempt.reason.code()).collect();
        expect(attempts == case.attempts, &|| format!("its attempts are {attempts:?}, not {:?}", case.attempts));
        let history: Vec<String> = row.history.iter().map(short).collect();
        let unmarked: Vec<&str> = history.iter().map(String::as_str).filter(|line| *line != "queued").collect();
        expect(unmarked == case.history, &|| format!("its history is not {}", case.history.join(" > ")));
        // The killed run is the one that would have marked it.
        let never_marked = case.blow == Blow::Dispatch(Point::Published);
        expect(!never_marked || unmarked.len() == history.len(), &|| "it was marked queued".to_owned());
        let told = row.history.iter().map(ToString::to_string).chain(row.attempts.iter().map(ToString::to_string));
        for line in told.filter(|line| !self.explained.contains(line.as_str())) {
            expect(false, &|| format!("inspect does not tell {line:?}"));
        }
        problems
    }
}

pub(crate) fn verdict(problems: &[String]) -> &'static str {
    if problems.is_empty() { "ok" } else { "FAILED" }
}

/// A line of history without its instant and its correlation id.
pub(crate) fn short(entry: &HistoryEntry) -> String {
    let attempt = entry.attempt.map(|number| format!("#{number}")).unwrap_or_default();
    let reason = entry.reason.map(|reason| format!(" {reason}")).unwrap_or_default();
    format!("{}{attempt}{reason}", entry.state)
}

pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
