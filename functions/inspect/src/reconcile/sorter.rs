//! I sort more entries than fit into memory: sorted runs go to one file without a name, and are merged from there.
//!
//! The file is never in a folder: whatever ends this process, nothing of it is left.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;

/// So much of each run is read at a time, in bytes.
const BUFFER: usize = 16 * 1024;
/// Stands before each entry: its length.
const HEAD: usize = 2;

/// What can be sorted.
pub(crate) trait Entry: Sized {
    /// Its place in the order.
    fn order(&self, other: &Self) -> Ordering;
    /// Appends itself; at most 65,535 bytes.
    fn encode(&self, out: &mut Vec<u8>);
    /// Reads what [`Entry::encode`] wrote; none if it is something else.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

/// Takes entries in any order.
#[derive(Debug)]
pub(crate) struct Sorter<T> {
    run: Vec<T>,
    most: usize,
    written: Option<Written>,
}

/// The runs that were written.
#[derive(Debug)]
struct Written {
    file: BufWriter<File>,
    /// Where each run ends.
    ends: Vec<u64>,
    scratch: Vec<u8>,
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a temporary file is not as it was written")
}

impl<T: Entry> Sorter<T> {
    /// Holds at most `most` entries in memory.
    pub(crate) fn new(most: usize) -> Self {
        Self { run: Vec::new(), most: most.max(1), written: None }
    }

    /// Takes one.
    pub(crate) fn add(&mut self, entry: T) -> io::Result<()> {
        if self.run.len() >= self.most {
            self.write()?;
        }
        self.run.push(entry);
        Ok(())
    }

    /// Writes the entries in memory as one run.
    fn write(&mut self) -> io::Result<()> {
        self.run.sort_unstable_by(T::order);
        let written = match &mut self.written {
            Some(written) => written,
            None => {
                let file = BufWriter::with_capacity(BUFFER, tempfile::tempfile()?);
                self.written.insert(Written { file, ends: Vec::new(), scratch: Vec::new() })
            }
        };
        let mut end = written.ends.last().copied().unwrap_or_default();
        for entry in self.run.drain(..) {
            written.scratch.clear();
            entry.encode(&mut written.scratch);
            let length = u16::try_from(written.scratch.len()).map_err(|_| damaged())?;
            written.file.write_all(&length.to_le_bytes())?;
            written.file.write_all(&written.scratch)?;
            end += u64::from(length) + HEAD as u64;
        }
        written.ends.push(end);
        Ok(())
    }

    /// Gives all of them in order.
    pub(crate) fn sorted(mut self) -> io::Result<Sorted<T>> {
        self.run.sort_unstable_by(T::order);
        let mut runs = vec![Run::Memory(self.run.into_iter())];
        let mut file = None;
        if let Some(written) = self.written {
            let whole = written.file.into_inner().map_err(io::IntoInnerError::into_error)?;
            let mut start = 0;
            for end in written.ends {
                runs.push(Run::File(Part { at: start, end, buffer: Vec::new(), used: 0 }));
                start = end;
            }
            file = Some(whole);
        }
        let mut sorted = Sorted { file, runs, heads: BinaryHeap::new() };
        for run in 0..sorted.runs.len() {
            sorted.refill(run)?;
        }
        Ok(sorted)
    }
}

/// One sorted run.
#[derive(Debug)]
enum Run<T> {
    Memory(std::vec::IntoIter<T>),
    File(Part),
}

/// A part of the file, read piece by piece.
#[derive(Debug)]
struct Part {
    /// Where the next piece begins.
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    /// How much of the buffer is used up.
    used: usize,
}

impl Part {
    /// The next bytes, if so many are left; an empty end is none.
    fn take(&mut self, file: &File, length: usize) -> io::Result<Option<&[u8]>> {
        if self.buffer.len() - self.used < length {
            self.buffer.drain(..self.used);
            self.used = 0;
            let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
            let have = self.buffer.len();
            if have == 0 && left == 0 {
                return Ok(None);
            }
            let piece = left.min(BUFFER.max(length - have));
            self.buffer.resize(have + piece, 0);
            file.read_exact_at(self.buffer.get_mut(have..).unwrap_or_default(), self.at)?;
            self.at += piece as u64;
        }
        let from = self.used;
        self.used += length;
        self.buffer.get(from..self.used).map(Some).ok_or_else(damaged)
    }
}

/// The least entry of a run.
#[derive(Debug)]
struct Head<T> {
    entry: T,
    run: usize,
}

impl<T: Entry> Ord for Head<T> {
    /// The heap gives the greatest first: the least entry, and of equal ones the earlier run's.
    fn cmp(&self, other: &Self) -> Ordering {
        other.entry.order(&self.entry).then(other.run.cmp(&self.run))
    }
}

impl<T: Entry> PartialOrd for Head<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Entry> PartialEq for Head<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T: Entry> Eq for Head<T> {}

/// All entries in order.
#[derive(Debug)]
pub(crate) struct Sorted<T> {
    file: Option<File>,
    runs: Vec<Run<T>>,
    heads: BinaryHeap<Head<T>>,
}

impl<T: Entry> Sorted<T> {
    /// The next one, or none at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<T>> {
        let Some(Head { entry, run }) = self.heads.pop() else { return Ok(None) };
        self.refill(run)?;
        Ok(Some(entry))
    }

    /// Takes a run's next entry to the heads.
    fn refill(&mut self, run: usize) -> io::Result<()> {
        let entry = match (self.runs.get_mut(run), &self.file) {
            (Some(Run::Memory(entries)), _) => entries.next(),
            (Some(Run::File(part)), Some(file)) => match part.take(file, HEAD)?.map(<[u8; HEAD]>::try_from) {
                None => None,
                Some(length) => {
                    let length = usize::from(u16::from_le_bytes(length.map_err(|_| damaged())?));
                    let bytes = part.take(file, length)?.ok_or_else(damaged)?;
                    Some(T::decode(bytes).ok_or_else(damaged)?)
                }
            },
            _ => None,
        };
        self.heads.extend(entry.map(|entry| Head { entry, run }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Entry for Vec<u8> {
        fn order(&self, other: &Self) -> Ordering {
            self.cmp(other)
        }

        fn encode(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(self);
        }

        fn decode(bytes: &[u8]) -> Option<Self> {
            Some(bytes.to_vec())
        }
    }

    fn sorted(entries: &[Vec<u8>], most: usize) -> Vec<Vec<u8>> {
        let mut sorter = Sorter::new(most);
        entries.iter().for_each(|entry| sorter.add(entry.clone()).expect("written"));
        let mut sorted = sorter.sorted().expect("read");
        std::iter::from_fn(|| sorted.next().expect("read")).collect()
    }

    proptest! {
        #[test]
        fn as_sorting_in_memory(entries in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..60), most in 1..30_usize) {
            let mut expected = entries.clone();
            expected.sort();
            prop_assert_eq!(sorted(&entries, most), expected);
        }
    }

    #[test]
    fn entries_longer_than_a_buffer_and_runs_longer_than_many() {
        let entries: Vec<Vec<u8>> = (0..40_u8).rev().map(|n| vec![n; 50_000 + usize::from(n)]).collect();
        let mut expected = entries.clone();
        expected.sort();
        assert_eq!(sorted(&entries, 7), expected);
        let mut sorter = Sorter::new(1);
        sorter.add(vec![0; 70_000]).expect("held");
        assert!(sorter.add(vec![0; 1]).is_err(), "an entry that is too long is no entry");
    }
}
