//! I read a receiver's export: CSV or JSON Lines, told apart by how a file begins.
//!
//! Each record names a delivery (`webhook-id`) and when the receiver got it (`time`); what else it holds is its owner's
//! business. A record that cannot be read is counted and listed with its line and what would be right. I never repeat what
//! it says: exports hold more than ids.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use punctual_core::id::DeliveryId;
use punctual_core::reconcile::{Line, Place};
use punctual_core::time::Timestamp;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::sorter::Sorter;
use super::{ReconcileError, TELL_EVERY, csv_lines, json_lines};

/// So much of a file's begin is looked at to tell what it is; a header line must fit in.
const LOOK: u64 = 64 * 1024;
/// A file is read in pieces of this.
const PIECE: usize = 64 * 1024;
/// The name that a delivery's id has in an export; the second is taken for the first.
pub(super) const ID: [&str; 2] = ["webhook-id", "webhook_id"];
/// The name that its time has.
pub(super) const TIME: &str = "time";

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Comma, semicolon or tab separated, with a header line.
    Csv,
    /// One JSON object a line.
    JsonLines,
}

/// One file that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Input {
    /// As it was named.
    pub file: String,
    /// How it is written.
    pub format: Format,
    /// Its size.
    pub bytes: u64,
    /// The hash of its bytes, in hex.
    pub sha256: String,
    /// Its records, those that cannot be read included; neither header nor blank lines.
    pub records: u64,
    /// Records that cannot be read.
    pub unreadable: u64,
}

/// A record that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BadLine {
    /// Which file.
    pub file: String,
    /// Where it begins, from 1.
    pub line: u64,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// The records that cannot be read: the first ones by their lines, all of them by their number.
#[derive(Debug, Clone)]
pub(super) struct Problems {
    pub(super) listed: Vec<BadLine>,
    pub(super) count: u64,
    most: usize,
}

impl Problems {
    pub(super) fn new(most: usize) -> Self {
        Self { listed: Vec::new(), count: 0, most }
    }
}

/// Where records go, good ones and others.
pub(super) struct Sink<'a> {
    /// The file as it was named.
    pub(super) name: &'a str,
    number: u16,
    lines: &'a mut Sorter<Line>,
    problems: &'a mut Problems,
    tell: &'a dyn Fn(String),
    records: u64,
    unreadable: u64,
}

impl Sink<'_> {
    /// Takes a record's two texts as they stand on a line.
    pub(super) fn record(&mut self, line: u64, id: &str, time: &str) -> Result<(), ReconcileError> {
        let id = DeliveryId::new(id).map_err(|right| format!("{}: {right}", ID[0]));
        match id.and_then(|id| Ok((id, instant(time)?))) {
            Ok((id, at)) => {
                self.count();
                let place = Place { file: self.number, line };
                self.lines.add(Line { id, place, at }).map_err(ReconcileError::Scratch)
            }
            Err(problem) => {
                self.bad(line, problem);
                Ok(())
            }
        }
    }

    /// Takes note of a record that cannot be read.
    pub(super) fn bad(&mut self, line: u64, problem: impl Into<String>) {
        self.count();
        self.unreadable += 1;
        self.problems.count += 1;
        if self.problems.listed.len() < self.problems.most {
            self.problems.listed.push(BadLine { file: self.name.to_owned(), line, problem: problem.into() });
        }
    }

    /// The file as a whole is none.
    pub(super) fn broken(&self, line: Option<u64>, problem: impl Into<String>) -> ReconcileError {
        ReconcileError::Input { file: self.name.to_owned(), line, problem: problem.into() }
    }

    fn count(&mut self) {
        self.records += 1;
        if self.records.is_multiple_of(TELL_EVERY) {
            (self.tell)(format!("{} records of {}", self.records, self.name));
        }
    }
}

/// An instant with an offset. Receivers may write it finer than milliseconds; what is finer is cut off.
fn instant(text: &str) -> Result<Timestamp, String> {
    let right =
        || format!("{TIME}: an RFC 3339 instant with an offset, like 2026-12-01T09:00:00.000Z, of the years 2000 to 9999");
    let instant: jiff::Timestamp = text.parse().map_err(|_| right())?;
    let ms = instant.as_millisecond();
    Some(Timestamp::from_millis(ms)).filter(|at| at.as_millis() == ms).ok_or_else(right)
}

/// Counts and hashes what is read.
struct Hashing<R> {
    inner: R,
    hash: Sha256,
    bytes: u64,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hash.update(buffer.get(..read).unwrap_or_default());
        self.bytes += read as u64;
        Ok(read)
    }
}

/// Reads all files, in order.
pub(super) fn read_all(
    files: &[PathBuf],
    lines: &mut Sorter<Line>,
    problems: &mut Problems,
    tell: &dyn Fn(String),
) -> Result<Vec<Input>, ReconcileError> {
    let mut inputs: Vec<Input> = Vec::new();
    let mut hashes = BTreeSet::new();
    for (number, path) in files.iter().enumerate() {
        let name = path.display().to_string();
        let broken = |problem: String| ReconcileError::Input { file: name.clone(), line: None, problem };
        let number = u16::try_from(number).map_err(|_| broken("at most 65,535 files".into()))?;
        let mut sink = Sink { name: &name, number, lines, problems, tell, records: 0, unreadable: 0 };
        let input = read(path, &mut sink)?;
        if !hashes.insert(input.sha256.clone()) {
            return Err(broken("another file than those before it: one of them has the same content".into()));
        }
        inputs.push(input);
    }
    Ok(inputs)
}

fn read(path: &Path, sink: &mut Sink<'_>) -> Result<Input, ReconcileError> {
    let unreadable = |sink: &Sink<'_>, e: &std::io::Error| sink.broken(None, format!("a file that can be read; {e}"));
    let mut file = Hashing { inner: File::open(path).map_err(|e| unreadable(sink, &e))?, hash: Sha256::new(), bytes: 0 };
    let begin = begin(&mut file).map_err(|e| unreadable(sink, &e))?;
    let text = begin.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&begin);
    let skipped = begin.len() - text.len();
    if let Some(problem) = not_text(&begin) {
        return Err(sink.broken(None, problem));
    }
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace()).copied();
    let Some(first) = first else {
        return Err(sink.broken(None, "a CSV header line with webhook-id and time, or JSON objects; it is empty"));
    };
    let mut whole = Cursor::new(begin);
    whole.set_position(skipped as u64);
    let mut whole = BufReader::with_capacity(PIECE, whole.chain(&mut file));
    let format = if first == b'{' { Format::JsonLines } else { Format::Csv };
    match format {
        Format::JsonLines => json_lines::read(&mut whole, sink)?,
        Format::Csv => csv_lines::read(&mut whole, sink)?,
    }
    drop(whole);
    let sha256 = HEXLOWER.encode(&file.hash.finalize());
    let Sink { name, records, unreadable, .. } = sink;
    Ok(Input { file: (*name).to_owned(), format, bytes: file.bytes, sha256, records: *records, unreadable: *unreadable })
}

/// The file's begin, up to the end of its first line that is not blank.
fn begin(file: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut begin = Vec::new();
    let mut piece = [0_u8; 4_096];
    let whole = |begin: &[u8]| {
        let start = begin.iter().position(|byte| !byte.is_ascii_whitespace());
        start.is_some_and(|start| begin.get(start..).unwrap_or_default().contains(&b'\n'))
    };
    while (begin.len() as u64) < LOOK && !whole(&begin) {
        match file.read(&mut piece)? {
            0 => break,
            read => begin.extend_from_slice(piece.get(..read).unwrap_or_default()),
        }
    }
    Ok(begin)
}

/// What is wrong with a file that is no text at all.
fn not_text(begin: &[u8]) -> Option<String> {
    let found = match begin {
        [0x1f, 0x8b, ..] => "it is compressed with gzip",
        [b'P', b'K', 3, 4, ..] => "it is a zip archive, or a workbook",
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "it is UTF-16",
        _ if begin.contains(&0) => "it is binary",
        _ => return None,
    };
    Some(format!("UTF-8 text, CSV or JSON Lines; {found}"))
}

/// One line, its end included, that is not longer than `most`; of a longer one nothing but that it was there.
pub(super) fn line(from: &mut impl BufRead, most: usize, into: &mut Vec<u8>) -> std::io::Result<Option<bool>> {
    into.clear();
    let (mut any, mut fits) = (false, true);
    loop {
        let piece = from.fill_buf()?;
        if piece.is_empty() {
            return Ok(any.then_some(fits));
        }
        any = true;
        let end = piece.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        let used = end.unwrap_or(piece.len());
        fits &= into.len() + used <= most;
        if fits {
            into.extend_from_slice(piece.get(..used).unwrap_or_default());
        }
        from.consume(used);
        if end.is_some() {
            return Ok(Some(fits));
        }
    }
}
