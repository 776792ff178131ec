//! I read the command line of the program `reconcile`: strictly, with every error at once.

use std::path::PathBuf;
use std::time::Duration;

use punctual_core::id::DestinationId;
use punctual_core::reconcile::Period;
use punctual_core::time::Timestamp;

use super::{RUN, Request};

/// How it is used.
pub const USAGE: &str = "\
usage: reconcile --stage STAGE --destination ID --from INSTANT --until INSTANT --by WHO --out REPORT
                 [--tolerance SECONDS] [--list COUNT] FILE...

Compares a receiver's export (FILE: CSV or JSON Lines, with webhook-id and time) with the ledger of a stage.
INSTANT is like 2026-12-01T00:00:00Z; from is inclusive, until is not. REPORT must not exist yet.
SECONDS: by so much clocks may be off (60). COUNT: deviations of each kind that the report lists (10000).
Ends with 0 if both sides agree, 1 if not, 2 if they cannot be compared.";

/// The most files.
const MOST_FILES: usize = 1_000;
const TOLERANCE: u64 = 60;
const MOST_TOLERANCE: u64 = 3_600;
const LIST: usize = 10_000;
const MOST_LISTED: usize = 1_000_000;

/// What the command line says.
#[derive(Debug, Clone)]
pub struct Arguments {
    /// Which installation.
    pub stage: String,
    /// Where the report goes.
    pub out: PathBuf,
    /// What is to be compared.
    pub request: Request,
}

impl Arguments {
    /// The name of the stage's ledger table.
    #[must_use]
    pub fn ledger_table(&self) -> String {
        format!("punctual-{}-ledger", self.stage)
    }

    /// The name of the stage's control table.
    #[must_use]
    pub fn control_table(&self) -> String {
        format!("punctual-{}-control", self.stage)
    }
}

/// Collects values and errors.
#[derive(Debug, Default)]
struct Given {
    options: Vec<(String, String)>,
    files: Vec<PathBuf>,
    errors: Vec<String>,
}

impl Given {
    const NAMES: [&'static str; 8] = ["--stage", "--destination", "--from", "--until", "--by", "--out", "--tolerance", "--list"];

    fn of(arguments: impl IntoIterator<Item = String>) -> Self {
        let mut given = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            if !argument.starts_with("--") {
                given.files.push(argument.into());
            } else if !Self::NAMES.contains(&argument.as_str()) {
                given.errors.push(format!("{argument} is no option; known are {}", Self::NAMES.join(" ")));
            } else if given.options.iter().any(|(name, _)| *name == argument) {
                given.errors.push(format!("{argument} may be given once"));
            } else {
                match arguments.next() {
                    Some(value) => given.options.push((argument, value)),
                    None => given.errors.push(format!("{argument} needs a value")),
                }
            }
        }
        given
    }

    /// A value that must be there, read by `parse`.
    fn required<T, E: std::fmt::Display>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, E>) -> Option<T> {
        let Some((_, value)) = self.options.iter().find(|(known, _)| known == name) else {
            self.errors.push(format!("{name} is missing"));
            return None;
        };
        match parse(value) {
            Ok(value) => Some(value),
            Err(error) => {
                self.errors.push(format!("{name}: {error}"));
                None
            }
        }
    }

    /// A whole number that need not be there.
    fn number(&mut self, name: &str, default: u64, most: u64) -> u64 {
        let given = self.options.iter().find(|(known, _)| known == name).map(|(_, value)| value.parse::<u64>());
        match given {
            None => default,
            Some(Ok(value)) if value <= most => value,
            Some(_) => {
                self.errors.push(format!("{name}: a whole number, at most {most}"));
                default
            }
        }
    }
}

fn stage(text: &str) -> Result<String, &'static str> {
    let good = text.len() >= 2
        && text.len() <= 16
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if good { Ok(text.to_owned()) } else { Err("2 to 16 lower-case letters, digits and hyphens, a letter first") }
}

fn who(text: &str) -> Result<String, &'static str> {
    let good = !text.trim().is_empty() && text.chars().count() <= 64;
    if good { Ok(text.to_owned()) } else { Err("1 to 64 characters") }
}

fn path(text: &str) -> Result<PathBuf, std::convert::Infallible> {
    Ok(text.into())
}

/// Reads the arguments after the program's name.
///
/// # Errors
/// One line for each thing that is wrong.
pub fn read(arguments: impl IntoIterator<Item = String>) -> Result<Arguments, Vec<String>> {
    let mut given = Given::of(arguments);
    let stage = given.required("--stage", stage);
    let destination = given.required("--destination", |text| DestinationId::new(text));
    let from = given.required("--from", str::parse::<Timestamp>);
    let until = given.required("--until", str::parse::<Timestamp>);
    let by = given.required("--by", who);
    let out = given.required("--out", path);
    let tolerance = Duration::from_secs(given.number("--tolerance", TOLERANCE, MOST_TOLERANCE));
    let list = given.number("--list", LIST as u64, MOST_LISTED as u64);
    if given.files.is_empty() || given.files.len() > MOST_FILES {
        given.errors.push(format!("1 to {MOST_FILES} files; got {}", given.files.len()));
    }
    if let (Some(from), Some(until)) = (from, until)
        && until.since(from) <= tolerance.saturating_mul(2)
    {
        given.errors.push(format!("--until: more than {} s (twice the tolerance) after --from", tolerance.as_secs() * 2));
    }
    match (stage, destination, from, until, by, out) {
        (Some(stage), Some(destination), Some(from), Some(until), Some(by), Some(out)) if given.errors.is_empty() => {
            let request = Request {
                destination,
                period: Period { from, until, tolerance },
                by,
                ledger: String::new(),
                files: given.files,
                list: usize::try_from(list).unwrap_or(MOST_LISTED),
                run: RUN,
            };
            let mut arguments = Arguments { stage, out, request };
            arguments.request.ledger = arguments.ledger_table();
            Ok(arguments)
        }
        _ => Err(given.errors),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "--stage prod --destination crm --from 2026-12-01T00:00:00Z --until 2026-12-02T00:00:00Z --by ann --out r.json";

    fn parsed(line: &str) -> Result<Arguments, Vec<String>> {
        read(line.split_ascii_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_whole_line() {
        let read = parsed(&format!("{GOOD} a.csv --tolerance 5 b.jsonl --list 7")).expect("good");
        assert_eq!((read.ledger_table(), read.control_table()), ("punctual-prod-ledger".into(), "punctual-prod-control".into()));
        let Request { destination, period, by, ledger, files, list, .. } = read.request;
        assert_eq!((destination.as_str(), by.as_str(), ledger.as_str(), list), ("crm", "ann", "punctual-prod-ledger", 7));
        assert_eq!((period.from.to_string(), period.tolerance.as_secs()), ("2026-12-01T00:00:00.000Z".into(), 5));
        assert_eq!(files, [PathBuf::from("a.csv"), PathBuf::from("b.jsonl")]);
        assert_eq!(
            parsed(&format!("{GOOD} a.csv")).map(|read| (read.request.list, read.request.period.tolerance.as_secs())),
            Ok((10_000, 60))
        );
    }

    #[test]
    fn every_error_at_once() {
        let errors = parsed("--stage Prod --from yesterday --until 2026-12-02T00:00:00Z --list x --frob --by").expect_err("bad");
        for name in [
            "--stage:",
            "--destination is missing",
            "--from:",
            "--by needs",
            "--by is missing",
            "--out is missing",
            "--list:",
            "--frob is no",
            "1 to 1000 files",
        ] {
            assert!(errors.iter().any(|line| line.starts_with(name)), "{name}: {errors:?}");
        }
        let short = GOOD.replace("2026-12-02T00:00:00Z", "2026-12-01T00:02:00Z");
        assert_eq!(
            parsed(&format!("{short} a.csv")).map(|_| ()),
            Err(vec!["--until: more than 120 s (twice the tolerance) after --from".to_owned()])
        );
        assert!(parsed(&format!("{GOOD} --stage prod a.csv")).is_err(), "given twice");
    }
}
