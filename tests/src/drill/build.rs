//! I tell a drill build of the functions from a normal one.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use punctual_flows::fault;

use crate::stack::{package, root};

/// The functions that pass a fault point.
pub const WITH_POINTS: [&str; 4] = ["dispatch", "deliver", "schedule", "redrive"];

/// Whether a binary contains fault points.
///
/// # Errors
/// If it cannot be read.
pub fn has_points(binary: &Path) -> Result<bool> {
    let bytes = std::fs::read(binary).with_context(|| format!("cannot read {}", binary.display()))?;
    let mark = fault::DIRECTORY.as_bytes();
    Ok(bytes.windows(mark.len()).any(|window| window == mark))
}

/// The directory of the drill build, after a look that its binaries have fault points and that those beside this
/// program have none.
pub(super) fn binaries() -> Result<PathBuf> {
    let (drill, normal) = (root().join("target/local/drill-bin"), package::built_binaries()?);
    for function in WITH_POINTS {
        ensure!(
            has_points(&drill.join(function))?,
            "{function} in {} has no fault points: another build came in between, run `make drill` again",
            drill.display()
        );
        ensure!(!has_points(&normal.join(function))?, "{function} in {} has fault points", normal.display());
    }
    Ok(drill)
}
