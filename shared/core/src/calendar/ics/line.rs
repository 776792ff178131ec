//! I cut a file into lines as they were before they were folded, and a line into a property's name, parameters and value.

use super::report::WhyIgnored;

/// A line, unfolded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// The number of its first line in the file, from 1.
    pub(super) number: usize,
    pub(super) bytes: Vec<u8>,
}

/// Cuts a file into its lines, without those that are empty. A line that begins with a space or a tab continues the one
/// before it, byte by byte, so that a character that was folded apart is whole again.
pub(super) fn unfold(file: &[u8]) -> Vec<Line> {
    let file = file.strip_prefix(b"\xef\xbb\xbf").unwrap_or(file);
    let mut lines: Vec<Line> = Vec::new();
    for (i, raw) in file.split(|b| *b == b'\n').enumerate() {
        let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
        match (raw.split_first(), lines.last_mut()) {
            (Some((b' ' | b'\t', rest)), Some(line)) => line.bytes.extend_from_slice(rest),
            _ => lines.push(Line { number: i + 1, bytes: raw.to_vec() }),
        }
    }
    lines.retain(|line| !line.bytes.iter().all(u8::is_ascii_whitespace));
    lines
}

/// What a line holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content<'a> {
    Property(Property<'a>),
    /// It cannot be read; its name, in capitals, if that can.
    Wrong(Option<String>, WhyIgnored),
}

/// `NAME;PARAMETER=value:value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Property<'a> {
    /// In capitals.
    pub(super) name: String,
    /// The value of `VALUE`, in capitals: of which kind the property's value is.
    pub(super) kind: Option<String>,
    pub(super) value: &'a str,
}

impl Content<'_> {
    pub(super) fn is(&self, name: &str, value: &str) -> bool {
        matches!(self, Self::Property(property) if property.name == name && property.value.eq_ignore_ascii_case(value))
    }
}

pub(super) fn property(line: &Line) -> Content<'_> {
    let Ok(text) = std::str::from_utf8(&line.bytes) else {
        return Content::Wrong(name(&line.bytes), WhyIgnored::NotUtf8);
    };
    parts(text).map_or_else(|| Content::Wrong(name(&line.bytes), WhyIgnored::NoProperty), Content::Property)
}

/// What stands before the first `;` or `:`, in capitals, if that is a name.
fn name(line: &[u8]) -> Option<String> {
    let (name, _) = line.split_at_checked(line.iter().position(|b| matches!(b, b';' | b':'))?)?;
    std::str::from_utf8(name).ok().filter(|name| is_name(name)).map(str::to_ascii_uppercase)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn parts(text: &str) -> Option<Property<'_>> {
    let (name, mut rest) = text.split_at_checked(text.find([';', ':'])?)?;
    if !is_name(name) {
        return None;
    }
    let mut kind = None;
    loop {
        if let Some(value) = rest.strip_prefix(':') {
            return Some(Property { name: name.to_ascii_uppercase(), kind, value: value.trim_end() });
        }
        let (parameter, after) = rest.strip_prefix(';')?.split_once('=').filter(|(parameter, _)| is_name(parameter))?;
        let mut quoted = false;
        let end = after.find(|c| {
            quoted ^= c == '"';
            !quoted && (c == ';' || c == ':')
        })?;
        let (value, after) = after.split_at_checked(end)?;
        if parameter.eq_ignore_ascii_case("VALUE") {
            kind = Some(value.trim_matches('"').to_ascii_uppercase());
        }
        rest = after;
    }
}

/// A text as it is meant: without escapes, on one line, without control characters.
pub(super) fn text(value: &str) -> String {
    let mut meant = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(c) = characters.next() {
        let c = match c {
            '\\' => match characters.next() {
                Some('n' | 'N') | None => ' ',
                Some(escaped) => escaped,
            },
            c => c,
        };
        meant.push(if c.is_control() { ' ' } else { c });
    }
    meant.split_whitespace().collect::<Vec<_>>().join(" ")
}
