//! I say what became of the cases: a line for each that fails, a line for each file, and a total.

use std::fmt;

use super::format::Format;

/// A case that fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failing {
    /// Which case of its file.
    pub which: String,
    /// What is expected and what there is instead.
    pub why: String,
}

impl fmt::Display for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.which, self.why)
    }
}

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Its cases were run.
    Ran {
        /// What they are about.
        format: Format,
        /// How many.
        cases: usize,
        /// Those that fail.
        failing: Vec<Failing>,
    },
    /// It cannot be run; says why.
    Unusable(String),
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileReport {
    /// Its name in its folder.
    pub name: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// All files of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// In the order of their names.
    pub files: Vec<FileReport>,
}

impl Report {
    /// Whether no case fails and every file could be used.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.files.iter().all(|file| match &file.outcome {
            Outcome::Ran { failing, .. } => failing.is_empty(),
            Outcome::Unusable(_) => false,
        })
    }

    /// The report, line by line; the total last.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let (mut run, mut wrong, mut unusable) = (0, 0, 0);
        for FileReport { name, outcome } in &self.files {
            match outcome {
                Outcome::Ran { format, cases, failing } => {
                    run += cases;
                    wrong += failing.len();
                    lines.extend(failing.iter().map(|case| format!("{name} {case}")));
                    lines.push(format!("{name}: {format}, {cases} cases, {} failing", failing.len()));
                }
                Outcome::Unusable(why) => {
                    unusable += 1;
                    lines.push(format!("{name}: unusable, {why}"));
                }
            }
        }
        let files = self.files.len();
        lines.push(format!("total: {files} files, {run} cases run, {wrong} failing, {unusable} files unusable"));
        lines
    }
}
