//! I read CSV with a header line: separated by commas, semicolons or tabs, fields in double quotes where they need it.

use std::io::BufRead;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};

use super::ReconcileError;
use super::export::{ID, Sink, TIME, line};

/// The longest record, in bytes: one that is longer has a quote that nobody closed.
const LONGEST: usize = 256 * 1024;
/// The most columns.
const MOST_COLUMNS: usize = 4_096;
const DELIMITERS: [u8; 3] = [b',', b';', b'\t'];

/// Splits records into fields.
struct Splitter {
    reader: Reader,
    text: Vec<u8>,
    ends: Vec<usize>,
    /// How much of both the record takes so far.
    used: (usize, usize),
}

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Split {
    /// It ends a record.
    Record,
    /// A quote is open: the record goes on.
    More,
    /// There is no room for it.
    Full,
}

impl Splitter {
    fn new(delimiter: u8) -> Self {
        // A carriage return alone ends no record: it is white space before a line's end, and elsewhere part of a field that fits
        // nothing. So no record behind one is passed over.
        let reader = ReaderBuilder::new().delimiter(delimiter).terminator(Terminator::Any(b'\n')).build();
        Self { reader, text: vec![0; LONGEST], ends: vec![0; MOST_COLUMNS], used: (0, 0) }
    }

    /// Forgets the record.
    fn begin(&mut self) {
        self.used = (0, 0);
    }

    /// Takes a further line of the record, its end included.
    fn add(&mut self, line: &[u8]) -> Split {
        let mut rest = line;
        loop {
            let text = self.text.get_mut(self.used.0..).unwrap_or_default();
            let ends = self.ends.get_mut(self.used.1..).unwrap_or_default();
            let (result, read, written, ended) = self.reader.read_record(rest, text, ends);
            self.used = (self.used.0 + written, self.used.1 + ended);
            rest = rest.get(read..).unwrap_or_default();
            match result {
                ReadRecordResult::Record => return Split::Record,
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => return Split::Full,
                ReadRecordResult::InputEmpty | ReadRecordResult::End if rest.is_empty() => return Split::More,
                ReadRecordResult::InputEmpty | ReadRecordResult::End => {}
            }
        }
    }

    fn columns(&self) -> usize {
        self.used.1
    }

    /// A field of the record, without blanks around it.
    fn field(&self, at: usize) -> &[u8] {
        let end = |at: usize| self.ends.get(at).copied().unwrap_or_default();
        let start = at.checked_sub(1).map_or(0, end);
        self.text.get(start..end(at)).unwrap_or_default().trim_ascii()
    }
}

/// Where the two columns are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Columns {
    id: usize,
    time: usize,
    all: usize,
}

/// Reads all records.
pub(super) fn read(from: &mut impl BufRead, sink: &mut Sink<'_>) -> Result<(), ReconcileError> {
    let mut bytes = Vec::new();
    let mut number = 0;
    let mut begins = 0;
    let mut known: Option<(Splitter, Columns)> = None;
    loop {
        let fits = line(from, LONGEST, &mut bytes)
            .map_err(|e| sink.broken(Some(number + 1), format!("a file that can be read; {e}")))?;
        let Some(fits) = fits else {
            return if begins > 0 { Err(endless(begins, sink)) } else { Ok(()) };
        };
        number += 1;
        if begins == 0 && bytes.trim_ascii().is_empty() && fits {
            continue;
        }
        if bytes.last() != Some(&b'\n') {
            bytes.push(b'\n');
        }
        let Some((splitter, columns)) = &mut known else {
            if !fits {
                return Err(
                    sink.broken(Some(number), format!("a header line of at most {LONGEST} bytes, with line feeds between lines"))
                );
            }
            known = Some(header(&bytes).map_err(|problem| sink.broken(Some(number), problem))?);
            continue;
        };
        if begins == 0 {
            begins = number;
            splitter.begin();
        }
        match splitter.add(&bytes) {
            Split::More if fits => {}
            Split::Record if fits => {
                let at = std::mem::take(&mut begins);
                record(at, number, splitter, *columns, sink)?;
            }
            _ => return Err(endless(begins, sink)),
        }
    }
}

/// A record has no end: what follows it cannot be told apart.
fn endless(begins: u64, sink: &Sink<'_>) -> ReconcileError {
    sink.broken(Some(begins), format!("a record of at most {LONGEST} bytes begins here; is a quote not closed?"))
}

fn record(begins: u64, ends: u64, splitter: &Splitter, columns: Columns, sink: &mut Sink<'_>) -> Result<(), ReconcileError> {
    if splitter.columns() != columns.all {
        let lines = ends - begins + 1;
        let over = if lines > 1 { format!(" over {lines} lines: is a quote not closed?") } else { String::new() };
        sink.bad(begins, format!("{} columns, as the header has; got {}{over}", columns.all, splitter.columns()));
        return Ok(());
    }
    match (std::str::from_utf8(splitter.field(columns.id)), std::str::from_utf8(splitter.field(columns.time))) {
        (Ok(id), Ok(time)) => sink.record(begins, id, time),
        _ => {
            sink.bad(begins, "UTF-8 text");
            Ok(())
        }
    }
}

/// Finds the delimiter and the two columns.
fn header(line: &[u8]) -> Result<(Splitter, Columns), String> {
    for delimiter in DELIMITERS {
        let mut splitter = Splitter::new(delimiter);
        if splitter.add(line) != Split::Record {
            continue;
        }
        let all = splitter.columns();
        let of = |names: &[&str]| {
            let mut found = (0..all).filter(|at| names.iter().any(|name| name.as_bytes() == splitter.field(*at)));
            found.next().filter(|_| found.next().is_none())
        };
        if let (Some(id), Some(time)) = (of(&ID), of(&[TIME])) {
            return Ok((splitter, Columns { id, time, all }));
        }
    }
    Err(format!("a header line that names the columns {} and {TIME}, each once", ID[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_names_both_columns_once() {
        for (line, expected) in [
            ("webhook-id,time\n", Some((0, 1, 2))),
            ("time;amount;webhook_id\r\n", Some((2, 0, 3))),
            ("\"webhook-id\"\t time \tnote\n", Some((0, 1, 3))),
            ("webhook-id,time,time\n", None),
            ("webhook-id,webhook_id,time\n", None),
            ("id,time\n", None),
            ("dlv_1,2026-12-01T09:00:00Z\n", None),
            ("webhook-id,time\rdlv_1,2026-12-01T09:00:00Z\n", None),
        ] {
            let found = header(line.as_bytes()).ok().map(|(_, c)| (c.id, c.time, c.all));
            assert_eq!(found, expected, "{line:?}");
        }
    }
}
