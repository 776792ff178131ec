//! I judge addresses as a connection is about to use them, and URLs as a destination is about to be stored.

use std::net::IpAddr;

use punctual_core::{address, destination};
use serde_json::Value;

use super::entry::{Cases, Mismatch, kind, list, quoted};
use super::format::Format;
use super::report::Outcome;

type Judge = fn(&str, bool) -> Result<(), Mismatch>;

/// The lists that a file may have: how an entry is judged, and whether it must be refused.
const LISTS: [(&str, Judge, bool); 4] =
    [("refuse", by_address, true), ("allow", by_address, false), ("refuse_urls", by_url, true), ("allow_urls", by_url, false)];

pub(super) fn judge(file: &Value) -> Result<Outcome, String> {
    let mut cases = Cases::default();
    for (name, judge, refused) in LISTS {
        if file.get(name).is_none() {
            continue;
        }
        for (i, entry) in list(file, name)?.iter().enumerate() {
            match entry.as_str() {
                Some(text) => cases.take(format!("{name}[{i}] {}", quoted(text)), judge(text, refused)),
                None => cases.take(format!("{name}[{i}]"), Err(Mismatch::new("a text", kind(Some(entry))))),
            }
        }
    }
    // A list that nobody runs would pass unseen.
    let unknown = file.as_object().into_iter().flatten().find(|(name, value)| value.is_array() && !known(name));
    match unknown {
        Some((name, _)) => Err(format!("has a list {name:?} that is not known here: expected {}", LISTS.map(|l| l.0).join(", "))),
        None => Ok(cases.outcome(Format::Addresses)),
    }
}

fn known(name: &str) -> bool {
    LISTS.iter().any(|(list, ..)| *list == name)
}

fn by_address(text: &str, refused: bool) -> Result<(), Mismatch> {
    let address: IpAddr = text.parse().map_err(|_| Mismatch::new("an IPv4 or IPv6 address", "another text"))?;
    compare(address::refused(address).map(|rule| format!("refused by rule {rule}")), refused)
}

fn by_url(text: &str, refused: bool) -> Result<(), Mismatch> {
    compare(destination::check_url(text, &[], false).err().map(|why| format!("refused ({why})")), refused)
}

fn compare(refusal: Option<String>, refused: bool) -> Result<(), Mismatch> {
    match refusal {
        Some(refusal) if !refused => Err(Mismatch::new("allowed", refusal)),
        None if refused => Err(Mismatch::new("refused", "allowed")),
        _ => Ok(()),
    }
}
