//! Deployment packages made of the binaries that cargo built: a ZIP archive with one executable named `bootstrap`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};

use super::FUNCTIONS;

/// The package of one function.
#[derive(Debug)]
pub struct Package {
    /// Name of the function's binary.
    pub function: &'static str,
    /// The ZIP archive.
    pub archive: Vec<u8>,
}

/// Directory that cargo put this program's sibling binaries into.
///
/// # Errors
///
/// If the system cannot tell the path of this program.
pub fn built_binaries() -> Result<PathBuf> {
    let program = std::env::current_exe().context("cannot tell the path of this program")?;
    let directory = program.parent().ok_or_else(|| anyhow!("this program has no directory"))?;
    // Tests are built one level deeper than binaries.
    let directory = if directory.ends_with("deps") { directory.parent().unwrap_or(directory) } else { directory };
    Ok(directory.to_path_buf())
}

/// Packs all functions.
///
/// # Errors
///
/// One line with all binaries that are missing.
pub fn read_binaries(directory: &Path) -> Result<Vec<Package>> {
    let missing: Vec<_> = FUNCTIONS.into_iter().filter(|name| !directory.join(name).is_file()).collect();
    if !missing.is_empty() {
        bail!("{} not built in {}: run `cargo build --workspace --bins`", missing.join(", "), directory.display());
    }
    FUNCTIONS
        .into_iter()
        .map(|function| {
            let path = directory.join(function);
            let binary = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            Ok(Package { function, archive: zip("bootstrap", &binary)? })
        })
        .collect()
}

/// A ZIP archive with one executable entry, stored without compression.
///
/// # Errors
///
/// If the content is larger than the format's 32-bit sizes allow.
pub fn zip(name: &str, content: &[u8]) -> Result<Vec<u8>> {
    const VERSION: u16 = 20;
    const MADE_ON_UNIX: u16 = (3 << 8) | VERSION;
    const EXECUTABLE_FILE: u32 = 0o100_755 << 16;
    // 1980-01-01, the format's first day: equal binaries give equal archives.
    const DATE: u16 = 0x21;

    let too_large = || anyhow!("{name} is too large for the archive");
    let size = u32::try_from(content.len()).map_err(|_| too_large())?;
    let name_length = u16::try_from(name.len()).map_err(|_| too_large())?;
    // What both headers say about the entry: flags, method "stored", time, date, checksum, sizes, name and extra length.
    let mut entry = Vec::new();
    for short in [VERSION, 0, 0, 0, DATE] {
        entry.extend(short.to_le_bytes());
    }
    for long in [crc32fast::hash(content), size, size] {
        entry.extend(long.to_le_bytes());
    }
    for short in [name_length, 0] {
        entry.extend(short.to_le_bytes());
    }

    let mut archive = Vec::with_capacity(content.len() + 256);
    archive.extend(b"PK\x03\x04");
    archive.extend(&entry);
    archive.extend(name.as_bytes());
    archive.extend(content);
    let directory_at = u32::try_from(archive.len()).map_err(|_| too_large())?;
    archive.extend(b"PK\x01\x02");
    archive.extend(MADE_ON_UNIX.to_le_bytes());
    archive.extend(&entry);
    // Comment length, disk number, internal attributes.
    archive.extend([0; 6]);
    archive.extend(EXECUTABLE_FILE.to_le_bytes());
    // Offset of the entry.
    archive.extend(0_u32.to_le_bytes());
    archive.extend(name.as_bytes());
    let end = u32::try_from(archive.len()).map_err(|_| too_large())?;
    archive.extend(b"PK\x05\x06");
    for short in [0_u16, 0, 1, 1] {
        archive.extend(short.to_le_bytes());
    }
    for long in [end - directory_at, directory_at] {
        archive.extend(long.to_le_bytes());
    }
    archive.extend(0_u16.to_le_bytes());
    Ok(archive)
}
