//! I break one rule at a time in a copy of the sources, run the suite on it, and say what caught it.
//!
//! The copy lives below `target/mutants` with a target folder of its own, so that the work tree is never touched.

pub mod list;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::process::Command;

use crate::stack::root;
use list::Mutant;

/// The suites that run on each mutant: all that need no local stack.
const SUITES: &[&str] = &[
    "test",
    "--workspace",
    "--lib",
    "--test",
    "contract",
    "--test",
    "cost",
    "--test",
    "events",
    "--test",
    "sim",
    "--test",
    "model",
    "--test",
    "redrive",
    "--test",
    "limiter",
    "--test",
    "recall",
    "--test",
    "schedule",
    "--no-fail-fast",
];
/// Tests that start the emulator, too slow to run once for each mutant; and the one that looks for the unbroken text.
const LEFT_OUT: &[&str] = &["ministack", "stack::tests", "every_patch_fits_the_sources"];
/// The longest that a suite may take on one mutant; a mutant that hangs it is caught by that.
const BOUND: Duration = Duration::from_secs(600);

/// What became of a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// These tests failed.
    Caught(Vec<String>),
    /// The suite did not come to its end.
    Hung,
    /// Every test passed.
    Survived,
    /// It does not compile: it says nothing.
    Broken(String),
}

/// Where the copy lives.
fn copy() -> PathBuf {
    root().join("target/mutants/tree")
}

/// Copies the committed and uncommitted sources, and checks that the suite passes on them unchanged.
///
/// # Errors
/// If they cannot be copied, or if the suite fails without a mutant.
pub async fn prepare() -> Result<()> {
    let tree = copy();
    if tree.exists() {
        std::fs::remove_dir_all(&tree).with_context(|| format!("remove {}", tree.display()))?;
    }
    let listed =
        Command::new("git").args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(root()).output().await?;
    for file in String::from_utf8_lossy(&listed.stdout).lines() {
        let (from, to) = (root().join(file), tree.join(file));
        if !from.is_file() {
            continue;
        }
        std::fs::create_dir_all(to.parent().context("a folder")?)?;
        std::fs::copy(&from, &to).with_context(|| format!("copy {file}"))?;
    }
    // Some tests of the contract ask the emulator.
    std::os::unix::fs::symlink(root().join(".venv"), tree.join(".venv")).context("link .venv")?;
    match run(&[]).await? {
        Verdict::Survived => Ok(()),
        other => bail!("the suite fails without a mutant: {other:?}"),
    }
}

/// Runs the suite on one mutant and puts the sources back.
///
/// # Errors
/// If a patch's text does not stand once in its file, and no more, or cargo cannot be run.
pub async fn try_one(mutant: &Mutant) -> Result<Verdict> {
    let mut originals: Vec<(PathBuf, String)> = Vec::new();
    for patch in mutant.patches {
        let path = copy().join(patch.file);
        let text = std::fs::read_to_string(&path).with_context(|| patch.file.to_owned())?;
        if text.matches(patch.find).count() != 1 {
            put_back(&originals)?;
            bail!("{}: the text to replace must stand once in {}, and no more:\n{}", mutant.name, patch.file, patch.find);
        }
        std::fs::write(&path, text.replacen(patch.find, patch.put, 1))?;
        originals.push((path, text));
    }
    let verdict = run(&["--color", "never"]).await;
    // The first text of a file is its original.
    originals.reverse();
    put_back(&originals)?;
    verdict
}

fn put_back(originals: &[(PathBuf, String)]) -> Result<()> {
    for (path, text) in originals {
        std::fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

async fn run(more: &[&str]) -> Result<Verdict> {
    let tree = copy();
    let mut command = Command::new("cargo");
    command.args(SUITES).args(more).arg("--");
    for name in LEFT_OUT {
        command.args(["--skip", name]);
    }
    command.current_dir(&tree).env("CARGO_TARGET_DIR", target(&tree)).stdin(Stdio::null()).kill_on_drop(true);
    let Ok(output) = tokio::time::timeout(BOUND, command.output()).await else { return Ok(Verdict::Hung) };
    let output = output.context("cargo could not be run")?;
    let text = format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Ok(read(&text, output.status.success()))
}

fn target(tree: &Path) -> PathBuf {
    tree.parent().unwrap_or(tree).join("target")
}

/// Reads what cargo printed.
fn read(text: &str, passed: bool) -> Verdict {
    if passed {
        return Verdict::Survived;
    }
    let failed: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.split_once(" ... ").filter(|(_, result)| result.starts_with("FAILED")))
        .map(|(name, _)| name.to_owned())
        .collect();
    if failed.is_empty() {
        let first = text.lines().find(|line| line.starts_with("error")).unwrap_or("no test failed, but cargo did");
        return Verdict::Broken(first.to_owned());
    }
    Verdict::Caught(failed.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_words_are_read() {
        assert_eq!(read("test a::b ... ok", true), Verdict::Survived);
        assert_eq!(read("test a::b ... FAILED\ntest c ... ok\nerror: test failed", false), Verdict::Caught(vec!["a::b".into()]));
        assert_eq!(read("error[E0308]: mismatched types", false), Verdict::Broken("error[E0308]: mismatched types".into()));
    }

    /// A mutant whose text is gone tests nothing.
    #[test]
    fn every_patch_fits_the_sources() {
        for mutant in list::ALL {
            for patch in mutant.patches {
                let text = std::fs::read_to_string(root().join(patch.file)).unwrap_or_default();
                assert_eq!(text.matches(patch.find).count(), 1, "{}: {}\n{}", mutant.name, patch.file, patch.find);
                assert_ne!(patch.find, patch.put, "{}", mutant.name);
            }
        }
    }
}
