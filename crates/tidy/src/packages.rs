//! The workspace's packages and their dependencies, read from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The part of `cargo metadata` that the checks need.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    /// The workspace's packages and all their dependencies, for any purpose.
    pub packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

/// A package's resolved dependencies.
#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<NodeDependency>,
}

#[derive(Debug, Deserialize)]
struct NodeDependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    kind: Option<String>,
}

/// A package.
#[derive(Debug, Deserialize)]
pub struct Package {
    id: String,
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
    /// The licence's SPDX expression, as its author wrote it.
    pub license: Option<String>,
    /// The URL of its published source.
    pub repository: Option<String>,
    /// The manifest's path on this disk.
    pub manifest_path: PathBuf,
    /// The dependencies in its manifest.
    pub dependencies: Vec<Dependency>,
    /// Its features, each with what it turns on.
    pub features: BTreeMap<String, Vec<String>>,
}

impl Package {
    /// Whether a dependency is for tests: its own, or those of crates that turn on the feature `testing`.
    pub fn is_for_tests(&self, dependency: &Dependency) -> bool {
        let named = format!("dep:{}", dependency.name);
        let mut by = self.features.iter().filter(|(_, on)| on.contains(&named)).peekable();
        let by_testing = dependency.optional && by.peek().is_some() && by.all(|(name, _)| name == "testing");
        dependency.kind.as_deref() == Some("dev") || by_testing
    }
}

/// A dependency in a manifest.
#[derive(Debug, Deserialize)]
pub struct Dependency {
    /// The name of the package depended on.
    pub name: String,
    /// `None` for a normal dependency, else `dev` or `build`.
    pub kind: Option<String>,
    /// Used with a feature alone.
    pub optional: bool,
}

impl Metadata {
    /// Reads the metadata of the workspace at `root` from the lock file and the packages fetched
    /// before.
    ///
    /// Packages for other platforms than `target` are left out: they are neither built nor shipped,
    /// and need not be on this disk.
    pub fn read(root: &Path, target: &str) -> Result<Self> {
        let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["metadata", "--format-version", "1", "--offline", "--locked", "--all-features"])
            .args(["--filter-platform", target])
            .current_dir(root)
            .output()
            .context("cannot run cargo")?;
        if !output.status.success() {
            bail!(
                "cargo metadata failed; `cargo fetch --locked` brings what it may lack\n{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        serde_json::from_slice(&output.stdout).context("cannot read what cargo metadata printed")
    }

    /// The workspace's packages.
    pub fn ours(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }

    /// The external packages that become part of `program`: its dependencies and theirs, without
    /// packages that only build or test. Sorted by name.
    pub fn linked_into(&self, program: &str) -> Result<Vec<&Package>> {
        let found = self.ours().find(|package| package.name == program);
        let program = found.with_context(|| format!("there is no package `{program}` here"))?;
        let mut open = vec![&program.id];
        let mut linked = BTreeSet::new();
        while let Some(id) = open.pop() {
            let node = self.resolve.nodes.iter().find(|node| node.id == *id);
            for dependency in node.into_iter().flat_map(|node| &node.deps) {
                let is_linked = dependency.dep_kinds.iter().any(|kind| kind.kind.is_none());
                if is_linked && linked.insert(&dependency.pkg) {
                    open.push(&dependency.pkg);
                }
            }
        }
        let mut packages: Vec<_> = self.theirs().filter(|package| linked.contains(&package.id)).collect();
        packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        Ok(packages)
    }

    /// The external packages.
    pub fn theirs(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| !self.workspace_members.contains(&package.id))
    }
}
