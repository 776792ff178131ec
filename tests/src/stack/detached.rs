//! A stack that stays after its starter: `make up`, `make down`. What runs is noted in `target/local/stack.json`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::http::Api;
use super::{REGION, Stack, StackOptions, emulator, function_output, process, root};

/// A running detached stack.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Note {
    /// Process id of the guard.
    pub guard_pid: u32,
    /// The guard's start in clock ticks since boot: a later process with the same id is another one.
    pub guard_started: u64,
    /// The emulator's address.
    pub endpoint: String,
    /// The emulator's log.
    pub log: PathBuf,
    /// The template's outputs.
    pub outputs: BTreeMap<String, String>,
}

impl Note {
    /// Whether the stack that this note tells of still runs.
    #[must_use]
    pub fn runs(&self) -> bool {
        process::status(self.guard_pid).is_some_and(|status| status.started == self.guard_started)
    }

    fn report(&self, first: &str) -> String {
        let mut text = format!("{first} at {}", self.endpoint);
        for (name, value) in &self.outputs {
            let _ = write!(text, "\n  {name:22} {value}");
        }
        let _ = write!(text, "\n  log                    {}", self.log.display());
        text
    }
}

/// Where the note is kept.
#[must_use]
pub fn path() -> PathBuf {
    root().join("target").join("local").join("stack.json")
}

/// Reads the note; `None` if no stack was started.
///
/// # Errors
///
/// If the file cannot be read or is not what [`up`] writes.
pub fn read() -> Result<Option<Note>> {
    let path = path();
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map(Some).with_context(|| format!("{} is damaged", path.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Starts a stack whose schedule ticks, unless one runs already; answers with a report for people.
///
/// # Errors
///
/// As [`Stack::start`]; or if the note cannot be written, in which case nothing is left running.
pub async fn up() -> Result<String> {
    if let Some(note) = read()?.filter(Note::runs) {
        return Ok(note.report("The local stack runs already"));
    }
    let options = StackOptions { keep: true, ..StackOptions::default() }
        .parameter("TickState", "ENABLED")
        .parameter("MonitorState", "ENABLED");
    let mut stack = Stack::start(options).await?;
    let note = note_of(&stack);
    if note.is_err() {
        stack.emulator.set_kept(false);
    }
    Ok(note?.report("The local stack runs"))
}

/// Ends the stack that [`up`] started and nothing else; answers with a report for people.
///
/// # Errors
///
/// If a process outlives the bound, or the note cannot be read or removed.
pub fn down() -> Result<String> {
    let Some(note) = read()? else { return Ok("No local stack was started.".to_owned()) };
    let ran = emulator::stop_detached(note.guard_pid, note.guard_started)?;
    fs::remove_file(path()).with_context(|| format!("cannot remove {}", path().display()))?;
    Ok(if ran { "The local stack has ended." } else { "The local stack had ended already." }.to_owned())
}

/// Tells what runs.
///
/// # Errors
///
/// If the note cannot be read.
pub fn status() -> Result<String> {
    Ok(match read()? {
        Some(note) if note.runs() => note.report("The local stack runs"),
        Some(note) => format!("The local stack has ended by itself; its log is {}", note.log.display()),
        None => "No local stack runs.".to_owned(),
    })
}

/// The running stack's note.
///
/// # Errors
///
/// If none runs, or the note cannot be read.
pub fn running() -> Result<Note> {
    read()?.filter(Note::runs).ok_or_else(|| anyhow!("no local stack runs: `make up` starts one"))
}

/// What a program's environment must hold to use the running stack, one setting after the other.
///
/// # Errors
///
/// As [`running`].
pub fn environment() -> Result<String> {
    let Note { endpoint, .. } = running()?;
    Ok(format!("AWS_ENDPOINT_URL={endpoint} AWS_REGION={REGION} AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test"))
}

/// What a person does in the console of the stack that [`up`] started.
#[derive(Debug)]
pub struct Console {
    api: Api,
    outputs: BTreeMap<String, String>,
}

impl Console {
    /// # Errors
    ///
    /// If no such stack runs.
    pub fn of_running_stack() -> Result<Self> {
        let note = running()?;
        Ok(Self { api: Api::new(&note.endpoint)?, outputs: note.outputs })
    }

    /// Sends an event, as it is written, and gives the answer.
    ///
    /// # Errors
    ///
    /// If there is no such function, or it failed; the error holds what it said.
    pub async fn send(&self, function: &str, event: String) -> Result<Value> {
        let name = self.outputs.get(&function_output(function)).ok_or_else(|| anyhow!("no function is named {function}"))?;
        self.api.invoke(name, event).await?.ok()
    }
}

/// Sends a test event of `events/`, named `function.case.json`, and answers with what the function said. The stage's path in
/// names of secrets is this stack's own.
///
/// # Errors
///
/// If the file cannot be read or is named otherwise, or if no stack runs or the function failed.
pub async fn send(file: &Path) -> Result<String> {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (function, _) = name.split_once('.').ok_or_else(|| anyhow!("{}: named function.case.json", file.display()))?;
    let event = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let answer = Console::of_running_stack()?.send(function, event.replace("punctual/prod/", "punctual/local/")).await?;
    Ok(serde_json::to_string_pretty(&answer)?)
}

fn note_of(stack: &Stack) -> Result<Note> {
    let guard_pid = stack.guard_pid();
    let started = process::status(guard_pid).ok_or_else(|| anyhow!("the emulator ended"))?.started;
    let note = Note {
        guard_pid,
        guard_started: started,
        endpoint: stack.endpoint().to_owned(),
        log: stack.log().to_path_buf(),
        outputs: stack.outputs().clone(),
    };
    let path = path();
    fs::write(&path, serde_json::to_vec_pretty(&note)?).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(note)
}
